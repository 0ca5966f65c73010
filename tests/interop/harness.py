"""Find the other implementations, run one of them against our server, and run our client against one of them."""

import asyncio
import itertools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
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
# Where `make interop` installs the peers; a file called `installed` marks a complete one.
INSTALLED = Path(sys.prefix) / "peers"

# Characters that a line-based transport may get wrong: a line feed, a carriage return, separators that only some readers take for
# the end of a line, and characters outside the first plane.
TEXT = "one line,\nthen another\r\nand \u2028 and \u2029 and \u0085, with a \N{SPARKLES} and a \N{GRINNING FACE}"
# Seconds; a safety net, not an assertion. Even a busy machine stays far below it.
NET = 50.0


# Where the peers are


def missing(what: str) -> None:
    """Skip a test whose peer is not installed, or fail it if every peer is required."""
    if os.environ.get("INTEROP_REQUIRED"):
        pytest.fail(f"{what}, and INTEROP_REQUIRED is set")
    pytest.skip(what)


def peer(name: str) -> Path:
    """Return the environment of a peer."""
    if not (INSTALLED / name / "installed").exists():
        missing(f"the peer {name} is not installed: `make interop` could not reach its registry, or was not used")
    return INSTALLED / name


def python_of(name: str) -> str:
    return str(peer(name) / "bin" / "python")


def node() -> str:
    found = shutil.which("node")
    if found is None:
        missing("node is not installed")
    return str(found)


def node_script(name: str) -> list[str]:
    """Return the command of one of our scripts that uses Node packages."""
    runtime, packages = node(), peer("npm")
    # Node looks for a module next to the script that imports it, not in the working directory. Tests run in several processes:
    # one of them must never run a script that another has only begun to write.
    script = packages / name
    copy = packages / f"{name}.{os.getpid()}"
    copy.write_bytes((SCRIPTS / name).read_bytes())
    copy.replace(script)
    return [runtime, str(script)]


@contextmanager
def browser(*arguments: str) -> Iterator[Any]:
    """Run Chromium without a window."""
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - installed by `make interop` alone
    except ImportError:
        missing("playwright is not installed: `make interop` could not reach its registry, or was not used")
    program = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    if program is None:
        missing("chromium is not installed")
    with sync_playwright() as playwright:
        # A sandbox does not work inside the sandbox of a container, nor for root.
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", *arguments], timeout=NET * 1000)
        yield found
        found.close()


# A peer as the client


class Launch(NamedTuple):
    """One process of our server, as a peer launched and ended it."""

    exit_code: int | None
    signals: tuple[str, ...]


BY_ITSELF = Launch(exit_code=0, signals=())


class Visit(NamedTuple):
    """The findings of a peer, and how each server that it launched ended."""

    findings: dict[str, Any]
    launches: list[Launch]


def visit_of(client: Sequence[str], *, mode: Any, folder: Path, server: Sequence[str] = ECHO_SERVER, tool: str = "echo") -> Visit:
    """Run a peer's client against our server, and wait until every process has exited."""

    def run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
        return run_client([*client, json.dumps({"command": command, "mode": mode, "text": TEXT, "tool": tool})], folder)

    done, launches = witnessed(server, run, folder=folder)
    stderr = f"stderr:\n{(folder / 'stderr').read_text(errors='replace')}"
    assert done.returncode == 0, f"the client failed with {done.returncode}; {stderr}"
    # As bytes: only a line feed ends a line.
    lines = done.stdout.splitlines()
    assert len(lines) == 1, f"the client printed {len(lines)} lines; {stderr}"
    return Visit(json.loads(lines[0]), launches)


def run_client(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a client to its end. The result has its stdout; its stderr goes to a file in the folder."""
    # A file, not a pipe: a process that outlives the client would hold a pipe open, and we would wait here without knowing why.
    with (folder / "stderr").open("wb") as stderr:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, timeout=NET, check=False)


def witnessed(server: Sequence[str], run: Callable[[list[str]], T], *, folder: Path) -> tuple[T, list[Launch]]:
    """Pass the command of a server to `run`, and wait until every process has exited."""
    fifo = folder / "witnessed"
    os.mkfifo(fifo)
    log = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        # A FIFO ends only after it had a writer, and a client that fails early launches no witness.
        writer = os.open(fifo, os.O_WRONLY)
        try:
            done = run([sys.executable, str(SCRIPTS / "witness.py"), str(fifo), *server])
        finally:
            os.close(writer)
        reports = [json.loads(line) for line in _read_to_the_end(log).splitlines()]
    finally:
        os.close(log)
    return done, _launches(reports)


# Traces of the wire


class Line(NamedTuple):
    """A message, and its sender: ``>`` the client, ``<`` our server."""

    direction: str
    message: dict[str, Any]


def tracing(server: Sequence[str], wire: Path) -> list[str]:
    """Return the command of a server that traces its messages, each process to its own file."""
    return ["sh", "-c", 'TWOPIPES_TRACE="$0.$$" exec "$@"', str(wire), *server]


def traces(wire: Path) -> list[list[Line]]:
    """Return the trace of each process of a traced server, the longest last."""
    found = []
    for file in wire.parent.glob(f"{wire.name}.*"):
        entries = trace.read(file).whole_lines()
        found.append([Line(entry.kind, json.loads(entry.data)) for entry in entries if isinstance(entry, trace.Line)])
    return sorted(found, key=len)


def _launches(reports: list[dict[str, Any]]) -> list[Launch]:
    by_witness: dict[int, Launch] = {}
    for report in reports:
        launch = by_witness.get(report["witness"], Launch(None, ()))
        if report["event"] == "signal":
            launch = launch._replace(signals=(*launch.signals, report["name"]))
        elif report["event"] == "exited":
            launch = launch._replace(exit_code=report["code"])
        by_witness[report["witness"]] = launch
    return list(by_witness.values())


def _read_to_the_end(log: int) -> bytes:
    """Read until there is no writer left, that is, until all processes have exited."""
    read = bytearray()
    deadline = time.monotonic() + NET
    while True:
        ready, _, _ = select.select([log], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            _kill_servers(read)
            pytest.fail(f"some processes did not exit; the witness reported {bytes(read).decode()}")
        chunk = os.read(log, 65536)
        if not chunk:
            return bytes(read)
        read += chunk


def _kill_servers(reports: bytes | bytearray) -> None:
    """Kill the servers that a failed test did not end; their witnesses then exit too."""
    for line in reports.splitlines():
        server = json.loads(line).get("server")
        if server is not None:
            with suppress(ProcessLookupError):
                os.kill(server, signal.SIGKILL)


# A peer as the server

# An environment variable that marks a server and every process that it starts.
MARK = "TWOPIPES_INTEROP"
PATIENT = Timeouts(connect=NET / 2, probe=NET / 2, request=NET / 2, total=NET, shutdown=NET / 2)
_numbers = itertools.count(1)


class Connected:
    """A client, and the processes of its server at the end of the block."""

    def __init__(self, client: Client, mark: str) -> None:
        self.client = client
        self.mark = mark
        self.processes: set[int] = set()


@asynccontextmanager
async def connected(
    command: Sequence[str], *, timeouts: Timeouts = PATIENT, env: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Connected]:
    """Connect our client to a peer's server. After the block, check that all processes of the server have exited."""
    mark = f"{os.getpid()}.{next(_numbers)}"
    try:
        # A separate cache: a test must not skip the probe because an earlier one knows the server.
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
        # In the finally clause, so that it is checked after an exception too.
        assert not left, f"processes still run after the client was closed: {left}"
    assert not still_listed(connection.processes), "the client did not reap the processes that it ended"


def marked(mark: str) -> set[int]:
    """Return the processes whose environment has a mark: a server, its wrappers, and their children, orphans included."""
    wanted = f"{MARK}={mark}".encode()
    found = set()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has exited, or is not ours
            if wanted in environment.read_bytes().split(b"\0"):
                found.add(int(environment.parent.name))
    return found


def still_listed(processes: Iterable[int]) -> list[int]:
    """Return the processes that are in the process table: running ones and zombies, which have no environment any more."""
    return [process for process in processes if Path("/proc", str(process)).exists()]


# Over HTTP


@contextmanager
def serving(command: Sequence[str], folder: Path) -> Iterator[str]:
    """Run a server that takes a port as its last argument, and return its URL. Afterwards, check that it ends on SIGTERM."""
    port = free_port()
    log = folder / "server"
    with log.open("wb") as output:
        process = subprocess.Popen([*command, str(port)], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        wait_for_port(process, port, log)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        try:
            process.wait(NET)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + NET
    while True:
        assert process.poll() is None, f"the server exited: {log.read_text(errors='replace')}"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=NET):
            return
        assert time.monotonic() < deadline, f"the server does not listen: {log.read_text(errors='replace')}"
        time.sleep(0.02)


@asynccontextmanager
async def connected_to(url: str, **options: Any) -> AsyncIterator[Connected]:
    """Connect our client to a URL."""
    given = options.pop("options", ClientOptions())
    options["options"] = structs.replace(given, era_cache=EraCache())
    async with asyncio.timeout(NET), connect(url, timeouts=PATIENT, **options) as client:
        yield Connected(client, "")
