"""Events that a legacy client may have missed, for the header ``Last-Event-ID`` (HTTP up to 2025-11-25).

The id of an event names its stream and its place, as ``3-17``. A client that lost its connection sends the last id it received, and
gets the events of that stream after it. What is held is bounded for each stream, for each session, and for all sessions together;
beyond that the oldest events go. A client that asks for an event that is gone is refused, so that it does not miss one unnoticed.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final, NamedTuple

# 15 digits: more than any session sends, and quick to convert.
_ID: Final = re.compile(r"(\d{1,15})-(\d{1,15})", re.ASCII)
# Bytes. Roughly the memory for an event without content.
_OVERHEAD: Final = 200


class StoredEvent(NamedTuple):
    """An event: its id and its message, with the newline."""

    id: str
    line: bytes


class EventBudget:
    """The bytes that the stores of all sessions may hold together."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used = 0


class _Stream:
    __slots__ = ("events", "lost")

    def __init__(self) -> None:
        self.events: deque[tuple[int, bytes]] = deque()
        self.lost = 0  # the place of the newest event that was dropped


class EventStore:
    """The events of the streams of one session.

    Args:
        max_events: Events that are kept of one stream.
        max_bytes: Bytes that are kept of all streams together.
        budget: Shared with other stores.
    """

    def __init__(self, *, max_events: int, max_bytes: int, budget: EventBudget | None = None) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._budget = budget or EventBudget(max_bytes)
        self._streams: dict[int, _Stream] = {}
        self._last_stream = 0
        self._last_event = 0
        self.used = 0  # bytes

    def open(self) -> int:
        """Add a stream, and return its number."""
        self._last_stream += 1
        self._streams[self._last_stream] = _Stream()
        return self._last_stream

    def start_of(self, stream: int) -> str:
        """Return an id from which the whole stream can be resumed."""
        return f"{stream}-0"

    def add(self, stream: int, line: bytes) -> str:
        """Add an event to an open stream, and return its id."""
        self._last_event = place = self._last_event + 1
        held = self._streams[stream]
        held.events.append((place, line))
        self._count(len(line) + _OVERHEAD)
        while len(held.events) > self._max_events:
            self._drop_first(held)
        while self.used and (self.used > self._max_bytes or self._budget.used > self._budget.max_bytes):
            self._drop_first(min((each for each in self._streams.values() if each.events), key=lambda each: each.events[0][0]))
        return f"{stream}-{place}"

    def stream_of(self, event_id: str) -> int | None:
        """Return the stream that an id names, or ``None`` if there is no such stream, or no longer."""
        parts = _ID.fullmatch(event_id)
        return int(parts[1]) if parts is not None and int(parts[1]) in self._streams else None

    def after(self, event_id: str, *, has_gap: bool = False) -> list[StoredEvent] | None:
        """Return the events of a stream after one of them.

        Returns ``None`` if the id is unknown, or if an event after it was dropped. With ``has_gap`` the rest is returned then.
        """
        stream = self.stream_of(event_id)
        if stream is None:
            return None
        place = int(event_id.partition("-")[2])
        held = self._streams[stream]
        if place > self._last_event or (place < held.lost and not has_gap):
            return None
        return [StoredEvent(f"{stream}-{each}", line) for each, line in held.events if each > place]

    def drop(self, stream: int) -> None:
        """Forget a stream. It is not an error if there is none."""
        held = self._streams.pop(stream, None)
        if held is not None:
            for _, line in held.events:
                self._count(-len(line) - _OVERHEAD)

    def close(self) -> None:
        """Forget every stream."""
        for stream in list(self._streams):
            self.drop(stream)

    def _drop_first(self, held: _Stream) -> None:
        held.lost, line = held.events.popleft()
        self._count(-len(line) - _OVERHEAD)

    def _count(self, size: int) -> None:
        self.used += size
        self._budget.used += size
