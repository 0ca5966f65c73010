"""How a server ends: once, for a reason, politely, and for sure."""

from __future__ import annotations

import _thread
import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

__all__ = ["GRACE", "Ending", "LastResort", "ended_by_signals", "finished_in_time"]

# Seconds for what comes after the handlers: the lifespan's end, the last write.
GRACE: Final = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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


async def finished_in_time(work: Coroutine[Any, Any, object], ending: Ending | None, seconds: float) -> None:
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
    """

    def __init__(self, *before: Callable[[], object]) -> None:
        self._called_off = threading.Event()
        self._before = before

    def arm(self, seconds: float, status: int = 0) -> None:
        """From now on there are so many seconds left. The earliest deadline counts. Signal handlers may call it."""

        def end() -> None:
            if not self._called_off.wait(seconds):
                for step in self._before:
                    with suppress(Exception):
                        step()
                os._exit(status)

        # Not threading.Thread: whoever is interrupted by a signal may be starting a thread, and would hold the lock for it.
        _thread.start_new_thread(end, ())

    def call_off(self) -> None:
        """Everything has ended properly."""
        self._called_off.set()

    def call_off_until_exit(self, seconds: float) -> None:
        """The same, but when the program comes to its end, threads that the interpreter would wait for get so many seconds.

        A thread pool of a tool is joined there, before anything else that runs at exit.
        """
        self.call_off()
        exiting = LastResort(*self._before)
        with suppress(AttributeError, RuntimeError):  # not a public function; without it, things are as everywhere
            threading._register_atexit(exiting.arm, seconds)  # type: ignore[attr-defined]  # noqa: SLF001


@contextmanager
def ended_by_signals(ending: Ending, last_resort: LastResort, seconds: float) -> Generator[None, None, None]:
    """While this lasts, the first SIGINT or SIGTERM begins the end, and the second one is the end.

    Not the event loop's own handlers: they wait for their turn, and a coroutine that blocks the loop would not give them one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread; whoever runs a server elsewhere has plans of their own
        return
    seen = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        seen = True
        # The next one is the system's to handle: it ends a process whose main thread does not come round to do anything,
        # and it shows no traceback while the interpreter ends. So nothing is put back, either.
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        last_resort.arm(seconds)
        ending.begin_by_signal()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        if not seen:
            for number, previous in before.items():
                signal.signal(number, previous)
