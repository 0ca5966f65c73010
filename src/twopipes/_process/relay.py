"""Run a server between a host and us: pass on bytes, EOF and signals unchanged and at once.

Each of the three streams has a thread that only reads and writes. It does not look for lines and waits only for the reader on the
other side, so backpressure is passed on too. The main thread waits for signals, including SIGCHLD.

The child leads a session of its own, so a signal to our process group does not reach it. Signals that ask a program to end are
therefore passed to its whole group. A watchdog does the same for SIGKILL, which cannot be caught.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from contextlib import suppress

TYPE_CHECKING = False  # type checkers treat it as true; `twopipes tap` imports this module, and importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal, NoReturn, Protocol

    Stream = Literal[">", "<", "!"]

    class RelayObserver(Protocol):
        """Receives all bytes and events. Its methods must not block or raise, and are called from several threads."""

        def chunk(self, kind: Stream, data: bytes, /) -> object:
            """Bytes as they were read: ``>`` to the child, ``<`` from it, ``!`` from its stderr."""

        @property
        def event(self) -> Callable[..., object]:
            """Called with the name of any other event, and its details as keywords."""


if sys.platform != "win32":
    from twopipes._process.group_watchdog import GroupWatchdog, inheritable_descriptors, spawn_in_session

    # Bytes per read: the capacity of a Linux pipe.
    READ_SIZE = 64 * 1024
    # Bytes that a dead child may have left in a pipe: the largest capacity that an unprivileged user can set.
    LARGEST_PIPE = 1024 * 1024
    # Seconds that a child has to exit on EOF when its host is dead, and again after SIGTERM.
    GRACE = 2.0
    # Seconds between two polls of the parent, where the kernel cannot report its exit.
    POLL = 1.0
    # Seconds to wait for a thread that normally has nothing left to do.
    JOIN_TIMEOUT = 0.1
    # No parent in this pid namespace (0), or init (1), which does not exit.
    IMMORTAL = 1
    # Seconds. Limits how long a thread with bytes to pass on waits for the thread that records them.
    SWITCH_INTERVAL = 0.0005
    # Signals that ask a program to end go to the whole group. Others, such as SIGUSR1, would kill a grandchild without a handler.
    ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
    # Signals that are not passed on: our own faults, those that cannot be caught, and job control, which the terminal applies to
    # both processes.
    NOT_PASSED_ON = {"SIGKILL", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT", "SIGCHLD", "SIGPIPE"} | {
        *("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGXCPU", "SIGXFSZ"),
    }

    # Why a stream ended without EOF from its writer.
    UNREAD = "the reader has closed it"
    HELD = "the server has exited, but a process that it started still holds this stream"
    STOPPED = {">": "the host is dead", "<": HELD, "!": HELD}

    class Relay:
        """A child between our three standard streams. Creating the object starts it. Use it once, in a single-threaded program.

        The executable is searched for in PATH. Raises ``OSError`` if it cannot be started.
        """

        def __init__(self, argv: Sequence[str]) -> None:
            self._host = os.getppid()
            self._gone = threading.Event()
            self._has_given_up = False
            # No grace period: a host that kills the tap means to kill the server, and has asked before (docs/decisions/0019).
            self._watchdog = GroupWatchdog(grace=0)
            null = open_null_above_standard_streams()
            # Block the signals, so that sigwait() gets them. A blocked SIGCHLD without a handler would be discarded.
            signal.signal(signal.SIGCHLD, lambda *_: None)
            self._passed = {each for each in signal.valid_signals() if getattr(each, "name", "") not in NOT_PASSED_ON}
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*self._passed, signal.SIGCHLD})
            its_input, to_child = os.pipe()
            from_child, its_output = os.pipe()
            from_its_stderr, its_stderr = os.pipe()
            expected = self._watchdog.expect(its_input)
            try:
                self.pid = _spawn(argv, (its_input, its_output, its_stderr), mask)
            except BaseException:
                self._watchdog.remove(expected)
                for each in (to_child, from_child, from_its_stderr, null):
                    os.close(each)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                raise
            finally:
                for each in (its_input, its_output, its_stderr):
                    os.close(each)
            self._watchdog.add(self.pid, expected)
            # Close further descriptors that the host passed to us. The child has them now, and they must close when it exits.
            for each in inheritable_descriptors():
                os.close(each)
            input_stop_r, self._input_stop_w = os.pipe()
            output_stop_r, self._output_stop_w = os.pipe()
            self._in = _Pump(">", 0, to_child, stop_r=input_stop_r, null=null)
            self._out = _Pump("<", from_child, 1, stop_r=output_stop_r, null=null)
            self._err = _Pump("!", from_its_stderr, 2, stop_r=output_stop_r, null=null)

        def run(self, observer: RelayObserver) -> int:
            """Pass on bytes and signals until the child has exited and all of its output is passed on. Return its wait status."""
            self._observer = observer
            self._main = threading.get_ident()
            observer.event("spawn", pid=self.pid)
            sys.setswitchinterval(SWITCH_INTERVAL)
            threads = [threading.Thread(target=self._run, args=(pump,), daemon=True) for pump in (self._in, self._out, self._err)]
            for thread in threads:
                thread.start()
            if self._host > IMMORTAL:
                threading.Thread(target=self._watch_host, daemon=True).start()
            status = self._wait()
            # The thread ends when the read end of the child's stdin is closed, unless a descendant of the child holds it.
            threads[0].join(JOIN_TIMEOUT)
            code = os.waitstatus_to_exitcode(status)
            if code < 0:
                observer.event("exit", signal=_name(-code))
            else:
                observer.event("exit", code=code)
            return status

        def _wait(self) -> int:
            status: int | None = None
            while True:
                number = signal.sigwait({*self._passed, signal.SIGCHLD})
                if status is not None and number != signal.SIGCHLD:
                    # The child has exited; only output that the host does not read is left.
                    return status
                if number != signal.SIGCHLD:
                    self._pass_on(number)
                elif status is None:
                    status = self._reap()
                if status is not None and (self._has_given_up or (self._out.is_done and self._err.is_done)):
                    return status

        def _pass_on(self, number: int) -> None:
            self._observer.event("signal", signal=_name(number))
            try:
                if number in ENDING:
                    os.killpg(self.pid, number)
                else:
                    os.kill(self.pid, number)
            except OSError as error:
                # It is a zombie by now, or runs as another user.
                self._observer.event("note", reason=f"{_name(number)} did not reach the server: {error.strerror}")

        def _reap(self) -> int | None:
            """Return the wait status of the child if it has exited."""
            if sys.platform == "linux" or sys.version_info >= (3, 13):
                if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return None
                # The child is not reaped yet, so the number of the group cannot have been reused.
                self._clear_up()
                status = os.waitpid(self.pid, 0)[1]
            else:
                # On macOS Python cannot check without reaping. The number stays reserved while the group has members.
                ended, status = os.waitpid(self.pid, os.WNOHANG)
                if not ended:
                    return None
                self._clear_up()
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                self._watchdog.remove(self.pid)
            except OSError:
                pass
            # If members of the group are left, the watchdog kills them when the tap exits, which happens next.
            os.close(self._output_stop_w)
            return status

        def _clear_up(self) -> None:
            """Kill what is left of the group if the host is dead, because no one else will."""
            if self._host > IMMORTAL and os.getppid() != self._host:
                self._end_group(signal.SIGKILL)
            self._gone.set()

        def _run(self, pump: _Pump) -> None:
            try:
                pump.run(self._observer)
            finally:
                pump.is_done = True
                # Wakes the main thread, which waits only for signals.
                signal.pthread_kill(self._main, signal.SIGCHLD)

        def _watch_host(self) -> None:
            wait_for_exit_of_parent(self._host)
            self._observer.event("note", reason="the host is dead")
            os.close(self._input_stop_w)
            for number in (signal.SIGTERM, signal.SIGKILL):
                if self._gone.wait(GRACE):
                    break
                self._observer.event("signal", signal=_name(number))
                self._end_group(number)
            self._gone.wait()
            # Do not wait longer for a process that holds the read end of the output and does not read it.
            threading.Event().wait(GRACE)
            self._has_given_up = True
            signal.pthread_kill(self._main, signal.SIGCHLD)

        def _end_group(self, number: int) -> None:
            if not self._gone.is_set():
                try:
                    os.killpg(self.pid, number)
                except ProcessLookupError:
                    pass  # the group is empty
                except OSError as error:
                    self._observer.event("note", reason=f"{_name(number)} did not reach the server: {error.strerror}")

    class _Pump:
        """Copies one stream. When one side is closed, the other is closed too.

        ``stop_r`` becomes readable (EOF) when no more data is expected; what is in the pipe is still copied. ``null`` replaces a
        closed descriptor whose number must stay in use.
        """

        def __init__(self, stream: Stream, source: int, target: int, *, stop_r: int, null: int) -> None:
            self._stream = stream
            self._source = source
            self._target = target
            self._stop_r = stop_r
            self._null = null
            self.is_done = False

        def run(self, observer: RelayObserver) -> None:
            """Copy everything up to the end; then close both sides."""
            try:
                reason = self._copy(observer)
            except OSError as error:
                reason = error.strerror or str(error)
            observer.event("eof", stream=self._stream, reason=reason)
            for each in (self._target, self._source):
                self._close(each)

        def _copy(self, observer: RelayObserver) -> str | None:
            """Copy until the stream ends. Return the reason if it was not EOF from the source."""
            stream, source, target, stop_r = self._stream, self._source, self._target, self._stop_r
            poll = select.poll()
            poll.register(source, select.POLLIN)
            poll.register(stop_r, select.POLLIN)
            # POLLERR, which needs no registration, reports that the read end is closed. Files and devices never report it.
            poll.register(target, 0)
            timeout, left = None, LARGEST_PIPE
            while True:
                ready = dict(poll.poll(timeout))
                if not ready or left <= 0:
                    return STOPPED[stream]
                if target in ready:
                    return UNREAD
                if stop_r in ready:
                    poll.unregister(stop_r)
                    timeout = 0
                if source not in ready:
                    continue
                try:
                    data = os.read(source, READ_SIZE)
                except BlockingIOError:
                    continue
                if not data:
                    return None
                # Record before writing, so that a request always precedes its response in the trace.
                observer.chunk(stream, data)
                if not write_all(target, data):
                    return UNREAD
                if timeout is not None:
                    left -= len(data)

        def _close(self, descriptor: int) -> None:
            if descriptor in {0, 1}:
                # Keep the number in use: another file that gets it would be taken for the wire.
                os.dup2(self._null, descriptor, inheritable=False)
            elif descriptor > 2:
                os.close(descriptor)

    def write_all(target: int, data: bytes) -> bool:
        """Write all of the data, and block while the reader is slow. Return False if it has closed its end."""
        rest: bytes | memoryview = data
        while rest:
            try:
                written = os.write(target, rest)
            except BlockingIOError:
                # Another process that shares the descriptor made it non-blocking.
                poll = select.poll()
                poll.register(target, select.POLLOUT)
                poll.poll()
                continue
            except BrokenPipeError:
                return False
            if written == len(rest):
                break
            rest = memoryview(rest)[written:]
        return True

    def write_stderr(text: str) -> None:
        """Write a text to stderr in one piece; drop it if stderr would block."""
        poll = select.poll()
        poll.register(2, select.POLLOUT)
        with suppress(OSError):
            if poll.poll(0):
                os.write(2, text.encode(errors="backslashreplace"))

    def exit_like(status: int) -> NoReturn:
        """Exit at once in the same way as a child with this wait status: with its code, or by its signal."""
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            import resource  # few children end by a signal

            # Only the core dump of the child is of interest.
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
            if -code not in {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(-code, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
            os.kill(os.getpid(), -code)
            # Process 1 of a container is not killed by its own signal. Use the exit code that a shell would report.
            code = 128 - code
        os._exit(code)

    def _spawn(argv: Sequence[str], streams: tuple[int, int, int], mask: set[signal.Signals] | set[int]) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, each, number) for number, each in enumerate(streams)]
        # Python ignores these two, and a program that inherits this may never end.
        options = {"file_actions": actions, "setsigdef": [signal.SIGPIPE, signal.SIGXFSZ], "setsigmask": mask}
        return spawn_in_session(os.posix_spawnp, argv[0], argv, os.environ, options)

    def open_null_above_standard_streams() -> int:
        """Make sure that descriptors 0 to 2 are open, so that no pipe gets them; return a descriptor of the null device."""
        while (null := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        return null

    def wait_for_exit_of_parent(pid: int) -> None:
        """Block until our parent, which had this number when we started, has exited."""
        if sys.platform == "linux" and _wait_for_pidfd(pid):
            return
        pause = threading.Event()
        while os.getppid() == pid:
            pause.wait(POLL)

    if sys.platform == "linux":

        def _wait_for_pidfd(pid: int) -> bool:
            """Wait for our parent to exit. Return False if this kernel or this sandbox does not give us a pidfd."""
            try:
                descriptor = os.pidfd_open(pid)
            except (AttributeError, OSError):
                return False
            # While it is our parent its number cannot have been reused, so the descriptor refers to the right process.
            if os.getppid() == pid:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                poll.poll()
            return True

    def _name(number: int) -> str:
        try:
            return signal.Signals(number).name
        except ValueError:
            return f"signal {number}"
