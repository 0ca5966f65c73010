"""The end of a server: by signals, with time for running handlers, and with a deadline that always holds."""

from __future__ import annotations

import _thread
import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

from twopipes._channels.fork import in_forked_children

# Seconds for what follows the handlers: the end of the lifespan, the last write.
GRACE: Final = 1.0
# What Python does with them by default.
_DEFAULTS: Final[dict[signal.Signals, Any]] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
if sys.platform == "win32":
    _DEFAULTS[signal.SIGBREAK] = signal.SIG_DFL  # a Ctrl-Break: how a host on Windows asks its children to exit
_SIGNALS = tuple(_DEFAULTS)
# Seconds between two calls of ``meanwhile`` while a server ends.
_TICK: Final = 0.05


class Ending:
    """A request to end: by a signal, whose sender does not wait long, the death of the parent process, or the author's code."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.signalled = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def begin_by_signal(self) -> None:
        """Begin to end. For signal handlers."""
        with suppress(RuntimeError):  # the loop is closed, so the server has ended
            self._loop.call_soon_threadsafe(self.signalled.set)
            self._loop.call_soon_threadsafe(self.begun.set)


async def finish_in_time(work: Coroutine[Any, Any, object], ending: Ending | None, seconds: float) -> None:
    """Wait for the last work, which has its own time limit; after a signal, at most ``seconds`` more."""
    if ending is None:
        await work
        return
    working, signalled = asyncio.create_task(work), asyncio.create_task(ending.signalled.wait())
    try:
        await asyncio.wait({working, signalled}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({working}, timeout=seconds)
    finally:
        for task in (working, signalled):
            task.cancel()
        await asyncio.gather(working, signalled, return_exceptions=True)


class LastResort:
    """Ends the process at a deadline, in a thread, whatever still runs: a tool that never returns must not keep it alive.

    Args:
        before: Called in order before the end, to end children and to write the rest of the log.
        meanwhile: Called every 50 ms once it is armed, because the host may kill the process before the deadline.
    """

    def __init__(self, *before: Callable[[], object], meanwhile: Callable[[], object]) -> None:
        self._called_off = threading.Event()
        self._before = before
        self._meanwhile = meanwhile

    def arm(self, seconds: float, status: int = 0) -> None:
        """End the process in so many seconds. The earliest deadline counts. Signal handlers may call it."""
        # Not threading.Thread: the signal may have interrupted the start of a thread, which holds a lock.
        _thread.start_new_thread(self.end_after, (seconds, status))

    def end_after(self, seconds: float, status: int = 0) -> None:
        """Wait, and end the process unless it is called off. Runs in a thread of its own."""
        deadline = time.monotonic() + seconds
        while not self._called_off.is_set() and (left := deadline - time.monotonic()) > 0:
            with suppress(Exception):
                self._meanwhile()
            self._called_off.wait(min(left, _TICK))
        if self._called_off.is_set():
            return
        for step in self._before:
            with suppress(Exception):
                step()
        os._exit(status)

    def call_off(self) -> None:
        """Cancel it: everything has ended properly."""
        self._called_off.set()

    def call_off_until_exit(self, seconds: float) -> None:
        """Cancel it, and give the threads of a tool's thread pool so many seconds when the interpreter exits."""
        self.call_off()
        exiting = threading.Event()

        def end() -> None:
            exiting.wait()
            LastResort(*self._before, meanwhile=self._meanwhile).end_after(seconds)

        with suppress(AttributeError, RuntimeError):  # not a public function; without it, the interpreter waits as in every program
            threading._register_atexit(exiting.set)  # type: ignore[attr-defined]
            # Started now, because Python 3.12 starts no thread while the interpreter exits.
            _thread.start_new_thread(end, ())


@contextmanager
def ended_by_signals(ending: Ending, last_resort: LastResort, seconds: float) -> Generator[None, None, None]:
    """Let the first SIGINT or SIGTERM begin the end, and a second one of the same kind end the process at once.

    A signal of the other kind changes nothing: a host may send SIGINT, then SIGTERM and at last SIGKILL (Claude Code does), and
    clean-up has the time until then. A person who sends the same signal twice is in a hurry.

    Not the event loop's own handlers: they run in the loop, and a coroutine may block it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals; a program that serves in another thread handles them itself
        return
    seen = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        # The default action for the next one ends a process even if its main thread is blocked, and shows no traceback while the
        # interpreter exits. For the same reason the previous handlers are not restored after a signal.
        signal.signal(number, signal.SIG_DFL)
        if not seen:
            seen = True
            last_resort.arm(seconds)
            ending.begin_by_signal()

    def put_back_defaults() -> None:
        # A process that a tool has forked must end by a signal as any other process does.
        for number, default in _DEFAULTS.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, default)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    remove_hook = in_forked_children(put_back_defaults)
    try:
        yield
    finally:
        remove_hook()
        if not seen:
            for number, previous in before.items():
                signal.signal(number, previous)


if sys.platform != "win32":
    _held: dict[int, set[signal.Signals | int]] = {}

    def _hold_signals() -> None:
        _held[_thread.get_ident()] = set(signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS))

    def _let_signals_through() -> None:
        mask = _held.pop(_thread.get_ident(), None)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    # A program may send a signal to a child as soon as it is forked (Process.terminate). The signal stays pending until the child
    # has its own handlers, because Python drops one that arrives for the inherited handler.
    os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals_through, after_in_child=_let_signals_through)
