"""Threads for handlers that block, so that a sleeping one delays nobody.

Not ``concurrent.futures``: its threads are waited for when the interpreter exits, and a tool that never returns would hold the
process for ever. These are daemon threads, started when needed and kept for the next call.
"""

from __future__ import annotations

import contextvars
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from twopipes._channels.fork import this_process
from twopipes._server.forked_child import exit_child

if TYPE_CHECKING:
    import asyncio

__all__ = ["Workers"]

# Permits of a thread: to take the oldest job, or to end.
_TAKE_A_JOB, _END = True, False

Job = tuple["_Outbox", contextvars.Context, Callable[[], Any]]


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


class _Crew:
    """Threads that end together, and the jobs that wait for them, in order.

    A thread waits for a permit and then takes the oldest job. The jobs are not in the queue of permits itself, because a job
    whose call was cancelled must leave at once.

    Attributes:
        permits: One for each waiting job, then one for each thread that is to end.
        waiting: Jobs by the future of their caller.
        threads: How many threads there are, busy or not.
        free: How many of them are not running a job.
        is_leaving: Whether the threads end once no job waits.
    """

    def __init__(self) -> None:
        self.permits: SimpleQueue[bool] = SimpleQueue()
        self.waiting: OrderedDict[asyncio.Future[Any], Job] = OrderedDict()
        self.threads = 0
        self.free = 0
        self.is_leaving = False


class Workers:
    """A bounded number of threads that run functions for an event loop.

    Args:
        limit: How many threads at most; further functions wait their turn.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._outbox: _Outbox | None = None
        self._start_over()

    def _start_over(self) -> None:
        self._process = this_process()
        self._lock = threading.Lock()
        self._crew = _Crew()
        # Functions under way or waiting, whichever threads they are with.
        self._busy = 0

    @property
    def threads(self) -> int:
        """How many threads there are now for what comes, busy or not."""
        return self._crew.threads

    @property
    def busy(self) -> int:
        """How many functions are under way or wait for a thread."""
        with self._lock:
            return self._busy

    async def run(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread, with the context variables of the caller.

        Cancelling is safe: a function that waits for a thread is dropped, with its arguments, and one that runs goes on
        unwatched, since no thread can be stopped.
        """
        from asyncio import CancelledError, get_running_loop  # noqa: PLC0415 - this file is read before there is a loop

        loop = get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        outbox = self._outbox
        if outbox is None or outbox.loop is not loop:
            outbox = self._outbox = _Outbox(loop)
        if self._process.is_forked:
            self._start_over()  # the threads have stayed behind, and one of them may hold the lock
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
        except (CancelledError, RuntimeError):
            # Not only the function may raise these: a call is cancelled, or no thread can be started.
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
                    return  # the system has no room for one more; the others will come round
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
        """Let every thread end after what it has to do; the next function starts a new one.

        From here on there is another crew: a function that comes now must neither be left to a thread that is about to end,
        nor wait for one that never returns.
        """
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
            # Before anybody hears of it: whoever has the last answer finds nobody at work.
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
        # Neither can be thrown into the coroutine that waits: a future refuses the one, and the other would close the coroutine.
        reason = RuntimeError(f"the handler raised {type(error).__name__}")
        reason.__cause__ = error
        error = reason
    future.set_exception(error)
