"""Time limits of requests, with one timer of the event loop for all waits of the same length.

Each request waits for its body, for its handler and for the client to read. Almost no wait reaches its limit, but a timer of its
own for each of them would take a sixth of the CPU of a request.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Protocol

from twopipes._http.options import HttpOptions

# Seconds. Most handlers are done before this, and cost no task that watches for the end of the connection.
_WATCH_AFTER: Final = 0.02


class Expiring(Protocol):
    """Something that waits."""

    def expire(self) -> None:
        """End the wait: its time is over."""


class Deadlines:
    """Waits that may last ``seconds`` each. They expire in the order in which they began, so that one timer is enough.

    The timer is set while something waits. A wait that ends in time does not stop it: when it fires, it is set for the next one.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._ends: dict[Expiring, float] = {}  # ordered by time
        self._timer: asyncio.TimerHandle | None = None

    def add(self, waiting: Expiring) -> None:
        """Begin a wait. It calls ``expire()`` once if it is not removed in time."""
        end = self._loop.time() + self._seconds
        self._ends[waiting] = end
        if self._timer is None:
            self._timer = self._loop.call_at(end, self._expire_due)

    def remove(self, waiting: Expiring) -> None:
        """End a wait, unless it has expired."""
        self._ends.pop(waiting, None)

    def limit(self) -> Limit:
        """Return a context manager that limits the time of its block as ``asyncio.timeout`` does."""
        return Limit(self)

    def _expire_due(self) -> None:
        self._timer = None
        now = self._loop.time()
        due: list[Expiring] = []
        for waiting, end in self._ends.items():
            if end > now:
                self._timer = self._loop.call_at(end, self._expire_due)
                break
            due.append(waiting)
        for waiting in due:
            if self._ends.pop(waiting, None) is not None:  # otherwise it was removed when an earlier one expired
                waiting.expire()


class Limit:
    """Cancels the task of a ``with`` block after some time, and raises ``TimeoutError`` there."""

    __slots__ = ("_cancelling", "_deadlines", "_has_expired", "_task")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._has_expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._deadlines.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._deadlines.remove(self)
        # As in asyncio.timeout: if the task was also cancelled from elsewhere, it stays cancelled.
        if self._has_expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        """Cancel the task."""
        self._has_expired = True
        self._task.cancel()


class HttpDeadlines:
    """The waits of the requests of one application.

    Attributes:
        read: For the rest of a body.
        write: For a client that does not read.
        watch: For a handler, before anything watches for the end of the connection.
        keep_alive: For something to send, before a comment is sent.
    """

    def __init__(self, options: HttpOptions) -> None:
        self.read = Deadlines(options.read_timeout)
        self.write = Deadlines(options.write_timeout)
        self.watch = Deadlines(_WATCH_AFTER)
        self.keep_alive = Deadlines(options.keep_alive)
