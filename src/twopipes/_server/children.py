"""The processes that tools have started and that still run when the server ends: they end with it.

A host does not know them, so nothing else would end them. They are found where the system lists them, which Linux does: our
children, their children, and so on, but for what is in a session of its own (``start_new_session=True``), which was meant to
outlive us. See docs/decisions/0026.
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

__all__ = ["Children"]

if sys.platform == "linux":
    if TYPE_CHECKING:
        from twopipes._process.group_watchdog import GroupWatchdog

    # Seconds between SIGTERM and SIGKILL. A host that does not wait for it ends the wait: see Children.guard.
    GRACE: Final = 0.5
    # The same if the server is killed while it ends.
    GRACE_AFTER_US: Final = 0.2
    # Seconds that the system gets to remove what was killed.
    SETTLE: Final = 0.2
    # Seconds between two looks: the system does not report the end of a grandchild.
    PAUSE: Final = 0.01
    # How often processes are looked for again because one has forked and exited meanwhile.
    MAX_SCANS: Final = 100
    PR_SET_CHILD_SUBREAPER: Final = 36
    PR_GET_CHILD_SUBREAPER: Final = 37

    # The number of a process, and its start time, which tells it from a later one with the same number.
    _Process = tuple[int, int]

    class Children:
        """The descendants of this process, except those that it had when this was made: the launcher may have left us some."""

        def __init__(self) -> None:
            self._before = _children_of("self")
            self._lock = threading.Lock()
            self._known: set[_Process] = set()
            self._watchdog: GroupWatchdog | None = None
            self._is_over = False

        def guard(self) -> None:
            """Have what runs now ended by another process if ours is killed before it comes to :meth:`end`.

            Called again and again from the moment the end has begun: some hosts send a second signal or SIGKILL after 0.1 s.
            """
            if not self._lock.acquire(blocking=False):
                return
            try:
                if not self._is_over:
                    self._tell_watchdog(self._living())
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
                        # A program that goes on after run() does not know these. What a tool started itself, the tool waits for.
                        _reap(_children_of("self") - direct)
                self._tell_watchdog(())

        def _send_until_gone(self, number: int, seconds: float) -> None:
            deadline = time.monotonic() + seconds
            sent: set[_Process] = set()
            while (left := self._living()) and time.monotonic() < deadline:
                self._tell_watchdog(left)
                for pid, _ in left - sent:
                    with suppress(OSError):  # it has ended meanwhile
                        os.kill(pid, number)
                sent |= left
                time.sleep(PAUSE)

        def _living(self) -> set[_Process]:
            """Everything that runs: what descends from us now, and what did when we looked before and lost its parent since."""
            for _ in range(MAX_SCANS):
                listed = _children_of("self")
                self._known = self._scan(listed)
                # A process may fork and exit after it was listed. Its child is then ours, and in the next list.
                if self._known or _children_of("self") == listed:
                    break
            return set(self._known)

        def _scan(self, children: set[int]) -> set[_Process]:
            session = os.getsid(0)
            found = {process for process in self._known if _is_running(process, session)}
            unseen = children - self._before - _resource_tracker()
            while unseen:
                pid = unseen.pop()
                process = _look_at(pid, session)
                if process is not None:
                    found.add(process)
                    unseen |= _children_of(pid)
            return found

        def _tell_watchdog(self, processes: Iterable[_Process]) -> None:
            if self._watchdog is None and processes:
                from twopipes._process.group_watchdog import GroupWatchdog  # noqa: PLC0415 - most servers never need it

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
        """The process, if it runs and is in this session."""
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                # The name of the program, in parentheses, may hold anything, parentheses included.
                fields = file.read(4096).rpartition(b")")[2].split()
        except OSError:
            return None
        state, its_session, started = fields[0], int(fields[3]), int(fields[19])
        return (pid, started) if its_session == session and state not in {b"Z", b"X"} else None

    def _is_running(process: _Process, session: int) -> bool:
        return _look_at(process[0], session) == process

    def _resource_tracker() -> set[int]:
        """The helper of multiprocessing that removes shared memory after our end, and ends by itself then."""
        module = sys.modules.get("multiprocessing.resource_tracker")
        return {getattr(getattr(module, "_resource_tracker", None), "_pid", None) or 0}

    @contextmanager
    def _adopted_orphans() -> Generator[None, None, None]:
        """While this lasts, a descendant whose parent ends becomes our child instead of that of process 1, and stays in sight.

        Only at the end: an adopted orphan would stay a zombie, because nothing in the program waits for it.
        """
        is_set = False
        with suppress(ImportError, OSError, AttributeError):  # a Python without ctypes, a C library without the function
            import ctypes  # noqa: PLC0415 - few servers need it

            prctl = ctypes.CDLL(None).prctl
            before = ctypes.c_int(1)
            is_set = prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0) == 0 and before.value == 0
            is_set = is_set and prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        try:
            yield
        finally:
            if is_set:
                prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def _reap(pids: Iterable[int]) -> None:
        for pid in pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

else:

    class Children:
        """As on Linux, but the system does not list them: nothing is ended."""

        def guard(self) -> None:
            """Do nothing."""

        def end(self) -> None:
            """Do nothing."""
