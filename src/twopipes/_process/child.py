"""A running child process and its process group: pipes, stderr and shutdown."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack, suppress
from typing import Any, Protocol

from twopipes._channels.base import Channel
from twopipes._channels.pipes import PipeChannel
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import SIGKILL, ExitStatus
from twopipes._process.process_group import Launch, ProcessGroup, register, unregister
from twopipes._process.shutdown import SETTLE, ShutdownPlan, ShutdownReport, run_plan
from twopipes._process.stderr import Copier, Listeners, StderrLine, StderrReader, StderrTail, copier_for
from twopipes.errors import ChannelBroken, ChannelClosed, LocalProtocolError, StartFailed

if sys.platform == "win32":
    from twopipes._process.windows import spawn
else:
    from twopipes._process.posix import spawn

# Seconds between two polls for members of the group after the leader has exited. The kernel does not report the exit of a
# grandchild, so we poll. The first poll comes early, because most grandchildren exit together with the leader.
FIRST_POLL = 0.005
MAX_POLL = 0.05
# Seconds between two polls while no shutdown is running. They only have to notice the empty group before its number is reused.
IDLE_POLL = 1.0
# Seconds to wait for a killed group to disappear where no event loop can report it.
KILL_WAIT = 0.1


class ProcessObserver(Protocol):
    """Receives the events of one child as they happen. Its methods must not block or raise."""

    def started(self, pid: int, channel: Channel) -> Channel:
        """The child has started. The returned channel is used in place of its pipes."""

    def stderr(self, data: bytes) -> None:
        """The child wrote these bytes to stderr. They may end in the middle of a line."""

    def signalled(self, number: int) -> None:
        """A signal is being sent to the child."""

    def exited(self, status: ExitStatus) -> None:
        """The child has exited. All of its stderr was reported before."""


class Child:
    """A server process that we started with :meth:`start` and end with :meth:`shut_down`.

    It belongs to the event loop in which it was started; that loop may run in any thread. A child that is not shut down is killed
    when it is garbage collected, or when the interpreter exits. A descendant that leaves the process group on purpose (a daemon
    that calls ``setsid``) is not tracked.

    Attributes:
        argv: The command and its arguments.
        channel: Its stdin and stdout. The user of the channel may close it before the child is shut down.
        stderr: The last lines of its stderr.
        exit: The exit status; ``None`` while the process runs.
        started_at: Start time, on the event loop's clock.
        stderr_seen: Set when the child first writes to stderr: it is alive, even if it has not written to stdout yet.
    """

    def __init__(
        self,
        command: ServerCommand,
        group: ProcessGroup,
        pipes: tuple[int, int, int | None],
        *,
        copier: Copier | None,
        on_stderr: Callable[[StderrLine], Any] | None,
        observer: ProcessObserver | None,
    ) -> None:
        # Until everything is set up, the caller owns the descriptors and the group.
        self._is_closed = True
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._command = command
        self._group = group
        self._observer = observer
        self.argv = tuple(command.argv)
        self.started_at = self._loop.time()
        self.stderr_seen = asyncio.Event()
        # Once it is known, everything that the child wrote to stderr has been read.
        self.exit: ExitStatus | None = None
        self._ended_at: float | None = None
        self._exited = asyncio.Event()
        # Wakes wait_until_gone(): the leader has exited, or the shutdown was cancelled.
        self._wake = asyncio.Event()
        self._shutdown_cancelled = False
        self._shutdown: asyncio.Task[ShutdownReport] | None = None
        self._jobs: list[asyncio.Task[None]] = []
        listeners = [each for each in (on_stderr, command.stderr) if callable(each)]
        self.stderr = StderrTail(on_line=Listeners(listeners, self._loop) if listeners else None)
        self._reader: StderrReader | None = None
        # Both of these may need a thread and fail to start one. The one that can be undone comes first.
        stdin, stdout, stderr = pipes
        group.watch(self._loop, self._note_exit)
        if stderr is not None:
            self._reader = StderrReader(stderr, self.stderr, loop=self._loop, copier=copier, on_data=self._take_stderr)
        self._pipes = PipeChannel(stdout, stdin, description=f"the pipes of {self.argv[0]} (process {group.pid})")
        self.channel: Channel = self._pipes if observer is None else observer.started(group.pid, self._pipes)
        self._is_closed = False

    @classmethod
    async def start(
        cls,
        command: ServerCommand,
        *,
        on_stderr: Callable[[StderrLine], Any] | None = None,
        observer: ProcessObserver | None = None,
    ) -> Child:
        """Start a process.

        Args:
            command: What to start.
            on_stderr: Called in the event loop with each line of its stderr, in addition to what the command itself asks for.
            observer: Notified of the process's events.

        Raises:
            StartFailed: The process could not be started. Nothing is left behind.
        """
        environment = command.child_environment()
        executable = command.resolve(environment)
        with ExitStack() as ours, ExitStack() as theirs:
            try:
                launch = await _launch(command, executable, environment)
                for inherited in launch.inherited:
                    theirs.callback(os.close, inherited)
                copier = copier_for(command.stderr)
                if copier is not None:
                    ours.callback(copier.close)
                child_stdin, stdin = _pipe(theirs, ours)
                stdout, child_stdout = _pipe(ours, theirs)
                stderr = None
                if command.stderr == "discard":
                    child_stderr = os.open(os.devnull, os.O_WRONLY)
                    theirs.callback(os.close, child_stderr)
                else:
                    stderr, child_stderr = _pipe(ours, theirs)
                group = spawn(
                    launch,
                    env=environment,
                    cwd=command.folder(),
                    streams=(child_stdin, child_stdout, child_stderr),
                    die_with_us=command.die_with_us,
                )
            except OSError as error:
                raise _start_failure(command, executable, error) from error
            register(group)
            try:
                pipes = (stdin, stdout, stderr)
                child = cls(command, group, pipes, copier=copier, on_stderr=on_stderr, observer=observer)
            except BaseException as error:
                group.kill()
                _wait_for_death(group)
                group.unwatch()
                if isinstance(error, OSError | RuntimeError):
                    raise command.failure("refused", detail=str(error)) from error
                raise
            ours.pop_all()
        return child

    @property
    def pid(self) -> int:
        """The process id of the leader."""
        return self._group.pid

    @property
    def running(self) -> bool:
        """Whether the started process has not exited. Its descendants may outlive it; see :meth:`group_alive`."""
        return self.exit is None

    @property
    def has_sigterm(self) -> bool:
        """Whether a SIGTERM can reach the process. On Windows that needs a console that we share with it."""
        return self._group.has_sigterm

    @property
    def unread_input(self) -> int | None:
        """How many of the bytes written to its stdin the child has not read; ``None`` if the system does not report it."""
        return self._pipes.unread

    @property
    def lived(self) -> float:
        """Seconds from start to exit, or until now."""
        return (self._loop.time() if self._ended_at is None else self._ended_at) - self.started_at

    @property
    def shutdown_cancelled(self) -> bool:
        """Whether a caller of :meth:`shut_down` was cancelled, so that the group is killed now."""
        return self._shutdown_cancelled

    async def wait(self) -> ExitStatus:
        """Wait for the process to exit and return its status. Any number of tasks may wait, and cancelling is safe."""
        while self.exit is None:
            await self._exited.wait()
        return self.exit

    def group_alive(self) -> bool:
        """Whether any process of the group is left: the process itself, or a descendant."""
        return not self.is_gone()

    def is_gone(self) -> bool:
        """Whether no process of the group is left."""
        gone = self._group.is_gone()
        if self.exit is None:
            self._note_exit()
        return gone

    def signal(self, number: int) -> None:
        """Send a signal to the whole group; do nothing if the group is gone. On Windows see :mod:`.windows`."""
        if self._observer is not None:
            self._observer.signalled(number)
        self._group.signal(number)

    # Planned shutdown

    async def shut_down(self, plan: ShutdownPlan | None = None) -> ShutdownReport:
        """End the child and its whole group by a plan, free all resources, and report how it went.

        Buffered output is still written if the child reads it in time. What the child writes is discarded unless a task reads
        the channel. Further calls get the same report.

        Cancelling does not stop the shutdown: the rest of the group is killed at once, and the call waits for its death, which
        takes milliseconds, before it raises ``CancelledError``.

        Args:
            plan: Overrides the plan of the command.
        """
        if self._shutdown is None or self._shutdown.cancelled():
            chosen = plan or self._command.shutdown or ShutdownPlan.default()
            self._shutdown = self._loop.create_task(self._end(chosen), name=f"shut down process {self.pid}")
        ending = self._shutdown
        try:
            return await asyncio.shield(ending)
        except asyncio.CancelledError:
            self._cancel_shutdown()
            await asyncio.wait([ending], timeout=2 * SETTLE)
            if ending.done() and not self._is_closed:
                # An event loop that shuts down cancels every task, even one that has not taken its first step.
                await self._end_now()
            raise

    async def _end(self, plan: ShutdownPlan) -> ShutdownReport:
        try:
            if self.is_gone():
                report = ShutdownReport(exit=self.exit)
            else:
                self._run_job(self._discard_output)
                report = await run_plan(plan, self, clock=self._loop.time)
        except asyncio.CancelledError:
            await self._end_now()
            raise
        except BaseException:
            self.kill_now()
            raise
        self._close_everything()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        return report

    async def _end_now(self) -> None:
        # Only an event loop that is shutting down brings us here. It waits for its tasks, but not for long.
        self._cancel_shutdown()
        self._kill()
        try:
            await self.wait_until_gone(SETTLE)
        finally:
            self.kill_now()

    def _cancel_shutdown(self) -> None:
        self._shutdown_cancelled = True
        self._wake.set()

    def close_stdin(self) -> None:
        """Start to close the child's stdin, after what is still buffered. A step of a plan."""
        self._run_job(self.channel.close_write)

    async def wait_until_gone(self, seconds: float) -> None:
        """Wait at most ``seconds`` until no process of the group is left. A step of a plan."""
        cancelled_before = self._shutdown_cancelled
        deadline = self._loop.time() + seconds
        pause = FIRST_POLL
        while True:
            self._wake.clear()
            if self.is_gone() or self._shutdown_cancelled != cancelled_before:
                return
            left = deadline - self._loop.time()
            if left <= 0:
                return
            # The exit of the leader wakes us; that of a grandchild does not.
            timeout = left if self.exit is None else min(left, pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            if self.exit is not None:
                pause = min(2 * pause, MAX_POLL)

    def _run_job(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            # The channel is closed, broken by the child's death, or read by another task: there is nothing left to do.
            with suppress(ChannelBroken, ChannelClosed, LocalProtocolError):
                await job()

        self._jobs.append(self._loop.create_task(run(), name=f"shut down the pipes of process {self.pid}"))

    async def _discard_output(self) -> None:
        # A child that is blocked because we do not read its output does not notice EOF on its stdin.
        while await self.channel.read():
            pass

    def _take_stderr(self, data: bytes) -> None:
        self.stderr_seen.set()
        if self._observer is not None:
            self._observer.stderr(data)

    # Exit and cleanup

    def _note_exit(self) -> None:
        """Handle the exit of the leader. Called by the event loop and by every method that may detect it first."""
        if self.exit is not None or self._group.status is None:
            return
        # Do not wait for EOF on the pipe: a grandchild may hold it open.
        if self._reader is not None:
            self._reader.read_available()
        self.exit = self._group.status
        self._ended_at = self._loop.time()
        if self._observer is not None:
            self._observer.exited(self.exit)
        with suppress(RuntimeError):  # a task waits in an event loop that is closed
            self._exited.set()
            self._wake.set()
        self._poll_orphans()

    def _poll_orphans(self) -> None:
        # Once the group is empty its number may be reused, so we must notice that, however late the shutdown comes.
        if not unregister(self._group) and not self._loop.is_closed():
            self._loop.call_later(IDLE_POLL, self._poll_orphans)

    def kill_now(self) -> None:
        """Kill the whole group and free all resources without waiting, for finalizers and other code that cannot await.

        In a thread other than the event loop's, this only kills; the loop notices the exit and cleans up.
        """
        self._kill()
        if self._loop.is_running() and threading.get_ident() != self._thread:
            return
        if not self._loop.is_running():
            # The event loop will not report the death any more, and a zombie would stay.
            _wait_for_death(self._group)
        self._close_everything()

    def _kill(self) -> None:
        if self._observer is not None and self.exit is None:
            self._observer.signalled(SIGKILL)
        self._group.kill()

    def _close_everything(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if self._reader is not None:
                self._reader.read_available()
                self._reader.close()
            # Tasks that still wait on the pipes get ChannelClosed, unless their event loop is closed.
            with suppress(RuntimeError):
                self._pipes.close_now()
        unregister(self._group)
        if self.exit is None:
            self._note_exit()
        if self.exit is not None or not self._loop.is_running():
            # Otherwise the loop keeps watching, so that tasks in wait() see the exit.
            self._group.unwatch()

    def __del__(self) -> None:
        if getattr(self, "_is_closed", True):
            return
        warnings.warn(f"{self!r} was not shut down; killing it", ResourceWarning, source=self, stacklevel=2)
        self.kill_now()

    def __repr__(self) -> str:
        state = "running" if self.exit is None else self.exit.describe()
        return f"<Child {self.argv[0]} process {self.pid}, {state}>"


async def _launch(command: ServerCommand, executable: str, environment: Mapping[str, str]) -> Launch:
    if command.sandbox is None:
        return Launch([executable, *command.argv[1:]])
    from twopipes._process.sandbox.launch import confined  # few servers have a sandbox

    return await confined(command, executable, environment)


def _pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    """Make a pipe whose two ends have different owners. Neither end is inheritable."""
    read_end, write_end = os.pipe()
    readers.callback(os.close, read_end)
    writers.callback(os.close, write_end)
    return read_end, write_end


def _wait_for_death(group: ProcessGroup) -> None:
    """Wait briefly until a killed group is gone, so that no zombie stays."""
    deadline = time.monotonic() + KILL_WAIT
    while not group.is_gone() and time.monotonic() < deadline:
        time.sleep(FIRST_POLL / 5)


def _start_failure(command: ServerCommand, executable: str, error: OSError) -> StartFailed:
    """Turn the system's error into one that names the reason."""
    detail = error.strerror or str(error)
    if error.filename == command.folder():
        missing = error.errno in {errno.ENOENT, errno.ENOTDIR}
        return command.failure("no such folder" if missing else "refused", detail=f"{error.filename}: {detail}")
    if error.filename is not None and error.filename != executable:
        return command.failure("refused", detail=f"{error.filename}: {detail}")
    if error.errno == errno.ENOENT:
        # The executable exists, or the lookup would have failed. What is missing is its interpreter.
        return command.failure("not executable", detail=f"{executable}: the interpreter named in its first line is missing")
    if error.errno in {errno.EACCES, errno.EPERM, errno.ENOEXEC}:
        return command.failure("not executable", detail=f"{executable}: {detail}")
    return command.failure("refused", detail=detail)
