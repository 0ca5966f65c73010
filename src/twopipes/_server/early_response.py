"""The first answer, before there is an event loop.

To import asyncio takes as long as everything else that a small server does at its start. A host that writes its first message at
once, as they all do, need not wait for that: the session needs no loop to answer a handshake or a discovery. So what has come by
now is read and answered by hand, once, and everything after it is the loop's.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

from twopipes._channels.base import READ_SIZE
from twopipes._session.events import Event
from twopipes._session.server import ServerSession

if TYPE_CHECKING:
    from twopipes._server.app import Server

__all__ = ["EarlyResponder", "respond_early"]


class EarlyResponder:
    """A conversation that has begun, and the signals that came since.

    Attributes:
        session: What it is about.
        events: What came that takes more than the session: it is still to be done.
        unsent: What the host did not take at once.
    """

    def __init__(self, session: ServerSession, events: list[Event]) -> None:
        self.session = session
        self.events = events
        self.unsent = b""
        self._noted: list[int] = []
        self._before: dict[int, Any] = {}

    def hold_signals(self) -> None:
        """Notes signals from now on: whoever has an answer may end us, and the polite way to end is the loop's."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._noted.append(number)

    def take_signals(self) -> None:
        """Somebody handles signals now: those that came before are told."""
        noted, self._noted = self._noted, []
        for number in noted:
            signal.raise_signal(number)

    def put_back_signals(self) -> None:
        """Leaves the handlers as they were, unless somebody has set others meanwhile."""
        for number, before in self._before.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, before)
        self.take_signals()


def respond_early(server: Server, read_fd: int, write_fd: int, *, is_traced: bool) -> EarlyResponder | None:
    """Answers what the host has said already; ``None`` if that is nothing, or not to be answered here.

    It waits for nobody. Where the author has a lifespan or a middleware, these come before the first answer, and they need a loop.
    """
    if is_traced or not server.answers_alone or not _has_something(read_fd):
        return None
    try:
        data = os.read(read_fd, READ_SIZE)
    except OSError:
        return None  # whoever reads next will learn the same
    if not data:
        return None  # the end is seen again by whoever looks again
    session = server.new_session()
    events = session.receive(data, now=time.monotonic())  # the clock of every event loop
    begun = EarlyResponder(session, events)
    begun.hold_signals()
    answer = session.data_to_send()
    begun.unsent = answer[_written(write_fd, answer) :]
    return begun


def _has_something(fd: int, *, can_be_asked: bool = sys.platform != "win32") -> bool:
    if not can_be_asked or os.isatty(fd):
        return False
    import select  # noqa: PLC0415 - not made for every file there

    try:
        return bool(select.select([fd], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def _written(fd: int, data: bytes) -> int:
    if not data:
        return 0
    try:
        return os.write(fd, data)
    except OSError:  # full, or gone: the loop has its own way with both
        return 0
