"""Reads a trace: complete or damaged, finished or still being written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import structs

from twopipes._trace.format import Damage, Entry, Event, Header, Line, decode_entry, decode_header


class Trace:
    """A recording: its header, and its entries. Each iteration reads the file again."""

    def __init__(self, path: Path, header: Header, follow: Callable[[], bool] | None) -> None:
        self.path = path
        self.header = header
        self._follow = follow

    def __iter__(self) -> Iterator[Entry]:
        with self.path.open("rb") as file:
            for number, line in enumerate(_lines(file, self._follow), 1):
                if number > 1:  # else it is the header
                    yield _entry(number, line)

    def whole_lines(self) -> Iterator[Entry]:
        """Yield the entries with the pieces of each line joined. A line that never ended comes last, with ``is_whole=False``."""
        unfinished: dict[tuple[int, str], list[Line]] = {}
        for entry in self:
            if not isinstance(entry, Line):
                if isinstance(entry, Event) and entry.name == "lost" and entry.stream is not None:
                    # The unfinished line of this direction has a gap. What follows is another line.
                    yield from _joined(unfinished.pop((entry.connection, entry.stream), []))
                yield entry
                continue
            pieces = unfinished.setdefault((entry.connection, entry.kind), [])
            pieces.append(entry)
            if entry.is_whole:
                yield from _joined(pieces)
                pieces.clear()
        for pieces in unfinished.values():
            yield from _joined(pieces)


def read(path: str | os.PathLike[str], *, follow: Callable[[], bool] | None = None) -> Trace:
    """Open a trace.

    Args:
        path: The file.
        follow: Called at the end of the file. It waits a moment and returns ``True`` to read on, or ``False`` to stop. Without it,
            the trace ends where the file ends.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a trace.
    """
    path = Path(path)
    with path.open("rb") as file:
        first = next(_lines(file, follow), b"")
    return Trace(path, decode_header(first), follow)


def _joined(pieces: list[Line]) -> Iterator[Line]:
    if pieces:
        yield structs.replace(pieces[-1], data=b"".join(piece.data for piece in pieces))


def _entry(number: int, line: bytes) -> Entry:
    try:
        return decode_entry(line)
    except ValueError as error:
        return Damage(number, str(error), line)


def _lines(file: BinaryIO, follow: Callable[[], bool] | None) -> Iterator[bytes]:
    pieces: list[bytes] = []
    while True:
        piece = file.readline()
        if piece.endswith(b"\n"):
            yield b"".join([*pieces, piece])[:-1]
            pieces.clear()
        elif piece:
            pieces.append(piece)
        elif follow is None or not follow():
            break
    if pieces:
        # The writer was killed in the middle of a line.
        yield b"".join(pieces)
