"""Start a process group on POSIX, watch it and signal it.

The child leads a session, and so a process group, of its own: wrappers and their children belong to it and get every signal we
send, but none from the terminal. The number of a group stays reserved while the group has members, even after its leader was
reaped, so signals reach what a dead wrapper left behind. Once the group was seen to be empty, its number is never used again.
"""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import asyncio
    import os
    import signal
    import subprocess
    from collections.abc import Callable, Mapping
    from contextlib import suppress

    from twopipes._process.exit_status import SIGKILL, ExitStatus
    from twopipes._process.group_watchdog import GroupWatchdog
    from twopipes._process.process_group import Launch, ProcessGroup

    # Ends every group that was started with die_with_us when this process dies. The grace period is that of a ShutdownPlan.
    _watchdog = GroupWatchdog(grace=2.0)

    def spawn(
        launch: Launch, *, env: Mapping[str, str], cwd: str, streams: tuple[int, int, int], die_with_us: bool
    ) -> ProcessGroup:
        """Start a process that leads its own group.

        ``streams`` become its stdin, stdout and stderr, and stay open here. With ``die_with_us`` the whole group is ended when this
        process dies for any reason. If its folder is the reason why it cannot be started, that is the ``filename`` of the OSError.
        """
        stdin, stdout, stderr = streams
        expected = _watchdog.expect(stdin) if die_with_us else ""
        try:
            process = subprocess.Popen(
                launch.argv,
                env=env,
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                close_fds=True,
                pass_fds=launch.inherited,
            )
        except BaseException:
            _watchdog.remove(expected)
            raise
        if die_with_us:
            _watchdog.add(process.pid, expected)
        if sys.platform == "linux" and launch.is_monitor:
            return _MonitoredGroup(process)
        return _PosixGroup(process)

    class _PosixGroup(ProcessGroup):
        def __init__(self, process: subprocess.Popen[bytes]) -> None:
            super().__init__(process)
            self._owner = os.getpid()
            self._is_gone = False
            # Members seen alive after the leader had exited. While one of them is alive, /proc is not scanned again.
            self._members: set[int] = set()
            self._loop: asyncio.AbstractEventLoop | None = None
            self._pidfd: int | None = None

        # Exit of the leader

        def watch(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[], None]) -> None:
            # The child watchers of asyncio are not used: they need the main thread, or a loop that runs in it.
            if sys.platform == "linux":
                # Old kernels and some sandboxes refuse it, and the descriptors may be used up.
                with suppress(AttributeError, OSError):
                    # The leader is not reaped yet, so its number cannot have been reused.
                    self._pidfd = os.pidfd_open(self.pid)
            if self._pidfd is None:
                super().watch(loop, on_exit)
            else:
                self._loop = loop
                loop.add_reader(self._pidfd, self._ended, on_exit)

        def unwatch(self) -> None:
            if self._pidfd is not None:
                if self._loop is not None and not self._loop.is_closed():
                    self._loop.remove_reader(self._pidfd)
                os.close(self._pidfd)
                self._pidfd = None
            super().unwatch()

        def _ended(self, on_exit: Callable[[], None]) -> None:
            if self.reap():
                self.unwatch()
                on_exit()

        def _wait(self) -> None:
            try:
                self._record(self._wait_for_leader(0)[1])
            except ChildProcessError:
                self._record(None)
            self.is_gone()  # removes the number from the watchdog, even if the loop never runs again

        def reap(self) -> bool:
            with self._lock:
                if self.status is None and self._thread is None and self._is_ours():
                    try:
                        pid, status = self._wait_for_leader(os.WNOHANG)
                    except ChildProcessError:
                        # Other code has reaped it, or the program ignores SIGCHLD: it has exited with an unknown status.
                        self._record(None)
                    else:
                        if pid:
                            self._record(status)
                return self.status is not None

        def _wait_for_leader(self, options: int) -> tuple[int, int]:
            return os.waitpid(self.pid, options)

        def _status_in(self, status: int) -> ExitStatus:
            return ExitStatus.from_wait(status)

        def _record(self, status: int | None) -> None:
            with self._lock:
                if self.status is None:
                    self.status = ExitStatus() if status is None else self._status_in(status)
                    # So that Popen neither waits for it nor warns that it was never waited for.
                    self._process.returncode = 0 if status is None else os.waitstatus_to_exitcode(status)

        # Process group

        def is_gone(self) -> bool:
            with self._lock:
                if not self._is_gone and self.reap():
                    self._is_gone = not self._has_members()
                    if self._is_gone:
                        _watchdog.remove(self.pid)  # from now on the number may be reused
                return self._is_gone

        def signal(self, number: int) -> None:
            with self._lock:
                if self._is_ours() and not self.is_gone():
                    # The group has just exited, or runs as another user.
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(self.pid, number)

        def _is_ours(self) -> bool:
            return os.getpid() == self._owner

        def _has_members(self) -> bool:
            self._wait_for_orphans()
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                return False
            except PermissionError:
                # On macOS: only zombies are left. On Linux: the members run as another user, and /proc decides.
                is_certain = sys.platform == "linux"
            else:
                is_certain = True
            if not is_certain or (sys.platform == "linux" and not self._has_living_members()):
                # Some of the members may have died only now.
                self._wait_for_orphans()
                return False
            return True

        def _wait_for_orphans(self) -> None:
            # As process 1 of a container we inherit orphans and have to reap them.
            if self._is_ours():
                with suppress(ChildProcessError):
                    while os.waitpid(-self.pid, os.WNOHANG)[0]:
                        pass

        def _has_living_members(self) -> bool:
            """Whether any member is not a zombie. In a container whose process 1 does not reap, zombies stay forever."""
            self._members = {pid for pid in self._members if _state_of(pid, self.pid) not in _DEAD}
            seen: set[int] | None = None
            while not self._members:
                found = _states_of(self.pid)
                self._members = {pid for pid, state in found.items() if state not in _DEAD}
                members = set(found)
                if members == seen:
                    break
                # A member may have forked after the list was made, and exited before it was looked at.
                seen = members
            return bool(self._members)

    # Added to the number of a signal.
    _SIGNALLED = 128
    _DEAD = (None, b"Z", b"X")

    def _states_of(group: int) -> dict[int, bytes]:
        """Return the states of all members of a group, by process id."""
        found = {pid: _state_of(pid, group) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}
        return {pid: state for pid, state in found.items() if state is not None}

    def _state_of(pid: int, group: int) -> bytes | None:
        """Return the state of a process as in ``/proc``; ``None`` if it does not exist or is not a member of the group."""
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                # The name of the program is in parentheses and may itself contain any character.
                state, _parent, its_group = file.read(4096).rpartition(b")")[2].split(maxsplit=3)[:3]
        except (OSError, ValueError):
            return None
        return state if int(its_group) == group else None

    if sys.platform == "linux":

        class _MonitoredGroup(_PosixGroup):
            """A group that is led by bubblewrap, which waits outside of the sandbox for the server inside.

            Process 1 of the sandbox is a member as well. Its death ends everything in the sandbox, even what has left the group.
            """

            def signal(self, number: int) -> None:
                """Send a signal to all members but the monitor, so that it lives to report how the server ends."""
                with self._lock:
                    others = [] if number == SIGKILL or not self._is_ours() or self.is_gone() else self._living_members()
                    if not [pid for pid in others if self._send(pid, number)]:
                        super().signal(number)

            def _living_members(self) -> list[int]:
                return [pid for pid, state in _states_of(self.pid).items() if state not in _DEAD and pid != self.pid]

            def _send(self, pid: int, number: int) -> bool:
                try:
                    descriptor = os.pidfd_open(pid)
                except OSError:
                    return False
                try:
                    # The process is a member even now, so the descriptor does not refer to another one that reused its number.
                    if _state_of(pid, self.pid) in _DEAD:
                        return False
                    signal.pidfd_send_signal(descriptor, number)
                except OSError:
                    return False
                finally:
                    os.close(descriptor)
                return True

            def _wait_for_leader(self, options: int) -> tuple[int, int]:
                # The server has exited, or the monitor was killed. Nothing may stay in the sandbox. The number of the group is not
                # reused before the monitor is reaped.
                if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | options) is not None:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(self.pid, SIGKILL)
                return super()._wait_for_leader(options)

            def _status_in(self, status: int) -> ExitStatus:
                found = super()._status_in(status)
                # As a shell does, it reports the end by a signal as an exit code.
                number = (found.code or 0) - _SIGNALLED
                return ExitStatus(signal=number) if number in signal.valid_signals() else found
