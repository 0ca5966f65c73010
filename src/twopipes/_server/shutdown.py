"""How a server ends: once, for a reason, politely, and for sure."""

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

__all__ = ["GRACE", "Ending", "LastResort", "ended_by_signals", "finish_in_time"]

# Seconds for what comes after the handlers: the lifespan's end, the last write.
GRACE: Final = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# What Python does with them unless a program says otherwise.
_DEFAULTS: Final[dict[signal.Signals, Any]] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
# Seconds between two calls of what is done while a server ends.
_TICK: Final = 0.05


class Ending:
    """The wish to end, from wherever it comes: a signal, the death of the parent, the author's code.

    Attributes:
        by_signal: Somebody sent a signal, and will not wait long.
    """

    def __init__(self) -> None:
        self.by_signal = False
        self._begun = asyncio.Event()
        self._signalled = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def begin(self, *, by_signal: bool = False) -> None:
        """Begins to end."""
        if by_signal:
            self.by_signal = True
            self._signalled.set()
        self._begun.set()

    def begin_by_signal(self) -> None:
        """Begins to end, out of a signal handler."""
        with suppress(RuntimeError):  # the loop is closed, so the end has come already
            self._loop.call_soon_threadsafe(lambda: self.begin(by_signal=True))

    async def wait(self) -> None:
        """Waits until it begins."""
        await self._begun.wait()

    async def wait_for_signal(self) -> None:
        """Waits until somebody is in a hurry."""
        await self._signalled.wait()


async def finish_in_time(work: Coroutine[Any, Any, object], ending: Ending | None, seconds: float) -> None:
    """Waits for the last work, which has a limit of its own; from a signal on, for so many seconds at the most.

    A host that closes the input and then sends a signal waits for the input's end no longer.
    """
    if ending is None:
        await work
        return
    working, signalled = asyncio.create_task(work), asyncio.create_task(ending.wait_for_signal())
    try:
        await asyncio.wait({working, signalled}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({working}, timeout=seconds)
    finally:
        for task in (working, signalled):
            task.cancel()
        await asyncio.gather(working, signalled, return_exceptions=True)


class LastResort:
    """Ends the process at a deadline, whatever still runs: a tool that never returns must not hold it.

    A thread, because the event loop may be what does not come round.

    Args:
        before: Called before the end, one after the other: children are ended, and what people should see is not lost.
        meanwhile: Called every 50 ms from the moment it is armed: the host may kill the process before the deadline.
    """

    def __init__(self, *before: Callable[[], object], meanwhile: Callable[[], object]) -> None:
        self._called_off = threading.Event()
        self._before = before
        self._meanwhile = meanwhile

    def arm(self, seconds: float, status: int = 0) -> None:
        """From now on there are so many seconds left. The earliest deadline counts. Signal handlers may call it."""
        # Not threading.Thread: whoever is interrupted by a signal may be starting a thread, and would hold the lock for it.
        _thread.start_new_thread(self.end_after, (seconds, status))

    def end_after(self, seconds: float, status: int = 0) -> None:
        """Wait, and end the process unless it is called off. For a thread of its own."""
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
        """Everything has ended properly."""
        self._called_off.set()

    def call_off_until_exit(self, seconds: float) -> None:
        """The same, but when the program comes to its end, threads that the interpreter would wait for get so many seconds.

        A thread pool of a tool is joined there, before anything else that runs at exit.
        """
        self.call_off()
        exiting = threading.Event()

        def end() -> None:
            exiting.wait()
            LastResort(*self._before, meanwhile=self._meanwhile).end_after(seconds)

        with suppress(AttributeError, RuntimeError):  # not a public function; without it, things are as everywhere
            threading._register_atexit(exiting.set)  # type: ignore[attr-defined]
            # Started now, because Python 3.12 starts no thread once the interpreter has begun to end.
            _thread.start_new_thread(end, ())


@contextmanager
def ended_by_signals(ending: Ending, last_resort: LastResort, seconds: float) -> Generator[None, None, None]:
    """While this lasts, the first SIGINT or SIGTERM begins the end, and the same one again is the end.

    Another one changes nothing: a host may send SIGINT, a moment later SIGTERM and at last SIGKILL (Claude Code does), and what
    there is to be tidied up has the time until then. A person who sends the same one twice is in a hurry.

    Not the event loop's own handlers: they wait for their turn, and a coroutine that blocks the loop would not give them one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread; whoever runs a server elsewhere has plans of their own
        return
    seen = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        # The next one is the system's to handle: it ends a process whose main thread does not come round to do anything,
        # and it shows no traceback while the interpreter ends. So nothing is put back, either.
        signal.signal(number, signal.SIG_DFL)
        if not seen:
            seen = True
            last_resort.arm(seconds)
            ending.begin_by_signal()

    def put_back_defaults() -> None:
        # A process that a tool has forked ends by a signal, as any other: the server's way to end is not its own.
        for number, default in _DEFAULTS.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, default)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    no_longer = in_forked_children(put_back_defaults)
    try:
        yield
    finally:
        no_longer()
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
