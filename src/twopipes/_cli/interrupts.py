"""Ctrl-C, once and twice: the first gives up what is under way in good order, the second does not wait for that."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

__all__ = ["INTERRUPTED", "run_interruptibly"]

# What shells say of a program that Ctrl-C ended: 128 and the number of the signal.
INTERRUPTED = 130


def run_interruptibly(work: Callable[[], Coroutine[Any, Any, int]], *, on_interrupt: Callable[[int], object]) -> int:
    """Runs a coroutine in an event loop of its own and returns its exit code, or that of an interruption.

    The first Ctrl-C cancels the coroutine, which may take its time to tidy up. With the second one, the loop ends and takes
    along whatever is left; a server that is still there is killed.

    Args:
        work: Makes the coroutine.
        on_interrupt: Told the number of the interruption, 1 or 2.
    """
    pressed = 0
    tell: Callable[[], object] | None = None

    def handle(_number: int, _frame: object) -> None:
        nonlocal pressed
        pressed += 1
        if tell is not None:
            with suppress(RuntimeError):  # the loop is closed, and with it everything
                tell()

    async def run() -> int:
        nonlocal tell
        loop = asyncio.get_running_loop()
        task = loop.create_task(work())
        enough: asyncio.Future[None] = loop.create_future()

        def interrupted() -> None:
            if pressed == 1:
                on_interrupt(1)
                task.cancel()
            elif not enough.done():
                on_interrupt(2)
                enough.set_result(None)

        def tell_the_loop() -> None:
            loop.call_soon_threadsafe(interrupted)

        tell = tell_the_loop
        if pressed:
            tell()
        waited: list[asyncio.Future[Any]] = [task, enough]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        return INTERRUPTED if not task.done() or task.cancelled() else task.result()

    before = signal.signal(signal.SIGINT, handle)
    try:
        return asyncio.run(run())
    finally:
        signal.signal(signal.SIGINT, before)
