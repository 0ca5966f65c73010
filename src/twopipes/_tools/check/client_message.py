"""What a client sent, as a scenario sees it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from twopipes._protocol.revisions import META_VERSION, MODERN
from twopipes._tools.check.server_reply import ReceivedLine

if TYPE_CHECKING:
    from twopipes._tools.check.fake_server import FakeConnection


class ClientMessage(ReceivedLine, frozen=True, eq=False, kw_only=True):
    """A line from the client. Its number and its time count over all connections of the run."""

    connection: FakeConnection

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


def spoken_in(lines: Iterable[ClientMessage], revision: str) -> bool:
    """Return whether a client speaks the revision of the server that it was given."""
    if revision in MODERN:
        return any(message.meta.get(META_VERSION) == revision for message in lines)
    methods = [message.method for message in lines if message.method is not None]
    # A client that forgets notifications/initialized and continues breaks a rule, but it speaks the revision.
    return "initialize" in methods and any(method not in _OPENING for method in methods[methods.index("initialize") :])
