"""What a client sent, as a scenario sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from twopipes._protocol.revisions import META_VERSION, MODERN

if TYPE_CHECKING:
    from twopipes._tools.check.fake_server import FakeConnection

__all__ = ["ClientMessage", "asked_for", "spoken_in"]


class ClientMessage(Struct, frozen=True, eq=False, kw_only=True):
    """A line from the client.

    Attributes:
        number: The index among all lines of the client, from 0.
        at: Seconds since the start of the run.
        raw: The bytes without the newline.
        message: The decoded JSON; ``None`` if it is not JSON.
        connection: The connection that it came over.
    """

    number: int
    at: float
    raw: bytes
    message: Any
    connection: FakeConnection

    @property
    def sent(self) -> Sequence[bytes]:
        """Empty: a single line has no request."""
        return ()

    @property
    def received(self) -> Sequence[bytes]:
        """The line."""
        return (self.raw,)

    @property
    def members(self) -> dict[str, Any]:
        """The message if it is an object; otherwise empty."""
        return self.message if isinstance(self.message, dict) else {}

    @property
    def id(self) -> Any:
        """The id of a request or a response."""
        return self.members.get("id")

    @property
    def method(self) -> str | None:
        """The method of a request or a notification."""
        method = self.members.get("method")
        return method if isinstance(method, str) else None

    @property
    def params(self) -> dict[str, Any]:
        """The params of a request or a notification; empty if there are none."""
        params = self.members.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def meta(self) -> dict[str, Any]:
        """The members of ``_meta``; empty if there is none."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def is_request(self) -> bool:
        """Whether it is a request."""
        return self.method is not None and "id" in self.members

    @property
    def is_response(self) -> bool:
        """Whether it is a response."""
        return bool(self.members) and self.method is None

    @property
    def is_modern(self) -> bool:
        """Whether it is a modern request, with a version in its ``_meta``."""
        return META_VERSION in self.meta

    @property
    def cancellation(self) -> ClientMessage | None:
        """The notification with which the client cancelled this request, if there is one so far."""
        later = (each for each in self.connection.received_lines if each.method == "notifications/cancelled")
        return next((each for each in later if each.params.get("requestId") == self.id), None)


def asked_for(message: ClientMessage) -> str:
    """Return the method of a request and the name or URI in it, to compare two runs."""
    name = message.params.get("name") or message.params.get("uri")
    return f"{message.method} {name}" if isinstance(name, str) else message.method or ""


_OPENING = {"initialize", "server/discover", "ping", "notifications/cancelled"}


def spoken_in(line: Iterable[ClientMessage], revision: str) -> bool:
    """Return whether a client speaks the revision of the server that it was given."""
    if revision in MODERN:
        return any(message.meta.get(META_VERSION) == revision for message in line)
    methods = [message.method for message in line if message.method is not None]
    if "initialize" not in methods:
        return False
    # A client that forgets notifications/initialized and continues breaks a rule, but it speaks the revision.
    return any(method not in _OPENING for method in methods[methods.index("initialize") :])
