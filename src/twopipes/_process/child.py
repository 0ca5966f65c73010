"""One running child and its whole process group: its pipes, its last words, and its end."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from typing import Any

from twopipes._channels.base import Channel
from twopipes._channels.pipes import PipeChannel
from twopipes._process import live_groups as living
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import SIGKILL, ExitStatus
from twopipes._process.observer import ProcessObserver, TappedCopier
from twopipes._process.shutdown import SETTLE, ShutdownPlan, ShutdownReport, carry_out
from twopipes._process.stderr import Copier, Listeners, StderrLine, StderrReader, StderrTail, copier_of
from twopipes.errors import ChannelBroken, ChannelClosed, LocalProtocolError, StartFailed

if sys.platform == "win32":
    from twopipes._process.windows import ProcessGroup, spawn
else:
    from twopipes._process.posix import ProcessGroup, spawn

__all__ = ["Child"]

# Seconds between two looks at what a dead leader left behind. Nobody tells of the end of a grandchild, so we have to ask; the first
# answer comes soon, because most of them are about to end as well.
FIRST_LOOK = 0.005
LONGEST_PAUSE = 0.05
# Seconds between two such looks while nobody is shutting down. It is enough that the number of the group was not given away since.
IDLE_LOOK = 1.0
# Seconds to wait for the death of what was killed where no event loop can do it.
LAST_LOOK = 0.1


class Child:
    """A server process that we started. Made by :meth:`start`; ended by :meth:`shut_down`, and by nothing else that one may forget.

    It belongs to the event loop in which it was started; that loop may run in any thread. A child that is not shut down is killed
    when it is collected, and at the latest when the interpreter exits. What leaves the process group on purpose (a daemon
    that calls ``setsid``) is out of reach.

    Attributes:
        argv: The words of the command.
        channel: The two pipes. Whoever reads and writes them may close them before the child is shut down.
        stderr: The last lines of its stderr.
        started_at: When it was started, on the event loop's clock.
        stirred: Set when it first writes to stderr: it lives, even if it says nothing on the wire yet.
    """

    def __init__(
        self,
        command: ServerCommand,
        group: ProcessGroup,
        *,
        stdin: int,
        stdout: int,
        stderr: int | None,
        listeners: list[Callable[[StderrLine], object]],
        copier: Copier | None,
        witness: ProcessObserver | None = None,
    ) -> None:
        # Until everything is in place, whoever makes it owns the descriptors and the group.
        self._is_over = True
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._command = command
        self._group = group
        self._witness = witness
        self.argv = tuple(command.argv)
        self.started_at = self._loop.time()
        self.stirred = asyncio.Event()
        self._exit: ExitStatus | None = None
        self._ended_at: float | None = None
        self._exited = asyncio.Event()
        # Something happened that whoever waits for the end of the group must know: the leader's end, or a hurry.
        self._news = asyncio.Event()
        self._in_a_hurry = False
        self._ending: asyncio.Task[ShutdownReport] | None = None
        self._jobs: list[asyncio.Task[None]] = []
        self.stderr = StderrTail(on_line=Listeners(listeners, self._loop) if listeners else None)
        self._reader: StderrReader | None = None
        # The two that may fail, where threads have to do it and there are no more; the one that can be taken back goes first.
        group.watch(self._loop, self._note_exit)
        if stderr is not None:
            self._reader = StderrReader(stderr, self.stderr, loop=self._loop, copier=copier, on_first=self.stirred.set)
        self._pipes = PipeChannel(stdout, stdin, description=f"the pipes of {self.argv[0]} (process {group.pid})")
        self.channel: Channel = self._pipes if witness is None else witness.started(group.pid, self._pipes)
        self._is_over = False

    @classmethod
    async def start(
        cls,
        command: ServerCommand,
        *,
        on_stderr: Callable[[StderrLine], Any] | None = None,
        witness: ProcessObserver | None = None,
    ) -> Child:
        """Start a process.

        Args:
            command: What to start.
            on_stderr: Called in the event loop with each line of its stderr, beside what the command itself asks for.
            witness: Told of everything that happens to it.

        Raises:
            StartFailed: It could not be started. Nothing is left behind.
        """
        executable = command.resolve()
        listeners: list[Callable[[StderrLine], object]] = [] if on_stderr is None else [on_stderr]
        if callable(command.stderr):
            listeners.append(command.stderr)
        with ExitStack() as ours, ExitStack() as theirs:
            try:
                copier = copier_of(command.stderr)
                if witness is not None:
                    copier = TappedCopier(copier, witness.stderr)
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
                    [executable, *command.argv[1:]],
                    env=command.child_environment(),
                    cwd=command.folder(),
                    stdin=child_stdin,
                    stdout=child_stdout,
                    stderr=child_stderr,
                    die_with_us=command.die_with_us,
                )
            except OSError as error:
                raise _why(command, executable, error) from error
            living.enlist(group)
            try:
                child = cls(
                    command, group, stdin=stdin, stdout=stdout, stderr=stderr, listeners=listeners, copier=copier, witness=witness
                )
            except BaseException as error:
                group.kill()
                _see_it_die(group)
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
        """Whether the process that was started has not ended. What it started may live on; see :meth:`group_alive`."""
        return self._exit is None

    @property
    def exit(self) -> ExitStatus | None:
        """How it ended; ``None`` while it runs. When this is known, all that it wrote to stderr has been read."""
        return self._exit

    @property
    def unread_input(self) -> int | None:
        """How many of the bytes written to its stdin it has not read; ``None`` where that cannot be known."""
        return self._pipes.unread

    @property
    def lived(self) -> float:
        """Seconds from its start to its end, or until now."""
        return (self._loop.time() if self._ended_at is None else self._ended_at) - self.started_at

    @property
    def in_a_hurry(self) -> bool:
        """Whether somebody who shuts it down was cancelled, so that it is being killed."""
        return self._in_a_hurry

    async def wait(self) -> ExitStatus:
        """Return how the process ended, when it has. Any number of tasks may wait, and cancelling is safe."""
        while self._exit is None:
            await self._exited.wait()
        return self._exit

    def group_alive(self) -> bool:
        """Whether anything of its group is left: the process itself, or what it started."""
        return not self.is_gone()

    def is_gone(self) -> bool:
        """Whether nothing of its group is left."""
        gone = self._group.is_gone()
        if self._group.status is not None:
            self._note_exit()
        return gone

    def signal(self, number: int) -> None:
        """Send a signal to the whole group; nothing happens if nothing of it is left. On Windows see :mod:`.windows`."""
        if self._witness is not None:
            self._witness.signalled(number)
        self._group.signal(number)

    # The end, as planned

    async def shut_down(self, plan: ShutdownPlan | None = None) -> ShutdownReport:
        """End the child and its whole group by a plan, free everything, and tell how it went.

        What waits to be written is written, if the child reads it in time. What it still says is thrown away unless somebody
        reads the channel. Further calls get the same report.

        Cancelling does not stop it: what is left is killed at once, and this waits for its death, which takes milliseconds,
        before the cancellation goes on.

        Args:
            plan: Instead of the command's own.
        """
        if self._ending is None or self._ending.cancelled():
            chosen = plan or self._command.shutdown or ShutdownPlan.default()
            self._ending = self._loop.create_task(self._end(chosen), name=f"shut down process {self.pid}")
        ending = self._ending
        try:
            return await asyncio.shield(ending)
        except asyncio.CancelledError:
            self._hurry()
            await asyncio.wait([ending], timeout=2 * SETTLE)
            if ending.done() and not self._is_over:
                # An event loop that ends cancels every task, also one that has not taken its first step.
                await self._end_at_once()
            raise

    async def _end(self, plan: ShutdownPlan) -> ShutdownReport:
        try:
            self._run_errand(self._discard_output)
            report = await carry_out(plan, self, clock=self._loop.time)
        except asyncio.CancelledError:
            await self._end_at_once()
            raise
        except BaseException:
            self.kill_now()
            raise
        self._close_everything()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        return report

    async def _end_at_once(self) -> None:
        # Only an event loop that is itself about to end brings us here, and it waits for its tasks, but not for long.
        self._hurry()
        self._kill()
        try:
            await self.wait_until_gone(SETTLE)
        finally:
            self.kill_now()

    def _hurry(self) -> None:
        self._in_a_hurry = True
        self._news.set()

    def close_stdin(self) -> None:
        """Begin to end the child's input, after what is still buffered. Part of a plan."""
        self._run_errand(self.channel.close_write)

    async def wait_until_gone(self, seconds: float) -> None:
        """Wait until nothing of the group is left, for so long at most. Part of a plan."""
        hurried_before = self._in_a_hurry
        deadline = self._loop.time() + seconds
        pause = FIRST_LOOK
        while True:
            self._news.clear()
            if self.is_gone() or self._in_a_hurry != hurried_before:
                return
            left = deadline - self._loop.time()
            if left <= 0:
                return
            # The end of the leader wakes us; that of what it left behind does not.
            patience = left if self._exit is None else min(left, pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._news.wait()
            if self._exit is not None:
                pause = min(2 * pause, LONGEST_PAUSE)

    def _run_errand(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            # Closed by somebody, broken by the child's death, or read by another task: then there is nothing to do here.
            with suppress(ChannelBroken, ChannelClosed, LocalProtocolError):
                await job()

        self._jobs.append(self._loop.create_task(run(), name=f"last words with process {self.pid}"))

    async def _discard_output(self) -> None:
        # A child that waits for us to read its output does not notice the end of its input.
        while await self.channel.read():
            pass

    # The end, as it comes

    def _note_exit(self) -> None:
        """The leader has ended. Called by the event loop, and by whoever finds out first."""
        if self._exit is not None or self._group.status is None:
            return
        # What it wrote is in the pipe. The end of the pipe may never come: a grandchild may hold it.
        if self._reader is not None:
            self._reader.read_what_is_there()
        self._exit = self._group.status
        self._ended_at = self._loop.time()
        if self._witness is not None:
            self._witness.exited(self._exit)
        with suppress(RuntimeError):  # somebody waits in an event loop that is closed
            self._exited.set()
            self._news.set()
        self._look_after_orphans()

    def _look_after_orphans(self) -> None:
        # So that the number of the group, once free, is never used again, however late the shutdown comes.
        if self._group.is_gone():
            self._let_go()
        elif not self._loop.is_closed():
            self._loop.call_later(IDLE_LOOK, self._look_after_orphans)

    def _let_go(self) -> None:
        living.dismiss(self._group)
        self._group.release()

    def kill_now(self) -> None:
        """Kill the whole group and free everything, without waiting: for finalizers and other places that cannot await.

        In a thread other than the event loop's, it only kills; the loop notices by itself.
        """
        self._kill()
        if self._loop.is_running() and threading.get_ident() != self._thread:
            return
        if not self._loop.is_running():
            # No event loop will tell of its death any more, and a zombie would stay.
            _see_it_die(self._group)
        self._close_everything()

    def _kill(self) -> None:
        if self._witness is not None and self._exit is None:
            self._witness.signalled(SIGKILL)
        self._group.kill()

    def _close_everything(self) -> None:
        if not self._is_over:
            self._is_over = True
            if self._reader is not None:
                self._reader.read_what_is_there()
                self._reader.close()
            # Whoever still waits there is told so, unless its event loop is closed.
            with suppress(RuntimeError):
                self._pipes.close_now()
        if self.is_gone():
            self._let_go()
        if self._exit is not None or not self._loop.is_running():
            # Otherwise the loop goes on watching: whoever waits for the exit shall learn of it.
            self._group.unwatch()

    def __del__(self) -> None:
        if getattr(self, "_is_over", True):
            return
        warnings.warn(f"{self!r} was not shut down; it is killed", ResourceWarning, source=self, stacklevel=2)
        self.kill_now()

    def __repr__(self) -> str:
        state = "running" if self._exit is None else self._exit.describe()
        return f"<Child {self.argv[0]} process {self.pid}, {state}>"


def _pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    """Make a pipe whose ends are closed with two different owners. Neither end is inherited by anybody who is not meant."""
    read_end, write_end = os.pipe()
    readers.callback(os.close, read_end)
    writers.callback(os.close, write_end)
    return read_end, write_end


def _see_it_die(group: ProcessGroup) -> None:
    """Wait, for a moment and no longer, until what was killed is dead, so that no zombie stays."""
    deadline = time.monotonic() + LAST_LOOK
    while not group.is_gone() and time.monotonic() < deadline:
        time.sleep(FIRST_LOOK / 5)


def _why(command: ServerCommand, executable: str, error: OSError) -> StartFailed:
    """The reason of a failed start, told apart by what the system says."""
    detail = error.strerror or str(error)
    if error.filename == command.folder():
        missing = error.errno in {errno.ENOENT, errno.ENOTDIR}
        return command.failure("no such folder" if missing else "refused", detail=f"{error.filename}: {detail}")
    if error.filename is not None and error.filename != executable:
        return command.failure("refused", detail=f"{error.filename}: {detail}")
    if error.errno == errno.ENOENT:
        # The file is there, or it would not have been found: what is missing is the program that is to run it.
        return command.failure("not executable", detail=f"{executable}: the interpreter that it names is missing")
    if error.errno in {errno.EACCES, errno.EPERM, errno.ENOEXEC}:
        return command.failure("not executable", detail=f"{executable}: {detail}")
    return command.failure("refused", detail=detail)
