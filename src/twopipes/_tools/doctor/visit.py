"""One process of a server: started, spoken to, watched and ended. Every wait has an end, and nothing of it stays."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, Self

from msgspec import structs

from twopipes import _jsonrpc as jsonrpc
from twopipes._jsonrpc import Notification, Request
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import SIGKILL, SIGTERM, ExitStatus
from twopipes._process.shutdown import ShutdownPlan, Signal, Wait
from twopipes._tools.doctor.observations import Ending, Exit, Process
from twopipes._tools.doctor.processes import MARK, end_marked, marked
from twopipes._tools.doctor.stdout_reader import Heard, Hearing
from twopipes.errors import ChannelBroken, ChannelClosed

__all__ = ["Visit"]

# Seconds for the output of a process that has ended: what it wrote is in the pipe, but a grandchild may hold the other end.
_FOR_THE_OUTPUT = 1.0
# Seconds for a process to end once its output has; one that is dying needs milliseconds.
_FOR_THE_EXIT = 0.5
# Seconds that every process gets to end by itself.
_LEAST_GRACE = 1.0
# Seconds for processes that were left behind to end by SIGTERM, before SIGKILL.
_FOR_THE_LEFT_BEHIND = 1.0
# Seconds between two looks at the processes that the server has started: another process's end is not reported to us.
_BETWEEN_LOOKS = 0.1


class Visit:
    """A running server, as long as the ``async with`` block lasts.

    Args:
        command: What to start.
        deadline: When all of it must be over, on the event loop's clock.

    Attributes:
        hearing: What it says.
        child: The process.
        started_in: Seconds that the system took to start it.
    """

    child: Child
    started_in: float

    def __init__(self, command: ServerCommand, *, deadline: float) -> None:
        self._mark = secrets.token_hex(8)
        self._command = structs.replace(command, env={**(command.env or {}), MARK: self._mark})
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._last_id = 0
        self._news = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._is_read = False
        self.hearing = Hearing()

    async def __aenter__(self) -> Self:
        """Starts it.

        Raises:
            StartFailed: That was not possible.
        """
        begun = self._loop.time()
        self.child = await Child.start(self._command)
        self.started_in = self._loop.time() - begun
        self._reading = self._loop.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.child.shut_down(ShutdownPlan.at_once())
        finally:
            end_marked(self._mark)
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.gather(self._reading, return_exceptions=True)

    # What it says

    @property
    def elapsed(self) -> float:
        """Seconds since it was started."""
        return self._loop.time() - self.child.started_at

    async def _read(self) -> None:
        with suppress(ChannelBroken, ChannelClosed):
            while data := await self.child.channel.read():
                self.hearing.feed(data, self.elapsed)
                while self.hearing.to_send:
                    self._write(self.hearing.to_send.pop(0))
                self._news.set()
                with suppress(ChannelBroken, ChannelClosed):  # what it has said is read all the same
                    await self.child.channel.drain()  # a server that asks and does not read is not read any further
        self.hearing.finish(self.elapsed)
        self._is_read = True
        self._news.set()

    def _write(self, data: bytes) -> None:
        # Gone or going: that is seen by its answer not coming.
        with suppress(ChannelBroken, ChannelClosed):
            self.child.channel.write(data)

    async def _until(self, happened: Callable[[], bool], seconds: float) -> bool:
        end = min(self._loop.time() + seconds, self._deadline)
        while not happened():
            self._news.clear()
            left = end - self._loop.time()
            if left <= 0:
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()
        return True

    # What it is told

    async def ask(self, method: str, params: Any, *, patience: float, framed: bool = False) -> Heard | None:
        """Sends a request and waits for its answer; ``None`` if there is none in time or the server is gone.

        Args:
            method: What to ask.
            params: Its params.
            patience: Seconds.
            framed: Write it as a language server's client would, with a header before it.
        """
        self._last_id += 1
        self.hearing.expect(self._last_id, method)
        line = jsonrpc.encode(Request(self._last_id, method, params))
        self._write(b"Content-Length: %d\r\n\r\n%s" % (len(line) - 1, line[:-1]) if framed else line)
        watching = self._loop.create_task(self._note_the_exit())
        try:
            await self._until(lambda: self.hearing.heard is not None or self._is_read, patience)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        return self.hearing.heard

    def tell(self, method: str) -> None:
        """Sends a notification."""
        self._write(jsonrpc.encode(Notification(method)))

    async def _note_the_exit(self) -> None:
        """Its end is an end of waiting as well, even if what it started still holds its output."""
        await self.child.wait()
        await asyncio.sleep(_FOR_THE_OUTPUT)
        self._is_read = True
        self._news.set()

    @property
    def is_talking(self) -> bool:
        """Whether more may come of it."""
        return not self._is_read

    async def has_ended(self) -> Exit | None:
        """How it ended by itself; ``None`` if it runs. One that has closed its output gets a moment."""
        if self._is_read and self.child.running:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FOR_THE_EXIT):
                    await self.child.wait()
        return exit_of(self.child.exit)

    def processes(self) -> tuple[Process, ...]:
        """Those that belong to it."""
        return marked(self._mark)

    # How it ends

    async def end(self, how: Literal["eof", "SIGTERM"], *, grace: float) -> Ending:
        """Asks it to end, sees what happens, and ends it if nothing does.

        Args:
            how: By closing its input, or by the signal.
            grace: Seconds for each step.
        """
        begun = self._loop.time()
        self.hearing.is_ending = True
        if how == "eof":
            self.child.close_stdin()
        else:
            self.child.signal(SIGTERM)
        # Even when the time is over, a server that does as it is told is not to look like one that does not.
        patience = min(grace, max(_LEAST_GRACE, self._deadline - begun))
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.child.wait()
        took = None
        if not self.child.running:
            took = max(0.0, self.child.started_at + self.child.lived - begun)
            await self._until(lambda: self._is_read, _FOR_THE_OUTPUT)
            await self._wait_for_helpers(patience)
        # What is still running after that was left behind, in its process group or outside it.
        left_behind = self.processes() if took is not None else ()
        asking = min(patience, _FOR_THE_LEFT_BEHIND) if took is not None else patience
        steps = (Signal(SIGKILL),) if how == "SIGTERM" else (Signal(SIGTERM), Wait(asking), Signal(SIGKILL))
        report = await self.child.shut_down(ShutdownPlan(steps))
        if took is None and self.processes():
            left_behind = self.processes()
        by_itself = took is not None and report.ended_by in {"already gone", "nothing"}
        return Ending(
            asked_by=how,
            took=took,
            exit=exit_of(self.child.exit),
            ended_by=how if by_itself else report.ended_by,
            left_behind=left_behind,
        )

    async def _wait_for_helpers(self, seconds: float) -> None:
        """Waits until the processes that the server has started are gone, at most so many seconds.

        A helper that watches the server, in a session of its own, notices its end only a moment later.
        """
        end = self._loop.time() + seconds
        await self.child.wait_until_gone(seconds)
        while self.processes() and self._loop.time() < end:
            await asyncio.sleep(_BETWEEN_LOOKS)


def exit_of(status: ExitStatus | None) -> Exit | None:
    """How a process ended, as it is told."""
    return None if status is None else Exit(status.code, status.signal_name, status.describe())
