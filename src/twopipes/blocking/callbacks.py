"""In which thread the user's callbacks are called: never in that of the event loop, unless they are async.

* ``on_progress`` in the thread that made the call and waits for it, before the call returns.
* ``on_elicit``, ``on_elicit_url``, ``on_sample`` and a function for ``roots`` in a thread of its own for each question, as they may
  wait for a person. So two of them can be under way at once.
* Everything else in one thread of the client's, in the order in which it happened, one after the other.

In all of them the client may be used. An ``async`` callback runs in the loop, where it must not block, and cannot use the client.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from twopipes.client.questions import Roots
from twopipes.mcp.types import ProgressParams

__all__ = ["Herald", "Progress", "in_a_thread", "roots_in_a_thread"]

# Seconds that a call waits, when it is answered, for the callbacks that came before the answer. One that takes longer, perhaps
# because it waits for the very thread that made the call, is not waited for.
_PATIENCE = 1.0

OnProgress = Callable[[ProgressParams], Any]


class Progress:
    """Carries reports of progress from the loop to the thread that waits for the call.

    Attributes:
        function: What the user wants to be called.
        inbox: What has come.
    """

    def __init__(self, function: OnProgress) -> None:
        self.function = function
        self.inbox: SimpleQueue[Any] = SimpleQueue()

    def __call__(self, params: ProgressParams) -> None:
        """A report has come; in the loop."""
        self.inbox.put(params)


class Herald:
    """The thread of one client in which its callbacks are called, one after the other. It starts with the first thing to tell.

    Args:
        call_back: Calls a callback, and sees to what goes wrong in it.
    """

    def __init__(self, call_back: Callable[..., None]) -> None:
        self._call_back = call_back
        self._news: SimpleQueue[tuple[Any, ...] | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_over = False
        # Each is counted by one thread alone.
        self._happened = 0
        self._told = 0

    def wrap(self, function: Callable[..., Any] | None) -> Callable[..., None] | None:
        """What to give to the client instead of a callback; it is called in the loop."""
        if function is None:
            return None
        return lambda *arguments: self._tell(function, *arguments)

    def _tell(self, *news: Any) -> None:
        if self._is_over:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="twopipes callbacks", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                # The interpreter exits, or the system has no thread left. Neither may harm the conversation.
                self._is_over, self._thread = True, None
                return
        self._happened += 1
        self._news.put(news)

    def _work(self) -> None:
        while (news := self._news.get()) is not None:
            if isinstance(news, threading.Event):
                news.set()
            else:
                self._call_back(*news)
                self._told += 1
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
        """Waits for the thread, a moment at most: a callback may never return."""
        if self._thread is not None and not self._is_here:
            self._thread.join(_PATIENCE)

    @property
    def _is_here(self) -> bool:
        return self._thread is not None and self._thread.ident == threading.get_ident() and self._thread.is_alive()


def in_a_thread(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """What to give to the client instead of a function that answers a question: it runs in a thread of its own."""
    if function is None or inspect.iscoroutinefunction(function):
        return function

    async def answer(*arguments: Any) -> Any:
        outcome = await _run_in_a_thread(function, *arguments)
        return await outcome if inspect.isawaitable(outcome) else outcome

    return answer


def roots_in_a_thread(roots: Roots) -> Roots:
    """The same for roots, which may also be given as they are."""
    return in_a_thread(roots) or () if callable(roots) else roots


async def _run_in_a_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Cancelling is safe: the function goes on unwatched, since no thread can be stopped, and does not hold the process."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        settle: Callable[[Any], None] = answer.set_result
        try:
            outcome = context.run(function, *arguments)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked, whatever it is
            settle, outcome = answer.set_exception, _bearable(error)
        with suppress(RuntimeError):  # the loop is closed; nobody waits any more
            loop.call_soon_threadsafe(_settle, answer, settle, outcome)

    threading.Thread(target=work, name="twopipes question", daemon=True).start()
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
