"""Standing between a host and its server: what one says reaches the other unchanged and at once, and so do their ends.

A thread for each of the three streams reads and writes, and nothing else: it looks for no lines, and waits only for whoever reads
on the far side, so that backpressure passes as well. The main thread waits for signals, of which the end of the child is one.

The child leads a session of its own, as every child of ours. Whoever kills our group means the child too, and does not reach it; so
the signals that ask a program to end go to its whole group, and a watchdog passes on SIGKILL, which cannot be caught.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from contextlib import suppress

TYPE_CHECKING = False  # what type checkers read as true; a host waits for us, and typing takes longer than all the rest here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, NoReturn, Protocol

    Stream = Literal[">", "<", "!"]

    class ProcessObserver(Protocol):
        """Who is told what passes and happens. It neither waits nor raises, and may be told by several threads."""

        def chunk(self, kind: Stream, data: bytes, /) -> object:
            """Bytes as they were read: ``>`` to the child, ``<`` from it, ``!`` from its stderr."""

        def event(
            self,
            name: Literal["spawn", "eof", "signal", "exit", "note"],
            /,
            *,
            pid: int | None = None,
            stream: Stream | None = None,
            signal: str | None = None,
            code: int | None = None,
            reason: str | None = None,
        ) -> object:
            """Something else, with what there is to say about it."""


__all__ = ["Relay", "end_like", "say"]

if sys.platform != "win32":
    from twopipes._process.group_watchdog import GroupWatchdog, inheritable_descriptors

    # Bytes read at once: what a pipe of Linux holds.
    READ_SIZE = 64 * 1024
    # Bytes that a dead child may have left in a pipe: what an unprivileged user can make one hold.
    LARGEST_PIPE = 1024 * 1024
    # Seconds that a child is given to leave at the end of its input, when its host is dead, and as many after SIGTERM.
    GRACE = 2.0
    # Seconds between two looks at the host, where the system cannot tell of its end.
    POLL = 1.0
    # Seconds to wait for a thread that is known to have nothing left to do but end, mostly.
    LAST_LOOK = 0.1
    # No parent in this namespace (0), or the one that outlives everybody (1).
    IMMORTAL = 1
    # Seconds. A thread that has bytes to pass waits no longer than this for one that writes down what has passed.
    TURN = 0.0005
    # What asks a program to end, and means all of it. Others, such as SIGUSR1, would end a grandchild that does not know them.
    ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
    # What is not passed on: faults of our own, what nobody can catch, and stopping, which pauses both as it pauses us.
    OURS = {"SIGKILL", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT", "SIGCHLD", "SIGPIPE"} | {
        *("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGXCPU", "SIGXFSZ"),
    }

    # Why a stream ended that was not brought to its end by whoever wrote it.
    UNREAD = "nobody reads it any more"
    HELD = "the server has ended, and something that it started still holds this"
    OVER = {">": "the host is dead", "<": HELD, "!": HELD}

    class Relay:
        """A child whose three streams are ours. Making one starts it; to be used once, in a program that has one thread.

        Args:
            argv: The words of the command. The first is searched for in PATH.

        Raises:
            OSError: The command cannot be started.
        """

        def __init__(self, argv: Sequence[str]) -> None:
            self._host = os.getppid()
            self._gone = threading.Event()
            self._is_given_up = False
            # No grace period: a host that kills the tap means to kill the server, and has asked before (docs/decisions/0019).
            self._watchdog = GroupWatchdog(grace=0)
            nothing = _open_all_three()
            # From here on a signal waits until somebody asks for it. Some are ignored where they have no handler, even so.
            signal.signal(signal.SIGCHLD, _nothing_to_do)
            self._passed = {each for each in signal.valid_signals() if getattr(each, "name", "") not in OURS}
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*self._passed, signal.SIGCHLD})
            its_input, to_child = os.pipe()
            from_child, its_output = os.pipe()
            from_its_stderr, its_stderr = os.pipe()
            expected = self._watchdog.expect(its_input)
            try:
                self.pid = _spawn(argv, (its_input, its_output, its_stderr), mask)
            except BaseException:
                self._watchdog.remove(expected)
                for each in (to_child, from_child, from_its_stderr, nothing):
                    os.close(each)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                raise
            finally:
                for each in (its_input, its_output, its_stderr):
                    os.close(each)
            self._watchdog.add(self.pid, expected)
            # A host may hand over more than three descriptors. The child has them now; their end shall be its end.
            for each in inheritable_descriptors():
                os.close(each)
            self._no_more_input, no_more_input = _bell()
            self._no_more_output, no_more_output = _bell()
            self._in = _Pump(">", 0, to_child, bell=no_more_input, nothing=nothing)
            self._out = _Pump("<", from_child, 1, bell=no_more_output, nothing=nothing)
            self._err = _Pump("!", from_its_stderr, 2, bell=no_more_output, nothing=nothing)

        def run(self, witness: ProcessObserver) -> int:
            """Pass on bytes and signals until the child has ended and what it said is passed on.

            Returns:
                Its status, as ``os.wait`` has it.
            """
            self._witness = witness
            self._main = threading.get_ident()
            witness.event("spawn", pid=self.pid)
            sys.setswitchinterval(TURN)
            threads = [threading.Thread(target=self._run, args=(pump,), daemon=True) for pump in (self._in, self._out, self._err)]
            for thread in threads:
                thread.start()
            if self._host > IMMORTAL:
                threading.Thread(target=self._watch_the_host, daemon=True).start()
            status = self._wait()
            # It notices by itself that nobody reads, unless something that the child started does.
            threads[0].join(LAST_LOOK)
            code = os.waitstatus_to_exitcode(status)
            if code < 0:
                witness.event("exit", signal=_name(-code))
            else:
                witness.event("exit", code=code)
            return status

        def _wait(self) -> int:
            status: int | None = None
            while True:
                number = signal.sigwait({*self._passed, signal.SIGCHLD})
                if status is not None and number != signal.SIGCHLD:
                    # There is nobody left to pass it to, only bytes that the host does not take.
                    return status
                if number != signal.SIGCHLD:
                    self._pass_on(number)
                elif status is None:
                    status = self._reap()
                if status is not None and (self._is_given_up or (self._out.is_done and self._err.is_done)):
                    return status

        def _pass_on(self, number: int) -> None:
            self._witness.event("signal", signal=_name(number))
            try:
                if number in ENDING:
                    os.killpg(self.pid, number)
                else:
                    os.kill(self.pid, number)
            except OSError as error:
                # It is a zombie by now, or runs as another user.
                self._witness.event("note", reason=f"{_name(number)} did not reach the server: {error.strerror}")

        def _reap(self) -> int | None:
            """The status of the child, if it has ended."""
            if sys.platform == "linux" or sys.version_info >= (3, 13):
                if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return None
                # The number of the group is still its own: the leader was not waited for.
                self._clear_up()
                status = os.waitpid(self.pid, 0)[1]
            else:
                # On macOS Python cannot look without taking. The number stays the group's as long as anybody is left in it.
                ended, status = os.waitpid(self.pid, os.WNOHANG)
                if not ended:
                    return None
                self._clear_up()
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                self._watchdog.remove(self.pid)
            except OSError:
                pass  # see below
            # Otherwise something of the group is left. The watchdog kills it when the tap ends, which it is about to do.
            os.close(self._no_more_output)
            return status

        def _clear_up(self) -> None:
            """Where the host is dead, nobody else will."""
            if self._host > IMMORTAL and os.getppid() != self._host:
                self._end_group(signal.SIGKILL)
            self._gone.set()

        def _run(self, pump: _Pump) -> None:
            try:
                pump.run(self._witness)
            finally:
                pump.is_done = True
                # The main thread waits for nothing but signals, and this one means: have a look.
                signal.pthread_kill(self._main, signal.SIGCHLD)

        # The host

        def _watch_the_host(self) -> None:
            _wait_for_the_end_of(self._host)
            self._witness.event("note", reason="the host is dead")
            os.close(self._no_more_input)
            for number in (signal.SIGTERM, signal.SIGKILL):
                if self._gone.wait(GRACE):
                    break
                self._witness.event("signal", signal=_name(number))
                self._end_group(number)
            self._gone.wait()
            # Somebody who holds the host's end of the output, and does not read, shall not hold us.
            threading.Event().wait(GRACE)
            self._is_given_up = True
            signal.pthread_kill(self._main, signal.SIGCHLD)

        def _end_group(self, number: int) -> None:
            if not self._gone.is_set():
                try:
                    os.killpg(self.pid, number)
                except ProcessLookupError:
                    pass  # nobody is left in it
                except OSError as error:
                    self._witness.event("note", reason=f"{_name(number)} did not reach the server: {error.strerror}")

    class _Pump:
        """One stream, from where it is read to where it is written. When one side ends, so does the other.

        Args:
            stream: ``>``, ``<`` or ``!``.
            source: What is read.
            target: What is written.
            bell: Can be read when nothing more will come: what is there is passed on, and that is the end.
            nothing: What takes the place of a descriptor that must keep its number.
        """

        def __init__(self, stream: Stream, source: int, target: int, *, bell: int, nothing: int) -> None:
            self._stream = stream
            self._source = source
            self._target = target
            self._bell = bell
            self._nothing = nothing
            self.is_done = False

        def run(self, witness: ProcessObserver) -> None:
            """Pass on all there is, to the end; then close both sides."""
            try:
                reason = self._pass_all(witness)
            except OSError as error:
                reason = error.strerror or str(error)
            witness.event("eof", stream=self._stream, reason=reason)
            for each in (self._target, self._source):
                self._close(each)

        def _pass_all(self, witness: ProcessObserver) -> str | None:
            """Return why it ended, where that was not the end of the source."""
            stream, source, target, bell = self._stream, self._source, self._target, self._bell
            poll = select.poll()
            poll.register(source, select.POLLIN)
            poll.register(bell, select.POLLIN)
            # No event but the one that cannot be declined: nobody reads there any more. Files and devices have no such thing.
            poll.register(target, 0)
            patience, left = None, LARGEST_PIPE
            while True:
                ready = dict(poll.poll(patience))
                if not ready or left <= 0:
                    return OVER[stream]
                if target in ready:
                    return UNREAD
                if bell in ready:
                    poll.unregister(bell)
                    patience = 0
                if source not in ready:
                    continue
                try:
                    data = os.read(source, READ_SIZE)
                except BlockingIOError:
                    continue
                if not data:
                    return None
                # First this, so that a question never stands behind its answer; it takes a microsecond.
                witness.chunk(stream, data)
                if not self._write(data):
                    return UNREAD
                if patience is not None:
                    left -= len(data)

        def _write(self, data: bytes) -> bool:
            rest: bytes | memoryview = data
            while rest:
                try:
                    written = os.write(self._target, rest)
                except BlockingIOError:
                    # Whoever shares it with us made it so.
                    poll = select.poll()
                    poll.register(self._target, select.POLLOUT)
                    poll.poll()
                    continue
                except BrokenPipeError:
                    return False
                if written == len(rest):
                    break
                rest = memoryview(rest)[written:]
            return True

        def _close(self, descriptor: int) -> None:
            if descriptor in {0, 1}:
                # Another file must not get its number: somebody might think that it is still the wire.
                os.dup2(self._nothing, descriptor, inheritable=False)
            elif descriptor > 2:
                os.close(descriptor)

    def say(text: str) -> None:
        """Tell people something on stderr, in one piece, unless nobody reads there."""
        poll = select.poll()
        poll.register(2, select.POLLOUT)
        with suppress(OSError):
            if poll.poll(0):
                os.write(2, text.encode(errors="backslashreplace"))

    def end_like(status: int) -> NoReturn:
        """End this process at once, in the way in which a child has ended."""
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            import resource  # noqa: PLC0415 - few children end like this

            # The core that tells something is the child's.
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
            if -code not in {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(-code, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
            os.kill(os.getpid(), -code)
            # Still here: process 1 of a container dies of no signal. As a shell says it.
            code = 128 - code
        os._exit(code)

    def _spawn(argv: Sequence[str], streams: tuple[int, int, int], mask: set[signal.Signals] | set[int]) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, each, number) for number, each in enumerate(streams)]
        options = {
            "file_actions": actions,
            # Python ignores these two for itself, and a program that inherits that may never end.
            "setsigdef": [signal.SIGPIPE, signal.SIGXFSZ],
            "setsigmask": mask,
        }
        try:
            return os.posix_spawnp(argv[0], argv, os.environ, setsid=True, **options)  # type: ignore[arg-type]
        except NotImplementedError:
            return os.posix_spawnp(argv[0], argv, os.environ, setpgroup=0, **options)  # type: ignore[arg-type]

    def _open_all_three() -> int:
        """See to it that no pipe of ours gets one of the first three numbers; return a descriptor of nothing."""
        while (nothing := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        return nothing

    def _bell() -> tuple[int, int]:
        """What to close in order to ring, and what to wait for."""
        ear, rope = os.pipe()
        return rope, ear

    def _wait_for_the_end_of(pid: int) -> None:
        if sys.platform == "linux" and _is_told_of_the_end_of(pid):
            return
        pause = threading.Event()
        while os.getppid() == pid:
            pause.wait(POLL)

    if sys.platform == "linux":

        def _is_told_of_the_end_of(pid: int) -> bool:
            """Return True when our parent has ended, False when this kernel or this sandbox does not tell."""
            try:
                descriptor = os.pidfd_open(pid)
            except (AttributeError, OSError):
                return False
            # While it is our parent it has not ended, and nobody else has its number: the descriptor is the right one.
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

    def _nothing_to_do(*_: object) -> None:
        pass
