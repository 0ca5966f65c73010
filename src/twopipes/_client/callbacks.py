"""Calls the callbacks of one client, and drops events that a slow callback cannot keep up with.

The read loop never waits for a callback (docs/decisions/0005), so events queue up if a callback is slower than the server. The
queue of each callback is bounded (``Limits.max_backlog``); events beyond that are dropped and counted.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

# Bytes of memory that an event takes in addition to its content, together with the task or queue entry that holds it.
EVENT_SIZE = 1024

# The event loop holds only weak references to tasks, and a callback may outlive its client.
_running: set[asyncio.Future[Any]] = set()


class CallbackRunner:
    """Calls callbacks in the event loop. An ``async`` callback runs as a task; one that returns a ``Future`` ends with it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, max_backlog: int | None) -> None:
        self.dropped: Counter[str] = Counter()  # the number of events that each callback missed, by its name
        self._loop = loop
        self._max_backlog = max_backlog
        # Bytes of the events that each callback has not handled yet. Futures may end in any thread, hence the lock.
        self._waiting: Counter[str] = Counter()
        self._lock = threading.Lock()

    def call(self, name: str, function: Callable[..., Any], *arguments: Any, size: int = 0) -> None:
        """Call a callback such as ``on_log`` with an event of ``size`` bytes, unless too many events wait for it.

        Errors of the callback go to the loop's exception handler. An event whose future is cancelled counts as dropped.
        """
        size += EVENT_SIZE
        with self._lock:
            waiting = self._waiting[name]
            if waiting and self._max_backlog is not None and waiting + size > self._max_backlog:
                self.dropped[name] += 1
                return
            self._waiting[name] += size
        is_pending = False
        try:
            outcome = function(*arguments)
            if isinstance(outcome, Awaitable):
                outcome = asyncio.ensure_future(outcome, loop=self._loop)
                _running.add(outcome)
                outcome.add_done_callback(_finished)
            if isinstance(outcome, Future | asyncio.Future):
                outcome.add_done_callback(partial(self._done, name, size))
                is_pending = True
        except Exception as error:
            self._loop.call_exception_handler({"message": f"a callback of twopipes failed: {function!r}", "exception": error})
        finally:
            if not is_pending:
                self._done(name, size)

    def _done(self, name: str, size: int, future: Future[Any] | asyncio.Future[Any] | None = None) -> None:
        with self._lock:
            self._waiting[name] -= size
            if future is not None and future.cancelled():
                self.dropped[name] += 1


def _finished(task: asyncio.Future[Any]) -> None:
    _running.discard(task)
    with suppress(asyncio.CancelledError):
        error = task.exception()
        if error is not None:
            task.get_loop().call_exception_handler({"message": "a callback of twopipes failed", "exception": error})
