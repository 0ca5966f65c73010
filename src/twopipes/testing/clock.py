"""A clock that stands still until it is moved: tests of timeouts and of patience take no time.

Everything in twopipes that waits asks its event loop what time it is, so the clock is put into the loop that runs. What the loop
does not know of lives in real time and is not moved: threads (a tool that is a plain function may run in one) and child processes.
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

__all__ = ["ManualClock", "clock_of"]

T = TypeVar("T")

# Turns of the loop after which it counts as quiet although something goes round in it. A call, there and back, takes about twenty.
_MOST_TURNS = 10_000
# Turns in which nothing new was begun. Timers that are due run at the end of a turn, and what they begin is seen in the next.
_QUIET_TURNS = 2
# What is put into the loop.
_PATCHED = ("time", "call_at", "call_soon")

_clocks: WeakKeyDictionary[asyncio.AbstractEventLoop, ManualClock] = WeakKeyDictionary()


class ManualClock:
    """The time of the running event loop, moved by :meth:`advance` alone.

    In a coroutine: ``async with ManualClock() as clock:``, whoever runs the loop. In a plain function: ``clock.run(coroutine)``.

    Args:
        patience: Real seconds without a call of :meth:`advance` after which the block is given up, because it waits for a time that
            nobody makes come.
    """

    def __init__(self, *, patience: float = 30.0) -> None:
        self._patience = patience
        self._loop: asyncio.AbstractEventLoop | None = None
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._begun = 0  # callbacks, all in all
        self._call_at: Callable[..., asyncio.TimerHandle]
        self._call_soon: Callable[..., asyncio.Handle]
        self._task: asyncio.Task[Any] | None = None
        self._deadline = 0.0
        self._left = threading.Event()
        self._net: threading.Thread | None = None
        self._gave_up = False

    def time(self) -> float:
        """What time it is: seconds, from any start."""
        return self._now

    async def advance(self, seconds: float) -> None:
        """Lets so many seconds pass: every timer on the way rings at its own time, and what it starts happens before the next one.

        Raises:
            LocalProtocolError: The clock is in no event loop, or should run backwards.
        """
        if self._loop is None:
            raise LocalProtocolError("this clock is in no event loop; write `async with clock:` around it, or clock.run(coroutine)")
        if not seconds >= 0:
            raise LocalProtocolError(f"a clock does not go back, and {seconds!r} seconds cannot pass")
        self._wind()
        until = self._now + seconds
        await self.settle()
        while (when := self._next_timer()) is not None and when <= until:
            self._now = when
            await self.settle()
        self._now = until
        await self.settle()

    async def settle(self) -> None:
        """Lets everything happen that needs no time to pass: until nothing in the event loop begins anything new."""
        quiet = 0
        for _ in range(_MOST_TURNS):
            begun = self._begun
            await asyncio.sleep(0)
            # One of them is this very coroutine, which goes on.
            quiet = quiet + 1 if self._begun - begun <= 1 else 0
            if quiet == _QUIET_TURNS:
                return

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine by this clock in an event loop of its own, and returns its result: for tests without ``async``.

        Raises:
            LocalProtocolError: There is an event loop already.
        """
        with suppress(RuntimeError):  # there is none, as it should be
            asyncio.get_running_loop()
            main.close()
            raise LocalProtocolError("clock.run() has an event loop of its own; in a coroutine write `async with clock:`")

        async def by_this_clock() -> T:
            async with self:
                return await main

        return asyncio.run(by_this_clock())

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self._loop is not None or loop in _clocks:
            raise LocalProtocolError("this event loop has a manual clock already, or this clock an event loop; one is enough")
        if not isinstance(loop, asyncio.BaseEventLoop):
            raise LocalProtocolError(f"a manual clock needs an event loop of asyncio's own, and {type(loop).__name__} is none")
        self._loop = _loop = loop
        self._now = loop.time()
        self._call_at, self._call_soon = loop.call_at, loop.call_soon
        # On the object: a class of its own would have to be chosen before the loop runs, which a test cannot.
        vars(loop).update(time=self.time, call_at=self._note_timer, call_soon=self._note_callback)
        _clocks[_loop] = self
        self._task = asyncio.current_task()
        self._gave_up = False
        self._left.clear()
        self._wind()
        self._net = threading.Thread(target=self._watch, args=(loop,), name="twopipes manual clock", daemon=True)
        self._net.start()
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
        if self._net is not None:
            self._net.join()
        if self._gave_up and isinstance(error, asyncio.CancelledError):
            if self._task is not None:
                self._task.uncancel()
            raise TimeoutError(
                f"nothing moved the manual clock for {self._patience:g} s of real time, and the test waits for something; "
                "call clock.advance(seconds) while it waits, or raise ManualClock(patience=...)"
            ) from error

    # In the loop

    def _note_timer(
        self, when: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = self._call_at(when, callback, *arguments, context=context)
        heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def _note_callback(self, callback: Callable[..., object], *arguments: Any, context: Context | None = None) -> asyncio.Handle:
        self._begun += 1
        return self._call_soon(callback, *arguments, context=context)

    def _next_timer(self) -> float | None:
        """When the next one rings; those that have rung, or never will, are forgotten."""
        timers = self._timers
        while timers and (timers[0][0] <= self._now or timers[0][2].cancelled()):
            heappop(timers)
        return timers[0][0] if timers else None

    # The net: nobody waits for ever

    def _wind(self) -> None:
        self._deadline = time.monotonic() + self._patience

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        while (left := self._deadline - time.monotonic()) > 0:
            if self._left.wait(left):
                return
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(self._give_up)

    def _give_up(self) -> None:
        if self._loop is not None and self._task is not None:
            self._gave_up = True
            self._task.cancel()


def clock_of(loop: asyncio.AbstractEventLoop) -> ManualClock | None:
    """The manual clock of an event loop, if it has one."""
    return _clocks.get(loop)
