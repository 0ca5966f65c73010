"""From chunks and events to the lines of a trace: what the thread of a recorder does between waiting and writing."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from twopipes._trace.file import TraceFile
from twopipes._trace.format import Event, Header, Kind, Line, encode
from twopipes._trace.redact import LONGEST, REDACTED, Redactor
from twopipes._trace.split_lines import Cut, Cutter

__all__ = ["Stream", "Writer"]

# A connection, and which of its streams; None stands for what is no line.
Stream = tuple[int, Kind | None]

# Bytes that are written by one call. More calls cost time, larger ones memory.
_BATCH = 1024 * 1024


class _Encoded(NamedTuple):
    """A line of the file, and what is lost if it does not get there."""

    data: bytes
    stream: Stream
    lines: int = 1
    size: int = 0  # bytes
    goes_on: bool = False  # it is a piece, and not the last of its line
    is_counted: bool = False  # it tells of a loss that somebody has counted already


class Writer:
    """Makes the lines of a file, and writes them as far as the disk takes them. It belongs to one thread.

    Args:
        header: The first line.
        redact: Names of members to blank.
        count: Told of each loss: lines, bytes and why.
    """

    def __init__(
        self, header: Header | Callable[[], Header], redact: Sequence[str], count: Callable[[int, int, str], None]
    ) -> None:
        made = header if isinstance(header, Header) else header()
        self._header: bytes | None = encode(made)  # until it is in the file
        self._redactor = Redactor(redact) if redact else None
        self._count = count
        self._cutters: dict[Stream, Cutter] = {}
        self._batch: list[_Encoded] = []
        self._size = 0
        # What was lost and is not yet told by the file: lines and bytes.
        self._lost: dict[Stream, tuple[int, int]] = {}
        self._reason = ""
        self._at = 0.0

    @property
    def has_begun(self) -> bool:
        """Whether there are lines without an end that may be written all the same."""
        return self._redactor is None and any(cutter.has_begun for cutter in self._cutters.values())

    @property
    def is_full(self) -> bool:
        """Whether it is time to write."""
        return self._size >= _BATCH

    def take(self, item: tuple[Any, ...]) -> None:
        """Takes what a recorder has queued."""
        at, kind, first, second, connection = item
        self._at = _rounded(at)
        if kind != "=":
            self._take_chunk((connection, kind), first, ends_line=second)
        elif first == "lost":
            stream, lines, size, ended_line = second
            self._take_loss(stream, lines, size, ended_line=ended_line)
        else:
            if first == "eof":
                self._take_rest((connection, second["stream"]))
            self._add_event(Event(at=self._at, name=first, connection=connection, **second))

    def take_half_lines(self, at: float) -> None:
        """Takes what was held because its newline has not come."""
        self._at = _rounded(at)
        for stream in self._cutters:
            self._take_rest(stream)

    def end(self, at: float) -> None:
        """Nothing more will come."""
        self.take_half_lines(at)

    def write(self, file: TraceFile) -> None:
        """Writes what was taken, or counts it as lost."""
        entries = self._told_losses() + self._batch
        header = self._header or b""
        if not header and not entries:
            return
        self._clear()
        kept = file.write(b"".join([header, *(entry.data for entry in entries)])) - len(header)
        if kept >= 0:
            self._header = None
        if file.error is not None:
            self._lose_behind(kept, entries, file.error)

    def give_up(self, error: OSError) -> None:
        """There is no file to write to."""
        entries = self._batch
        self._clear()
        self._lose_behind(0, entries, error)

    # What comes

    def _take_chunk(self, stream: Stream, data: bytes, *, ends_line: bool) -> None:
        cutter = self._cutter(stream)
        for cut in cutter.feed(data):
            self._add_cut(stream, cut)
        if ends_line:
            for cut in cutter.feed(b"\n"):
                self._add_cut(stream, cut)

    def _take_loss(self, stream: Stream, lines: int, size: int, *, ended_line: bool) -> None:
        """Something found no room before it came here, and is missing in this place."""
        self._take_rest(stream)
        if stream[1] is not None:
            cutter = self._cutter(stream)
            cutter.begin_anew()
            if not ended_line:
                cutter.leave_out()
        self._add(self._told_loss(stream, lines, size, "the disk was too slow"))

    def _take_rest(self, stream: Stream) -> None:
        if stream in self._cutters:
            for cut in self._cutters[stream].rest():
                self._add_cut(stream, cut)

    def _cutter(self, stream: Stream) -> Cutter:
        cutter = self._cutters.get(stream)
        if cutter is None:
            # A value that must not be kept could go on in the next piece: whole lines only, or nothing.
            cutter = Cutter() if self._redactor is None else Cutter(LONGEST, in_pieces=False)
            self._cutters[stream] = cutter
        return cutter

    def _add_cut(self, stream: Stream, cut: Cut) -> None:
        connection, kind = stream
        assert kind is not None
        if cut.why == "lost":
            # The end of a line that lacks its middle.
            if cut.left_out:
                self._count(0, cut.left_out, self._reason)
                self._lose(stream, 0, cut.left_out)
            return
        data = cut.data
        if cut.why == "long":
            reason = f"a line of {cut.left_out} bytes was left out: it is too long to be searched for what must not be recorded"
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

    # What is lost

    def _lose_behind(self, kept: int, entries: Sequence[_Encoded], error: OSError) -> None:
        """Of these entries, those that do not end within so many bytes are not in the file."""
        # The name of the error would say that it could have waited on. It has.
        self._reason = "nobody read it in time" if error.errno == errno.EAGAIN else error.strerror or str(error)
        for entry in entries:
            kept -= len(entry.data)
            if kept >= 0:
                continue
            if not entry.is_counted:
                self._count(entry.lines, entry.size, self._reason)
            self._lose(entry.stream, entry.lines, entry.size)
        # A line of which a piece is lost is not gone on with, unless all the rest of it is lost as well.
        for stream, goes_on in {entry.stream: entry.goes_on for entry in entries if not entry.is_counted}.items():
            if goes_on:
                self._cutter(stream).leave_out()

    def _lose(self, stream: Stream, lines: int, size: int) -> None:
        known = self._lost.get(stream, (0, 0))
        self._lost[stream] = (known[0] + lines, known[1] + size)

    def _told_losses(self) -> list[_Encoded]:
        told = [self._told_loss(stream, *lost, self._reason) for stream, lost in self._lost.items()]
        self._lost = {}
        return told

    def _told_loss(self, stream: Stream, lines: int, size: int, reason: str) -> _Encoded:
        connection, kind = stream
        event = Event(at=self._at, name="lost", connection=connection, stream=kind, lines=lines, size=size, reason=reason)
        return _Encoded(encode(event), stream, lines, size, is_counted=True)


def _rounded(at: float) -> float:
    """To microseconds: no clock that a recorder reads is better, and the file is for people, too."""
    return round(at, 6)
