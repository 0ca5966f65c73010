"""What the two sides say about themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from twopipes._protocol.meta_keys import is_extension_name
from twopipes._protocol.revisions import ALL, is_modern
from twopipes._protocol.types import ClientCapabilities, Implementation, ServerCapabilities
from twopipes._session.eras import Eras, eras_of
from twopipes.errors import LocalProtocolError

__all__ = ["ClientProfile", "ServerProfile"]


def _check(revisions: Sequence[str], capabilities: ServerCapabilities | ClientCapabilities) -> None:
    """Says what is wrong with a profile while its author looks on, and not when the first peer comes."""
    unknown = [revision for revision in revisions if revision not in ALL]
    if unknown or not revisions:
        raise LocalProtocolError(f"a profile speaks some of {', '.join(ALL)}; not {', '.join(unknown) or 'none at all'}")
    for name in capabilities.extensions or ():
        if not is_extension_name(name):
            raise LocalProtocolError(
                f"{name!r} cannot be the name of an extension: it needs a prefix, as in com.example/name (CP-07)"
            )


class ServerProfile(Struct, frozen=True, kw_only=True):
    """What a server says about itself.

    Raises:
        LocalProtocolError: It speaks no revision, or one that there is not, or an extension has no proper name.

    Attributes:
        info: Its name and version.
        capabilities: What it offers; methods of what is not declared here do not exist (ER-03).
        instructions: How to use it, for the model.
        revisions: What it speaks. Both eras by default: a server of one era fails with most hosts.
        ttl_ms: For how long a client may keep a result that says nothing about it, in milliseconds (CH-02).
        discover_ttl_ms: The same for what this profile says; as ``ttl_ms`` if ``None``.
        cache_scope: Whether such a result is the same for every user.
        cancel_ended_listens: Whether a listen that the server ends gets a ``notifications/cancelled`` before its result (CON-01).
    """

    info: Implementation
    capabilities: ServerCapabilities = ServerCapabilities()
    instructions: str | None = None
    revisions: Sequence[str] = ALL
    ttl_ms: int = 0
    discover_ttl_ms: int | None = None
    cache_scope: Literal["public", "private"] = "private"
    cancel_ended_listens: bool = True

    def __post_init__(self) -> None:
        _check(self.revisions, self.capabilities)

    @property
    def eras(self) -> Eras:
        """Which eras the revisions belong to."""
        return eras_of(self.revisions)

    @property
    def short_info(self) -> Implementation:
        """Name, version and title alone: what goes along with every result."""
        info = self.info
        if info.icons is None and info.description is None and info.website_url is None:
            return info
        return Implementation(info.name, info.version, info.title)

    @property
    def supported_versions(self) -> list[str]:
        """The list for clients: modern dates first, legacy ones after them (CON-06), newest first."""
        return sorted(self.revisions, reverse=True)


class ClientProfile(Struct, frozen=True, kw_only=True):
    """What a client says about itself.

    Raises:
        LocalProtocolError: As for :class:`ServerProfile`.

    Attributes:
        info: Its name and version.
        capabilities: What it can do for a server.
        revisions: What it speaks. With both eras it probes; with one it does not fall back to the other.
    """

    info: Implementation
    capabilities: ClientCapabilities = ClientCapabilities()
    revisions: Sequence[str] = ALL

    def __post_init__(self) -> None:
        _check(self.revisions, self.capabilities)

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
