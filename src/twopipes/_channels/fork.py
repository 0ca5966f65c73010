"""What a process that is forked from ours must not do with what it inherits.

A tool may fork: by ``os.fork()``, by ``multiprocessing``, in a library. The child has a copy of everything: of the wire, of the
event loop that serves it, of the handlers that run. One conversation must not have two servers, so in the child every wire
becomes the null device (FR-04), and whoever serves learns that it is a copy.

The children of ``subprocess`` are not meant: another program takes their place at once, and inherits no wire.
"""

from __future__ import annotations

import os
from contextlib import suppress

TYPE_CHECKING = False  # as in twopipes/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Process", "in_forked_children", "point_at_null", "this_process"]


class Process:
    """The process in which something was made.

    Attributes:
        is_forked: Whether this is a copy of it in a child, made by a fork since then.
    """

    __slots__ = ("is_forked",)

    def __init__(self) -> None:
        self.is_forked = False


def this_process() -> Process:
    """Return the process that runs this code."""
    return _current


def in_forked_children(callback: Callable[[], object]) -> Callable[[], None]:
    """Call a function in every process that is forked from this one, before anything else runs there.

    Returns:
        What ends that. A second call changes nothing.
    """
    key = object()
    _callbacks[key] = callback

    def forget() -> None:
        _callbacks.pop(key, None)

    return forget


def point_at_null(fd: int) -> None:
    """Replace an open descriptor by one of the null device, which child processes do not inherit.

    Not closed: its number would be given to the next file, and whoever still holds the number would use that.
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
    global _current  # noqa: PLW0603 - there is one process
    _current.is_forked = True
    _current = Process()
    callbacks = list(_callbacks.values())
    _callbacks.clear()
    for callback in callbacks:
        with suppress(Exception):  # the next one is as important
            callback()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_start_over)
