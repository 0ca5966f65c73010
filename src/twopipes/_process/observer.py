"""Somebody who sees what happens to a child."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twopipes._channels.base import Channel
from twopipes._process.exit_status import ExitStatus
from twopipes._process.stderr import Copier

__all__ = ["ProcessObserver", "TappedCopier"]


class ProcessObserver(Protocol):
    """Is told of everything about one child, when it happens. It neither waits nor raises."""

    def started(self, pid: int, channel: Channel) -> Channel:
        """It runs. What this returns is used as its pipes."""

    def stderr(self, data: bytes) -> None:
        """It wrote this to its stderr, cut anywhere."""

    def signalled(self, number: int) -> None:
        """It is sent a signal."""

    def exited(self, status: ExitStatus) -> None:
        """It has ended, and all that it wrote to stderr was told before."""


class TappedCopier(Copier):
    """Hands a child's stderr to two."""

    def __init__(self, inner: Copier | None, tell: Callable[[bytes], None]) -> None:
        self._inner = inner
        self._tell = tell

    def write(self, data: bytes) -> None:
        """Hand these bytes on, without waiting."""
        self._tell(data)
        if self._inner is not None:
            self._inner.write(data)

    def close(self) -> None:
        """Nothing more comes."""
        if self._inner is not None:
            self._inner.close()
