"""The two halves of a channel, and the waiting that all implementations share.

A :class:`Source` is read, a :class:`Sink` is written. Standard input may be a file while standard output is a pipe, so the two are
chosen independently and combined by :class:`TwoHalves`. The kind of descriptor decides only how bytes are read and written; waiting
and errors are implemented here once.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from twopipes._channels.base import HIGH_WATER, LOW_WATER, Channel
from twopipes._channels.fork import in_forked_children, point_at_null
from twopipes.errors import ChannelBroken, ChannelClosed, LocalProtocolError

# The high-water mark and the low-water mark of a sink.
WATER = (HIGH_WATER, LOW_WATER)
# The descriptors of all open halves. A channel belongs to the process that opened it.
_descriptors: WeakKeyDictionary[_Half, int] = WeakKeyDictionary()


def _replace_all_descriptors() -> None:
    for fd in set(_descriptors.values()):
        point_at_null(fd)
    _descriptors.clear()
    in_forked_children(_replace_all_descriptors)  # the child may open channels of its own, and fork


in_forked_children(_replace_all_descriptors)


class _Half(ABC):
    def __init__(self, description: str, fd: int | None) -> None:
        self._description = description
        self._closed = False
        self._failure: OSError | None = None
        if fd is not None:
            _descriptors[self] = fd  # replaced by the null device in forked processes

    def _unregister(self) -> None:
        """Forget the descriptor, because it is about to be closed."""
        _descriptors.pop(self, None)

    def _check_alive(self) -> None:
        if self._closed:
            raise ChannelClosed(f"{self._description} was closed on this side")
        if self._failure is not None:
            raise ChannelBroken(f"{self._description}: {self._failure.strerror or self._failure}") from self._failure

    @abstractmethod
    def _free(self) -> None:
        """Close the descriptor and stop watching it. Called once."""


class Source(_Half):
    """The reading half. It reads ahead at most one chunk."""

    def __init__(self, description: str, fd: int | None = None) -> None:
        super().__init__(description, fd)
        # Data for a read that was cancelled before it could return it.
        self._chunk = b""
        self._waiter: asyncio.Future[None] | None = None
        self._at_end = False

    async def read(self) -> bytes:
        """Return the next bytes, or ``b""`` at the end; see :meth:`Channel.read`."""
        if self._waiter is not None:
            raise LocalProtocolError(
                f"{self._description} is already being read by another task; a channel can have one reader at a time"
            )
        while True:
            if self._chunk:
                chunk, self._chunk = self._chunk, b""
                return chunk
            self._check_alive()
            if self._at_end:
                return b""
            if self._ask():
                continue
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def offer_to(self, take: Callable[[bytes], bool]) -> None:
        """Pass arriving data to a function first; see :meth:`Channel.offer_to`."""

    def close(self) -> None:
        """Wake the reader with ``ChannelClosed`` and free all resources. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._chunk = b""
            self.wake()
            self._free()

    @abstractmethod
    def _ask(self) -> bool:
        """Arrange for one call of ``_deliver`` or ``fail``. Return True if it has happened already."""

    def _deliver(self, chunk: bytes) -> None:
        if self._closed:
            return
        if chunk:
            self._chunk = chunk
        else:
            self._at_end = True
        self.wake()

    def fail(self, error: OSError) -> None:
        """Report that the peer is gone."""
        self._failure = error
        self.wake()

    def wake(self) -> None:
        """Wake the reader, if there is one."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Sink(_Half):
    """The writing half: the buffer, and the tasks that wait for it to shrink.

    Attributes:
        buffered: How many bytes the system has not taken yet.
    """

    def __init__(self, description: str, fd: int | None = None, *, water: tuple[int, int] = WATER) -> None:
        self._high_water, self._low_water = water
        if not 0 <= self._low_water <= self._high_water:
            raise LocalProtocolError(
                f"the low-water mark ({self._low_water}) must be between 0 and the high-water mark ({self._high_water})"
            )
        super().__init__(description, fd)
        self.buffered = 0
        # The buffer has exceeded the high-water mark and has not fallen to the low-water mark yet.
        self._full = False
        # False after close_write, close or a failure: every further write is an error.
        self._open = True
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def is_reader_gone(self) -> bool:
        """Whether it is known that the peer reads no more."""
        return False

    @property
    def unread(self) -> int | None:
        """How many of the written bytes the peer has not read; ``None`` if the system does not report it."""
        return None

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Accept all of ``data``; see :meth:`Channel.write`."""

    async def drain(self) -> None:
        """Wait until there is room; see :meth:`Channel.drain`."""
        self._check_alive()
        while self._full:
            await self._change()

    async def flush(self) -> None:
        """Wait until nothing is buffered; see :meth:`Channel.flush`."""
        self._check_alive()
        while self.buffered:
            await self._change()

    async def finish(self) -> None:
        """Flush and half-close; see :meth:`Channel.close_write`."""
        self._open = False
        try:
            await self.flush()
        except ChannelBroken:
            self._half_close()
            raise
        self._half_close()

    def close(self) -> None:
        """Wake the waiters with ``ChannelClosed``, drop the buffer, free all resources. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._drop()
            self._free()

    @abstractmethod
    def _half_close(self) -> None:
        """Signal EOF to the peer. May be called several times, also after ``fail``, but never after ``_free``."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop the buffer and stop writing."""

    def _keep(self, size: int) -> None:
        self.buffered += size
        if self.buffered > self._high_water:
            self._full = True

    def _taken(self, size: int) -> None:
        self.buffered -= size
        has_room = self._full and self.buffered <= self._low_water
        if has_room:
            self._full = False
        # Wake waiters only when their wait may be over, not for every piece: a 64 MiB line is sent in a thousand pieces.
        if has_room or not self.buffered:
            self._wake()

    def fail(self, error: OSError) -> None:
        """Report that the peer is gone."""
        if not self._closed and self._failure is None:
            self._failure = error
            self._drop()

    def _drop(self) -> None:
        self._open = False
        self._forget()
        self.buffered = 0
        self._full = False
        self._wake()

    def _refuse(self) -> NoReturn:
        self._check_alive()
        raise ChannelClosed(f"the writing side of {self._description} was closed by close_write()")

    async def _change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
        self._check_alive()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class TwoHalves(Channel):
    """A channel that combines a source and a sink."""

    def __init__(self, source: Source, sink: Sink, description: str) -> None:
        self._source = source
        self._sink = sink
        self._description = description

    # These return the coroutine of the half instead of wrapping it in a second one: they run once per message.

    def read(self) -> Coroutine[Any, Any, bytes]:
        return self._source.read()

    def offer_to(self, take: Callable[[bytes], bool]) -> None:
        self._source.offer_to(take)

    def write(self, data: bytes) -> None:
        self._sink.write(data)

    def drain(self) -> Coroutine[Any, Any, None]:
        return self._sink.drain()

    def flush(self) -> Coroutine[Any, Any, None]:
        return self._sink.flush()

    def close_write(self) -> Coroutine[Any, Any, None]:
        return self._sink.finish()

    async def close(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        """Do the same as :meth:`close` where nothing can be awaited, such as in a callback of the event loop."""
        # The sink first: over a socket both halves use one descriptor, and the source closes it.
        try:
            self._sink.close()
        finally:
            self._source.close()

    @property
    def buffered(self) -> int:
        return self._sink.buffered

    @property
    def is_reader_gone(self) -> bool:
        return self._sink.is_reader_gone

    @property
    def description(self) -> str:
        return self._description
