"""How a copy of a server ends, in a process that a handler has forked. It never serves: there is one server on a wire."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from twopipes._channels.stdout_guard import PATIENCE, Guard

if TYPE_CHECKING:
    import asyncio

__all__ = ["abandon_loop", "exit_at_loop", "exit_child"]

_CAME_BACK = (
    "Warning: a process that was forked from the server came back to the event loop, which belongs to the server, and ends here. "
    "Let it end by os._exit() before the first await, or use multiprocessing\n"
)


def exit_child(error: BaseException | None = None) -> NoReturn:
    """End this process as Python ends one: with a traceback and 1 for an error, with the status of a ``SystemExit``, else with 0.

    Nothing is tidied up on the way. Whatever is there to be tidied up is the server's, which goes on.
    """
    status = 0
    try:
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
            if isinstance(error.code, str):
                sys.stderr.write(f"{error.code}\n")
        elif error is not None:
            status = 1
            import traceback  # noqa: PLC0415 - not before something has gone wrong

            traceback.print_exception(error)
        _flush()
    finally:
        os._exit(status)


def abandon_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Keep the copy of an event loop away from the original, and end the process when it gets its turn.

    The selector of the copy is the very one of the original: what the copy watches, or watches no longer, the original does not
    watch any longer, either. And whatever waits for its turn is about to be done by the original.
    """
    import selectors  # noqa: PLC0415 - in a child only

    if hasattr(loop, "_selector") and hasattr(loop, "_ready"):  # a loop of asyncio; others have names of their own
        loop._selector = selectors.DefaultSelector()
        loop._ready.clear()
    loop.call_soon(exit_at_loop)


def exit_at_loop() -> NoReturn:
    """End this process, where a coroutine has given the event loop its turn."""
    with suppress(Exception):
        sys.stderr.write(_CAME_BACK)
        _flush()
    os._exit(1)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
            stream.flush()
    guard = Guard.current()
    if guard is not None:
        guard.log.flush(PATIENCE)
