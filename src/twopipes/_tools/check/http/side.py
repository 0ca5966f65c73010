"""What a scenario sees of HTTP, and what it can change about the fake server's responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twopipes._tools.check.http.listener import HttpReply, HttpRequest

Intercept = Callable[["HttpRequest", "HttpReply"], Awaitable[bool]]


class HttpSide:
    """The HTTP side of a fake server. Change it before the client connects.

    Attributes:
        requests: All requests of the client, in order.
        intercept: Called with each request before it is served; returns whether it has handled it.
        streams: Whether all responses to requests are streams.
        write_event: How a message is written as an event; by default in the usual form.
        spelled: How the names of headers are written.
    """

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []
        self.intercept: Intercept | None = None
        self.streams = False
        self.write_event: Callable[[bytes], bytes] | None = None
        self.spelled: Callable[[str], str] = str

    def with_method(self, method: str) -> list[HttpRequest]:
        """Return the requests with an HTTP method."""
        return [each for each in self.requests if each.method == method]

    def posts_of(self, *methods: str) -> list[tuple[HttpRequest, dict[str, Any]]]:
        """Return the POSTs with a message, optionally only of some methods of the protocol, each with its message."""
        found = [(each, message) for each in self.with_method("POST") if isinstance(message := each.message, dict)]
        return [(each, message) for each, message in found if not methods or message.get("method") in methods]
