"""Handle Ctrl-C: the first cancels the work, the second does not wait for the cleanup."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from twopipes._tools.exit_codes import INTERRUPTED


def run_interruptibly(work: Callable[[], Coroutine[Any, Any, int]], *, on_interrupt: Callable[[int], object]) -> int:
    """Run a coroutine in an event loop and return its exit code, or that of an interruption.

    The first Ctrl-C cancels the coroutine, which may need time to clean up. The second one ends the loop; a server that is still
    running is killed.
    """
    pressed = 0
    notify: Callable[[], object] | None = None

    def handle(_number: int, _frame: object) -> None:
        nonlocal pressed
        pressed += 1
        if notify is not None:
            with suppress(RuntimeError):  # the loop is closed
                notify()

    async def run() -> int:
        nonlocal notify
        loop = asyncio.get_running_loop()
        task = loop.create_task(work())
        second_interrupt: asyncio.Future[None] = loop.create_future()

        def interrupted() -> None:
            if pressed == 1:
                on_interrupt(1)
                task.cancel()
            elif not second_interrupt.done():
                on_interrupt(2)
                second_interrupt.set_result(None)

        def wake_loop() -> None:
            loop.call_soon_threadsafe(interrupted)

        notify = wake_loop
        if pressed:
            notify()
        waited: list[asyncio.Future[Any]] = [task, second_interrupt]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        return INTERRUPTED if not task.done() or task.cancelled() else task.result()

    before = signal.signal(signal.SIGINT, handle)
    try:
        return asyncio.run(run())
    finally:
        signal.signal(signal.SIGINT, before)
