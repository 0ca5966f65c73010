"""Threads for handlers that block, so that they do not delay the event loop.

Not ``concurrent.futures``: the interpreter waits for its threads at exit, so a tool that never returns would keep the process
alive. These are daemon threads, started when needed and kept for the next call.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from twopipes._channels.fork import this_process
from twopipes._server.forked_child import exit_child

# Permits of a thread: to take the oldest job, or to end.
_TAKE_A_JOB, _END = True, False

Job = tuple["_Outbox", contextvars.Context, Callable[[], Any]]


class _Outbox:
    """The outcomes for one event loop. Waking a loop costs a system call, so several outcomes share one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._done: deque[tuple[Callable[[asyncio.Future[Any], Any], None], asyncio.Future[Any], Any]] = deque()
        self._is_woken = False

    def put(self, outcome: Callable[[asyncio.Future[Any], Any], None], future: asyncio.Future[Any], value: Any) -> None:
        """Hand an outcome over, from any thread."""
        self._done.append((outcome, future, value))
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed, so there is no caller left
                self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # Cleared first: an outcome that is added from now on either wakes the loop again or is taken below.
        self._is_woken = False
        while self._done:
            outcome, future, value = self._done.popleft()
            outcome(future, value)


class _Crew:
    """Threads that end together, and the jobs that wait for them, in order.

    A thread waits for a permit and then takes the oldest job. The jobs are not in the queue of permits itself, because a job whose
    call was cancelled must leave at once. When a crew ends, a permit to end follows for each thread.
    """

    def __init__(self) -> None:
        self.permits: SimpleQueue[bool] = SimpleQueue()
        self.waiting: OrderedDict[asyncio.Future[Any], Job] = OrderedDict()
        self.threads = 0
        self.free = 0
        self.is_leaving = False


class Workers:
    """At most ``limit`` threads that run functions for an event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._outbox: _Outbox | None = None
        self._reset()

    def _reset(self) -> None:
        self._process = this_process()
        self._lock = threading.Lock()
        self._crew = _Crew()
        # Functions that run or wait, in any crew.
        self._busy = 0

    @property
    def threads(self) -> int:
        """How many threads exist for new functions, busy or not."""
        return self._crew.threads

    @property
    def busy(self) -> int:
        """How many functions run or wait for a thread."""
        with self._lock:
            return self._busy

    async def run(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread, with the context variables of the caller.

        If it is cancelled, a function that waits for a thread is dropped, and one that runs goes on unobserved.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        outbox = self._outbox
        if outbox is None or outbox.loop is not loop:
            outbox = self._outbox = _Outbox(loop)
        if self._process.is_forked:
            self._reset()  # a fork has no copy of the threads, and one of them may have held the lock
        with self._lock:
            crew = self._crew
            crew.waiting[future] = (outbox, contextvars.copy_context(), function)
            self._busy += 1
            start = crew.free < len(crew.waiting) and crew.threads < self._limit
            if start:
                crew.threads += 1
                crew.free += 1
            crew.permits.put(_TAKE_A_JOB)
        try:
            if start:
                self._start_a_thread(crew)
            return await future
        except (asyncio.CancelledError, RuntimeError):
            # The call was cancelled, or no thread can be started; or the function itself raised one of these.
            self._drop(crew, future)
            raise

    def _start_a_thread(self, crew: _Crew) -> None:
        try:
            threading.Thread(target=self._work, args=(crew,), name="twopipes worker", daemon=True).start()
        except RuntimeError:
            with self._lock:
                crew.threads -= 1
                crew.free -= 1
                if crew.threads:
                    return  # the system allows no more threads; the existing ones will take the job
            raise

    def _drop(self, crew: _Crew, future: asyncio.Future[Any]) -> None:
        with self._lock:
            if crew.waiting.pop(future, None) is None:
                return
            self._busy -= 1
            if not crew.is_leaving:  # the permits are then followed by the signals to end, which must all arrive
                with suppress(Empty):  # a thread has taken the permit; it finds no job and waits for the next one
                    crew.permits.get_nowait()

    def rest(self) -> None:
        """Let every thread end after its jobs. New functions get another crew, so that they do not wait for these."""
        with self._lock:
            self._crew.is_leaving = True
            for _ in range(self._crew.threads):
                self._crew.permits.put(_END)
            self._crew = _Crew()

    def _work(self, crew: _Crew) -> None:
        process = self._process
        while crew.permits.get() is _TAKE_A_JOB:
            with self._lock:
                if not crew.waiting:
                    continue
                future, (outbox, context, function) = crew.waiting.popitem(last=False)
                crew.free -= 1
            outcome: Callable[[asyncio.Future[Any], Any], None] = _give
            try:
                value = context.run(function)
            except BaseException as error:
                outcome, value = _throw, error
            if process.is_forked:
                exit_child(value if outcome is _throw else None)
            # Before the outcome is delivered, so that a caller with the last outcome sees no busy thread.
            with self._lock:
                self._busy -= 1
                crew.free += 1
            outbox.put(outcome, future, value)
            outbox = future = context = function = outcome = value = None  # type: ignore[assignment]


def _give(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _throw(future: asyncio.Future[Any], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, (StopIteration, GeneratorExit)):
        # Neither can be raised in the waiting coroutine: a future refuses StopIteration, and GeneratorExit would close it.
        reason = RuntimeError(f"the handler raised {type(error).__name__}")
        reason.__cause__ = error
        error = reason
    future.set_exception(error)
