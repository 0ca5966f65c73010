"""Reading a trace, whole or torn, finished or still being written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import structs

from twopipes._trace.format import Damage, Entry, Event, Header, Line, decode_entry, decode_header

__all__ = ["Trace", "read"]


class Trace:
    """A recording: its header, and its entries for as long as there are any. Iterating again reads the file again."""

    def __init__(self, path: Path, header: Header, follow: Callable[[], bool] | None) -> None:
        self.path = path
        self.header = header
        self._follow = follow

    def __iter__(self) -> Iterator[Entry]:
        with self.path.open("rb") as file:
            number = 0
            for line in _lines(file, self._follow):
                number += 1
                if number == 1:
                    continue  # the header
                yield _entry(number, line)

    def whole_lines(self) -> Iterator[Entry]:
        """The entries with the pieces of a line put together; what never got its end comes as it is, last."""
        begun: dict[tuple[int, str], list[Line]] = {}
        for entry in self:
            if not isinstance(entry, Line):
                if isinstance(entry, Event) and entry.name == "lost" and entry.stream is not None:
                    # What was begun in this direction has no end: the line lacks something, and what follows is another.
                    yield from _unfinished(begun.pop((entry.connection, entry.stream), []))
                yield entry
                continue
            pieces = begun.setdefault((entry.connection, entry.kind), [])
            if not entry.is_whole:
                pieces.append(entry)
            elif pieces:
                data = b"".join([piece.data for piece in pieces] + [entry.data])
                pieces.clear()
                yield structs.replace(entry, data=data)
            else:
                yield entry
        for pieces in begun.values():
            yield from _unfinished(pieces)


def read(path: str | os.PathLike[str], *, follow: Callable[[], bool] | None = None) -> Trace:
    """Opens a trace.

    Args:
        path: The file.
        follow: Called at the end of the file: to wait a moment and say ``True`` for looking again, or ``False`` for the end.
            Without it the trace ends where the file ends.

    Raises:
        OSError: There is no such file, or it cannot be read.
        ValueError: It is no trace.
    """
    path = Path(path)
    with path.open("rb") as file:
        first = next(_lines(file, follow), b"")
    return Trace(path, decode_header(first), follow)


def _unfinished(pieces: list[Line]) -> Iterator[Line]:
    if pieces:
        yield structs.replace(pieces[-1], data=b"".join(piece.data for piece in pieces))


def _entry(number: int, line: bytes) -> Entry:
    try:
        return decode_entry(line)
    except ValueError as error:
        return Damage(number, str(error), line)


def _lines(file: BinaryIO, follow: Callable[[], bool] | None) -> Iterator[bytes]:
    begun: list[bytes] = []
    while True:
        piece = file.readline()
        if piece.endswith(b"\n"):
            yield b"".join([*begun, piece])[:-1]
            begun.clear()
        elif piece:
            begun.append(piece)
        elif follow is None or not follow():
            break
    if begun:
        # A writer that was killed in the middle of a line.
        yield b"".join(begun)
