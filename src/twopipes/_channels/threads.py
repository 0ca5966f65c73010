"""The halves for what an event loop cannot watch, or must not switch to non-blocking: a daemon thread that blocks.

Regular files, terminals, character devices, and everything on Windows. The thread does one thing at a time: it reads only what
was asked for and writes what was handed to it, so it never reads ahead, and it holds no lock that the loop waits for.

A thread inside a blocking read or write cannot be woken, except over a socket. :meth:`Channel.close` does not wait for it: it
returns at once, and the thread ends, and gives up its descriptor, as soon as that one call returns. Bytes that it still
brought are dropped. Being a daemon, it never keeps the process alive.
"""

from __future__ import annotations

import asyncio
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from twopipes._channels.base import HIGH_WATER, LOW_WATER, READ_SIZE
from twopipes._channels.halves import Sink, Source

__all__ = ["ThreadSink", "ThreadSource"]

# Bytes handed to one blocking write. After close() the thread stops at the end of the piece, and buffered goes down by pieces.
WRITE_SIZE = 64 * 1024
# Seconds to wait for a thread that is known to have nothing left to do but end. It takes microseconds; this is a net.
ENDING = 1.0


def _wait_until_ready(fd: int, *, writable: bool) -> None:
    # A blocking descriptor says "try again" when another process that shares it (a shell, a host written in Node) made it
    # non-blocking behind our back. This thread may wait as long as it takes.
    if sys.platform != "win32":
        poll = select.poll()
        poll.register(fd, select.POLLOUT if writable else select.POLLIN)
        poll.poll()


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], argument: object) -> bool:
    """Run ``callback(argument)`` in the loop; False when the loop is closed, and with it everyone who could care."""
    try:
        loop.call_soon_threadsafe(callback, argument)
    except RuntimeError:
        return False
    return True


class ThreadSource(Source):
    """Reads in a daemon thread, one chunk each time that one is asked for.

    Args:
        description: For error messages and the name of the thread.
        fd: The descriptor to read.
        receive: Takes the most bytes to read, and blocks until there is one.
        release: Called once at the end, by the thread if there is one; closes the descriptor.
        wake: Makes a blocked ``receive`` return (a socket's shutdown), where that is possible.
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
        super().__init__(description)
        self._fd = fd
        self._hold(fd)
        self._receive = receive
        self._release = release
        self._interrupt = wake
        self._thread: threading.Thread | None = None
        self._questions: SimpleQueue[bool] = SimpleQueue()
        # A question is open: asked, and its answer not yet seen by the loop.
        self._asked = False

    def _ask(self) -> bool:
        # A read that was cancelled leaves its question open, and the answer serves the next one.
        if not self._asked:
            self._asked = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._answer_questions,
                    args=(asyncio.get_running_loop(),),
                    name=f"twopipes reader of {self._description}",
                    daemon=True,
                )
                self._thread.start()
            self._questions.put(True)
        return False

    def _answer_questions(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self._questions.get():
                try:
                    answer: bytes | OSError = self._receive_patiently()
                except OSError as error:
                    answer = error
                if not _post(loop, self._answered, answer):
                    break
        finally:
            self._release()

    def _receive_patiently(self) -> bytes:
        while True:
            try:
                return self._receive(READ_SIZE)
            except BlockingIOError:
                _wait_until_ready(self._fd, writable=False)

    def _answered(self, answer: bytes | OSError) -> None:
        self._asked = False
        if isinstance(answer, OSError):
            self._fail(answer)
        else:
            self._deliver(answer)

    def _free(self) -> None:
        self._let_go()
        if self._thread is None:
            self._release()
            return
        self._questions.put(False)
        if self._asked and self._interrupt is not None:
            self._interrupt()
        if not self._asked or self._interrupt is not None:
            self._thread.join(ENDING)


class ThreadSink(Sink):
    """Writes in a daemon thread, in the order in which it was given the pieces.

    Args:
        description: For error messages and the name of the thread.
        fd: The descriptor to write to.
        send: Takes one piece, blocks until some of it was taken, returns how many bytes that was.
        release: Called once at the end, by the thread if there is one; closes the descriptor.
        shut: Half-closes (a socket's shutdown) before the release; without it, releasing is half-closing.
        wake: Makes a blocked ``send`` return (a socket's shutdown of both directions), where that is possible.
        high_water: Bytes. See :data:`twopipes._channels.base.HIGH_WATER`.
        low_water: Bytes. See :data:`twopipes._channels.base.LOW_WATER`.
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
        high_water: int = HIGH_WATER,
        low_water: int = LOW_WATER,
    ) -> None:
        super().__init__(description, high_water=high_water, low_water=low_water)
        self._fd = fd
        self._hold(fd)
        self._send = send
        self._release: Callable[[], None] | None = release
        self._shut = shut
        self._interrupt = wake
        self._thread: threading.Thread | None = None
        self._pieces: SimpleQueue[bytes | None] = SimpleQueue()
        # Read by the thread, set by the loop: what is still queued is not wanted any more.
        self._abandoned = False
        # The thread was inside a write, or about to be, when it was told to stop.
        self._interrupted = False

    def write(self, data: bytes) -> None:
        """Accept all of ``data``; see :meth:`Channel.write`."""
        if not self._open:
            self._refuse()
        if not data:
            return
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._send_pieces,
                args=(asyncio.get_running_loop(),),
                name=f"twopipes writer of {self._description}",
                daemon=True,
            )
            self._thread.start()
        self._keep(len(data))
        self._pieces.put(data if type(data) is bytes else bytes(data))

    def _send_pieces(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while (piece := self._pieces.get()) is not None:
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
            _post(loop, self._fail, error)
        finally:
            self._end()

    def _sent(self, size: int) -> None:
        # After close or a failure nothing is buffered, and a late report must not make it less than nothing.
        if not self._closed and self._failure is None:
            self._taken(size)

    def _end(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    def _forget(self) -> None:
        self._interrupted = self._buffered > 0
        self._abandoned = True

    def _half_close(self) -> None:
        if self._shut is not None:
            with suppress(OSError):
                self._shut()
        self._free()

    def _free(self) -> None:
        self._let_go()
        if self._thread is None:
            self._end()
            return
        self._pieces.put(None)
        if self._interrupted and self._interrupt is not None:
            self._interrupt()
        if not self._interrupted or self._interrupt is not None:
            self._thread.join(ENDING)
