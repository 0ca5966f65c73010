"""Two channels connected in memory: no descriptor, no thread, and the same contract as the others.

For tests, and for a server and a client in one process.
"""

from __future__ import annotations

import errno
import os
from collections import deque

from twopipes._channels.base import HIGH_WATER, LOW_WATER, READ_SIZE
from twopipes._channels.halves import Sink, Source, TwoHalves

# Bytes in transit between the two ends. They count as taken by the system, as in a pipe; more than that counts as buffered.
CAPACITY = 64 * 1024


class _Pipe:
    """One direction: the bytes between a sink and a source, in order. The first ``capacity`` bytes are in transit."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.pieces: deque[memoryview] = deque()
        self.size = 0
        self.finished = False
        # Both are set at creation and removed when they are closed.
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
        """Drop everything after the first ``size`` bytes."""
        while self.size > size:
            tail = self.pieces.pop()
            self.size -= len(tail)
            if self.size < size:
                kept = tail[: size - self.size]
                self.pieces.append(kept)
                self.size += len(kept)


class _MemorySource(Source):
    def __init__(self, description: str, pipe: _Pipe) -> None:
        super().__init__(description)
        self._pipe = pipe
        pipe.source = self

    def _ask(self) -> bool:
        pipe = self._pipe
        if pipe.size:
            self._deliver(pipe.take())
            if pipe.sink is not None:
                pipe.sink.made_room()
            return True
        if pipe.finished:
            self._deliver(b"")
            return True
        return False

    def _free(self) -> None:
        self._pipe.source = None
        self._pipe.cut(0)
        if self._pipe.sink is not None:
            self._pipe.sink.fail(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))


class _MemorySink(Sink):
    def __init__(self, description: str, pipe: _Pipe, water: tuple[int, int]) -> None:
        super().__init__(description, water=water)
        self._pipe = pipe
        pipe.sink = self

    def write(self, data: bytes) -> None:
        if not self._open:
            self._refuse()
        if not data:
            return
        pipe = self._pipe
        pipe.put(data if type(data) is bytes else bytes(data))
        if pipe.size > pipe.capacity:
            self._keep(pipe.size - pipe.capacity - self.buffered)
        if pipe.source is not None:
            pipe.source.wake()

    def made_room(self) -> None:
        """Move buffered data into transit, because the reader took some."""
        if self.buffered:
            self._taken(self.buffered - max(0, self._pipe.size - self._pipe.capacity))

    def _half_close(self) -> None:
        self._pipe.finished = True
        self._pipe.sink = None
        if self._pipe.source is not None:
            self._pipe.source.wake()

    def _forget(self) -> None:
        # Data in transit still arrives, as it would through a pipe.
        self._pipe.cut(self._pipe.capacity)

    def _free(self) -> None:
        self._half_close()


class MemoryChannel(TwoHalves):
    """One end of a :func:`memory_pair`."""

    def __init__(self, description: str, incoming: _Pipe, outgoing: _Pipe, water: tuple[int, int]) -> None:
        super().__init__(_MemorySource(description, incoming), _MemorySink(description, outgoing, water), description)
        self._outgoing = outgoing

    async def abort(self) -> None:
        """Close this end abruptly: the peer's next read and write raise ``ChannelBroken``, and data in transit is lost."""
        if self._outgoing.source is not None:
            self._outgoing.cut(0)
            self._outgoing.source.fail(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
        await self.close()


def memory_pair(
    *, capacity: int = CAPACITY, high_water: int = HIGH_WATER, low_water: int = LOW_WATER
) -> tuple[MemoryChannel, MemoryChannel]:
    """Return two connected channels: what one writes, the other reads.

    Args:
        capacity: Bytes in transit in each direction before further bytes count as buffered.
        high_water: Bytes in the buffer above which drain() waits.
        low_water: Bytes in the buffer at which it continues.
    """
    there, back = _Pipe(capacity), _Pipe(capacity)
    water = (high_water, low_water)
    return MemoryChannel("memory, first end", back, there, water), MemoryChannel("memory, second end", there, back, water)
