"""Every process group that was started and not yet seen to be gone: what must not outlive the interpreter."""

from __future__ import annotations

import atexit
from typing import Protocol

__all__ = ["ProcessGroup", "dismiss", "enlist", "kill_everything"]


class ProcessGroup(Protocol):
    """A process group, as far as this register cares."""

    def is_gone(self) -> bool:
        """Whether nothing of it is left; also waits, without blocking, for what has ended."""

    def kill(self) -> None:
        """End all of it, now. In a process that was forked from the one that started it, this does nothing."""


# Groups and not children: a child that nobody holds any more may be collected, what it started may not be forgotten.
_living: set[ProcessGroup] = set()


def enlist(group: ProcessGroup) -> None:
    """See to it that the group does not outlive us. Groups that went meanwhile are let go."""
    for other in list(_living):
        dismiss(other)
    _living.add(group)


def dismiss(group: ProcessGroup) -> None:
    """Let go of a group, if it is gone."""
    if group.is_gone():
        _living.discard(group)


@atexit.register
def kill_everything() -> None:
    """End whatever is still there when the interpreter exits."""
    for group in list(_living):
        group.kill()
