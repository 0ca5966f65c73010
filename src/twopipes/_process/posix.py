"""Starting a process group on POSIX, and everything that can be known and done about it by system calls.

The child leads a session, and so a process group, of its own: wrappers and what they start belong to it and get every signal, and
none of the terminal's. The number of a group stays taken as long as it has members, even when its leader was waited for, so
signals can go to what a dead wrapper left behind. Once the group was seen to be empty, nothing is sent to that number again.
"""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import asyncio
    import os
    import subprocess
    import threading
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import suppress

    from twopipes._process.exit_status import SIGKILL, ExitStatus
    from twopipes._process.group_watchdog import GroupWatchdog

    __all__ = ["ProcessGroup", "spawn"]

    # Ends every group that was started with die_with_us when this process dies. The grace period is that of a ShutdownPlan.
    _watchdog = GroupWatchdog(grace=2.0)
    # Seconds to wait for a thread that is known to have nothing left to do but end. It takes microseconds; this is a net.
    ENDING = 1.0

    def spawn(
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdin: int,
        stdout: int,
        stderr: int,
        die_with_us: bool,
    ) -> ProcessGroup:
        """Start a process that leads a group of its own.

        Args:
            argv: Its words; the first is the absolute path of the executable.
            env: Its whole environment.
            cwd: Its folder.
            stdin: The descriptor that becomes its standard input; the other two likewise. They stay open here.
            stdout: See ``stdin``.
            stderr: See ``stdin``.
            die_with_us: Have the whole group ended when this process dies in any way.

        Raises:
            OSError: It could not be started. ``filename`` is the folder, if that was the reason.
        """
        expected = _watchdog.expect(stdin) if die_with_us else ""
        try:
            process = subprocess.Popen(
                argv, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True, close_fds=True
            )
        except BaseException:
            _watchdog.remove(expected)
            raise
        if die_with_us:
            _watchdog.add(process.pid, expected)
        return ProcessGroup(process)

    class ProcessGroup:
        """A process that we started, and all that belongs to its group.

        Safe to use from several threads: the interpreter's exit may meet an event loop in another one.

        Attributes:
            pid: Of the leader; the number of the group as well.
            status: How the leader ended; ``None`` while it runs.
        """

        def __init__(self, process: subprocess.Popen[bytes]) -> None:
            self.pid = process.pid
            self.status: ExitStatus | None = None
            self._process = process
            self._owner = os.getpid()
            self._lock = threading.RLock()
            self._is_gone = False
            # Members that were seen alive when the leader was dead: only these are looked at until they are gone.
            self._members: set[int] = set()
            self._loop: asyncio.AbstractEventLoop | None = None
            self._pidfd: int | None = None
            self._thread: threading.Thread | None = None

        # Its end

        def watch(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[], None]) -> None:
            """Have ``on_exit`` called once in the loop, when the leader has ended and ``status`` is known.

            Nothing of asyncio's own ways to wait for children is used: they want the main thread, or the loop that runs there.
            """
            self._loop = loop
            if sys.platform == "linux":
                # Refused by old kernels and by some sandboxes; no more descriptors is a reason as well.
                with suppress(AttributeError, OSError):
                    # It was not waited for, so the number is still its own.
                    self._pidfd = os.pidfd_open(self.pid)
            if self._pidfd is not None:
                loop.add_reader(self._pidfd, self._ended, on_exit)
            else:
                thread = threading.Thread(
                    target=self._wait_in_a_thread, args=(loop, on_exit), name=f"twopipes waits for child {self.pid}", daemon=True
                )
                thread.start()
                self._thread = thread  # not before: it may have failed to start

        def unwatch(self) -> None:
            """Free what watching took. A thread ends with the leader."""
            if self._pidfd is not None:
                if self._loop is not None and not self._loop.is_closed():
                    self._loop.remove_reader(self._pidfd)
                os.close(self._pidfd)
                self._pidfd = None
            if self._thread is not None and self.status is not None and self._thread is not threading.current_thread():
                self._thread.join(ENDING)

        def _ended(self, on_exit: Callable[[], None]) -> None:
            if self.reap():
                self.unwatch()
                on_exit()

        def _wait_in_a_thread(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[], None]) -> None:
            try:
                self._record(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:
                self._record(None)
            self.is_gone()  # the watchdog must forget the number even if the loop does not come round
            with suppress(RuntimeError):  # the loop is closed, and with it everyone who could care
                loop.call_soon_threadsafe(on_exit)

        def reap(self) -> bool:
            """Wait for the leader without blocking; return whether it has ended. No zombie stays."""
            with self._lock:
                if self.status is None and self._thread is None and self._is_ours():
                    try:
                        pid, status = os.waitpid(self.pid, os.WNOHANG)
                    except ChildProcessError:
                        # Somebody else waited for it, or the program ignores SIGCHLD: it has ended, nobody knows how.
                        self._record(None)
                    else:
                        if pid:
                            self._record(status)
                return self.status is not None

        def _record(self, status: int | None) -> None:
            with self._lock:
                if self.status is None:
                    self.status = ExitStatus() if status is None else ExitStatus.from_wait(status)
                    # So that Popen neither waits for it nor complains that nobody did.
                    self._process.returncode = 0 if status is None else os.waitstatus_to_exitcode(status)

        # The group

        def is_gone(self) -> bool:
            """Whether the leader was waited for and nothing of the group is left."""
            with self._lock:
                if not self._is_gone and self.reap():
                    self._is_gone = not self._has_members()
                    if self._is_gone:
                        _watchdog.remove(self.pid)  # the number may be given to others from now on
                return self._is_gone

        def signal(self, number: int) -> None:
            """Send a signal to every process of the group; nothing if it is gone, or if this is a fork of who started it."""
            with self._lock:
                if not self._is_ours() or self.is_gone():
                    return
                # Gone in this moment, or running as another user.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, number)

        def kill(self) -> None:
            """End all of it, now."""
            self.signal(SIGKILL)
            self.reap()

        def release(self) -> None:
            """Free what the system holds for us: nothing here."""

        def _is_ours(self) -> bool:
            return os.getpid() == self._owner

        def _has_members(self) -> bool:
            self._wait_for_orphans()
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                return False
            except PermissionError:
                # On macOS: only zombies are left. On Linux: they run as another user, and the next question answers it.
                is_certain = sys.platform == "linux"
            else:
                is_certain = True
            if not is_certain or (sys.platform == "linux" and not self._has_living_members()):
                # Some of those that are dead now may not have been a moment ago.
                self._wait_for_orphans()
                return False
            return True

        def _wait_for_orphans(self) -> None:
            # As process 1 of a container we inherit them, and have to wait for them like any other process 1.
            if self._is_ours():
                with suppress(ChildProcessError):
                    while os.waitpid(-self.pid, os.WNOHANG)[0]:
                        pass

        def _has_living_members(self) -> bool:
            """Whether anything but zombies is left, which stay for ever in a container whose process 1 waits for nobody."""
            self._members = {pid for pid in self._members if _is_living_member(pid, self.pid)}
            if not self._members:
                found = map(int, filter(str.isdigit, os.listdir("/proc")))
                self._members = {pid for pid in found if _is_living_member(pid, self.pid)}
            return bool(self._members)

    def _is_living_member(pid: int, group: int) -> bool:
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                # The name of the program, in parentheses, may hold anything, parentheses included.
                state, _parent, its_group = file.read(4096).rpartition(b")")[2].split(maxsplit=3)[:3]
        except (OSError, ValueError):
            return False
        return int(its_group) == group and state not in {b"Z", b"X"}
