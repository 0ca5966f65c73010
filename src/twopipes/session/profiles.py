"""What the two sides say about themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from twopipes.mcp.revisions import ALL, is_modern
from twopipes.mcp.types import ClientCapabilities, Implementation, ServerCapabilities
from twopipes.session.eras import Eras, eras_of

__all__ = ["ClientProfile", "ServerProfile"]


class ServerProfile(Struct, frozen=True, kw_only=True):
    """What a server says about itself.

    Attributes:
        info: Its name and version.
        capabilities: What it offers; methods of what is not declared here do not exist (ER-03).
        instructions: How to use it, for the model.
        revisions: What it speaks. Both eras by default: a server of one era fails with most hosts.
        ttl_ms: For how long a client may keep a result that says nothing about it, in milliseconds (CH-02).
        cache_scope: Whether such a result is the same for every user.
        cancel_ended_listens: Whether a listen that the server ends gets a ``notifications/cancelled`` before its result (CON-01).
    """

    info: Implementation
    capabilities: ServerCapabilities = ServerCapabilities()
    instructions: str | None = None
    revisions: Sequence[str] = ALL
    ttl_ms: int = 0
    cache_scope: Literal["public", "private"] = "private"
    cancel_ended_listens: bool = True

    @property
    def eras(self) -> Eras:
        """Which eras the revisions belong to."""
        return eras_of(self.revisions)

    @property
    def supported_versions(self) -> list[str]:
        """The list for clients: modern dates first, legacy ones after them (CON-06), newest first."""
        return sorted(self.revisions, reverse=True)


class ClientProfile(Struct, frozen=True, kw_only=True):
    """What a client says about itself.

    Attributes:
        info: Its name and version.
        capabilities: What it can do for a server.
        revisions: What it speaks. With both eras it probes; with one it does not fall back to the other.
    """

    info: Implementation
    capabilities: ClientCapabilities = ClientCapabilities()
    revisions: Sequence[str] = ALL

    @property
    def eras(self) -> Eras:
        """Which eras the revisions belong to."""
        return eras_of(self.revisions)

    @property
    def newest_legacy(self) -> str:
        """What to ask for in a handshake (LC-07)."""
        return max(revision for revision in self.revisions if not is_modern(revision))

    @property
    def newest_modern(self) -> str:
        """What to probe with (DE-01)."""
        return max(revision for revision in self.revisions if is_modern(revision))
