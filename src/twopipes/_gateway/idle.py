"""Notices that something was not used for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager


class IdleTimer:
    """Calls a function when nothing used a thing for some seconds; again after each further use.

    The time starts with the first use. ``seconds=None`` never calls it.
    """

    def __init__(self, seconds: float | None, on_idle: Callable[[], object]) -> None:
        self._seconds = seconds
        self._on_idle = on_idle
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def used(self) -> Generator[None, None, None]:
        """Count as a user, for the time of a block."""
        self._users += 1
        self.stop()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users and self._seconds is not None:
                self._timer = asyncio.get_running_loop().call_later(self._seconds, self._on_idle)

    @property
    def is_used(self) -> bool:
        """Whether there is a user now."""
        return self._users > 0

    def stop(self) -> None:
        """Do not call the function for the uses so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
