"""What a client said, as a scenario sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from twopipes._protocol.revisions import META_VERSION, MODERN

if TYPE_CHECKING:
    from twopipes._tools.check.fake_server import FakeConnection

__all__ = ["ClientMessage", "asked_for", "spoken_in"]


class ClientMessage(Struct, frozen=True, eq=False, kw_only=True):
    """A line of the client.

    Attributes:
        number: Of all lines of the client, from 0.
        at: Seconds since the run began.
        raw: Without its newline.
        message: Decoded; ``None`` for what is no JSON.
        connection: Over which it came.
    """

    number: int
    at: float
    raw: bytes
    message: Any
    connection: FakeConnection

    @property
    def sent(self) -> Sequence[bytes]:
        """Nothing: a line on its own."""
        return ()

    @property
    def received(self) -> Sequence[bytes]:
        """The line."""
        return (self.raw,)

    @property
    def members(self) -> dict[str, Any]:
        """The message, where it is an object; otherwise nothing."""
        return self.message if isinstance(self.message, dict) else {}

    @property
    def id(self) -> Any:
        """Of a request or a response."""
        return self.members.get("id")

    @property
    def method(self) -> str | None:
        """Of a request or a notification."""
        method = self.members.get("method")
        return method if isinstance(method, str) else None

    @property
    def params(self) -> dict[str, Any]:
        """Of a request or a notification; empty where there are none."""
        params = self.members.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def meta(self) -> dict[str, Any]:
        """What stands in its ``_meta``."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def is_request(self) -> bool:
        """Whether it wants an answer."""
        return self.method is not None and "id" in self.members

    @property
    def is_response(self) -> bool:
        """Whether it is an answer."""
        return bool(self.members) and self.method is None

    @property
    def is_modern(self) -> bool:
        """Whether it says of itself that it belongs to a stateless revision."""
        return META_VERSION in self.meta


def asked_for(message: ClientMessage) -> str:
    """What a request asks for, so that two runs can be compared: its method, and the name or URI in it."""
    name = message.params.get("name") or message.params.get("uri")
    return f"{message.method} {name}" if isinstance(name, str) else message.method or ""


_OPENING = {"initialize", "server/discover", "ping", "notifications/cancelled"}


def spoken_in(line: Iterable[ClientMessage], revision: str) -> bool:
    """Tells whether a client that was given a server of one revision has come to terms with it."""
    if revision in MODERN:
        return any(message.meta.get(META_VERSION) == revision for message in line)
    methods = [message.method for message in line if message.method is not None]
    if "initialize" not in methods:
        return False
    # Whoever forgets notifications/initialized, and goes on as if there were a session, breaks a rule and speaks it all the same.
    return any(method not in _OPENING for method in methods[methods.index("initialize") :])
