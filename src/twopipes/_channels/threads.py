"""A source and a sink for descriptors that an event loop cannot watch, or that must stay blocking: a daemon thread blocks.

Regular files, terminals, character devices, and everything on Windows. The thread does one thing at a time: it reads only on
request and writes what it is given, so it never reads ahead, and it holds no lock that the loop waits for.

A thread in a blocking read or write cannot be woken, except over a socket. :meth:`Channel.close` does not wait for it: it returns
at once, and the thread closes its descriptor and ends as soon as that one call returns. Bytes that it still reads are dropped.
Being a daemon, it never keeps the process alive.
"""

from __future__ import annotations

import asyncio
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from twopipes._channels.base import READ_SIZE
from twopipes._channels.halves import WATER, Sink, Source

# Bytes per blocking write. After close() the thread stops at the end of a piece, and ``buffered`` decreases by pieces.
WRITE_SIZE = 64 * 1024
# Seconds to wait for a thread that is about to end. It normally takes microseconds.
JOIN_TIMEOUT = 1.0


def _wait_until_ready(fd: int, *, writable: bool) -> None:
    # A blocking descriptor raises BlockingIOError if another process that shares it (a shell, a host written in Node) has made it
    # non-blocking. This thread may wait as long as necessary.
    if sys.platform != "win32":
        poll = select.poll()
        poll.register(fd, select.POLLOUT if writable else select.POLLIN)
        poll.poll()


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], argument: object) -> bool:
    """Run ``callback(argument)`` in the loop. Return False if the loop is closed."""
    try:
        loop.call_soon_threadsafe(callback, argument)
    except RuntimeError:
        return False
    return True


class _Worker:
    """The daemon thread of a half, started when it is first used, and the queue of its orders. ``None`` ends it."""

    def __init__(self, name: str, serve: Callable[[asyncio.AbstractEventLoop], None], wake: Callable[[], None] | None) -> None:
        self.orders: SimpleQueue[bytes | None] = SimpleQueue()
        self._name = name
        self._serve = serve
        self._wake = wake
        self._thread: threading.Thread | None = None

    def put(self, order: bytes) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, args=(asyncio.get_running_loop(),), name=self._name, daemon=True)
            self._thread.start()
        self.orders.put(order)

    def stop(self, *, is_blocked: bool) -> bool:
        """End the thread, and wait for it if it is or can be woken. Return False if there is no thread."""
        if self._thread is None:
            return False
        self.orders.put(None)
        if is_blocked and self._wake is not None:
            self._wake()
        if not is_blocked or self._wake is not None:
            self._thread.join(JOIN_TIMEOUT)
        return True


class ThreadSource(Source):
    """Reads in a daemon thread, one chunk per request.

    ``receive`` blocks until there is a byte. ``release`` is called once at the end, by the thread if there is one, and closes the
    descriptor. ``wake`` makes a blocked ``receive`` return (a socket's shutdown), if that is possible.
    """

    def __init__(
        self,
        description: str,
        fd: int,
        *,
        receive: Callable[[int], bytes],
        release: Callable[[], None],
        wake: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(description, fd)
        self._fd = fd
        self._receive = receive
        self._release = release
        self._worker = _Worker(f"twopipes reader of {description}", self._serve_requests, wake)
        # The thread has a request that the loop has not seen the result of.
        self._is_requested = False

    def _ask(self) -> bool:
        # A cancelled read leaves its request open, and the result serves the next read.
        if not self._is_requested:
            self._is_requested = True
            self._worker.put(b"")
        return False

    def _serve_requests(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self._worker.orders.get() is not None:
                try:
                    result: bytes | OSError = self._receive_blocking()
                except OSError as error:
                    result = error
                if not _post(loop, self._received, result):
                    break
        finally:
            self._release()

    def _receive_blocking(self) -> bytes:
        while True:
            try:
                return self._receive(READ_SIZE)
            except BlockingIOError:
                _wait_until_ready(self._fd, writable=False)

    def _received(self, result: bytes | OSError) -> None:
        self._is_requested = False
        if isinstance(result, OSError):
            self.fail(result)
        else:
            self._deliver(result)

    def _free(self) -> None:
        self._unregister()
        if not self._worker.stop(is_blocked=self._is_requested):
            self._release()


class ThreadSink(Sink):
    """Writes in a daemon thread, in order.

    ``send`` blocks until some bytes were taken, and returns their number. ``shut`` half-closes (a socket's shutdown) before the
    release; without it, releasing half-closes. The other arguments are those of a :class:`ThreadSource`.
    """

    def __init__(
        self,
        description: str,
        fd: int,
        *,
        send: Callable[[memoryview], int],
        release: Callable[[], None],
        shut: Callable[[], None] | None = None,
        wake: Callable[[], None] | None = None,
        water: tuple[int, int] = WATER,
    ) -> None:
        super().__init__(description, fd, water=water)
        self._fd = fd
        self._send = send
        self._release: Callable[[], None] | None = release
        self._shut = shut
        self._worker = _Worker(f"twopipes writer of {description}", self._send_pieces, wake)
        # Set by the loop and read by the thread: drop what is still queued.
        self._abandoned = False
        # The thread was in a write, or about to be, when it was asked to stop.
        self._interrupted = False

    def write(self, data: bytes) -> None:
        if not self._open:
            self._refuse()
        if data:
            self._keep(len(data))
            self._worker.put(data if type(data) is bytes else bytes(data))

    def _send_pieces(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while (piece := self._worker.orders.get()) is not None:
                view = memoryview(piece)
                while view and not self._abandoned:
                    try:
                        taken = self._send(view[:WRITE_SIZE])
                    except BlockingIOError:
                        _wait_until_ready(self._fd, writable=True)
                        continue
                    view = view[taken:]
                    if not _post(loop, self._sent, taken):
                        return
        except OSError as error:
            _post(loop, self.fail, error)
        finally:
            self._end()

    def _sent(self, size: int) -> None:
        # After close or a failure nothing is buffered, and a late report must not make the number negative.
        if not self._closed and self._failure is None:
            self._taken(size)

    def _end(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    def _forget(self) -> None:
        self._interrupted = self.buffered > 0
        self._abandoned = True

    def _half_close(self) -> None:
        if self._shut is not None:
            with suppress(OSError):
                self._shut()
        self._free()

    def _free(self) -> None:
        self._unregister()
        if not self._worker.stop(is_blocked=self._interrupted):
            self._end()
