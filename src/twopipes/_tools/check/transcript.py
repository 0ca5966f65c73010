"""The lines of one conversation with a server, and the responses to each request."""

from __future__ import annotations

from typing import Any

from twopipes._tools.check.server_reply import ReceivedLine, Response, decoded, id_key, parts_of
from twopipes._trace.format import Event, Line

__all__ = ["Transcript"]


class Transcript:
    """Keeps the lines of both directions, and matches responses to requests.

    Attributes:
        received_lines: Every line from the server, in order.
        sent_lines: Every line that was sent.
        entries: The lines of both directions and other events, as in a trace.
        first_response_at: The time of the first response, if there was one.
    """

    def __init__(self) -> None:
        self.received_lines: list[ReceivedLine] = []
        self.sent_lines: list[bytes] = []
        self.entries: list[Line | Event] = []
        self.first_response_at: float | None = None
        self._sent_by_id: dict[Any, tuple[bytes, float]] = {}
        self._cancelled: set[Any] = set()
        self._responses_by_id: dict[Any, list[Response]] = {}

    @property
    def position(self) -> int:
        """The number of received lines, for ``since``."""
        return len(self.received_lines)

    @property
    def open_requests(self) -> int:
        """The number of requests that are neither answered nor cancelled."""
        return len(self._sent_by_id.keys() - self._responses_by_id.keys() - self._cancelled)

    def responses_to(self, request_id: Any) -> list[Response]:
        """Return all responses to a request so far. There should be at most one."""
        return self._responses_by_id.get(id_key(request_id), [])

    def response(self, request_id: Any) -> Response | None:
        """Return the first response to a request, if there is one so far."""
        return next(iter(self.responses_to(request_id)), None)

    def add_sent(self, line: bytes, at: float, *, is_whole: bool) -> None:
        """Add a line that was sent."""
        self.sent_lines.append(line)
        self.entries.append(Line(at, ">", line, is_whole))
        for part in parts_of(decoded(line)):
            if "id" in part and "method" in part:
                self._sent_by_id[id_key(part["id"])] = line, at
            elif part.get("method") == "notifications/cancelled" and isinstance(part.get("params"), dict):
                self._cancelled.add(id_key(part["params"].get("requestId")))

    def add_received(self, line: bytes, at: float, *, is_whole: bool) -> ReceivedLine:
        """Add a line from the server."""
        self.entries.append(Line(at, "<", line, is_whole))
        received = ReceivedLine(len(self.received_lines), at, line, decoded(line))
        self.received_lines.append(received)
        for part in received.parts:
            if "method" not in part:
                self._add_response(part, received)
        return received

    def _add_response(self, message: dict[str, Any], received: ReceivedLine) -> None:
        if self.first_response_at is None:
            self.first_response_at = received.at
        if "id" not in message:
            return
        key = id_key(message["id"])
        request, sent_at = self._sent_by_id.get(key, (None, received.at))
        response = Response(
            id=message["id"],
            message=message,
            sent=() if request is None else (request,),
            received=(received.raw,),
            received_line=received,
            took=received.at - sent_at,
        )
        self._responses_by_id.setdefault(key, []).append(response)
