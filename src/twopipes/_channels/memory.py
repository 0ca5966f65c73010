"""Two channels joined in memory: no descriptor, no thread, and the same contract as the others.

For tests, and for a server and a client in one process.
"""

from __future__ import annotations

import errno
import os
from collections import deque

from twopipes._channels.base import HIGH_WATER, LOW_WATER, READ_SIZE
from twopipes._channels.halves import Sink, Source, TwoHalves

__all__ = ["CAPACITY", "MemoryChannel", "memory_pair"]

# Bytes. What is under way between the two ends counts as taken, as if by a kernel's pipe; the rest counts as buffered.
CAPACITY = 64 * 1024


class _Stretch:
    """One direction: the bytes between a sink and a source, in order. The first ``capacity`` of them are under way."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.pieces: deque[memoryview] = deque()
        self.size = 0
        self.finished = False
        # Either end is set when both are made, and taken out when it is closed.
        self.source: _MemorySource | None = None
        self.sink: _MemorySink | None = None

    def put(self, data: bytes) -> None:
        self.pieces.append(memoryview(data))
        self.size += len(data)

    def take(self) -> bytes:
        taken: list[memoryview] = []
        room = READ_SIZE
        while self.pieces and room:
            head = self.pieces.popleft()
            if len(head) > room:
                self.pieces.appendleft(head[room:])
                head = head[:room]
            room -= len(head)
            taken.append(head)
        self.size -= READ_SIZE - room
        return b"".join(taken)

    def cut(self, size: int) -> None:
        """Drop everything behind the first ``size`` bytes."""
        while self.size > size:
            tail = self.pieces.pop()
            self.size -= len(tail)
            if self.size < size:
                kept = tail[: size - self.size]
                self.pieces.append(kept)
                self.size += len(kept)


class _MemorySource(Source):
    def __init__(self, description: str, stretch: _Stretch) -> None:
        super().__init__(description)
        self._stretch = stretch
        stretch.source = self

    def _ask(self) -> bool:
        stretch = self._stretch
        if stretch.size:
            self._deliver(stretch.take())
            if stretch.sink is not None:
                stretch.sink.made_room()
            return True
        if stretch.finished:
            self._deliver(b"")
            return True
        return False

    def arrived(self) -> None:
        """The reader, if there is one, looks again."""
        self._wake()

    def break_off(self, error: OSError) -> None:
        """The peer is gone, and so is what it had sent."""
        self._fail(error)

    def _free(self) -> None:
        self._stretch.source = None
        self._stretch.cut(0)
        if self._stretch.sink is not None:
            self._stretch.sink.break_off(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))


class _MemorySink(Sink):
    def __init__(self, description: str, stretch: _Stretch, *, high_water: int, low_water: int) -> None:
        super().__init__(description, high_water=high_water, low_water=low_water)
        self._stretch = stretch
        stretch.sink = self

    def write(self, data: bytes) -> None:
        if not self._open:
            self._refuse()
        if not data:
            return
        stretch = self._stretch
        stretch.put(data if type(data) is bytes else bytes(data))
        if stretch.size > stretch.capacity:
            self._keep(stretch.size - stretch.capacity - self._buffered)
        if stretch.source is not None:
            stretch.source.arrived()

    def made_room(self) -> None:
        """The reader took something, so more of what is buffered is under way."""
        if self._buffered:
            self._taken(self._buffered - max(0, self._stretch.size - self._stretch.capacity))

    def break_off(self, error: OSError) -> None:
        """The reader is gone."""
        self._fail(error)

    def _half_close(self) -> None:
        self._stretch.finished = True
        self._stretch.sink = None
        if self._stretch.source is not None:
            self._stretch.source.arrived()

    def _forget(self) -> None:
        # What is under way was taken and still arrives, as it would from a pipe.
        self._stretch.cut(self._stretch.capacity)

    def _free(self) -> None:
        self._half_close()


class MemoryChannel(TwoHalves):
    """One end of a :func:`memory_pair`."""

    def __init__(self, description: str, incoming: _Stretch, outgoing: _Stretch, *, high_water: int, low_water: int) -> None:
        super().__init__(
            _MemorySource(description, incoming),
            _MemorySink(description, outgoing, high_water=high_water, low_water=low_water),
            description,
        )
        self._outgoing = outgoing

    async def abort(self) -> None:
        """Close this end the rude way: the peer's next read and write raise ``ChannelBroken``, and what was under way is lost."""
        if self._outgoing.source is not None:
            self._outgoing.cut(0)
            self._outgoing.source.break_off(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
        await self.close()


def memory_pair(
    *, capacity: int = CAPACITY, high_water: int = HIGH_WATER, low_water: int = LOW_WATER
) -> tuple[MemoryChannel, MemoryChannel]:
    """Return two channels: what one writes, the other reads.

    Args:
        capacity: Bytes that may be under way in each direction before they count as buffered.
        high_water: Bytes; see :data:`twopipes._channels.base.HIGH_WATER`.
        low_water: Bytes; see :data:`twopipes._channels.base.LOW_WATER`.
    """
    there, back = _Stretch(capacity), _Stretch(capacity)
    return (
        MemoryChannel("memory, first end", back, there, high_water=high_water, low_water=low_water),
        MemoryChannel("memory, second end", there, back, high_water=high_water, low_water=low_water),
    )
