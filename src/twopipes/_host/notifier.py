"""Calls a callback after changes: one call at a time, and one more for all changes that happen during it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any


class Notifier:
    """Reports changes of something to a callback.

    Args:
        callback: Called with the current value; plain or ``async``. One that returns a ``Future`` runs until that is done.
        value: Returns the current value.
    """

    def __init__(self, callback: Callable[[Any], Any] | None, value: Callable[[], Any]) -> None:
        self._callback = callback
        self._value = value
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Report changes from now on."""
        if self._callback is not None:
            self._task = asyncio.get_running_loop().create_task(self._work(self._callback), name="report changes of tools")

    def changed(self) -> None:
        """Note a change."""
        if self._task is not None:
            self._changed.set()

    async def close(self) -> None:
        """Stop, also a callback that is running."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _work(self, callback: Callable[[Any], Any]) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                outcome = callback(self._value())
                if isinstance(outcome, Future):
                    outcome = asyncio.wrap_future(outcome)
                if isinstance(outcome, Awaitable):
                    await outcome
            except Exception as error:
                context = {"message": f"a callback of twopipes failed: {callback!r}", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
