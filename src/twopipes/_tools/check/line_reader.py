"""What a peer says, cut into lines exactly as they came, for as long as a conversation makes sense."""

from __future__ import annotations

__all__ = ["LineReader"]

# What is taken of one conversation. No probe and no scenario asks for a hundredth of it: whoever says more floods, and to go on
# listening would cost all memory and never end.
MOST_LINES = 20_000
MOST_BYTES = 128 * 1024 * 1024
_KEPT = 4096  # bytes of a line that never ends, to be shown


class LineReader:
    """Cuts bytes into lines, and has enough of a peer that floods.

    Attributes:
        rest: What has come of a line that is not whole yet.
        has_enough: Whether nothing more is taken: what comes from here on is not worth reading.
    """

    def __init__(self) -> None:
        self.rest = bytearray()
        self.limit_reached = False
        self._lines = 0
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Takes what was read, and returns the lines that are whole now, without their newlines."""
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
        """How much it was, in a few words."""
        return f"{self._lines:,} lines and {self._size:,} bytes"
