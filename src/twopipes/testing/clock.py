"""A clock that moves only when a test moves it, so that tests of timeouts take no time.

Everything in twopipes that waits uses the time of its event loop, so the clock is installed in the running loop. Threads (a tool
that is a plain function runs in one) and child processes use real time and are not affected.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

from twopipes.errors import LocalProtocolError

T = TypeVar("T")

# Turns of the loop after which it counts as quiet although callbacks keep coming. A call and its response take about twenty.
_MAX_TURNS = 10_000
# Turns without a new callback. Timers that are due run at the end of a turn, and their callbacks are seen in the next.
_QUIET_TURNS = 2
# The methods of the loop that are replaced.
_PATCHED = ("time", "call_at", "call_soon")

_clocks: WeakKeyDictionary[asyncio.AbstractEventLoop, ManualClock] = WeakKeyDictionary()


class ManualClock:
    """The time of the running event loop, which only :meth:`advance` moves.

    In a coroutine: ``async with ManualClock() as clock:``, in any event loop of asyncio. In a plain function:
    ``clock.run(coroutine)``.

    Args:
        patience: Real seconds without a call of :meth:`advance` after which the block is cancelled, because it waits for a time
            that never comes.
    """

    def __init__(self, *, patience: float = 30.0) -> None:
        self._patience = patience
        self._loop: asyncio.AbstractEventLoop | None = None
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._callbacks = 0  # how many were scheduled
        self._call_at: Callable[..., asyncio.TimerHandle]
        self._call_soon: Callable[..., asyncio.Handle]
        self._task: asyncio.Task[Any] | None = None
        self._deadline = 0.0
        self._left = threading.Event()
        self._watcher: threading.Thread | None = None
        self._gave_up = False

    def time(self) -> float:
        """Return the time in seconds, from an arbitrary start."""
        return self._now

    async def advance(self, seconds: float) -> None:
        """Let so many seconds pass. Every timer fires at its own time, and its callbacks run before the next timer.

        Raises:
            LocalProtocolError: The clock is not installed in an event loop, or ``seconds`` is negative.
        """
        if self._loop is None:
            raise LocalProtocolError(
                "this clock is not in an event loop; write `async with clock:` around it, or clock.run(coroutine)"
            )
        if not seconds >= 0:
            raise LocalProtocolError(f"seconds must be 0 or more, got {seconds!r}")
        self._restart_deadline()
        until = self._now + seconds
        await self.settle()
        while (when := self._next_timer()) is not None and when <= until:
            self._now = when
            await self.settle()
        self._now = until
        await self.settle()

    async def settle(self) -> None:
        """Run the event loop until no new callback is scheduled, without moving the time."""
        quiet = 0
        for _ in range(_MAX_TURNS):
            before = self._callbacks
            await asyncio.sleep(0)
            # One of the callbacks is this coroutine.
            quiet = quiet + 1 if self._callbacks - before <= 1 else 0
            if quiet == _QUIET_TURNS:
                return

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine with this clock in an event loop of its own, and return its result. For tests without ``async``.

        Raises:
            LocalProtocolError: An event loop is already running.
        """
        with suppress(RuntimeError):  # no event loop is running, as it should be
            asyncio.get_running_loop()
            main.close()
            raise LocalProtocolError("clock.run() cannot run inside an event loop; in a coroutine write `async with clock:`")

        async def with_clock() -> T:
            async with self:
                return await main

        return asyncio.run(with_clock())

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self._loop is not None or loop in _clocks:
            raise LocalProtocolError("this event loop already has a manual clock, or this clock already has an event loop")
        if not isinstance(loop, asyncio.BaseEventLoop):
            raise LocalProtocolError(f"a manual clock needs an event loop of asyncio, got {type(loop).__name__}")
        self._loop = _loop = loop
        self._now = loop.time()
        self._call_at, self._call_soon = loop.call_at, loop.call_soon
        # Set on the object, because a test cannot choose the class of a loop that already runs.
        vars(loop).update(time=self.time, call_at=self._note_timer, call_soon=self._note_callback)
        _clocks[_loop] = self
        self._task = asyncio.current_task()
        self._gave_up = False
        self._left.clear()
        self._restart_deadline()
        self._watcher = threading.Thread(target=self._watch, args=(loop,), name="twopipes manual clock", daemon=True)
        self._watcher.start()
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        loop, self._loop = self._loop, None
        assert loop is not None
        for name in _PATCHED:
            vars(loop).pop(name)
        del _clocks[loop]
        self._timers.clear()
        self._left.set()
        if self._watcher is not None:
            self._watcher.join()
        if self._gave_up and isinstance(error, asyncio.CancelledError):
            if self._task is not None:
                self._task.uncancel()
            raise TimeoutError(
                f"nothing moved the manual clock for {self._patience:g} s of real time, and the test waits for something; "
                "call clock.advance(seconds) while it waits, or raise ManualClock(patience=...)"
            ) from error

    # Replaced methods of the loop

    def _note_timer(
        self, when: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = self._call_at(when, callback, *arguments, context=context)
        heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def _note_callback(self, callback: Callable[..., object], *arguments: Any, context: Context | None = None) -> asyncio.Handle:
        self._callbacks += 1
        return self._call_soon(callback, *arguments, context=context)

    def _next_timer(self) -> float | None:
        """Return when the next timer fires, and drop those that have fired or were cancelled."""
        timers = self._timers
        while timers and (timers[0][0] <= self._now or timers[0][2].cancelled()):
            heappop(timers)
        return timers[0][0] if timers else None

    # Give up if the clock is not moved

    def _restart_deadline(self) -> None:
        self._deadline = time.monotonic() + self._patience

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        while (left := self._deadline - time.monotonic()) > 0:
            if self._left.wait(left):
                return
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._give_up)

    def _give_up(self) -> None:
        if self._loop is not None and self._task is not None:
            self._gave_up = True
            self._task.cancel()


def clock_of(loop: asyncio.AbstractEventLoop) -> ManualClock | None:
    """Return the manual clock of an event loop, if it has one."""
    return _clocks.get(loop)
