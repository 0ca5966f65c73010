"""Threads for handlers that block, so that a sleeping one delays nobody.

Not ``concurrent.futures``: its threads are waited for when the interpreter exits, and a tool that never returns would hold the
process for ever. These are daemon threads, started when needed and kept for the next call.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

__all__ = ["Workers"]

Job = tuple["_Outbox", "asyncio.Future[Any]", contextvars.Context, Callable[[], Any]]


class _Outbox:
    """What the threads have done for one event loop. To wake a loop costs a system call, so what is done meanwhile goes along."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._done: deque[tuple[Callable[[asyncio.Future[Any], Any], None], asyncio.Future[Any], Any]] = deque()
        self._is_told = False

    def put(self, outcome: Callable[[asyncio.Future[Any], Any], None], future: asyncio.Future[Any], value: Any) -> None:
        """Hands an outcome over, from any thread."""
        self._done.append((outcome, future, value))
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the loop is closed; nobody waits any more
                self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # The flag goes first: whatever is put in after this moment is told of again, or taken along below.
        self._is_told = False
        while self._done:
            outcome, future, value = self._done.popleft()
            outcome(future, value)


class Workers:
    """A bounded number of threads that run functions for an event loop.

    Args:
        limit: How many threads at most; further functions wait their turn.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._free = 0
        # Functions under way or waiting, whichever threads they are with.
        self._busy = 0
        self._outbox: _Outbox | None = None

    @property
    def threads(self) -> int:
        """How many threads there are now for what comes, busy or not."""
        return self._threads

    @property
    def busy(self) -> int:
        """How many functions are under way or wait for a thread."""
        with self._lock:
            return self._busy

    async def run(self, function: Callable[[], Any]) -> Any:
        """Runs a function in a thread, with the context variables of the caller.

        Cancelling is safe: what has not started never will, and what runs goes on unwatched, since no thread can be stopped.
        """
        from asyncio import get_running_loop  # noqa: PLC0415 - this file is read before there is a loop

        loop = get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        outbox = self._outbox
        if outbox is None or outbox.loop is not loop:
            outbox = self._outbox = _Outbox(loop)
        with self._lock:
            jobs = self._jobs
            jobs.put((outbox, future, contextvars.copy_context(), function))
            self._busy += 1
            # Free threads less waiting jobs: below zero only when there are as many threads as there may be.
            start = self._free <= 0 and self._threads < self._limit
            if start:
                self._threads += 1
            else:
                self._free -= 1
        if start:
            threading.Thread(target=self._work, args=(jobs,), name="twopipes worker", daemon=True).start()
        return await future

    def rest(self) -> None:
        """Lets every thread end after what it has to do; the next function starts a new one.

        From here on there is another queue: a function that comes now must neither be left to a thread that is about to end,
        nor wait for one that never returns.
        """
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)
            self._jobs = SimpleQueue()
            self._threads = self._free = 0

    def _work(self, jobs: SimpleQueue[Job | None]) -> None:
        while (job := jobs.get()) is not None:
            outbox, future, context, function = job
            outcome: Callable[[asyncio.Future[Any], Any], None] | None = None
            value = None
            if not future.cancelled():
                outcome = _give
                try:
                    value = context.run(function)
                except BaseException as error:  # noqa: BLE001 - it belongs to the caller, whatever it is
                    outcome, value = _throw, error
            # Before anybody hears of it: whoever has the last answer finds nobody at work.
            with self._lock:
                self._busy -= 1
                if jobs is self._jobs:
                    self._free += 1
            if outcome is not None:
                outbox.put(outcome, future, value)
            job = outbox = future = context = function = outcome = value = None  # type: ignore[assignment]


def _give(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _throw(future: asyncio.Future[Any], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):  # a future refuses it
        error = RuntimeError("the handler raised StopIteration")
    future.set_exception(error)
