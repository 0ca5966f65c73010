"""The halves over a non-blocking descriptor that the event loop can watch: pipes and sockets.

No transport and no stream of asyncio is involved. A write is one system call with no task and no future; only what the system
does not take is kept, and the loop watches the descriptor until it is gone. A read is answered from the callback that the
loop makes when there is something to read.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from twopipes._channels.base import HIGH_WATER, LOW_WATER, READ_SIZE
from twopipes._channels.halves import Sink, Source

__all__ = ["DescriptorSink", "DescriptorSource"]

# Pieces and bytes that one gathering write takes along. The kernel accepts 1024 pieces; a pipe takes 64 KiB at a time anyway.
GATHERED_PIECES = 64
GATHERED_BYTES = 256 * 1024


class DescriptorSource(Source):
    """Reads a descriptor when the event loop says that it is readable.

    Args:
        description: For error messages.
        fd: A descriptor on which ``receive`` does not block.
        release: Called once at the end; closes the descriptor.
        receive: Takes the most bytes to read, returns what there is; ``os.read`` on the descriptor unless given.
    """

    def __init__(
        self, description: str, fd: int, *, release: Callable[[], None], receive: Callable[[int], bytes] | None = None
    ) -> None:
        super().__init__(description)
        self._fd = fd
        self._hold(fd)
        self._release = release
        self._receive = receive or partial(os.read, fd)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._take: Callable[[bytes], bool] | None = None

    def offer_to(self, take: Callable[[bytes], bool]) -> None:
        """Offer what arrives to a function first; see :meth:`Channel.offer_to`."""
        self._take = take

    def _ask(self) -> bool:
        # The loop goes on watching from one read to the next. A conversation of question and answer then costs no epoll_ctl,
        # and no read that only learns that there is nothing yet.
        if self._loop is None:
            loop = asyncio.get_running_loop()
            loop.add_reader(self._fd, self._readable)
            self._loop = loop
        return False

    def _readable(self) -> None:
        if self._waiter is None or self._waiter.done():
            # Nobody asks. Leave it in the kernel's buffer, which fills, so that the peer is the one who waits.
            self._unwatch()
            return
        try:
            chunk = self._receive(READ_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            self._unwatch()
            self._fail(error)
            return
        if not chunk:
            self._unwatch()
        elif self._take is not None:
            try:
                if self._take(chunk):
                    return  # and the reader waits on
            except (KeyboardInterrupt, SystemExit):
                raise  # these end the program, as everywhere
            except BaseException as error:
                if not self._waiter.done():
                    self._waiter.set_exception(error)
                return
        self._deliver(chunk)

    def _unwatch(self) -> None:
        if self._loop is not None:
            # A loop that was closed before the channel watches nothing any more, and says so by an exception.
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
            self._loop = None

    def _free(self) -> None:
        self._unwatch()
        self._let_go()
        self._release()


class DescriptorSink(Sink):
    """Writes to a descriptor at once, and buffers what it does not take until the event loop says that it is writable.

    Args:
        description: For error messages.
        fd: A descriptor on which ``send`` and ``gather`` do not block.
        release: Called once at the end; closes the descriptor.
        shut: Half-closes without giving up the descriptor (a socket). Without it, half-closing is releasing (a pipe).
        send: Takes one piece, returns how many bytes of it were taken; ``os.write`` on the descriptor unless given.
        gather: Takes several pieces, returns how many bytes of them were taken; ``os.writev`` unless given. Windows has none:
            there it is ``send`` with the first.
        high_water: Bytes. See :data:`twopipes._channels.base.HIGH_WATER`.
        low_water: Bytes. See :data:`twopipes._channels.base.LOW_WATER`.
    """

    def __init__(
        self,
        description: str,
        fd: int,
        *,
        release: Callable[[], None],
        shut: Callable[[], None] | None = None,
        send: Callable[[bytes | memoryview], int] | None = None,
        gather: Callable[[Sequence[memoryview]], int] | None = None,
        high_water: int = HIGH_WATER,
        low_water: int = LOW_WATER,
    ) -> None:
        super().__init__(description, high_water=high_water, low_water=low_water)
        self._fd = fd
        self._hold(fd)
        self._release: Callable[[], None] | None = release
        self._shut = shut
        self._send = send or partial(os.write, fd)
        if gather is not None:
            self._gather = gather
        elif sys.platform != "win32":
            self._gather = partial(os.writev, fd)
        else:
            self._gather = self._send_first
        self._pending: deque[memoryview] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None

    def write(self, data: bytes) -> None:
        """Accept all of ``data``; see :meth:`Channel.write`."""
        if not self._open:
            self._refuse()
        taken = 0
        if not self._pending:
            if not data:
                return
            try:
                taken = self._send(data)
            except BlockingIOError:
                pass
            except OSError as error:
                self._fail(error)
                self._refuse()
            if taken == len(data):
                return
        # A view, so that a 64 MiB line is never copied for being sent in a thousand pieces. Only bytes cannot change under it.
        rest = memoryview(data if type(data) is bytes else bytes(data))[taken:]
        if not rest:
            return
        self._pending.append(rest)
        self._keep(len(rest))
        if self._loop is None:
            loop = asyncio.get_running_loop()
            loop.add_writer(self._fd, self._writable)
            self._loop = loop

    @property
    def unread(self) -> int | None:
        """How many bytes the peer has not read: those that wait here and those in the pipe. Only Linux knows the latter."""
        if sys.platform == "linux" and self._shut is None and self._release is not None:
            from fcntl import ioctl  # noqa: PLC0415 - asked once in the life of a channel, if at all
            from struct import unpack  # noqa: PLC0415 - as above
            from termios import FIONREAD  # noqa: PLC0415 - as above

            with suppress(OSError):
                return self._buffered + int(unpack("i", ioctl(self._fd, FIONREAD, bytes(4)))[0])
        return None

    def _writable(self) -> None:
        pending = self._pending
        try:
            taken = self._send(pending[0]) if len(pending) == 1 else self._gather(self._batch())
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error)
            return
        left = taken
        while left:
            head = pending[0]
            if left < len(head):
                pending[0] = head[left:]
                break
            left -= len(head)
            pending.popleft()
        if not pending:
            self._unwatch()
        self._taken(taken)

    def _batch(self) -> list[memoryview]:
        batch: list[memoryview] = []
        size = 0
        for piece in self._pending:
            batch.append(piece)
            size += len(piece)
            if size >= GATHERED_BYTES or len(batch) == GATHERED_PIECES:
                break
        return batch

    def _send_first(self, pieces: Sequence[memoryview]) -> int:
        return self._send(pieces[0])

    def _unwatch(self) -> None:
        if self._loop is not None:
            if not self._loop.is_closed():
                self._loop.remove_writer(self._fd)
            self._loop = None

    def _forget(self) -> None:
        self._pending.clear()
        self._unwatch()

    def _half_close(self) -> None:
        if self._shut is None:
            self._free()
            return
        # Where the connection is gone already, the peer needs no end, and whoever reads will learn of it.
        with suppress(OSError):
            self._shut()

    def _free(self) -> None:
        self._let_go()
        release, self._release = self._release, None
        if release is not None:
            release()
