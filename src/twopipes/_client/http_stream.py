"""A stream of events that may need several connections: where it can be resumed, and how long to wait before that."""

from __future__ import annotations

from typing import Final

from twopipes._http.sse import SseEvent, SseParser
from twopipes._wire import LineRejected
from twopipes.settings import Limits

# Seconds before the first reconnection, unless the server asks for another pause; doubled after each failure.
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_MAX_DOUBLINGS: Final = 10
# Reconnections without an event after which the stream of a request is given up. Its timeouts usually come first.
_MAX_FAILURES: Final = 8


class ServerStream:
    """The events of one stream.

    Attributes:
        why_lost: How the last connection ended; empty if the server ended it.
    """

    def __init__(self, limits: Limits) -> None:
        self.why_lost = ""
        self._limits = limits
        self._failures = 0
        self._parser = self._new_parser()

    def _new_parser(self) -> SseParser:
        return SseParser(self._limits.max_line, max_excerpt=self._limits.max_excerpt)

    @property
    def last_id(self) -> str:
        """The id to resume after."""
        return self._parser.last_id

    @property
    def can_resume(self) -> bool:
        """Whether the server gave an id to resume after, and was not tried too often."""
        return bool(self._parser.last_id) and self._failures < _MAX_FAILURES

    def begin(self) -> None:
        """Begin to read another connection. An event that the last one did not finish is dropped; the server sends it again."""
        parser = self._new_parser()
        parser.last_id, parser.retry = self._parser.last_id, self._parser.retry
        self._parser = parser
        self._failures += 1  # unless it brings an event
        self.why_lost = ""

    def feed(self, chunk: bytes) -> list[SseEvent | LineRejected]:
        """Take the next chunk and return the events that it completes."""
        events = self._parser.feed(chunk)
        if events:
            self._failures = 0
        return events

    def failed(self) -> None:
        """Count an attempt that brought no stream."""
        self._failures += 1

    def pause(self) -> float:
        """Return the seconds to wait before the next connection: at least what the server asked for (HT-34)."""
        retry = self._parser.retry
        asked = _FIRST_PAUSE if retry is None else retry / 1000
        backoff = min(_FIRST_PAUSE * 2 ** min(self._failures, _MAX_DOUBLINGS), _LONGEST_PAUSE) if self._failures else 0.0
        return max(asked, backoff)
