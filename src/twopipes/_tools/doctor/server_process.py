"""One process of the examined server: start it, send requests, watch it, end it. Every wait is bounded."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

from msgspec import structs

from twopipes import _jsonrpc as jsonrpc
from twopipes._jsonrpc import Notification, Request
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import SIGKILL, SIGTERM, ExitStatus
from twopipes._process.shutdown import ShutdownPlan, Signal, Wait
from twopipes._tools.doctor.observations import Ending, Exit, Process
from twopipes._tools.doctor.stdout_reader import ReceivedResponse, StdoutReader
from twopipes.errors import ChannelBroken, ChannelClosed

# Seconds to read the output of a process that has exited. A grandchild may keep the pipe open.
_OUTPUT_TIMEOUT = 1.0
# Seconds for a process to exit after it has closed its output.
_EXIT_TIMEOUT = 0.5
# The least time in seconds that every process gets to exit.
_MIN_GRACE = 1.0
# Seconds between SIGTERM and SIGKILL for processes that were left behind.
_LEFT_BEHIND_TIMEOUT = 1.0
# Seconds between two checks of the server's own child processes, whose exit the system does not report to us.
_POLL_INTERVAL = 0.1
# The environment variable that every process of an attempt inherits, whatever its group, session or parent.
_MARK = "TWOPIPES_DOCTOR"
_MAX_COMMAND = 120  # characters


class ServerProcess:
    """A running server, as long as the ``async with`` block lasts."""

    child: Child  # the process
    started_in: float  # seconds that the system took to start it

    def __init__(self, command: ServerCommand, *, deadline: float) -> None:
        self._mark = secrets.token_hex(8)
        self._command = structs.replace(command, env={**(command.env or {}), _MARK: self._mark})
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._last_id = 0
        self._changed = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._stdout_ended = False
        self.stdout = StdoutReader()  # reads its output

    async def __aenter__(self) -> Self:
        """Start it."""
        started = self._loop.time()
        self.child = await Child.start(self._command)
        self.started_in = self._loop.time() - started
        self._reading = self._loop.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.child.shut_down(ShutdownPlan.at_once())
        finally:
            _kill_marked(self._mark)
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.gather(self._reading, return_exceptions=True)

    @property
    def elapsed(self) -> float:
        """Seconds since it was started."""
        return self._loop.time() - self.child.started_at

    async def _read(self) -> None:
        with suppress(ChannelBroken, ChannelClosed):
            while data := await self.child.channel.read():
                self.stdout.feed(data, self.elapsed)
                while self.stdout.to_send:
                    self._write(self.stdout.to_send.pop(0))
                self._changed.set()
                with suppress(ChannelBroken, ChannelClosed):  # its output is read in any case
                    await self.child.channel.drain()  # stop reading from a server that sends requests and does not read
        self.stdout.finish(self.elapsed)
        self._stdout_ended = True
        self._changed.set()

    def _write(self, data: bytes) -> None:
        # If it has exited, the missing response will show that.
        with suppress(ChannelBroken, ChannelClosed):
            self.child.channel.write(data)

    async def _wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        end = min(self._loop.time() + seconds, self._deadline)
        while not condition():
            self._changed.clear()
            left = end - self._loop.time()
            if left <= 0:
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
        return True

    async def request(self, method: str, params: Any, *, seconds: float, framed: bool = False) -> ReceivedResponse | None:
        """Send a request and return its response, or ``None`` if none comes in time or the server exits."""
        self._last_id += 1
        self.stdout.expect(self._last_id, method, self.elapsed)
        line = jsonrpc.encode(Request(self._last_id, method, params))
        self._write(b"Content-Length: %d\r\n\r\n%s" % (len(line) - 1, line[:-1]) if framed else line)
        watching = self._loop.create_task(self._watch_exit())
        try:
            await self._wait_for(lambda: self.stdout.response is not None or self._stdout_ended, seconds)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        return self.stdout.response

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._write(jsonrpc.encode(Notification(method)))

    async def _watch_exit(self) -> None:
        """Stop waiting for output when the process exits, even if a grandchild keeps the pipe open."""
        await self.child.wait()
        await asyncio.sleep(_OUTPUT_TIMEOUT)
        self._stdout_ended = True
        self._changed.set()

    @property
    def is_stdout_open(self) -> bool:
        """Whether more output may come."""
        return not self._stdout_ended

    async def early_exit(self) -> Exit | None:
        """Return how it exited before it was asked to; ``None`` if it runs. After EOF it gets a moment to exit."""
        if self._stdout_ended and self.child.running:
            with suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_TIMEOUT):
                    await self.child.wait()
        return describe_exit(self.child.exit)

    def processes(self) -> tuple[Process, ...]:
        """Return the processes that belong to the server."""
        return _marked_processes(self._mark)

    async def end(self, how: Literal["eof", "SIGTERM"], *, grace: float) -> Ending:
        """Ask it to exit, and kill it if it does not. Where SIGTERM cannot reach it, its input is closed instead."""
        if not self.child.has_sigterm:
            how = "eof"
        begun = self._loop.time()
        self.stdout.is_ending = True
        if how == "eof":
            self.child.close_stdin()
        else:
            self.child.signal(SIGTERM)
        # Give it a minimum even after the deadline, so that a well-behaved server does not look like a stubborn one.
        patience = min(grace, max(_MIN_GRACE, self._deadline - begun))
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.child.wait()
        took = None
        if not self.child.running:
            took = max(0.0, self.child.started_at + self.child.lived - begun)
            await self._wait_for(lambda: self._stdout_ended, _OUTPUT_TIMEOUT)
            await self._wait_for_helpers(patience)
        # What is still running after that was left behind, in its process group or outside it.
        left_behind = self.processes() if took is not None else ()
        asking = min(patience, _LEFT_BEHIND_TIMEOUT) if took is not None else patience
        steps = (Signal(SIGKILL),) if how == "SIGTERM" else (Signal(SIGTERM), Wait(asking), Signal(SIGKILL))
        report = await self.child.shut_down(ShutdownPlan(steps))
        if took is None and self.processes():
            left_behind = self.processes()
        by_itself = took is not None and report.ended_by in {"already gone", "nothing"}
        return Ending(
            asked_by=how,
            took=took,
            exit=describe_exit(self.child.exit),
            ended_by=how if by_itself else report.ended_by,
            left_behind=left_behind,
        )

    async def _wait_for_helpers(self, seconds: float) -> None:
        """Wait until the processes that the server started are gone, at most ``seconds``.

        A watchdog in a session of its own notices the end of the server a moment later.
        """
        end = self._loop.time() + seconds
        await self.child.wait_until_gone(seconds)
        while self.processes() and self._loop.time() < end:
            await asyncio.sleep(_POLL_INTERVAL)


def describe_exit(status: ExitStatus | None) -> Exit | None:
    """Return an exit status in the form of an observation."""
    return None if status is None else Exit(status.code, status.signal_name, status.describe())


def _marked_processes(mark: str) -> tuple[Process, ...]:
    """Return the running processes with this mark; on other systems than Linux, none."""
    found = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()) if sys.platform == "linux" else ():
        folder = Path(f"/proc/{pid}")
        # The process may have exited, or belong to another user.
        with suppress(OSError, ValueError):
            is_marked = pid != os.getpid() and f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
            if is_marked and (folder / "stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}:
                command = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
                lines = (folder / "status").read_text().splitlines()
                peak = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
                found.append(Process(pid=pid, command=command[:_MAX_COMMAND], peak=peak))
    return tuple(found)


def _kill_marked(mark: str) -> None:
    """Kill the processes with this mark, as a last resort for those that have left the process group."""
    if sys.platform != "win32":  # the end of the job object kills them there
        for process in _marked_processes(mark):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
