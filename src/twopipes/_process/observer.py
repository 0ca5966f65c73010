"""Observe the events of a child process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from twopipes._channels.base import Channel
from twopipes._process.exit_status import ExitStatus
from twopipes._process.stderr import Copier


class ProcessObserver(Protocol):
    """Receives the events of one child as they happen. Its methods must not block or raise."""

    def started(self, pid: int, channel: Channel) -> Channel:
        """The child has started. The returned channel is used in place of its pipes."""

    def stderr(self, data: bytes) -> None:
        """The child wrote these bytes to stderr. They may end in the middle of a line."""

    def signalled(self, number: int) -> None:
        """A signal is being sent to the child."""

    def exited(self, status: ExitStatus) -> None:
        """The child has exited. All of its stderr was reported before."""


class ObservedCopier(Copier):
    """Passes a child's stderr to an observer and to another copier."""

    def __init__(self, inner: Copier | None, on_data: Callable[[bytes], None]) -> None:
        self._inner = inner
        self._on_data = on_data

    def write(self, data: bytes) -> None:
        self._on_data(data)
        if self._inner is not None:
            self._inner.write(data)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
