"""Protection of our descriptors in forked processes.

A tool may fork: by ``os.fork()``, by ``multiprocessing``, in a library. The child gets a copy of everything: the wire, the event
loop that serves it, the running handlers. One connection must not have two servers, so in the child every wire is replaced by the
null device (FR-04), and serving code can see that it runs in a copy.

Children of ``subprocess`` are not affected: they execute another program at once, which does not inherit the wire.
"""

from __future__ import annotations

import os
from contextlib import suppress

TYPE_CHECKING = False  # type checkers treat it as true; importing typing is slow, and every stdio server imports this module
if TYPE_CHECKING:
    from collections.abc import Callable


class Process:
    """Identifies the process in which an object was created, and whether the code now runs in one that was forked after that."""

    is_forked = False


def this_process() -> Process:
    """Return the object for the current process."""
    return _current


def in_forked_children(callback: Callable[[], object]) -> Callable[[], object]:
    """Call a function in every process that is forked from this one, before other code runs there. Return an undo function."""
    key = object()
    _callbacks[key] = callback
    return lambda: _callbacks.pop(key, None)


def point_at_null(fd: int) -> None:
    """Replace an open descriptor by one of the null device that child processes do not inherit.

    It is not closed, because its number would be reused for the next file, and code that still has the number would use that file.
    """
    try:
        null = os.open(os.devnull, os.O_RDWR)
    except OSError:  # too many files are open
        with suppress(OSError):
            os.close(fd)
        return
    os.dup2(null, fd, inheritable=False)
    os.close(null)


_current = Process()
_callbacks: dict[object, Callable[[], object]] = {}


def _start_over() -> None:
    global _current  # noqa: PLW0603 - the state is per process
    _current.is_forked = True
    _current = Process()
    callbacks = list(_callbacks.values())
    _callbacks.clear()
    for callback in callbacks:
        with suppress(Exception):  # the next one must still run
            callback()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_start_over)
