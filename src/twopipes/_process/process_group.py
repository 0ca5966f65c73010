"""A process that we started and its descendants: what a process group on POSIX and a job on Windows have in common."""

from __future__ import annotations

import asyncio
import atexit
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from twopipes._process.exit_status import SIGKILL, ExitStatus

# Seconds to wait for a thread that is about to end. It normally takes microseconds.
JOIN_TIMEOUT = 1.0


class Launch(Struct, frozen=True):
    """What to execute to start a server: its command, or one that starts it in a sandbox."""

    argv: list[str]
    # Descriptors that the started process inherits, beside its standard streams. The caller closes them.
    inherited: tuple[int, ...] = ()
    # Whether the started process stays, waits for the server in its sandbox and passes its exit status on.
    is_monitor: bool = False


class ProcessGroup(ABC):
    """A process that we started, the leader, and its descendants.

    Thread-safe: the exit of the interpreter may run while an event loop runs in another thread.

    Attributes:
        pid: The process id of the leader.
        status: How the leader ended; ``None`` while it runs.
        has_sigterm: Whether SIGTERM can reach the members. On Windows that needs a console that we share with them.
    """

    has_sigterm = True

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self.status: ExitStatus | None = None
        self._process = process
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None

    def watch(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[], None]) -> None:
        """Call ``on_exit`` once in the loop, when the leader has exited and ``status`` is known."""

        def wait() -> None:
            self._wait()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(on_exit)

        thread = threading.Thread(target=wait, name=f"twopipes waits for child {self.pid}", daemon=True)
        thread.start()
        self._thread = thread  # only now: start() may fail

    def unwatch(self) -> None:
        """Free the resources of :meth:`watch`. A thread ends when the leader exits."""
        if self._thread is not None and self.status is not None and self._thread is not threading.current_thread():
            self._thread.join(JOIN_TIMEOUT)

    @abstractmethod
    def _wait(self) -> None:
        """Block until ``status`` is known."""

    @abstractmethod
    def reap(self) -> bool:
        """Return, without blocking, whether the leader has exited."""

    @abstractmethod
    def is_gone(self) -> bool:
        """Whether the leader was reaped and no other member is left."""

    @abstractmethod
    def signal(self, number: int) -> None:
        """Send a signal to all members; do nothing if the group is gone, or in a fork of the process that started it."""

    def kill(self) -> None:
        """Send SIGKILL to all members."""
        self.signal(SIGKILL)
        self.reap()


# The groups that may still be alive. Not Child objects: an unreferenced Child may be collected, but its processes must not be
# forgotten.
_live: set[ProcessGroup] = set()


def register(group: ProcessGroup) -> None:
    """Kill a group when the interpreter exits. Forget those that are gone by now."""
    for other in list(_live):
        unregister(other)
    _live.add(group)


def unregister(group: ProcessGroup) -> bool:
    """Forget a group if it is gone, and return whether it is."""
    if not group.is_gone():
        return False
    _live.discard(group)
    return True


@atexit.register
def kill_all() -> None:
    """Kill every group that is left."""
    for group in list(_live):
        group.kill()
