"""One event loop in one thread, for all blocking clients of the process. It starts with the first and ends with the last of them.

One, because a hundred clients need no hundred threads. What a caller waits for is an job: the loop runs it, and the caller waits
for its outcome and for nothing else. However the loop ends, every job has an outcome, so nobody waits for ever.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from twopipes._blocking.callbacks import Progress, Report, patience
from twopipes._process.shutdown import ShutdownPlan, Wait
from twopipes.errors import ClientClosed, LocalProtocolError

__all__ = ["ClientShare", "LoopThread"]

T = TypeVar("T")

# Seconds between two looks at Ctrl-C where waiting cannot be interrupted by it.
_LOOK: float | None = 0.1 if sys.platform == "win32" else None
# Seconds that everything beyond the waits of a shutdown plan may take when the interpreter exits: it takes milliseconds, unless a
# coroutine of the user blocks the loop. Then the children are killed without it.
_NET = 3.0


class Job(Generic[T]):
    """Something that the loop does while a thread waits for it.

    Args:
        run: Makes the coroutine, in the loop.
        progress: What is to be called in the waiting thread meanwhile.
        unclaimed: Gets the result in the loop, if the waiting thread was interrupted and nobody else will.
    """

    def __init__(
        self, run: Callable[[], Coroutine[Any, Any, T]], progress: Progress | None, unclaimed: Callable[[T], object] | None
    ) -> None:
        self._run = run
        self._progress = progress
        self._unclaimed = unclaimed
        self._inbox: SimpleQueue[Any] = SimpleQueue() if progress is None else progress.inbox
        self._task: asyncio.Task[T] | None = None
        self._abandoned = False
        # When the waiting thread first saw that there is an outcome.
        self._done_at: float | None = None

    # In the loop

    def start(self) -> None:
        """Begins it."""
        if self._progress is not None:
            self._progress.begin()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._done)

    def abandon(self) -> None:
        """Nobody waits any more: what is under way is cancelled, and the server is told."""
        self._abandoned = True
        if self._progress is not None:
            self._progress.abandon()
        if self._task is not None and not self._task.cancel():
            self._done(self._task)  # it had come to its end; its result is in an inbox that nobody reads

    def cut_off(self) -> None:
        """There is no loop any more; for the thread of the loop to call, last of all."""
        if not self._abandoned:
            self._inbox.put(self)

    def _done(self, task: asyncio.Task[T]) -> None:
        if not self._abandoned:
            self._inbox.put(self)
        elif not task.cancelled() and task.exception() is None and self._unclaimed is not None:
            self._unclaimed(task.result())

    # In the thread that waits

    def wait(self, call_back: Callable[..., None]) -> None:
        """Returns when there is an outcome; calls back meanwhile."""
        while True:
            try:
                news = self._inbox.get(timeout=_LOOK)
            except Empty:
                continue
            if news is self:
                return
            # What is left of an job that was interrupted has come too late for everybody.
            if self._progress is not None and isinstance(news, Report):
                self._report(call_back, self._progress.function, news)

    def _report(self, call_back: Callable[..., None], function: Callable[..., Any], report: Report) -> None:
        """Calls back with a report of progress, unless the outcome has waited behind such reports for long enough."""
        now = time.monotonic()
        if self._done_at is None and self._task is not None and self._task.done():
            self._done_at = now
        if self._done_at is not None and now - self._done_at > patience():
            report.done.cancel()
            return
        try:
            call_back(function, report.params)
        finally:
            report.done.set_result(None)

    def outcome(self) -> T:
        """The result, or the error: with the traceback of the caller, to whom that of the loop says nothing."""
        task = self._task
        if task is None or not task.done() or task.cancelled():
            raise ClientClosed
        error = task.exception()
        if error is None:
            return task.result()
        # A surprise keeps its traceback: somebody will have to look for it.
        raise error.with_traceback(None) if _speaks_for_itself(error) else error


async def _awaited(outcome: Awaitable[Any]) -> Any:
    return await outcome


def _speaks_for_itself(error: BaseException) -> bool:
    return type(error).__module__ == "twopipes.errors" or isinstance(error, TimeoutError)


class ClientShare:
    """One client's share in the loop, from before it is connected until it is closed.

    Attributes:
        plan: How its server is ended; says how long that may take.
        house: Where it is.
        close: Ends the client, once there is one.
        connecting: Opens it.
        ending: Ends it.
    """

    def __init__(self, plan: ShutdownPlan) -> None:
        self.plan = plan
        self.house: LoopThread | None = None
        self.close: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.connecting: asyncio.Task[Any] | None = None
        self.ending: asyncio.Task[None] | None = None


class LoopThread:
    """The loop and its thread. :meth:`borrow` gives the one of this process.

    Attributes:
        loop: Made in the thread, where no Ctrl-C can leave half of one.
    """

    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._jobs: set[Job[Any]] = set()
        self._shares: set[ClientShare] = set()
        self._is_over = False
        self._is_exiting = False
        self._is_unwanted = False
        self._begun: SimpleQueue[OSError | None] = SimpleQueue()
        self._last_one_left = asyncio.Event()
        self._thread = threading.Thread(target=self._live, name="twopipes blocking clients", daemon=True)

    @classmethod
    def borrow(cls, share: ClientShare) -> LoopThread:
        """The loop of this process, started if need be; it goes on until the share has ended.

        Raises:
            OSError: There are no descriptors left for a loop.
            RuntimeError: There is no thread left for it.
        """
        house = _house
        with house.lock:
            current = house.current
            if current is None:
                current = cls()
                try:
                    current._begin_to_live()
                    house.running.add(current)
                    house.current = current
                except BaseException:  # perhaps Ctrl-C, and the thread is there, or about to be
                    house.current = None
                    current._is_unwanted = True
                    if hasattr(current, "loop"):  # otherwise it looks by itself
                        current.post(current._last_one_left.set)
                    raise
            share.house = current
            current._shares.add(share)
            return current

    @staticmethod
    def take_back(share: ClientShare) -> None:
        """Ends a share wherever it is, because whoever wanted it has been interrupted. What is being opened ends by itself."""
        for each in list(_house.running):
            if share.house in {None, each}:
                each.post(each.drop, share)

    # For the threads that wait

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked from the one that has the loop."""
        return self._process != os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is the thread of the loop."""
        return self._thread.ident == threading.get_ident() and not self._is_over  # the number may be given away afterwards

    def run(
        self,
        run: Callable[[], Coroutine[Any, Any, T]],
        *,
        progress: Progress | None = None,
        unclaimed: Callable[[T], object] | None = None,
    ) -> T:
        """Runs a coroutine in the loop and waits for it. What interrupts the waiting, such as Ctrl-C, cancels it.

        Raises:
            LocalProtocolError: It would wait for itself, or this is a fork.
            ClientClosed: The loop has ended.
        """
        if self.is_foreign:
            raise LocalProtocolError(
                "this client belongs to the process that this one was forked from; call connect() after the fork"
            )
        if self.is_here:
            raise LocalProtocolError(
                "a blocking client was called in its own event loop, which would wait for itself; "
                "call it from a plain function instead of an async one"
            )
        job = Job(run, progress, unclaimed)
        try:
            self._begin(job)
            job.wait(self.call_back)
            return job.outcome()
        except BaseException:
            self.post(job.abandon)
            raise
        finally:
            with self._lock:
                self._jobs.discard(job)

    def _begin(self, job: Job[Any]) -> None:
        with self._lock:
            if self._is_over:
                raise ClientClosed
            self._jobs.add(job)  # first, so that it has an outcome even if the loop ends now
        self.post(job.start)

    def call_back(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Calls a callback in this thread; an async one goes on in the loop. What goes wrong in it is reported, no more."""
        try:
            outcome = function(*arguments)
            if isinstance(outcome, Awaitable):
                with suppress(ClientClosed):
                    self.run(lambda: _awaited(outcome))
        except Exception as error:
            self.loop.call_exception_handler({"message": f"a callback of twopipes failed: {function!r}", "exception": error})

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Calls a function in the loop, soon, without waiting for it; not at all if the loop has ended. Takes no lock."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *arguments)

    def join(self) -> None:
        """Waits for the thread, if the last client has gone."""
        if self.loop.is_closed() or self._last_one_left.is_set():
            self._thread.join(_NET)

    # In the loop

    async def connect(self, share: ClientShare, run: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Opens a client. One that could not be opened gives its share back."""
        share.connecting = asyncio.current_task()
        try:
            return await run()
        except BaseException:
            self._give_back(share)
            raise
        finally:
            share.connecting = None

    def drop(self, share: ClientShare) -> None:
        """Ends a share that nothing came of, or nothing that anybody has got."""
        if share.close is not None:
            self.begin_end(share)
        elif share.connecting is None:
            self._give_back(share)

    async def end(self, share: ClientShare) -> None:
        """Ends the client of a share. Whoever calls second waits for the first; cancelling the call does not stop the ending."""
        await asyncio.shield(self.begin_end(share))

    def begin_end(self, share: ClientShare) -> asyncio.Task[None]:
        """As :meth:`end`, without waiting."""
        if share.ending is None:
            share.ending = self.loop.create_task(self._end(share))
        return share.ending

    async def _end(self, share: ClientShare) -> None:
        try:
            if share.close is not None:
                await share.close()
        finally:
            self._give_back(share)

    def _give_back(self, share: ClientShare) -> None:
        house = _house
        with house.lock:  # so that nobody borrows what is about to end
            self._shares.discard(share)
            if not self._shares:
                if house.current is self:
                    house.current = None
                self._last_one_left.set()

    def _end_all(self) -> None:
        with self._lock:
            waited_for = list(self._jobs)
        for job in waited_for:
            # By daemon threads, or the interpreter would not exit. They end where they stand, and not with a traceback each.
            job.abandon()
        if not self._shares:
            self._last_one_left.set()
        for share in list(self._shares):
            if share.connecting is not None:
                share.connecting.cancel()
            else:
                self.begin_end(share)

    # The thread

    def _begin_to_live(self) -> None:
        self._thread.start()
        failure = self._begun.get()
        if failure is not None:
            raise failure

    def _live(self) -> None:
        try:
            # Its end cancels what is left, and waits for it.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                self.loop = runner.get_loop()
                self._begun.put(None)
                runner.run(self._stay())
        except OSError as error:
            if hasattr(self, "loop"):
                raise
            self._begun.put(error)
        except RuntimeError:
            # From Python 3.12 on, an exiting interpreter starts no threads, which the end of a loop may want. All is done by then.
            if not self._is_exiting:
                raise
        finally:
            with self._lock:
                self._is_over = True
                unanswered = list(self._jobs)
            for job in unanswered:
                job.cut_off()
            with _house.lock:
                _house.running.discard(self)

    async def _stay(self) -> None:
        if not self._is_unwanted:
            await self._last_one_left.wait()

    def end_at_exit(self) -> None:
        """Ends every client that was not closed, each by its plan. What does not end by it is killed a moment later."""
        plans = [share.plan for share in list(self._shares)]
        patience = max((sum(step.seconds for step in plan.steps if isinstance(step, Wait)) for plan in plans), default=0.0)
        self._is_exiting = True
        self.post(self._end_all)
        with suppress(KeyboardInterrupt):  # in a hurry
            self._thread.join(patience + _NET)


class _House:
    """What there is of loops in this process.

    Attributes:
        current: Where new clients go.
        running: That one, and those that are about to end.
        left_behind: Those of the process that this one was forked from.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a client may be collected, and closed, in the middle of anything
        self.current: LoopThread | None = None
        self.running: set[LoopThread] = set()
        self.left_behind: set[LoopThread] = set()

    def forget(self) -> None:
        """In a fork: threads stay behind, and the lock may be held by one of them."""
        # Held, and never looked at again: collecting them here would touch what still belongs to the parent.
        self.left_behind |= self.running
        self.lock = threading.RLock()
        self.current = None
        self.running = set()


_house = _House()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_house.forget)


@atexit.register
def _end_everything() -> None:
    # Registered after the register of all children, and so run before it: what is left over is killed there.
    for each in list(_house.running):
        each.end_at_exit()
