"""Splits the bytes of a peer into lines, up to a limit."""

from __future__ import annotations

# Limits for one conversation. No probe and no scenario causes a hundredth of it. A peer that sends more floods: reading on could
# use all memory and never end.
MOST_LINES = 20_000
MOST_BYTES = 128 * 1024 * 1024
_KEPT = 4096  # bytes of an endless line that are kept, to quote them


class LineReader:
    """Splits bytes into lines, and detects a peer that floods."""

    def __init__(self) -> None:
        self.rest = bytearray()  # the start of a line whose end has not come yet
        self.limit_reached = False  # stop reading then
        self._lines = 0
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes, and return the lines that are now complete, without their newlines."""
        self._size += len(data)
        lines: list[bytes] = []
        if b"\n" in data:
            *lines, rest = (bytes(self.rest) + data).split(b"\n")
            self.rest = bytearray(rest)
        else:
            self.rest += data
        self._lines += len(lines)
        if self._lines > MOST_LINES or self._size > MOST_BYTES:
            self.limit_reached = True
            del self.rest[_KEPT:]
        return lines

    @property
    def summary(self) -> str:
        """The amount, for messages."""
        return f"{self._lines:,} lines and {self._size:,} bytes"
