"""Splits the bytes of one direction into lines, and long lines into pieces, so that memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

# The longest piece of a line in bytes. Nearly every message is one entry, so grep works, and a line of 64 MiB does not need 64 MiB
# of memory.
PIECE = 1024 * 1024

# A line is omitted because it is too long, or because a part of it was lost.
Why = Literal["long", "lost"]


class Cut(NamedTuple):
    """A line without its newline, a piece of one, or the size of an omitted line."""

    data: bytes
    is_whole: bool  # False: the line continues, or ended without a newline
    left_out: int = 0  # bytes that were omitted
    why: Why | None = None  # why they were omitted


class Cutter:
    """Splits chunks into lines. A line longer than ``limit`` is returned in pieces, or else omitted with its size."""

    def __init__(self, limit: int = PIECE, *, in_pieces: bool = True) -> None:
        self._limit = limit
        self._in_pieces = in_pieces
        self._buffer = bytearray()
        self._left_out = 0  # bytes of the present line
        self._why: Why | None = None

    @property
    def has_unfinished_line(self) -> bool:
        """Whether the buffer contains an unfinished line."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> Iterator[Cut]:
        """Split a chunk. The iterator must be exhausted."""
        view = memoryview(data)
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if not self._buffer and self._why is None and end - start <= self._limit:
                yield Cut(data[start:end], is_whole=True)
            else:
                yield from self._add(view[start:end])
                yield Cut(bytes(self._buffer), is_whole=True, left_out=self._left_out, why=self._why)
                self.reset()
            start = end + 1
        yield from self._add(view[start:])

    def rest(self) -> Iterator[Cut]:
        """Yield the unfinished line. The next bytes continue it."""
        if self._buffer or self._left_out:
            yield Cut(bytes(self._buffer), is_whole=False, left_out=self._left_out, why=self._why)
            self._buffer.clear()
            self._left_out = 0

    def leave_out(self, why: Why = "lost") -> None:
        """Omit the rest of the line, because a part of it is missing. Only its size is counted."""
        self._left_out += len(self._buffer)
        self._buffer.clear()
        self._why = why

    def reset(self) -> None:
        """Start a new line."""
        self._buffer.clear()
        self._left_out = 0
        self._why = None

    def _add(self, view: memoryview) -> Iterator[Cut]:
        while self._why is None and len(self._buffer) + len(view) > self._limit:
            if not self._in_pieces:
                self.leave_out("long")
                break
            size = _at_character_boundary(view, self._limit - len(self._buffer))
            if not size and not self._buffer:
                size = self._limit
            yield Cut(bytes(self._buffer) + view[:size], is_whole=False)
            self._buffer.clear()
            view = view[size:]
        if self._why is None:
            self._buffer += view
        else:
            self._left_out += len(view)


def _at_character_boundary(view: memoryview, size: int) -> int:
    """Return at most ``size``, at a character boundary: a piece that is not valid UTF-8 would be written in base64."""
    for end in range(size, max(size - 4, -1), -1):
        if view[end] & 0b1100_0000 != 0b1000_0000:
            return end
    return size
