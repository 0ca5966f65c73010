"""In which thread the user's callbacks are called: never in that of the event loop, unless they are async.

* ``on_progress`` in the thread that made the call and waits for it, before the call returns. Reports that still wait a second after
  the answer has come are dropped.
* ``on_elicit``, ``on_elicit_url``, ``on_sample`` and a function for ``roots`` in a thread of its own for each question, as they may
  wait for a person. So two of them can be under way at once.
* Everything else in one thread of the client's, in the order in which it happened, one after the other.

What waits for a callback is bounded, and beyond that dropped and counted: see :mod:`twopipes._client.callbacks`. Each function that
this module gives to the client returns a ``Future``, so that an event counts until its callback has dealt with it.

In all of them the client may be used. An ``async`` callback runs in the loop, where it must not block, and cannot use the client.
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

__all__ = ["CallbackThread", "Progress", "Report", "in_a_thread", "patience", "question_slots", "roots_in_a_thread"]

# Seconds that a call waits, when it is answered, for the callbacks that came before the answer. One that takes longer, perhaps
# because it waits for the very thread that made the call, is not waited for.
_PATIENCE = 1.0
# Questions of one server that are answered at once, each in a thread. Further ones wait: a person answers one at a time anyway.
_MOST_QUESTIONS = 64

OnProgress = Callable[[ProgressParams], Any]


def patience() -> float:
    """Seconds that a call waits for callbacks when it is answered."""
    return _PATIENCE


class Report(NamedTuple):
    """A report of progress on its way to its callback, and what is done when the callback has dealt with it."""

    params: ProgressParams
    done: Future[None]


class Progress:
    """Carries reports of progress from the loop to the thread that waits for the call.

    Attributes:
        function: What the user wants to be called.
        inbox: What has come.
    """

    def __init__(self, function: OnProgress) -> None:
        self.function = function
        self.inbox: SimpleQueue[Any] = SimpleQueue()
        self._is_read = True

    def __call__(self, params: ProgressParams) -> Future[None] | None:
        """A report has come; in the loop."""
        if not self._is_read:
            return None
        report = Report(params, Future())
        self.inbox.put(report)
        return report.done

    def begin(self) -> None:
        """A thread reads the inbox; in the loop."""
        self._is_read = True

    def abandon(self) -> None:
        """No thread reads the inbox any more: drops what is in it; in the loop."""
        self._is_read = False
        with suppress(Empty):
            while True:
                news = self.inbox.get_nowait()
                if isinstance(news, Report):
                    news.done.cancel()


class CallbackThread:
    """The thread of one client in which its callbacks are called, one after the other. It starts with the first thing to tell.

    Args:
        call_back: Calls a callback, and sees to what goes wrong in it.
    """

    def __init__(self, call_back: Callable[..., None]) -> None:
        self._call_back = call_back
        self._news: SimpleQueue[tuple[Future[None], tuple[Any, ...]] | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._is_late = False
        # Each is counted by one thread alone.
        self._happened = 0
        self._told = 0

    def wrap(self, function: Callable[..., Any] | None) -> Callable[..., Future[None] | None] | None:
        """What to give to the client instead of a callback; it is called in the loop."""
        if function is None:
            return None
        return lambda *arguments: self._tell(function, *arguments)

    def _tell(self, *news: Any) -> Future[None] | None:
        if self._is_over:
            return None
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="twopipes callbacks", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                # The interpreter exits, or the system has no thread left. Neither may harm the conversation.
                self._is_over, self._thread = True, None
                return None
        self._happened += 1
        done: Future[None] = Future()
        self._news.put((done, news))
        return done

    def _work(self) -> None:
        while (news := self._news.get()) is not None:
            if isinstance(news, threading.Event):
                news.set()
            else:
                done, call = news
                if self._is_late:
                    done.cancel()
                else:
                    self._call_back(*call)
                    done.set_result(None)
                self._told += 1
                del done, call
            del news  # nothing is held while there is nothing to tell

    def catch_up(self) -> None:
        """Waits, a moment at most, until everything was told that has happened by now."""
        if self._told == self._happened or self._is_over or self._is_here:
            return
        told = threading.Event()
        self._news.put(told)
        told.wait(_PATIENCE)

    def end(self) -> None:
        """Nothing more is told than what has happened by now; in the loop."""
        if not self._is_over:
            self._is_over = True
            self._news.put(None)

    def join(self) -> None:
        """Waits for the thread, a moment at most: a callback may never return. What it has not told by then is dropped."""
        if self._thread is not None and not self._is_here:
            self._thread.join(_PATIENCE)
            self._is_late = True

    @property
    def _is_here(self) -> bool:
        return self._thread is not None and self._thread.ident == threading.get_ident() and self._thread.is_alive()


def question_slots() -> asyncio.Semaphore:
    """How many questions of one client may be answered in threads at once."""
    return asyncio.Semaphore(_MOST_QUESTIONS)


def in_a_thread(function: Callable[..., Any] | None, slots: asyncio.Semaphore) -> Callable[..., Any] | None:
    """What to give to the client instead of a function that answers a question: it runs in a thread of its own."""
    if function is None or inspect.iscoroutinefunction(function):
        return function

    async def answer(*arguments: Any) -> Any:
        outcome = await _run_in_a_thread(slots, function, *arguments)
        return await outcome if inspect.isawaitable(outcome) else outcome

    return answer


def roots_in_a_thread(roots: Roots, slots: asyncio.Semaphore) -> Roots:
    """The same for roots, which may also be given as they are."""
    return in_a_thread(roots, slots) or () if callable(roots) else roots


async def _run_in_a_thread(slots: asyncio.Semaphore, function: Callable[..., Any], *arguments: Any) -> Any:
    """Cancelling is safe: the function goes on unwatched, since no thread can be stopped, and does not hold the process.

    It keeps its slot until it ends. So a server that asks and cancels in a loop does not start a thread each time.
    """
    await slots.acquire()
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        settle: Callable[[Any], None] = answer.set_result
        try:
            outcome = context.run(function, *arguments)
        except BaseException as error:
            settle, outcome = answer.set_exception, _bearable(error)
        with suppress(RuntimeError):  # the loop is closed; nobody waits any more
            loop.call_soon_threadsafe(_settle, answer, settle, outcome)
            loop.call_soon_threadsafe(slots.release)

    try:
        threading.Thread(target=work, name="twopipes question", daemon=True).start()
    except BaseException:
        slots.release()
        raise
    return await answer


def _bearable(error: BaseException) -> Exception:
    """An error that a future takes and that does not end the loop."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"the callback raised {error!r}")
    wrapped.__cause__ = error
    return wrapped


def _settle(answer: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not answer.done():
        settle(outcome)
