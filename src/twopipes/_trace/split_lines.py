"""The bytes of one direction, cut into lines; and a long line into pieces, so that nobody has to hold it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

__all__ = ["PIECE", "Cut", "Cutter"]

# Bytes. The longest piece of a line: nearly every message is one entry, which can be searched with the tools that everybody has,
# and a line of 64 MiB costs a recorder this much and not 64 MiB.
PIECE = 1024 * 1024

# A line is left out because it is longer than what may be held, or because something of it was lost.
Why = Literal["long", "lost"]


class Cut(NamedTuple):
    """A line without its newline, or a piece of one; or how much of one is not here."""

    data: bytes
    is_whole: bool  # no: the line goes on, or came to an end without a newline
    left_out: int = 0  # bytes
    why: Why | None = None  # it was left out


class Cutter:
    """Takes chunks, cut anywhere, and gives lines. What it holds is bounded.

    Args:
        limit: Bytes of a line that are held.
        in_pieces: Whether a longer line is given in pieces. If not, it is left out, but for its size.
    """

    def __init__(self, limit: int = PIECE, *, in_pieces: bool = True) -> None:
        self._limit = limit
        self._in_pieces = in_pieces
        self._begun = bytearray()
        self._left_out = 0  # bytes of the present line
        self._why: Why | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there is a line that has no end yet, and of which something is held."""
        return bool(self._begun)

    def feed(self, data: bytes) -> Iterator[Cut]:
        """Takes a chunk. What is not iterated over is not taken."""
        view = memoryview(data)
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if not self._begun and self._why is None and end - start <= self._limit:
                yield Cut(data[start:end], is_whole=True)
            else:
                yield from self._add(view[start:end])
                yield Cut(bytes(self._begun), is_whole=True, left_out=self._left_out, why=self._why)
                self.begin_anew()
            start = end + 1
        yield from self._add(view[start:])

    def rest(self) -> Iterator[Cut]:
        """Gives the line that has no end: none will come, or not soon. What comes next goes on with it."""
        if self._begun or self._left_out:
            yield Cut(bytes(self._begun), is_whole=False, left_out=self._left_out, why=self._why)
            self._begun.clear()
            self._left_out = 0

    def leave_out(self, why: Why = "lost") -> None:
        """The line lacks something from here on: what is left of it is counted, and not given."""
        self._left_out += len(self._begun)
        self._begun.clear()
        self._why = why

    def begin_anew(self) -> None:
        """What comes next begins a line."""
        self._begun.clear()
        self._left_out = 0
        self._why = None

    def _add(self, view: memoryview) -> Iterator[Cut]:
        while self._why is None and len(self._begun) + len(view) > self._limit:
            if not self._in_pieces:
                self.leave_out("long")
                break
            size = _whole_letters(view, self._limit - len(self._begun))
            if not size and not self._begun:
                size = self._limit
            yield Cut(bytes(self._begun) + view[:size], is_whole=False)
            self._begun.clear()
            view = view[size:]
        if self._why is None:
            self._begun += view
        else:
            self._left_out += len(view)


def _whole_letters(view: memoryview, size: int) -> int:
    """So many bytes at most, and no letter torn: a piece that is not UTF-8 by itself would be written in base64."""
    for end in range(size, max(size - 4, -1), -1):
        if view[end] & 0b1100_0000 != 0b1000_0000:
            return end
    return size
