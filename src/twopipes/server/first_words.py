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
from typing import TYPE_CHECKING, NamedTuple

from twopipes.channels.base import READ_SIZE
from twopipes.session.events import Event
from twopipes.session.server_side import ServerSession

if TYPE_CHECKING:
    from twopipes.server.app import Server

__all__ = ["FirstWords", "first_words"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class FirstWords(NamedTuple):
    """A conversation that has begun.

    Attributes:
        session: What it is about.
        events: What came that takes more than the session: it is still to be done.
        unsent: What the host did not take at once.
    """

    session: ServerSession
    events: list[Event]
    unsent: bytes

    def take_signals(self) -> None:
        """Lets the signals in that were held back while nobody was there to handle them. A second call changes nothing."""
        if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def first_words(server: Server, read_fd: int, write_fd: int, *, is_traced: bool) -> FirstWords | None:
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
    answer = session.data_to_send()
    if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
        # Whoever has an answer may end us, and the way in which a server ends politely is the loop's.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    return FirstWords(session, events, answer[_written(write_fd, answer) :])


def _has_something(fd: int) -> bool:
    if sys.platform == "win32" or os.isatty(fd):
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
