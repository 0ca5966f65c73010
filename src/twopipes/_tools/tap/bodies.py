"""Bodies of HTTP messages until they are whole. A body that is too long, or for which there is no room, is omitted."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from twopipes._trace.recorder import MAX_QUEUED

# Bytes that all unfinished bodies of a recording hold together. The recorder would not accept a longer one than MAX_QUEUED.
MAX_HELD = 4 * MAX_QUEUED


class Bodies:
    """The unfinished bodies of one recording."""

    def __init__(self) -> None:
        self.held = 0

    def new(self) -> Body:
        """Return an empty body."""
        return Body(self)


class Body:
    """One body. ``size`` counts also what was omitted."""

    def __init__(self, bodies: Bodies) -> None:
        self.size = 0
        self._bodies = bodies
        self._parts: list[bytes] | None = []

    def add(self, data: bytes) -> None:
        """Append bytes."""
        self.size += len(data)
        if self._parts is None:
            return
        self._parts.append(data)
        self._bodies.held += len(data)
        if self.size > MAX_QUEUED or self._bodies.held > MAX_HELD:
            self.release()

    def take(self) -> bytes | None:
        """Return the whole body, or ``None`` if it was omitted."""
        body = None if self._parts is None else b"".join(self._parts)
        self.release()
        return body

    def release(self) -> None:
        """Drop what is held."""
        self._bodies.held -= sum(map(len, self._parts or ()))
        self._parts = None


def decoder_for(coding: str) -> Callable[[bytes], bytes] | None:
    """Return a function that removes a content coding from consecutive bytes, or ``None`` if it is unknown."""
    match coding.strip().lower():
        case "" | "identity":
            return bytes
        case "gzip" | "x-gzip" | "deflate":
            inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # 32: the first bytes say which of them it is

            def decode(data: bytes) -> bytes:
                try:
                    return inflater.decompress(data, MAX_QUEUED)
                except zlib.error:
                    return b""  # the client reports it

            return decode
        case _:
            return None
