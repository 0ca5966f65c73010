"""Where the other implementations are, how one of them is run against our server, and how our client is run against one."""

import asyncio
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from msgspec import structs

from twopipes import Client, Timeouts, connect, trace
from twopipes.types import ClientOptions, EraCache

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


def node_script(name: str) -> list[str]:
    """The command of a script of ours that uses packages of node."""
    runtime, packages = node(), peer("npm")
    # A module is looked for beside the script that wants it, not where node was started.
    script = packages / name
    script.write_bytes((SCRIPTS / name).read_bytes())
    return [runtime, str(script)]


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
        entries = trace.read(file).whole_lines()
        found.append([Line(entry.kind, json.loads(entry.data)) for entry in entries if isinstance(entry, trace.Line)])
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

# A variable of the environment that marks a server and everything that it starts, wherever that ends up.
MARK = "TWOPIPES_INTEROP"
PATIENT = Timeouts(connect=NET / 2, probe=NET / 2, request=NET / 2, total=NET, shutdown=NET / 2)
_numbers = itertools.count(1)


class Connected:
    """A client, and the processes that were there for it when it had done its work."""

    def __init__(self, client: Client, mark: str) -> None:
        self.client = client
        self.mark = mark
        self.processes: set[int] = set()


@asynccontextmanager
async def connected(
    command: Sequence[str], *, timeouts: Timeouts = PATIENT, env: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Connected]:
    """Our client of a server that a peer made. When the block is over the server has ended, and so has all that it started."""
    mark = f"{os.getpid()}.{next(_numbers)}"
    try:
        # A memory of its own: what one test has learnt of a server must not spare the next one the probe.
        given = options.pop("options", ClientOptions())
        options["options"] = structs.replace(given, era_cache=EraCache())
        async with (
            asyncio.timeout(NET),
            connect(command, env={**(env or {}), MARK: mark}, timeouts=timeouts, **options) as client,
        ):
            connection = Connected(client, mark)
            yield connection
            connection.processes = marked(mark)
            assert client.pid in connection.processes
    finally:
        left = marked(mark)
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        # Here, so that it is told however the block was left.
        assert not left, f"the client has left behind {left}"
    assert not still_listed(connection.processes), "the client has not collected what it ended"


def marked(mark: str) -> set[int]:
    """The processes whose environment carries a mark: a server, its wrappers, and what they started, orphans too."""
    wanted = f"{MARK}={mark}".encode()
    found = set()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it is gone, or not ours
            if wanted in environment.read_bytes().split(b"\0"):
                found.add(int(environment.parent.name))
    return found


def still_listed(processes: Iterable[int]) -> list[int]:
    """Those that are in the table of the system: alive, or dead and waited for by nobody, which have no environment any more."""
    return [process for process in processes if Path("/proc", str(process)).exists()]
