"""A source and a sink over a non-blocking descriptor that the event loop can watch: pipes and sockets.

No transport or stream of asyncio is involved. A write is one system call without a task or a future; only what the system does
not take is buffered, and the loop watches the descriptor until the buffer is empty. A read completes in the loop's callback.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from twopipes._channels.base import READ_SIZE
from twopipes._channels.halves import WATER, Sink, Source

# Limits of one gathering write. The kernel accepts 1024 pieces; a pipe takes 64 KiB at a time anyway.
GATHERED_PIECES = 64
GATHERED_BYTES = 256 * 1024


class DescriptorSource(Source):
    """Reads a non-blocking descriptor when the event loop reports that it is readable.

    ``receive`` reads at most the given number of bytes; by default ``os.read``. ``release`` closes the descriptor at the end.
    """

    def __init__(
        self, description: str, fd: int, *, release: Callable[[], None], receive: Callable[[int], bytes] | None = None
    ) -> None:
        super().__init__(description, fd)
        self._fd = fd
        self._release = release
        self._receive = receive or partial(os.read, fd)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._take: Callable[[bytes], bool] | None = None

    def offer_to(self, take: Callable[[bytes], bool]) -> None:
        self._take = take

    def _ask(self) -> bool:
        # The loop keeps watching from one read to the next. An exchange of requests and responses then costs no epoll_ctl
        # and no read without data.
        if self._loop is None:
            loop = asyncio.get_running_loop()
            loop.add_reader(self._fd, self._readable)
            self._loop = loop
        return False

    def _readable(self) -> None:
        if self._waiter is None or self._waiter.done():
            # No task reads. Leave the data in the kernel's buffer, which fills up, so that the peer has to wait.
            self._unwatch()
            return
        try:
            chunk = self._receive(READ_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            self._unwatch()
            self.fail(error)
            return
        if not chunk:
            self._unwatch()
        elif self._take is not None:
            try:
                if self._take(chunk):
                    return  # the reader continues to wait
            except (KeyboardInterrupt, SystemExit):
                raise  # these end the program
            except BaseException as error:
                if not self._waiter.done():
                    self._waiter.set_exception(error)
                return
        self._deliver(chunk)

    def _unwatch(self) -> None:
        if self._loop is not None:
            # A loop that was closed before the channel raises here, and watches nothing any more.
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
            self._loop = None

    def _free(self) -> None:
        self._unwatch()
        self._unregister()
        self._release()


class DescriptorSink(Sink):
    """Writes to a descriptor at once, and buffers the rest until the event loop reports that it is writable.

    ``send`` and ``gather`` write one piece or several, and return the number of bytes taken; by default ``os.write`` and
    ``os.writev``. ``shut`` half-closes without closing the descriptor (a socket); without it, half-closing closes it (a pipe).
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
        water: tuple[int, int] = WATER,
    ) -> None:
        super().__init__(description, fd, water=water)
        self._fd = fd
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
                self.fail(error)
                self._refuse()
            if taken == len(data):
                return
        # A view, so that a 64 MiB line is not copied when it is sent in a thousand pieces. It needs immutable bytes.
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
    def is_reader_gone(self) -> bool:
        is_gone = False
        if sys.platform != "win32" and self._release is not None:  # a pipe on Windows cannot be polled
            poll = select.poll()
            poll.register(self._fd, 0)  # a closed pipe and a socket that the peer has closed are always reported
            is_gone = bool(poll.poll(0))
        return is_gone

    @property
    def unread(self) -> int | None:
        if sys.platform == "linux" and self._shut is None and self._release is not None:
            from fcntl import ioctl  # needed at most once per channel; not available on Windows
            from termios import FIONREAD  # likewise

            with suppress(OSError):
                return self.buffered + int.from_bytes(ioctl(self._fd, FIONREAD, bytes(4)), sys.byteorder)
        return None

    def _writable(self) -> None:
        pending = self._pending
        try:
            taken = self._send(pending[0]) if len(pending) == 1 else self._gather(self._batch())
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(error)
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
        # If the connection is broken already, the peer needs no EOF, and a reader gets the error.
        with suppress(OSError):
            self._shut()

    def _free(self) -> None:
        self._unregister()
        release, self._release = self._release, None
        if release is not None:
            release()
