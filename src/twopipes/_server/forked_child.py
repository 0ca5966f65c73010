"""End the copy of a server in a process that a handler has forked: only the original may serve its connection."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from twopipes._channels.stdout_guard import PATIENCE, Guard
from twopipes._server.log import logger

if TYPE_CHECKING:
    import asyncio

_RETURNED_TO_LOOP = (
    "Warning: a process that was forked from the server returned to the event loop, which belongs to the server, and ends here. "
    "Call os._exit() in it before the first await, or use multiprocessing"
)


def exit_child(error: BaseException | None = None) -> NoReturn:
    """End this process with the status that Python would use. No clean-up runs: the server, which goes on, owns everything."""
    status = 0
    try:
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
            if isinstance(error.code, str):
                sys.stderr.write(f"{error.code}\n")
        elif error is not None:
            status = 1
            import traceback  # only in a child that fails

            traceback.print_exception(error)
        _flush()
    finally:
        os._exit(status)


def abandon_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Separate the copy of an event loop from the original, with which it shares a selector, and exit when the copy runs."""
    import selectors  # in a child only

    if hasattr(loop, "_selector") and hasattr(loop, "_ready"):  # a loop of asyncio; other loops have other attributes
        loop._selector = selectors.DefaultSelector()
        loop._ready.clear()
    # Since Python 3.14 the step that has forked fails when it returns, because no loop runs in a forked process.
    loop.set_exception_handler(lambda _loop, _context: None)
    loop.call_soon(exit_at_loop)


def exit_at_loop() -> NoReturn:
    """End this process, because a coroutine has returned to the event loop."""
    with suppress(Exception):
        logger.warning(_RETURNED_TO_LOOP)
        _flush()
    os._exit(1)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
            stream.flush()
    guard = Guard.current()
    if guard is not None:
        guard.log.flush(PATIENCE)
