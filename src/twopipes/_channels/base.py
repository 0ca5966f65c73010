"""The one interface that everything above writes to and reads from, and its contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

__all__ = ["HIGH_WATER", "LOW_WATER", "READ_SIZE", "Channel"]

KIB = 1024

# Bytes. What one read asks for: the capacity of a Linux pipe, so that a full pipe is emptied by one call. A buffer of twice that
# and more comes from mmap and goes back by munmap, which makes the read of a small message ten times as expensive.
READ_SIZE = 64 * KIB
# Bytes. From here on drain() waits. Large enough that an ordinary answer never makes its writer wait for the peer, small
# enough that a thousand connections whose peers went to sleep fit into memory.
HIGH_WATER = 256 * KIB
# Bytes. Until here drain() goes on waiting. One pipe's worth stays in hand, so the peer is kept busy while the writer wakes up.
LOW_WATER = 64 * KIB


class Channel(ABC):
    """Two streams of bytes, one in each direction, between this side and a peer.

    The contract that every implementation keeps, and that one test runs over all of them:

    * The bytes of one direction arrive complete, unchanged and in order, or the reader learns that they do not. How they
      were cut when written says nothing about how they are cut when read (FR-13).
    * Every wait has an end: :meth:`close` wakes whoever waits in any other method.
    * Memory is bounded in both directions: nothing is read from the peer before :meth:`read` asks for it, and a writer that
      calls :meth:`drain` after :meth:`write` holds no more than the high-water mark and its own last piece.
    * Cancelling any method loses no byte.
    * After :meth:`close`, no descriptor, thread or task is left (:mod:`.threads` names the one exception).
    * The two directions are independent: one may be at its end, or broken, while the other goes on.

    A channel belongs to the event loop in which it is first used and is not safe to use from several threads.
    ``async with channel:`` closes it at the end of the block.
    """

    @abstractmethod
    def read(self) -> Coroutine[Any, Any, bytes]:
        """Return at least one byte as soon as there is one, or ``b""`` at the end, and then for ever after.

        Cancelling is safe: bytes that had arrived are kept for the next call.

        Raises:
            ChannelClosed: This end was closed, before the call or during it.
            ChannelBroken: The peer reset the connection. What arrived before was returned first, where the system kept it.
            LocalProtocolError: Another task is reading. There is one reader at a time.
        """

    def offer_to(self, take: Callable[[bytes], bool]) -> None:  # noqa: B027 - to do nothing is a way to do it
        """Offer what arrives for a waiting :meth:`read` to ``take`` first, and go on waiting if that says that it has taken it.

        A shortcut for one who reads all the time: it is called as soon as the bytes are there, where to wake a task would cost a
        turn of the event loop. It must not block, and what it raises is raised by :meth:`read`. A channel may ignore the offer,
        and one that wraps another does: then everything is read as ever.
        """

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Accept all of ``data``: give the system at once what it takes, and keep the rest to be sent in order.

        This never blocks and accepts any size. Call :meth:`drain` afterwards, or what is kept grows while the peer sleeps.

        Raises:
            ChannelClosed: After :meth:`close` or :meth:`close_write`.
            ChannelBroken: The peer is known to be gone. Whether it got what was written before is unknown.
        """

    @abstractmethod
    def drain(self) -> Coroutine[Any, Any, None]:
        """Return when there is room for more: the flow control of the writing side.

        Returns at once unless more than the high-water mark is buffered. Once it is, everyone who drains waits until no more
        than the low-water mark is left. Any number of tasks may wait. Cancelling is safe: nothing that was written is dropped.

        Raises:
            ChannelClosed: This end was closed, before the call or during it.
            ChannelBroken: The peer is gone.
        """

    @abstractmethod
    def flush(self) -> Coroutine[Any, Any, None]:
        """Return when everything written was handed to the system, and :attr:`buffered` is 0.

        Handed to the system is not received: a peer may still die without reading it. Cancelling is safe.

        Raises:
            ChannelClosed: This end was closed, before the call or during it.
            ChannelBroken: The peer is gone.
        """

    @abstractmethod
    def close_write(self) -> Coroutine[Any, Any, None]:
        """Flush, then tell the peer that no more will come: it reads the end. Reading goes on.

        From the call on, :meth:`write` is refused. A second call changes nothing. If it is cancelled while it flushes,
        the end was not sent, and calling it again takes up where it stopped.

        Raises:
            ChannelClosed: This end was closed, before the call or during it.
            ChannelBroken: The peer was gone before it took everything.
        """

    @abstractmethod
    def close(self) -> Coroutine[Any, Any, None]:
        """Close both directions, wake whoever waits with ``ChannelClosed``, and free everything that was held.

        What the system has not taken is dropped: call :meth:`flush` before to keep it. It never waits for the peer, so it
        cannot be cancelled halfway. A second call changes nothing.
        """

    @property
    @abstractmethod
    def buffered(self) -> int:
        """How many bytes were accepted by :meth:`write` and not yet taken by the system."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What this channel is, for error messages and logs: ``pipe fd 0``, ``unix:/run/x.sock``, ``tcp 127.0.0.1:9000``."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.description}>"
