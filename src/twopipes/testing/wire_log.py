"""A recorder that keeps everything in memory, for one test."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from twopipes._trace.format import Event, EventName, Kind, Line
from twopipes._trace.split_lines import Cut, Cutter


class WireLog:
    """Records what crosses a channel; see :class:`twopipes._trace.channel.Observer`. Any thread may read it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.entries: list[Line | Event] = []  # in order, as in a trace
        self._clock = clock
        self._began = clock()
        self._cutters: dict[tuple[int, Kind], Cutter] = {}

    def chunk(self, kind: Kind, data: bytes, *, connection: int = 0) -> None:
        """Take bytes of one direction as they arrived, split anywhere."""
        for cut in self._cutter(connection, kind).feed(data):
            self._add(connection, kind, cut)

    def event(self, name: EventName, *, connection: int = 0, stream: Kind | None = None, **more: Any) -> None:
        """Take an event; see :class:`twopipes._trace.format.Event`."""
        if stream is not None:
            for cut in self._cutter(connection, stream).rest():
                self._add(connection, stream, cut)
        self.entries.append(Event(at=self._now(), name=name, connection=connection, stream=stream, **more))

    def _cutter(self, connection: int, kind: Kind) -> Cutter:
        # Without a limit, so that a test sees the long lines that it sends.
        return self._cutters.setdefault((connection, kind), Cutter(sys.maxsize))

    def _add(self, connection: int, kind: Kind, cut: Cut) -> None:
        self.entries.append(Line(self._now(), kind, cut.data, cut.is_whole, connection))

    def _now(self) -> float:
        return round(self._clock() - self._began, 6)
