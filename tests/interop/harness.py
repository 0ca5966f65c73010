"""Where the other implementations are, how one of them is run against our server, and how our client is run against one."""

import asyncio
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from twopipes.channels.pipes import PipeChannel
from twopipes.mcp.revisions import ALL
from twopipes.mcp.types import Implementation
from twopipes.session.client_side import ClientSession
from twopipes.session.events import Answered, ClientOpened, Event, LineRejected, OpeningEnded, PeerLeft, ProgressReceived
from twopipes.session.ledger import Asked
from twopipes.session.profiles import ClientProfile
from twopipes.settings import Timeouts

T = TypeVar("T")

HERE = Path(__file__).parent
SCRIPTS = HERE / "peers"
EXAMPLES = HERE.parents[1] / "examples"
ECHO_SERVER = (sys.executable, str(EXAMPLES / "echo_server.py"))
EVERYTHING = (sys.executable, str(EXAMPLES / "everything.py"))
# Where `make interop` installs the peers, each with a stamp that says that it is complete.
INSTALLED = Path(sys.prefix) / "peers"

# What a line-based transport gets wrong: a line feed, a carriage return, separators that only some take for the end of a line, and
# characters outside the first plane.
TEXT = "one line,\nthen another\r\nand \u2028 and \u2029 and \u0085, with a \N{SPARKLES} and a \N{GRINNING FACE}"
# Seconds. Nothing comes near it on a machine that is merely busy; it is a net, not an assertion.
NET = 50.0


# Where the peers are


def missing(what: str) -> None:
    """Skips a test whose peer is not here, or fails it where every peer is required."""
    if os.environ.get("INTEROP_REQUIRED"):
        pytest.fail(f"{what}, and INTEROP_REQUIRED is set")
    pytest.skip(what)


def peer(name: str) -> Path:
    """The environment of a peer."""
    if not (INSTALLED / name / "installed").exists():
        missing(f"the peer {name} is not installed: `make interop` could not reach its registry, or was not used")
    return INSTALLED / name


def python_of(name: str) -> str:
    return str(peer(name) / "bin" / "python")


def node() -> str:
    found = shutil.which("node")
    if found is None:
        missing("there is no node on this machine")
    return str(found)


# A peer as the client


class Launch(NamedTuple):
    """One process of our server, as a peer launched and ended it."""

    exit_code: int | None
    signals: tuple[str, ...]


BY_ITSELF = Launch(exit_code=0, signals=())


class Visit(NamedTuple):
    """What a peer found, and how each server that it launched has ended."""

    findings: dict[str, Any]
    launches: list[Launch]


def visit_of(client: Sequence[str], *, mode: Any, folder: Path, server: Sequence[str] = ECHO_SERVER) -> Visit:
    """Runs a peer's client against our server until it is over and every process is gone."""

    def run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
        return run_client([*client, json.dumps({"command": command, "mode": mode, "text": TEXT})], folder)

    done, launches = witnessed(server, run, folder=folder)
    said = f"it said on stderr:\n{(folder / 'stderr').read_text(errors='replace')}"
    assert done.returncode == 0, f"the client failed with {done.returncode}; {said}"
    # As bytes: a line ends with a line feed and with nothing else.
    lines = done.stdout.splitlines()
    assert len(lines) == 1, f"the client printed {len(lines)} lines; {said}"
    return Visit(json.loads(lines[0]), launches)


def run_client(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Runs a client to its end. What it prints is in the result, what it complains about in a file of the folder."""
    # Into a file, not a pipe: what a client leaves behind would hold a pipe open, and we would wait here and not know why.
    with (folder / "stderr").open("wb") as stderr:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, timeout=NET, check=False)


def witnessed(server: Sequence[str], run: Callable[[list[str]], T], *, folder: Path) -> tuple[T, list[Launch]]:
    """Hands over the command of a server to whoever runs a client, and waits until every process is gone."""
    fifo = folder / "witnessed"
    os.mkfifo(fifo)
    log = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        done = run([sys.executable, str(SCRIPTS / "witness.py"), str(fifo), *server])
        told = [json.loads(line) for line in _read_to_the_end(log).splitlines()]
    finally:
        os.close(log)
    return done, _launches(told)


# What crossed the wire


class Line(NamedTuple):
    """A message, and who sent it: ``>`` the client, ``<`` our server."""

    direction: str
    message: dict[str, Any]


def tracing(server: Sequence[str], wire: Path) -> list[str]:
    """The command of a server that writes down what it hears and says; each of its processes in a file of its own."""
    return ["sh", "-c", 'TWOPIPES_TRACE="$0.$$" exec "$@"', str(wire), *server]


def traces(wire: Path) -> list[list[Line]]:
    """What each process of a traced server wrote down, that of the longest conversation last."""
    found = []
    for file in wire.parent.glob(f"{wire.name}.*"):
        # As bytes again: a line separator within a text is part of the text.
        entries = [line.removeprefix(b"[TRACE] ").split(b" ", 1) for line in file.read_bytes().split(b"\n") if line]
        found.append([Line(direction.decode(), json.loads(message)) for direction, message in entries])
    return sorted(found, key=len)


def _launches(told: list[dict[str, Any]]) -> list[Launch]:
    by_witness: dict[int, Launch] = {}
    for fact in told:
        launch = by_witness.get(fact["witness"], Launch(None, ()))
        if fact["event"] == "signal":
            launch = launch._replace(signals=(*launch.signals, fact["name"]))
        elif fact["event"] == "exited":
            launch = launch._replace(exit_code=fact["code"])
        by_witness[fact["witness"]] = launch
    return list(by_witness.values())


def _read_to_the_end(log: int) -> bytes:
    """Everything that was written, once nobody is left who could write: that is, once all processes are gone."""
    read = bytearray()
    deadline = time.monotonic() + NET
    while True:
        ready, _, _ = select.select([log], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            _end(read)
            pytest.fail(f"processes were left behind; the witness told {bytes(read).decode()}")
        chunk = os.read(log, 65536)
        if not chunk:
            return bytes(read)
        read += chunk


def _end(told: bytes | bytearray) -> None:
    """Ends the servers that a failed test left behind; the witnesses follow."""
    for line in told.splitlines():
        server = json.loads(line).get("server")
        if server is not None:
            with suppress(ProcessLookupError):
                os.kill(server, signal.SIGKILL)


# A peer as the server


class Connection:
    """Our client session over the pipes of a child, driven by hand.

    Attributes:
        opened: What the two sides agreed on.
        rejected: The lines of the server that were not messages.
    """

    opened: ClientOpened

    def __init__(self, session: ClientSession, channel: PipeChannel) -> None:
        self.session = session
        self.rejected: list[LineRejected] = []
        self._channel = channel

    async def open(self) -> None:
        self.session.open(now=time.monotonic())
        async for event in self._events():
            if isinstance(event, OpeningEnded):
                raise event.error
            if isinstance(event, ClientOpened):
                self.opened = event
                return

    async def ask(self, method: str, **params: Any) -> tuple[Any, list[float]]:
        """The result of a request, and the progress that was reported on the way."""
        asked = self.session.request(method, params, now=time.monotonic())
        answered, progress = await self._settle(asked)
        if answered.error is not None:
            raise answered.error
        return answered.result, progress

    async def call(self, name: str, **arguments: Any) -> Any:
        result, _ = await self.ask("tools/call", name=name, arguments=arguments)
        return result

    async def cancel_once_it_works(self, name: str, **arguments: Any) -> Answered:
        """How a call ends that is cancelled as soon as its first progress has arrived."""
        asked = self.session.request("tools/call", {"name": name, "arguments": arguments}, now=time.monotonic())
        answered, _ = await self._settle(asked, cancel_on_progress=True)
        return answered

    async def close(self) -> None:
        """Closes the server's input and waits for the end of its output."""
        await self._channel.close_write()
        async for event in self._events():
            if isinstance(event, PeerLeft):
                return

    async def _settle(self, asked: Asked, *, cancel_on_progress: bool = False) -> tuple[Answered, list[float]]:
        progress = []
        async for event in self._events():
            if isinstance(event, ProgressReceived) and event.asked is asked:
                progress.append(event.params.progress)
                if cancel_on_progress and len(progress) == 1:
                    assert self.session.cancel(asked, reason="the test has seen enough")
            if isinstance(event, Answered) and event.asked is asked:
                return event, progress
        raise AssertionError("unreachable: a request is always answered")

    async def _events(self) -> AsyncIterator[Event]:
        while True:
            data = self.session.data_to_send()
            if data:
                self._channel.write(data)
                await self._channel.drain()
            now = time.monotonic()
            # What cancel() and the like have told without a byte from the server.
            events = self.session.tick(now=now)
            if not events:
                deadline = self.session.next_deadline()
                try:
                    async with asyncio.timeout(None if deadline is None else max(0.0, deadline - now)):
                        chunk = await self._channel.read()
                except TimeoutError:
                    continue
                now = time.monotonic()
                events = self.session.receive(chunk, now=now) if chunk else self.session.receive_eof(now=now)
            for event in events:
                if isinstance(event, LineRejected):
                    self.rejected.append(event)
                yield event


@contextmanager
def launched(command: Sequence[str], errors: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """A child with our ends of its output and input; afterwards it has left by itself, and so has all that it launched."""
    from_server, servers_output = os.pipe()
    servers_input, to_server = os.pipe()
    sentinel, held_by_child = os.pipe()
    with errors.open("wb") as stderr:
        child = subprocess.Popen(command, stdin=servers_input, stdout=servers_output, stderr=stderr, pass_fds=(held_by_child,))
    for fd in (servers_input, servers_output, held_by_child):
        os.close(fd)
    try:
        yield child, from_server, to_server
        code = child.wait(NET)
        assert select.select([sentinel], [], [], NET)[0], "the server is gone, but something that it launched is not"
        assert code == 0, f"the server left with {code}; it said on stderr:\n{errors.read_text()}"
    finally:
        os.close(sentinel)
        if child.poll() is None:
            child.kill()
            child.wait()


@asynccontextmanager
async def _connected(from_server: int, to_server: int, revisions: Sequence[str]) -> AsyncIterator[Connection]:
    profile = ClientProfile(info=Implementation("twopipes-interop", "1.0"), revisions=revisions)
    session = ClientSession(profile, timeouts=Timeouts(probe=NET / 2, connect=NET / 2, request=NET / 2))
    async with PipeChannel(from_server, to_server) as channel:
        connection = Connection(session, channel)
        await connection.open()
        yield connection
        await connection.close()


def converse(command: Sequence[str], conversation: Any, *, folder: Path, revisions: Sequence[str] = ALL) -> Connection:
    """Launches a server, opens, holds a conversation, closes the server's input, and sees it leave with code 0."""

    async def hold(from_server: int, to_server: int) -> Connection:
        async with asyncio.timeout(NET), _connected(from_server, to_server, revisions) as connection:
            await conversation(connection)
        return connection

    with launched(command, folder / "stderr") as (_, from_server, to_server):
        return asyncio.run(hold(from_server, to_server))
