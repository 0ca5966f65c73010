"""The two halves that every channel is made of, and the waiting that all of them share.

A :class:`Source` brings bytes, a :class:`Sink` takes them. Standard input may be a file while standard output is a pipe, so
the two are chosen one by one and joined by :class:`TwoHalves`. What kind of descriptor is underneath decides only how bytes
are fetched and pushed; who waits for what, and which error ends the wait, is written here once.
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

__all__ = ["Sink", "Source", "TwoHalves"]

# The descriptors of all halves that are open in this process. A channel belongs to the process that opened it.
_descriptors: WeakKeyDictionary[_Half, int] = WeakKeyDictionary()


def _give_up_all_descriptors() -> None:
    for fd in set(_descriptors.values()):
        point_at_null(fd)
    _descriptors.clear()
    in_forked_children(_give_up_all_descriptors)  # the child may open channels of its own, and fork


in_forked_children(_give_up_all_descriptors)


def _closed_here(description: str) -> ChannelClosed:
    return ChannelClosed(f"{description} was closed on this side")


def _broken(description: str, cause: OSError) -> ChannelBroken:
    return ChannelBroken(f"{description}: {cause.strerror or cause}")


class _Half:
    def _hold(self, fd: int) -> None:
        """From now on a process that is forked from this one finds the null device in place of the descriptor."""
        _descriptors[self] = fd

    def _let_go(self) -> None:
        """The descriptor is about to be closed."""
        _descriptors.pop(self, None)


class Source(_Half, ABC):
    """The reading half. It never holds more than one chunk that nobody has asked for."""

    def __init__(self, description: str) -> None:
        self._description = description
        # Bytes that arrived for a read which was cancelled before it could return them.
        self._chunk = b""
        self._waiter: asyncio.Future[None] | None = None
        self._at_end = False
        self._closed = False
        self._failure: OSError | None = None

    async def read(self) -> bytes:
        """Return the next bytes, or ``b""`` at the end; see :meth:`Channel.read`."""
        if self._waiter is not None:
            raise LocalProtocolError(
                f"{self._description} is being read by another task already; a channel has one reader at a time"
            )
        while True:
            if self._closed:
                raise _closed_here(self._description)
            if self._chunk:
                chunk, self._chunk = self._chunk, b""
                return chunk
            if self._failure is not None:
                raise _broken(self._description, self._failure) from self._failure
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
        """Offer what arrives to a function first; see :meth:`Channel.offer_to`."""

    def close(self) -> None:
        """Wake the reader with ``ChannelClosed`` and free what is held. A second call changes nothing."""
        if self._closed:
            return
        self._closed = True
        self._chunk = b""
        self._wake()
        self._free()

    @abstractmethod
    def _ask(self) -> bool:
        """See to it that ``_deliver`` or ``_fail`` is called once. Return True when that has happened already."""

    @abstractmethod
    def _free(self) -> None:
        """Give up the descriptor and whatever watches it. Called once."""

    def _deliver(self, chunk: bytes) -> None:
        if self._closed:
            return
        if chunk:
            self._chunk = chunk
        else:
            self._at_end = True
        self._wake()

    def _fail(self, error: OSError) -> None:
        self._failure = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Sink(_Half, ABC):
    """The writing half: what is buffered, and who waits for it to become less."""

    def __init__(self, description: str, *, high_water: int = HIGH_WATER, low_water: int = LOW_WATER) -> None:
        if not 0 <= low_water <= high_water:
            raise LocalProtocolError(f"the low-water mark ({low_water}) must lie between 0 and the high-water mark ({high_water})")
        self._description = description
        self._high_water = high_water
        self._low_water = low_water
        self._buffered = 0
        # The high-water mark was passed, and the low-water mark not yet reached again.
        self._full = False
        # False from the moment that close_write, close or a failure makes every further write an error.
        self._open = True
        self._closed = False
        self._failure: OSError | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def buffered(self) -> int:
        """How many bytes wait to be taken by the system."""
        return self._buffered

    @property
    def unread(self) -> int | None:
        """How many of the bytes written the peer has not read, where the system tells; ``None`` where it does not."""
        return None

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Accept all of ``data``; see :meth:`Channel.write`."""

    async def drain(self) -> None:
        """Wait until there is room; see :meth:`Channel.drain`."""
        self._check_alive()
        while self._full:
            await self._change()
            self._check_alive()

    async def flush(self) -> None:
        """Wait until nothing is buffered; see :meth:`Channel.flush`."""
        self._check_alive()
        while self._buffered:
            await self._change()
            self._check_alive()

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
        """Wake the waiters with ``ChannelClosed``, drop what is buffered, free the rest. A second call changes nothing."""
        if self._closed:
            return
        self._closed = True
        self._open = False
        self._drop()
        self._free()

    @abstractmethod
    def _half_close(self) -> None:
        """Let the peer read the end. It may be called several times, also after ``_fail``, never after ``_free``."""

    @abstractmethod
    def _forget(self) -> None:
        """Let go of the bytes that are buffered and stop pushing."""

    @abstractmethod
    def _free(self) -> None:
        """Give up the descriptor and whatever watches it. Called once."""

    def _keep(self, size: int) -> None:
        self._buffered += size
        if self._buffered > self._high_water:
            self._full = True

    def _taken(self, size: int) -> None:
        self._buffered -= size
        calmed = self._full and self._buffered <= self._low_water
        if calmed:
            self._full = False
        # A waiter is woken when its wait may be over, not for every piece: a 64 MiB line leaves in a thousand of them.
        if calmed or not self._buffered:
            self._wake()

    def _fail(self, error: OSError) -> None:
        if self._closed or self._failure is not None:
            return
        self._failure = error
        self._open = False
        self._drop()

    def _drop(self) -> None:
        self._forget()
        self._buffered = 0
        self._full = False
        self._wake()

    def _refuse(self) -> NoReturn:
        self._check_alive()
        raise ChannelClosed(f"the writing side of {self._description} was closed by close_write()")

    def _check_alive(self) -> None:
        if self._closed:
            raise _closed_here(self._description)
        if self._failure is not None:
            raise _broken(self._description, self._failure) from self._failure

    async def _change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class TwoHalves(Channel):
    """A channel made of a source and a sink."""

    def __init__(self, source: Source, sink: Sink, description: str) -> None:
        self._source = source
        self._sink = sink
        self._description = description

    # These four hand on the coroutine of the half instead of wrapping it in a second one: they run once per message.

    def read(self) -> Coroutine[Any, Any, bytes]:
        """Return the next bytes, or ``b""`` at the end; see :meth:`Channel.read`."""
        return self._source.read()

    def offer_to(self, take: Callable[[bytes], bool]) -> None:
        """Offer what arrives to a function first; see :meth:`Channel.offer_to`."""
        self._source.offer_to(take)

    def write(self, data: bytes) -> None:
        """Accept all of ``data``; see :meth:`Channel.write`."""
        self._sink.write(data)

    def drain(self) -> Coroutine[Any, Any, None]:
        """Wait until there is room; see :meth:`Channel.drain`."""
        return self._sink.drain()

    def flush(self) -> Coroutine[Any, Any, None]:
        """Wait until nothing is buffered; see :meth:`Channel.flush`."""
        return self._sink.flush()

    def close_write(self) -> Coroutine[Any, Any, None]:
        """Flush and half-close; see :meth:`Channel.close_write`."""
        return self._sink.finish()

    async def close(self) -> None:
        """Close both halves; see :meth:`Channel.close`."""
        self.close_now()

    def close_now(self) -> None:
        """Do what :meth:`close` does, where nothing can be awaited: in a callback of the event loop."""
        # The sink goes first: over a socket both halves use one descriptor, and the source is the one that closes it.
        try:
            self._sink.close()
        finally:
            self._source.close()

    @property
    def buffered(self) -> int:
        """How many bytes wait to be taken by the system."""
        return self._sink.buffered

    @property
    def description(self) -> str:
        """What this channel is, for messages."""
        return self._description
