"""The process groups that we started and that may still be alive. They are killed when the interpreter exits."""

from __future__ import annotations

import atexit
from typing import Protocol


class ProcessGroup(Protocol):
    """The part of a process group that this module needs."""

    def is_gone(self) -> bool:
        """Whether no process of the group is left. Reaps, without blocking, what has exited."""

    def kill(self) -> None:
        """Kill the whole group. In a fork of the process that started the group, this does nothing."""


# Groups, not Child objects: an unreferenced Child may be collected, but its processes must not be forgotten.
_live: set[ProcessGroup] = set()


def register(group: ProcessGroup) -> None:
    """Add a group, and drop those that are gone by now."""
    for other in list(_live):
        unregister(other)
    _live.add(group)


def unregister(group: ProcessGroup) -> None:
    """Remove a group if it is gone."""
    if group.is_gone():
        _live.discard(group)


@atexit.register
def kill_all() -> None:
    """Kill every group that is left."""
    for group in list(_live):
        group.kill()
