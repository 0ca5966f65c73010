"""One event loop in one thread for all blocking clients of the process. It starts with the first client and ends with the last.

They share one thread so that a hundred clients do not need a hundred threads. A call is a job: the loop runs it, and the caller
waits for its outcome. Every job gets an outcome, however the loop ends, so no caller waits for ever.
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
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from twopipes._blocking import callbacks
from twopipes._blocking.callbacks import Progress, Report
from twopipes._process.shutdown import ShutdownPlan, Wait
from twopipes.errors import ClientClosed, LocalProtocolError

T = TypeVar("T")

# Seconds between two checks for Ctrl-C on platforms where it does not interrupt a wait.
_POLL: float | None = 0.1 if sys.platform == "win32" else None
# Seconds to wait for the loop at interpreter exit, in addition to the waits of the shutdown plans. Milliseconds are enough, unless
# a coroutine of the user blocks the loop; the children are then killed without it.
_EXIT_GRACE = 3.0


class Job(Generic[T]):
    """A coroutine that the loop runs while a thread waits for it and calls the progress callback."""

    def __init__(
        self, run: Callable[[], Coroutine[Any, Any, T]], progress: Progress | None, unclaimed: Callable[[T], object] | None
    ) -> None:
        self._run = run
        self._progress = progress
        self._unclaimed = unclaimed  # called with the result, in the loop, if the waiting thread was interrupted
        self._inbox: SimpleQueue[Any] = SimpleQueue() if progress is None else progress.inbox
        self._task: asyncio.Task[T] | None = None
        self._abandoned = False
        self._done_at: float | None = None  # when the waiting thread first saw that the outcome exists

    # In the loop

    def start(self) -> None:
        """Start the coroutine."""
        if self._progress is not None:
            self._progress.begin()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._done)

    def abandon(self) -> None:
        """Cancel the coroutine, because the thread no longer waits. That also cancels the request at the server."""
        self._abandoned = True
        if self._progress is not None:
            self._progress.abandon()
        if self._task is not None and not self._task.cancel():
            self._done(self._task)  # it had already ended, and its result was not claimed

    def cut_off(self) -> None:
        """Wake the waiting thread, because the loop has ended. Called last, by the thread of the loop."""
        if not self._abandoned:
            self._inbox.put(self)

    def _done(self, task: asyncio.Task[T]) -> None:
        if not self._abandoned:
            self._inbox.put(self)
        elif not task.cancelled() and task.exception() is None and self._unclaimed is not None:
            self._unclaimed(task.result())

    # In the thread that waits

    def wait(self, call_back: Callable[..., None]) -> None:
        """Wait for the outcome, and call the progress callback meanwhile."""
        while True:
            try:
                item = self._inbox.get(timeout=_POLL)
            except Empty:
                continue
            if item is self:
                return
            # Anything else belongs to an earlier job that was interrupted.
            if self._progress is not None and isinstance(item, Report):
                self._report(call_back, self._progress.function, item)

    def _report(self, call_back: Callable[..., None], function: Callable[..., Any], report: Report) -> None:
        """Call the callback with a progress report, unless such reports have delayed the outcome for too long."""
        now = time.monotonic()
        if self._done_at is None and self._task is not None and self._task.done():
            self._done_at = now
        if self._done_at is not None and now - self._done_at > callbacks.CALLBACK_WAIT:
            report.done.cancel()
            return
        try:
            call_back(function, report.params)
        finally:
            report.done.set_result(None)

    def outcome(self) -> T:
        """Return the result, or raise the error. Expected errors get the caller's traceback instead of the loop's."""
        task = self._task
        if task is None or not task.done() or task.cancelled():
            raise ClientClosed
        error = task.exception()
        if error is None:
            return task.result()
        # An unexpected error keeps its traceback, which is needed to find its cause.
        is_expected = type(error).__module__ == "twopipes.errors" or isinstance(error, TimeoutError)
        raise error.with_traceback(None) if is_expected else error


class ClientLease(Struct, eq=False):
    """Keeps the loop running for one client, from before it is connected until it is closed."""

    plan: ShutdownPlan  # it also limits how long the shutdown may take
    loop_thread: LoopThread | None = None
    close: Callable[[], Coroutine[Any, Any, None]] | None = None  # closes the client, once there is one
    connecting: asyncio.Task[Any] | None = None
    ending: asyncio.Task[None] | None = None


class LoopThread:
    """The loop and its thread. :meth:`acquire` returns the one of this process."""

    current: ClassVar[LoopThread | None] = None  # for new clients
    running: ClassVar[set[LoopThread]] = set()  # that one, and those that are about to end
    # Reentrant, because the garbage collector may close a client at any point, also while the lock is held.
    registry_lock: ClassVar[threading.RLock] = threading.RLock()

    loop: asyncio.AbstractEventLoop  # created in the thread, where Ctrl-C cannot interrupt that

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._jobs: set[Job[Any]] = set()
        self._leases: set[ClientLease] = set()
        self._is_over = False
        self._is_exiting = False
        self._is_unwanted = False
        self._started: SimpleQueue[OSError | None] = SimpleQueue()
        self._last_lease_ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run_loop, name="twopipes blocking clients", daemon=True)

    @classmethod
    def acquire(cls, lease: ClientLease) -> LoopThread:
        """Return the loop of this process, starting it if necessary. It runs at least until the lease ends."""
        with LoopThread.registry_lock:
            current = LoopThread.current
            if current is None:
                current = cls()
                try:
                    current._start()
                    LoopThread.running.add(current)
                    LoopThread.current = current
                except BaseException:  # perhaps Ctrl-C, and the thread runs or is about to
                    LoopThread.current = None
                    current._is_unwanted = True
                    if hasattr(current, "loop"):  # otherwise the thread checks _is_unwanted itself
                        current.post(current._last_lease_ended.set)
                    raise
            lease.loop_thread = current
            current._leases.add(lease)
            return current

    @staticmethod
    def release(lease: ClientLease) -> None:
        """End a lease, because the thread that wanted it was interrupted. A connection attempt in progress ends by itself."""
        for each in list(LoopThread.running):
            if lease.loop_thread in {None, each}:
                each.post(each.drop, lease)

    # Called by the waiting threads

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked from the one that runs the loop."""
        return self._process != os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether the current thread is the thread of the loop."""
        return self._thread.ident == threading.get_ident() and not self._is_over  # the ident may be reused afterwards

    def run(
        self,
        run: Callable[[], Coroutine[Any, Any, T]],
        *,
        progress: Progress | None = None,
        unclaimed: Callable[[T], object] | None = None,
    ) -> T:
        """Run a coroutine in the loop and wait for it. An interruption such as Ctrl-C cancels it."""
        if self.is_foreign:
            raise LocalProtocolError(
                "this client belongs to the process that this one was forked from; call connect() after the fork"
            )
        if self.is_here:
            raise LocalProtocolError(
                "a blocking client was called from its own event loop, which would deadlock; "
                "call it from a plain function instead of an async one"
            )
        job = Job(run, progress, unclaimed)
        try:
            self._submit(job)
            job.wait(self.call_back)
            return job.outcome()
        except BaseException:
            self.post(job.abandon)
            raise
        finally:
            with self._lock:
                self._jobs.discard(job)

    def _submit(self, job: Job[Any]) -> None:
        with self._lock:
            if self._is_over:
                raise ClientClosed
            self._jobs.add(job)  # before it starts, so that it gets an outcome even if the loop ends now
        self.post(self._start_job, job)

    def call_back(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a callback in this thread, or in the loop if it is async. Its errors go to the loop's exception handler."""
        try:
            outcome = function(*arguments)
            if isinstance(outcome, Awaitable):

                async def wait() -> None:
                    await outcome

                with suppress(ClientClosed):
                    self.run(wait)
        except Exception as error:
            self.loop.call_exception_handler({"message": f"a callback of twopipes failed: {function!r}", "exception": error})

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Schedule a function in the loop, without waiting for it and without a lock. Does nothing if the loop has ended."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *arguments)

    def join(self) -> None:
        """Wait for the thread to end, if the last client is closed."""
        if self.loop.is_closed() or self._last_lease_ended.is_set():
            self._thread.join(_EXIT_GRACE)

    # Called in the loop

    def _start_job(self, job: Job[Any]) -> None:
        if not self._last_lease_ended.is_set():  # otherwise the loop may end before the first step; the job is cut off instead
            job.start()

    async def connect(self, lease: ClientLease, run: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Connect a client. If that fails, end its lease."""
        lease.connecting = asyncio.current_task()
        try:
            return await run()
        except BaseException:
            self._end_lease(lease)
            raise
        finally:
            lease.connecting = None

    def drop(self, lease: ClientLease) -> None:
        """End a lease whose client does not exist, or was never returned to the caller."""
        if lease.close is not None:
            self.start_ending(lease)
        elif lease.connecting is None:
            self._end_lease(lease)

    async def end(self, lease: ClientLease) -> None:
        """Close the client of a lease. A second caller waits for the first. Cancelling the call does not stop the shutdown."""
        await asyncio.shield(self.start_ending(lease))

    def start_ending(self, lease: ClientLease) -> asyncio.Task[None]:
        """Start to close the client of a lease, without waiting."""
        if lease.ending is None:
            lease.ending = self.loop.create_task(self._end(lease))
        return lease.ending

    async def _end(self, lease: ClientLease) -> None:
        try:
            if lease.close is not None:
                await lease.close()
        finally:
            self._end_lease(lease)

    def _end_lease(self, lease: ClientLease) -> None:
        with LoopThread.registry_lock:  # so that no client acquires a loop that is about to end
            self._leases.discard(lease)
            if not self._leases:
                if LoopThread.current is self:
                    LoopThread.current = None
                self._last_lease_ended.set()

    def _end_all(self) -> None:
        with self._lock:
            jobs = list(self._jobs)
        for job in jobs:
            # Only daemon threads can still wait for them at interpreter exit. Do not wake those, or each would print a traceback.
            job.abandon()
        if not self._leases:
            self._last_lease_ended.set()
        for lease in list(self._leases):
            if lease.connecting is not None:
                lease.connecting.cancel()
            else:
                self.start_ending(lease)

    # The thread

    def _start(self) -> None:
        self._thread.start()
        if (failure := self._started.get()) is not None:
            raise failure

    def _run_loop(self) -> None:
        try:
            # At its end the runner cancels the remaining tasks and waits for them.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                self.loop = runner.get_loop()
                self._started.put(None)
                runner.run(self._wait_for_last_lease())
        except OSError as error:
            if hasattr(self, "loop"):
                raise
            self._started.put(error)
        except RuntimeError:
            # Since Python 3.12 no thread can start while the interpreter exits, but closing a loop may try. All is done by then.
            if not self._is_exiting:
                raise
        finally:
            with self._lock:
                self._is_over = True
                jobs = list(self._jobs)
            for job in jobs:
                job.cut_off()
            with LoopThread.registry_lock:
                LoopThread.running.discard(self)

    async def _wait_for_last_lease(self) -> None:
        if not self._is_unwanted:
            await self._last_lease_ended.wait()

    def end_at_exit(self) -> None:
        """Close every client that is still open, each by its plan. Children that survive that are killed afterwards."""
        plans = [lease.plan for lease in list(self._leases)]
        seconds = max((sum(step.seconds for step in plan.steps if isinstance(step, Wait)) for plan in plans), default=0.0)
        self._is_exiting = True
        self.post(self._end_all)
        with suppress(KeyboardInterrupt):  # a second Ctrl-C stops the wait
            self._thread.join(seconds + _EXIT_GRACE)


def _forget_loops() -> None:
    """Forget the loops after a fork: their threads do not exist here, and one of them may have held the lock."""
    # Keep references: collecting them here would close file descriptors that the parent still uses.
    _left_behind.update(LoopThread.running)
    LoopThread.registry_lock = threading.RLock()
    LoopThread.current = None
    LoopThread.running = set()


_left_behind: set[LoopThread] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loops)


@atexit.register
def _end_everything() -> None:
    # Runs before the exit handler of twopipes._process, which was registered earlier and kills children that are left.
    for each in list(LoopThread.running):
        each.end_at_exit()
