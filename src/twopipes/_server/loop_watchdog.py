"""Report a coroutine that blocks the event loop, because nothing else is served meanwhile."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

from twopipes._channels.stdout_guard import format_place

# Frames of the standard library and of this package are skipped: the cause is the code that called them.
_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep
_OURS: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Watchdog:
    """A thread that calls ``say``, once for each place in the code, when the event loop is blocked for ``limit`` seconds.

    While it is blocked, ``while_blocked`` is called every ``limit`` seconds, for checks that the loop cannot make.
    """

    def __init__(self, limit: float, say: Callable[[str], None], while_blocked: Callable[[], None] | None = None) -> None:
        self._limit = limit
        self._say = say
        self._while_blocked = while_blocked
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._responded = threading.Event()
        self._stopped = threading.Event()
        self._reported: set[str] = set()
        threading.Thread(target=self._watch, name="twopipes watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._responded.set()

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._responded.clear()
            try:
                self._loop.call_soon_threadsafe(self._responded.set)
            except RuntimeError:
                return  # the loop is closed
            if not self._responded.wait(self._limit) and not self._stopped.is_set():
                self._report(sys._current_frames().get(self._loop_thread))
                while not self._responded.wait(self._limit):
                    if self._while_blocked is not None:
                        self._while_blocked()
            self._stopped.wait(self._limit)

    def _report(self, frame: FrameType | None) -> None:
        frame = _culprit(frame)
        if frame is None:
            return
        place = format_place(frame.f_code.co_filename, frame.f_lineno)
        if place not in self._reported:
            self._reported.add(place)
            self._say(
                f"Warning: {frame.f_code.co_name} at {place} has blocked the server for {self._limit:g} s; nothing else is "
                f"served meanwhile. Make it a plain def, or await something that does not block\n"
            )


def _culprit(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame that its author can fix: not in the standard library, not in this package."""
    installed: FrameType | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_code.co_name == "run_forever" and file.startswith(_LIBRARY):
            break  # the frames further out started the loop and do not block it
        if "-packages" in file and not file.startswith(_OURS):
            installed = installed or frame  # the second choice, because a server may itself be an installed package
        elif not file.startswith(("<frozen ", _LIBRARY, _OURS)):
            return frame
        frame = frame.f_back
    return installed
