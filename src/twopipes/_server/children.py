"""End the processes that tools have started and that still run when the server ends.

A host does not know them, so nothing else would end them. Linux lists them: our children, their children, and so on. Processes in a
session of their own (``start_new_session=True``) are left alone, because they are meant to outlive us. See docs/decisions/0026.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if sys.platform == "linux":
    if TYPE_CHECKING:
        from twopipes._process.group_watchdog import GroupWatchdog

    # Seconds between SIGTERM and SIGKILL. A host that does not wait for it ends the wait: see Children.guard.
    GRACE: Final = 0.5
    # The same if the server is killed while it ends.
    GRACE_AFTER_US: Final = 0.2
    # Seconds for the system to remove killed processes.
    SETTLE: Final = 0.2
    # Seconds between two looks: the system does not report the end of a grandchild.
    PAUSE: Final = 0.01
    # How often the scan is repeated because a process has forked and exited meanwhile.
    MAX_SCANS: Final = 100
    PR_SET_CHILD_SUBREAPER: Final = 36
    PR_GET_CHILD_SUBREAPER: Final = 37

    # The id of a process, and its start time, which distinguishes it from a later one with the same id.
    _Process = tuple[int, int]

    class Children:
        """The descendants of this process, except those that existed when this object was made."""

        def __init__(self) -> None:
            self._before = _children_of("self")
            self._lock = threading.Lock()
            self._known: set[_Process] = set()
            self._watchdog: GroupWatchdog | None = None
            self._is_over = False

        def guard(self) -> None:
            """Let a watchdog end the children if our process is killed before :meth:`end`: some hosts send SIGKILL after 0.1 s."""
            if not self._lock.acquire(blocking=False):
                return
            try:
                if not self._is_over:
                    self._update_watchdog(self._living())
            finally:
                self._lock.release()

        def end(self) -> None:
            """End all of them: SIGTERM, a grace period, SIGKILL. Returns when they are gone, in under a second. From any thread."""
            with self._lock:
                self._is_over = True
                if self._living():
                    direct = _children_of("self")
                    with _adopted_orphans():
                        self._send_until_gone(signal.SIGTERM, GRACE)
                        self._send_until_gone(signal.SIGKILL, SETTLE)
                        # A program that goes on after run() does not know these. A tool waits for what it started itself.
                        for pid in _children_of("self") - direct:
                            with suppress(ChildProcessError):
                                os.waitpid(pid, os.WNOHANG)
                self._update_watchdog(())

        def _send_until_gone(self, number: int, seconds: float) -> None:
            deadline = time.monotonic() + seconds
            sent: set[_Process] = set()
            while (left := self._living()) and time.monotonic() < deadline:
                self._update_watchdog(left)
                for pid, _ in left - sent:
                    with suppress(OSError):  # it has ended meanwhile
                        os.kill(pid, number)
                sent |= left
                time.sleep(PAUSE)

        def _living(self) -> set[_Process]:
            """Return all running descendants: those of now, and those of earlier scans that have lost their parent since."""
            for _ in range(MAX_SCANS):
                listed = _children_of("self")
                self._known = self._scan(listed)
                # A process may fork and exit after it was listed. Its child is then ours, and in the next list.
                if self._known or _children_of("self") == listed:
                    break
            return set(self._known)

        def _scan(self, children: set[int]) -> set[_Process]:
            session = os.getsid(0)
            found = {process for process in self._known if _look_at(process[0], session) == process}
            unseen = children - self._before - _resource_tracker()
            while unseen:
                pid = unseen.pop()
                process = _look_at(pid, session)
                if process is not None:
                    found.add(process)
                    unseen |= _children_of(pid)
            return found

        def _update_watchdog(self, processes: Iterable[_Process]) -> None:
            if self._watchdog is None and processes:
                from twopipes._process.group_watchdog import GroupWatchdog  # most servers never need it

                self._watchdog = GroupWatchdog(GRACE_AFTER_US)
            if self._watchdog is not None:
                self._watchdog.watch_processes(pid for pid, _ in processes)

    def _children_of(process: int | str) -> set[int]:
        found: set[int] = set()
        folder = f"/proc/{process}/task"
        with suppress(OSError):  # no /proc here, a kernel without the list, or it has ended
            for thread in os.listdir(folder):
                with suppress(OSError), open(f"{folder}/{thread}/children", "rb") as file:
                    found.update(map(int, file.read().split()))
        return found

    def _look_at(pid: int, session: int) -> _Process | None:
        """Return the process, if it runs and is in this session."""
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                # The name of the program, in parentheses, may itself contain parentheses.
                fields = file.read(4096).rpartition(b")")[2].split()
        except OSError:
            return None
        state, its_session, started = fields[0], int(fields[3]), int(fields[19])
        return (pid, started) if its_session == session and state not in {b"Z", b"X"} else None

    def _resource_tracker() -> set[int]:
        """Return the helper of multiprocessing that removes shared memory after our end, and then exits."""
        module = sys.modules.get("multiprocessing.resource_tracker")
        return {getattr(getattr(module, "_resource_tracker", None), "_pid", None) or 0}

    @contextmanager
    def _adopted_orphans() -> Generator[None, None, None]:
        """Make orphaned descendants our children, so that they can be found. Only at the end: nothing would reap such a child."""
        is_set = False
        with suppress(ImportError, OSError, AttributeError):  # a Python without ctypes, a C library without the function
            import ctypes  # few servers need it

            prctl = ctypes.CDLL(None).prctl
            before = ctypes.c_int(1)
            is_set = prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0) == 0 and before.value == 0
            is_set = is_set and prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        try:
            yield
        finally:
            if is_set:
                prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

else:

    class Children:
        """Does nothing: this system does not list the children of a process."""

        def guard(self) -> None:
            """Do nothing."""

        def end(self) -> None:
            """Do nothing."""
