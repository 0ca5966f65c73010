"""The threads in which the user's callbacks run: never the thread of the event loop, unless they are async.

* ``on_progress`` runs in the thread that made the call, before the call returns. Reports that still wait a second after the
  response are dropped.
* ``on_elicit``, ``on_elicit_url``, ``on_sample`` and a function for ``roots`` run in a new thread for each question, because they
  may wait for a person. Two of them can run at the same time.
* All others run in one thread per client, one after the other, in the order of the events.

The number of waiting events is bounded; further ones are dropped and counted: see :mod:`twopipes._client.callbacks`. Each function
that this module passes to the client returns a ``Future``, so that an event counts until its callback has handled it.

All these callbacks may use the client. An ``async`` callback runs in the loop; it must not block and cannot use the client.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from twopipes._client.input_handlers import Roots
from twopipes._protocol.types import ProgressParams

# Seconds that a call waits after its response for the callbacks of earlier events. A callback may take longer, perhaps because it
# waits for the thread that made the call.
CALLBACK_WAIT = 1.0
# Questions of one server that are answered at the same time, each in a thread. Further ones wait.
MAX_QUESTIONS = 64


class Report(NamedTuple):
    """A progress report, and a future that is done when the callback has handled it."""

    params: ProgressParams
    done: Future[None]


class Progress:
    """Passes progress reports from the loop to the thread that waits for the call."""

    def __init__(self, function: Callable[[ProgressParams], Any]) -> None:
        self.function = function
        self.inbox: SimpleQueue[Any] = SimpleQueue()
        self._is_read = True

    def __call__(self, params: ProgressParams) -> Future[None] | None:
        """Add a report. Called in the loop."""
        if not self._is_read:
            return None
        report = Report(params, Future())
        self.inbox.put(report)
        return report.done

    def begin(self) -> None:
        """Accept reports, because a thread reads the inbox. Called in the loop."""
        self._is_read = True

    def abandon(self) -> None:
        """Drop all reports, because no thread reads the inbox any more. Called in the loop."""
        self._is_read = False
        with suppress(Empty):
            while True:
                item = self.inbox.get_nowait()
                if isinstance(item, Report):
                    item.done.cancel()


class CallbackThread:
    """The thread of one client that calls its callbacks, one after the other. It starts with the first event."""

    def __init__(self, call_back: Callable[..., None]) -> None:
        self._call_back = call_back
        # A call and its future; an event to set when everything before it is done; or None, which ends the thread.
        self._queue: SimpleQueue[tuple[Future[None], tuple[Any, ...]] | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._is_late = False
        # Each counter is written by one thread only.
        self._queued = 0
        self._handled = 0

    def wrap(self, function: Callable[..., Any] | None) -> Callable[..., Future[None] | None] | None:
        """Return a function that queues calls of a callback. The client calls it in the loop."""
        if function is None:
            return None
        return lambda *arguments: self.enqueue(function, *arguments)

    def enqueue(self, *call: Any) -> Future[None] | None:
        """Queue a call of a callback. Returns None if it is dropped. Called in the loop."""
        if self._is_over:
            return None
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="twopipes callbacks", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                # The interpreter is exiting, or the system has no thread left. The session continues without callbacks.
                self._is_over, self._thread = True, None
                return None
        self._queued += 1
        done: Future[None] = Future()
        self._queue.put((done, call))
        return done

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
            else:
                done, call = item
                if self._is_late:
                    done.cancel()
                else:
                    self._call_back(*call)
                    done.set_result(None)
                self._handled += 1
                del done, call
            del item  # do not keep the event alive while waiting for the next one

    def catch_up(self) -> None:
        """Wait briefly until the callbacks of all events so far have run."""
        if self._handled == self._queued or self._is_over or self._is_here:
            return
        reached = threading.Event()
        self._queue.put(reached)
        reached.wait(CALLBACK_WAIT)

    def end(self) -> None:
        """Accept no further events. Called in the loop."""
        if not self._is_over:
            self._is_over = True
            self._queue.put(None)

    def join(self) -> None:
        """Wait briefly for the thread, because a callback may never return. Events that are still queued then are dropped."""
        if self._thread is not None and not self._is_here:
            self._thread.join(CALLBACK_WAIT)
            self._is_late = True

    @property
    def _is_here(self) -> bool:
        return self._thread is not None and self._thread.ident == threading.get_ident() and self._thread.is_alive()


def in_a_thread(function: Callable[..., Any] | None, slots: asyncio.Semaphore) -> Callable[..., Any] | None:
    """Return an async function that runs a callback for questions in a new thread."""
    if function is None or inspect.iscoroutinefunction(function):
        return function

    async def answer(*arguments: Any) -> Any:
        outcome = await _run_in_a_thread(slots, function, *arguments)
        return await outcome if inspect.isawaitable(outcome) else outcome

    return answer


def roots_in_a_thread(roots: Roots, slots: asyncio.Semaphore) -> Roots:
    """Do the same for ``roots``, which may also be a plain collection."""
    return in_a_thread(roots, slots) or () if callable(roots) else roots


def auth_in_a_thread(auth: Any, slots: asyncio.Semaphore) -> Any:
    """Do the same for ``auth``: a function, or an object that answers challenges. A token stays as it is."""
    if hasattr(auth, "challenge"):
        return _ThreadedAuthenticator(auth, slots)
    return in_a_thread(auth, slots) if callable(auth) else auth


class _ThreadedAuthenticator:
    """An authenticator whose methods run in threads. One that cannot be called has no first token."""

    def __init__(self, inner: Any, slots: asyncio.Semaphore) -> None:
        self.challenge = in_a_thread(inner.challenge, slots)
        self._token = in_a_thread(inner, slots) if callable(inner) else None

    async def __call__(self) -> Any:
        return None if self._token is None else await self._token()


async def _run_in_a_thread(slots: asyncio.Semaphore, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function in a new daemon thread.

    It continues after a cancellation, and its result is ignored. It keeps its slot until it ends, so that a server that asks and
    cancels in a loop cannot start a thread each time.
    """
    await slots.acquire()
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(outcome: Any, error: BaseException | None) -> None:
        slots.release()
        if answer.done():
            return  # it was cancelled
        if error is None:
            answer.set_result(outcome)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            answer.set_exception(error)
        else:  # a future rejects it, or it would end the loop
            wrapped = RuntimeError(f"the callback raised {error!r}")
            wrapped.__cause__ = error
            answer.set_exception(wrapped)

    def work() -> None:
        outcome = failure = None
        try:
            outcome = context.run(function, *arguments)
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, outcome, failure)

    try:
        threading.Thread(target=work, name="twopipes question", daemon=True).start()
    except BaseException:
        slots.release()
        raise
    return await answer
