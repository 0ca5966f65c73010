"""The profiles of both sides: name, capabilities and revisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct, ValidationError, convert

from twopipes._protocol.meta_keys import is_extension_name
from twopipes._protocol.revisions import ALL, MODERN
from twopipes._protocol.types import ClientCapabilities, Implementation, ServerCapabilities
from twopipes._session.eras import Eras, eras_of
from twopipes.errors import LocalProtocolError


def info_in(meta: Mapping[str, Any] | None, key: str) -> Implementation | None:
    """Return the identity of a peer, which is for logs only, or ``None`` if it is absent or malformed (VN-03, VN-14)."""
    value = None if meta is None else meta.get(key)
    if value is None:
        return None
    try:
        return convert(value, Implementation)
    except ValidationError:
        return None


class _Profile(Struct, frozen=True, kw_only=True, dict=True):
    info: Implementation
    capabilities: ServerCapabilities | ClientCapabilities
    revisions: Sequence[str] = ALL

    def __post_init__(self) -> None:
        """Report an invalid profile when it is created, not when the first peer connects."""
        unknown = [revision for revision in self.revisions if revision not in ALL]
        if unknown or not self.revisions:
            raise LocalProtocolError(f"revisions must be some of {', '.join(ALL)}; got {', '.join(unknown) or 'none'}")
        for name in self.capabilities.extensions or ():
            if not is_extension_name(name):
                raise LocalProtocolError(
                    f"{name!r} is not a valid extension name: it needs a prefix, as in com.example/name (CP-07)"
                )

    @property
    def eras(self) -> Eras:
        """The eras of the revisions."""
        return eras_of(self.revisions)


class ServerProfile(_Profile, frozen=True, kw_only=True):
    """The profile of a server.

    Raises:
        LocalProtocolError: It has no revision or an unknown one, or an extension has an invalid name.

    Attributes:
        info: Name and version.
        capabilities: What it offers; methods of undeclared capabilities do not exist (ER-03).
        instructions: How to use the server, for the model.
        revisions: The supported revisions. Both eras by default: a server of one era fails with most hosts.
        ttl_ms: How long a client may cache a result that does not set its own time, in milliseconds (CH-02).
        discover_ttl_ms: The same for the discovery result; ``ttl_ms`` if ``None``.
        cache_scope: Whether such a result is the same for every user.
        cancel_ended_listens: Whether a listen that the server ends gets a ``notifications/cancelled`` before its result (CON-01).
    """

    capabilities: ServerCapabilities = ServerCapabilities()
    instructions: str | None = None
    ttl_ms: int = 0
    discover_ttl_ms: int | None = None
    cache_scope: Literal["public", "private"] = "private"
    cancel_ended_listens: bool = True

    @cached_property
    def short_info(self) -> Implementation:
        """Name, version and title only: they are part of every result."""
        info = self.info
        if info.icons is None and info.description is None and info.website_url is None:
            return info
        return Implementation(info.name, info.version, info.title)

    @property
    def supported_versions(self) -> list[str]:
        """The list for clients: modern revisions first, then legacy ones (CON-06), newest first."""
        return sorted(self.revisions, reverse=True)


class ClientProfile(_Profile, frozen=True, kw_only=True):
    """The profile of a client.

    Raises:
        LocalProtocolError: As for :class:`ServerProfile`.

    Attributes:
        info: Name and version.
        capabilities: What it can do for a server.
        revisions: The supported revisions. With both eras it probes; with one it does not fall back to the other.
        transparent: Whether another client is passed on: its extensions are declared in a handshake too, and requests of a legacy
            server whose method is unknown become calls.
    """

    capabilities: ClientCapabilities = ClientCapabilities()
    transparent: bool = False

    @property
    def newest_legacy(self) -> str:
        """The revision to request in a handshake (LC-07)."""
        return max(set(self.revisions).difference(MODERN))

    @property
    def newest_modern(self) -> str:
        """The revision to probe with (DE-01)."""
        return max(set(self.revisions).intersection(MODERN))
