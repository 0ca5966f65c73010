"""Names a coroutine that blocks the event loop: while it does, nothing else is served."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

from twopipes._channels.stdout_guard import format_place

__all__ = ["Watchdog"]

# Where the standard library and this package live: when they block, somebody else made them.
_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep
_OURS: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Watchdog:
    """A thread that notices when the event loop does not come round.

    Args:
        limit: Seconds after which somebody is named.
        say: Told who, once for each place.
        while_blocked: Called every ``limit`` seconds for as long as the loop is blocked: what the loop itself would notice, it
            cannot notice now.
    """

    def __init__(self, limit: float, say: Callable[[str], None], while_blocked: Callable[[], None] | None = None) -> None:
        self._limit = limit
        self._say = say
        self._while_blocked = while_blocked
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._came_round = threading.Event()
        self._stopped = threading.Event()
        self._named: set[str] = set()
        threading.Thread(target=self._watch, name="twopipes watchdog", daemon=True).start()

    def stop(self) -> None:
        """Ends the watch."""
        self._stopped.set()
        self._came_round.set()

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._came_round.clear()
            try:
                self._loop.call_soon_threadsafe(self._came_round.set)
            except RuntimeError:
                return  # the loop is closed
            if not self._came_round.wait(self._limit) and not self._stopped.is_set():
                self._name(sys._current_frames().get(self._loop_thread))
                while not self._came_round.wait(self._limit):
                    if self._while_blocked is not None:
                        self._while_blocked()
            self._stopped.wait(self._limit)

    def _name(self, frame: FrameType | None) -> None:
        frame = _culprit(frame)
        if frame is None:
            return
        place = format_place(frame.f_code.co_filename, frame.f_lineno)
        if place not in self._named:
            self._named.add(place)
            self._say(
                f"Warning: {frame.f_code.co_name} at {place} has blocked the server for {self._limit:g} s; nothing else is "
                f"served meanwhile. Make it a plain def, or await something that does not block\n"
            )


def _culprit(frame: FrameType | None) -> FrameType | None:
    """The nearest caller that somebody wrote who can mend it: neither the standard library nor this package."""
    installed: FrameType | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_code.co_name == "run_forever" and file.startswith(_LIBRARY):
            break  # further out stands who has started the loop, and does not block it
        if "-packages" in file and not file.startswith(_OURS):
            installed = installed or frame  # a server may be installed itself, so this is second best
        elif not file.startswith(("<frozen ", _LIBRARY, _OURS)):
            return frame
        frame = frame.f_back
    return installed
