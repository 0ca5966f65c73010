"""The channel interface and its contract."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Self

from twopipes.errors import ChannelClosed

KIB = 1024

# Bytes per read: the capacity of a Linux pipe, so that one call empties a full pipe. A buffer of twice the size comes from mmap
# and is returned by munmap, which makes the read of a small message ten times as expensive.
READ_SIZE = 64 * KIB
# Bytes. Above this, drain() waits. Large enough that an ordinary response never makes its writer wait for the peer, small enough
# that a thousand connections with stalled peers fit into memory.
HIGH_WATER = 256 * KIB
# Bytes. drain() waits until no more than this is left. One pipe's capacity stays buffered, so that the peer has data to read
# while the writer wakes up.
LOW_WATER = 64 * KIB


class Channel(ABC):
    """Two streams of bytes, one in each direction, between this side and a peer.

    The contract of every implementation, tested by one suite for all of them:

    * The bytes of one direction arrive complete, unchanged and in order, or the reader gets an error. The boundaries of writes
      are not preserved in reads (FR-13).
    * No wait is endless: :meth:`close` wakes every task that waits in another method. From then on every method raises
      ``ChannelClosed``. When the peer is gone they raise ``ChannelBroken``.
    * Memory is bounded in both directions: nothing is read from the peer before :meth:`read` is called, and a writer that calls
      :meth:`drain` after :meth:`write` buffers no more than the high-water mark and its last write.
    * Cancelling any method loses no byte.
    * After :meth:`close`, no descriptor, thread or task is left (:mod:`.threads` names the one exception).
    * The two directions are independent: one may have ended or be broken while the other continues.

    A channel belongs to the event loop in which it is first used and is not thread-safe. ``async with channel:`` closes it at the
    end of the block.
    """

    @abstractmethod
    def read(self) -> Coroutine[Any, Any, bytes]:
        """Return at least one byte as soon as one has arrived, or ``b""`` at EOF and after it.

        Cancelling is safe: bytes that have arrived are kept for the next call.

        Raises:
            ChannelBroken: The peer reset the connection. Data that arrived before is returned first, if the system kept it.
            LocalProtocolError: Another task is reading. There can be one reader at a time.
        """

    def offer_to(self, take: Callable[[bytes], bool]) -> None:  # noqa: B027 - doing nothing is a valid implementation
        """Pass data for a waiting :meth:`read` to ``take`` first, and continue to wait if it returns True.

        A shortcut for a permanent reader: ``take`` is called as soon as data arrives, while waking a task costs a turn of the event
        loop. It must not block, and what it raises is raised by :meth:`read`. A channel may ignore ``take``, and a wrapper around
        another channel does; then :meth:`read` returns all data.
        """

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Accept all of ``data``: pass to the system what it takes at once, and buffer the rest.

        This never blocks and accepts any size. Call :meth:`drain` afterwards, or the buffer grows while the peer does not read. It
        is unknown whether a peer that is gone received earlier writes.
        """

    @abstractmethod
    def drain(self) -> Coroutine[Any, Any, None]:
        """Wait until there is room for more data: the flow control of the writer.

        Returns at once unless more than the high-water mark is buffered. Above it, all callers wait until no more than the
        low-water mark is left. Any number of tasks may wait. Cancelling is safe: nothing that was written is dropped.
        """

    @abstractmethod
    def flush(self) -> Coroutine[Any, Any, None]:
        """Wait until the system has taken all data and :attr:`buffered` is 0.

        This does not mean received: the peer may still exit without reading it. Cancelling is safe.
        """

    @abstractmethod
    def close_write(self) -> Coroutine[Any, Any, None]:
        """Flush, then signal EOF to the peer. Reading continues.

        From the call on, :meth:`write` raises ``ChannelClosed``. A second call does nothing. If it is cancelled while it flushes,
        EOF was not sent, and a second call continues.
        """

    @abstractmethod
    def close(self) -> Coroutine[Any, Any, None]:
        """Close both directions, wake waiting tasks with ``ChannelClosed``, and free all resources.

        Data that the system has not taken is dropped; call :meth:`flush` first to keep it. This never waits for the peer, so it
        cannot be cancelled halfway. A second call does nothing.
        """

    @property
    @abstractmethod
    def buffered(self) -> int:
        """How many bytes :meth:`write` accepted and the system has not taken yet."""

    @property
    def is_reader_gone(self) -> bool:
        """Whether it is known that the peer reads no more, so that nothing can be sent to it. Not every channel finds out."""
        return False

    @property
    @abstractmethod
    def description(self) -> str:
        """A name for error messages and logs: ``pipe fd 0``, ``unix:/run/x.sock``, ``tcp 127.0.0.1:9000``."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.description}>"


def mode_of(fd: int, role: str) -> int:
    """Return the file mode of a descriptor. Raises ``ChannelClosed`` if it is not open."""
    try:
        return os.fstat(fd).st_mode
    except OSError as error:
        raise ChannelClosed(
            f"{role} (descriptor {fd}) is not open. A stdio server must be started by its host, with a pipe or a socket as "
            f"standard input and standard output"
        ) from error
