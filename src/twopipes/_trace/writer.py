"""Turns chunks and events into the lines of a trace, and writes them. Used by the thread of a recorder."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from twopipes._trace.file import TraceFile
from twopipes._trace.format import Event, Header, Kind, Line, encode
from twopipes._trace.redact import LONGEST, REDACTED, Redactor
from twopipes._trace.split_lines import Cut, Cutter

# A connection and one of its streams; None for entries that are not lines.
Stream = tuple[int, Kind | None]

# Bytes per write: smaller writes take more time, larger ones more memory.
_BATCH = 1024 * 1024


class _Encoded(NamedTuple):
    """A line of the file, and what is lost if it is not written."""

    data: bytes
    stream: Stream
    lines: int = 1
    size: int = 0  # bytes
    goes_on: bool = False  # a piece that is not the last of its line
    is_counted: bool = False  # it reports a loss that is already counted


class Writer:
    """Makes the lines of a file and writes them as far as possible. ``count`` gets lines, bytes and reason of each loss."""

    def __init__(
        self, header: Header | Callable[[], Header], redact: Sequence[str], count: Callable[[int, int, str], None]
    ) -> None:
        first = header if isinstance(header, Header) else header()
        self._header: bytes | None = encode(first)  # until it is in the file
        self._redactor = Redactor(redact) if redact else None
        self._count = count
        self._cutters: dict[Stream, Cutter] = {}
        self._batch: list[_Encoded] = []
        self._size = 0
        # What was lost and is not yet reported in the file: lines and bytes.
        self._lost: dict[Stream, tuple[int, int]] = {}
        self._reason = ""
        self._at = 0.0  # in microseconds, the precision of the clocks

    @property
    def has_unfinished_line(self) -> bool:
        """Whether there are unfinished lines that may be written."""
        return self._redactor is None and any(cutter.has_unfinished_line for cutter in self._cutters.values())

    @property
    def is_full(self) -> bool:
        """Whether it is time to write."""
        return self._size >= _BATCH

    def take(self, item: tuple[Any, ...]) -> None:
        """Add an entry of the recorder's queue."""
        at, kind, first, second, connection = item
        self._at = round(at, 6)
        if kind != "=":
            self._take_chunk((connection, kind), first, ends_line=second)
        elif first == "lost":
            stream, lines, size, ended_line = second
            self._take_loss(stream, lines, size, ended_line=ended_line)
        else:
            if first == "eof":
                self._take_rest((connection, second["stream"]))
            self._add_event(Event(at=self._at, name=first, connection=connection, **second))

    def add_unfinished_lines(self, at: float) -> None:
        """Add the unfinished lines."""
        self._at = round(at, 6)
        for stream in self._cutters:
            self._take_rest(stream)

    def write(self, file: TraceFile) -> None:
        """Write what was added, or count it as lost."""
        entries = [self._loss_event(stream, *lost, self._reason) for stream, lost in self._lost.items()] + self._batch
        header = self._header or b""
        if not header and not entries:
            return
        self._lost = {}
        self._clear()
        kept = file.write(b"".join([header, *(entry.data for entry in entries)])) - len(header)
        if kept >= 0:
            self._header = None
        if file.error is not None:
            self._lose_after(kept, entries, file.error)

    def give_up(self, error: OSError) -> None:
        """Count everything as lost, because the file cannot be opened."""
        entries = self._batch
        self._clear()
        self._lose_after(0, entries, error)

    # Entries

    def _take_chunk(self, stream: Stream, data: bytes, *, ends_line: bool) -> None:
        cutter = self._cutter(stream)
        for piece in (data, b"\n") if ends_line else (data,):
            for cut in cutter.feed(piece):
                self._add_cut(stream, cut)

    def _take_loss(self, stream: Stream, lines: int, size: int, *, ended_line: bool) -> None:
        """Add an event for entries that did not fit into the queue."""
        self._take_rest(stream)
        if stream[1] is not None:
            cutter = self._cutter(stream)
            cutter.reset()
            if not ended_line:
                cutter.leave_out()
        self._add(self._loss_event(stream, lines, size, "the disk was too slow"))

    def _take_rest(self, stream: Stream) -> None:
        if stream in self._cutters:
            for cut in self._cutters[stream].rest():
                self._add_cut(stream, cut)

    def _cutter(self, stream: Stream) -> Cutter:
        cutter = self._cutters.get(stream)
        if cutter is None:
            # A value to redact could continue in the next piece, so only whole lines are written.
            cutter = Cutter() if self._redactor is None else Cutter(LONGEST, in_pieces=False)
            self._cutters[stream] = cutter
        return cutter

    def _add_cut(self, stream: Stream, cut: Cut) -> None:
        connection, kind = stream
        assert kind is not None
        if cut.why == "lost":
            # The end of a line whose middle is missing.
            if cut.left_out:
                self._count(0, cut.left_out, self._reason)
                self._lose(stream, 0, cut.left_out)
            return
        data = cut.data
        if cut.why == "long":
            reason = f"a line of {cut.left_out} bytes was omitted: it is too long to search for values to redact"
            self._add_event(Event(at=self._at, name="note", connection=connection, stream=kind, reason=reason))
            data = REDACTED
        elif self._redactor is not None:
            data = self._redactor.line(kind, data)
        encoded = encode(Line(self._at, kind, data, cut.is_whole, connection))
        self._add(_Encoded(encoded, stream, size=len(data), goes_on=not cut.is_whole))

    def _add_event(self, event: Event) -> None:
        self._add(_Encoded(encode(event), (event.connection, None)))

    def _add(self, encoded: _Encoded) -> None:
        self._batch.append(encoded)
        self._size += len(encoded.data)

    def _clear(self) -> None:
        self._batch = []
        self._size = 0

    # Losses

    def _lose_after(self, kept: int, entries: Sequence[_Encoded], error: OSError) -> None:
        """Count the entries that do not end within the first ``kept`` bytes as lost."""
        # The text of EAGAIN, "try again", would mislead: the writer has waited already.
        self._reason = "it was not read in time" if error.errno == errno.EAGAIN else error.strerror or str(error)
        for entry in entries:
            kept -= len(entry.data)
            if kept >= 0:
                continue
            if not entry.is_counted:
                self._count(entry.lines, entry.size, self._reason)
            self._lose(entry.stream, entry.lines, entry.size)
        # If the last piece of a stream was lost, omit the rest of that line.
        for stream, goes_on in {entry.stream: entry.goes_on for entry in entries if not entry.is_counted}.items():
            if goes_on:
                self._cutter(stream).leave_out()

    def _lose(self, stream: Stream, lines: int, size: int) -> None:
        known = self._lost.get(stream, (0, 0))
        self._lost[stream] = (known[0] + lines, known[1] + size)

    def _loss_event(self, stream: Stream, lines: int, size: int, reason: str) -> _Encoded:
        connection, kind = stream
        event = Event(at=self._at, name="lost", connection=connection, stream=kind, lines=lines, size=size, reason=reason)
        return _Encoded(encode(event), stream, lines, size, is_counted=True)
