"""Drive any server over its two pipes: lines made beforehand, bare reads and writes, one thread.

Nothing here parses a response while the clock runs. The responses are kept as bytes, and :func:`check` checks them afterwards. A
wrong, late or missing response raises :class:`Failed`, which is recorded in the results.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

__all__ = ["Call", "Era", "Exchange", "Failed", "Served", "check", "clean_environment", "cpu_seconds"]

Era = Literal["legacy", "modern"]
LEGACY, MODERN = "2025-11-25", "2026-07-28"
LINE_FEED = 0x0A
PIECE = 64 * 1024
LARGE_PIECE = 1024 * 1024
INFO = {"name": "bench", "version": "1"}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
# Seconds for a server to exit on EOF, before it is killed.
PATIENCE = 5.0


class Failed(Exception):
    """A contender did something wrong; the text says what."""


class Call(NamedTuple):
    """A call of a tool and its expected result: the text, and the structured content if any."""

    tool: str
    arguments: Mapping[str, Any]
    text: str | None
    structured: Any = None

    def line(self, request_id: int, era: Era) -> bytes:
        """The request as it crosses the wire."""
        return request_line(request_id, "tools/call", {"name": self.tool, "arguments": self.arguments}, era)


class Exchange(NamedTuple):
    """The cost of a number of calls, and their responses."""

    seconds: float
    cpu: float
    answers: bytes
    # Seconds of each call, where they were made one after the other.
    latencies: Sequence[float] = ()


def request_line(request_id: int, method: str, params: Mapping[str, Any], era: Era) -> bytes:
    """A request as it crosses the wire."""
    if era == "modern":
        params = {**params, "_meta": MODERN_META}
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def opening_line(era: Era) -> bytes:
    """The first request of a client."""
    if era == "modern":
        return request_line(0, "server/discover", {}, era)
    return request_line(0, "initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": INFO}, era)


INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


def clean_environment() -> dict[str, str]:
    """Return the environment without the variables that change how Python behaves."""
    ours = ("PYTHON", "TWOPIPES", "NODE_", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and all its threads, including those that have ended."""
    # From Linux's posix-timers.h: the clock of a process is its pid, inverted, shifted by three, and 2 for CPU time as scheduled.
    return time.clock_gettime((~pid << 3) | 2)


class Served:
    """A server that is running, and the raw client in front of it.

    Every wait has an end: when the time given to :meth:`within` is over, the server is killed, and the read that was waiting for
    it finds the end of the pipe. No call pays for that, because it is another thread that sleeps.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stderr: Path,
        era: Era = "legacy",
        echoes: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.era = era
        self.echoes = echoes
        self._stderr = stderr
        # Tools that were called often enough to be measured.
        self.warm: set[str] = set()
        self._next_id = 1
        self._out_of_time = False
        self._rest = b""
        with stderr.open("wb") as noise:
            self.started = time.perf_counter()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=noise,
                bufsize=0,
                env={**clean_environment(), **(env or {})},
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to = self._process.stdin.fileno()
        self._from = self._process.stdout.fileno()
        # A server whose responses are not read stops reading, so both ends are watched while there is more to write.
        os.set_blocking(self._to, False)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def cpu(self) -> float:
        """Seconds of CPU that the process has used."""
        return cpu_seconds(self.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server by EOF, or kill its process group."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Kill the server when the time is over."""

        def end() -> None:
            self._out_of_time = True
            self._kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Failed:
            if self._out_of_time:
                raise Failed(f"not done within {seconds:g} s") from None
            raise
        finally:
            timer.cancel()

    # Opening

    def open(self, *, limit: float = 60.0) -> float:
        """Send the first request, wait for its response, and return the seconds since the launch."""
        with self.within(limit):
            line = opening_line(self.era)
            answer = self.response_to(line)
            seconds = time.perf_counter() - self.started
            if self.echoes:
                if answer != line:
                    raise Failed(f"the line came back as {answer[:200]!r}")
                return seconds
            if "result" not in (said := parsed(answer)) or said.get("id") != 0:
                raise Failed(f"the first request was answered by {answer[:200]!r}")
            if self.era == "legacy":
                self._write_all(INITIALIZED)
        return seconds

    def list_tools(self, *, limit: float = 120.0) -> float:
        """List the tools, and return the seconds since the launch."""
        self._next_id += 1
        line = request_line(self._next_id - 1, "tools/list", {}, self.era)
        with self.within(limit):
            answer = self.response_to(line)
            seconds = time.perf_counter() - self.started
        if not self.echoes and not parsed(answer).get("result", {}).get("tools"):
            raise Failed(f"tools/list was answered by {answer[:200]!r}")
        return seconds

    # Exchanges

    def response_to(self, line: bytes) -> bytes:
        """Send a request and return the line of its response; notifications before it are dropped."""
        self._write_all(line)
        while True:
            answer = self._read_line()
            if self.echoes or "method" not in parsed(answer):
                return answer

    def prepare(self, call: Call, count: int) -> list[bytes]:
        """Return the lines of so many calls, each with its own id."""
        first = self._next_id
        self._next_id += count
        return [call.line(request_id, self.era) for request_id in range(first, first + count)]

    def one_by_one(self, lines: Sequence[bytes], *, limit: float = 120.0) -> Exchange:
        """Send each line after the response to the previous one, and time each."""
        answers: list[bytes] = []
        latencies: list[float] = []
        clock, write, read, to, back = time.perf_counter, os.write, os.read, self._to, self._from
        with self.within(limit):
            cpu, start = self.cpu, clock()
            for line in lines:
                sent = clock()
                if write(to, line) != len(line):
                    raise Failed("the pipe was full although nothing was in it")
                piece = read(back, PIECE)
                while piece and piece[-1] != LINE_FEED:
                    more = read(back, PIECE)
                    piece = piece + more if more else b""
                latencies.append(clock() - sent)
                if not piece:
                    raise self._ended()
                answers.append(piece)
            seconds, cpu = clock() - start, self.cpu - cpu
        return Exchange(seconds, cpu, b"".join(answers), latencies)

    def pipelined(self, lines: Sequence[bytes], *, in_flight: int, limit: float = 120.0, piece: int = PIECE) -> Exchange:
        """Keep so many calls in flight until all have a response."""
        waiting = iter(lines)
        answers: list[bytes] = []
        answered, count = 0, len(lines)
        outgoing = memoryview(b"".join(islice(waiting, in_flight)))
        with self.within(limit):
            cpu, start = self.cpu, time.perf_counter()
            while answered < count:
                if outgoing:
                    outgoing = self._write_some(outgoing)
                    if outgoing and not self._readable_before_writable():
                        continue
                received = os.read(self._from, piece)
                if not received:
                    raise self._ended()
                answers.append(received)
                ended = received.count(b"\n")
                if ended:
                    answered += ended
                    more = b"".join(islice(waiting, ended))
                    if more:
                        outgoing = memoryview(bytes(outgoing) + more)
            seconds, cpu = time.perf_counter() - start, self.cpu - cpu
        return Exchange(seconds, cpu, b"".join(answers))

    def one_large(self, line: bytes, *, limit: float) -> Exchange:
        """Make one call whose request or response is long."""
        return self.pipelined([line], in_flight=1, limit=limit, piece=LARGE_PIECE)

    def ping_line(self) -> bytes:
        """Return a ping."""
        self._next_id += 1
        method = "server/discover" if self.era == "modern" else "ping"
        return request_line(self._next_id - 1, method, {}, self.era)

    def beside(self, lines: Sequence[bytes], *, every: float, limit: float = 120.0) -> tuple[Exchange, list[float]]:
        """Send all lines at once, and pings until all have a response; return the times of the pings too."""
        wanted = {_id_of(line) for line in lines}
        answers: list[bytes] = []
        pings: list[float] = []
        asked: int | None = None
        with self.within(limit):
            cpu, start = self.cpu, time.perf_counter()
            self._write_all(b"".join(lines))
            sent, done = time.perf_counter(), start
            while wanted or asked is not None:
                now = time.perf_counter()
                if asked is None and now >= sent + every:
                    line = self.ping_line()
                    asked, sent = _id_of(line), now
                    self._write_all(line)
                # While a ping is out there is nothing to do but to wait for it; otherwise until the next one is due.
                if b"\n" not in self._rest and not self._readable(None if asked is not None else sent + every - now):
                    continue
                answer = self._read_line()
                found = parsed(answer).get("id")
                if found == asked:
                    pings.append(time.perf_counter() - sent)
                    asked = None
                else:
                    wanted.discard(found)
                    answers.append(answer)
                    done = time.perf_counter()
            cpu = self.cpu - cpu
        return Exchange(done - start, cpu, b"".join(answers)), pings

    # Memory

    def memory(self) -> tuple[int, int]:
        """Return the memory of the process in bytes, and its peak since :meth:`forget_peak`."""
        return memory_of(self.pid)

    def forget_peak(self) -> None:
        """Reset the peak."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    # The pipes

    def _readable_before_writable(self) -> bool:
        """Wait until either end is ready; return whether there is something to read."""
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        poll.register(self._to, select.POLLOUT)
        return any(end == self._from for end, _ in poll.poll())

    def _readable(self, seconds: float | None) -> bool:
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        return bool(poll.poll(None if seconds is None else max(0.0, seconds * 1000)))

    def _write_some(self, outgoing: memoryview) -> memoryview:
        try:
            return outgoing[os.write(self._to, outgoing) :]
        except BlockingIOError:
            return outgoing
        except BrokenPipeError:
            raise self._ended() from None

    def _write_all(self, line: bytes) -> None:
        outgoing = memoryview(line)
        while outgoing:
            outgoing = self._write_some(outgoing)
            if outgoing and self._readable_before_writable():
                self._rest += os.read(self._from, PIECE)

    def _read_line(self) -> bytes:
        while b"\n" not in self._rest:
            piece = os.read(self._from, PIECE)
            if not piece:
                raise self._ended()
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"

    def _ended(self) -> Failed:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        said = self._stderr.read_text(errors="replace").strip().splitlines()[-1:]
        return Failed(f"the server ended with {self._process.returncode}{': ' + said[0] if said else ''}"[:300])


def check(exchange: Exchange, lines: Sequence[bytes], call: Call, *, echoes: bool = False) -> None:
    """Raise :class:`Failed` unless each line got exactly one correct response."""
    answers = exchange.answers.splitlines(keepends=True)
    if echoes:
        if answers != list(lines):
            raise Failed("the lines did not come back as they were")
        return
    wanted = {_id_of(line) for line in lines}
    for answer in answers:
        said = parsed(answer)
        if said.get("id") not in wanted:
            raise Failed(f"unexpected response {answer[:200]!r}")
        wanted.discard(said["id"])
        _check_result(said.get("result"), call, answer)
    if wanted:
        raise Failed(f"{len(wanted)} of {len(lines)} calls were not answered")


def _check_result(result: Any, call: Call, answer: bytes) -> None:
    try:
        right = not result.get("isError", False)
        if call.text is not None:
            right = right and result["content"][0]["text"] == call.text
        if call.structured is not None:
            right = right and result["structuredContent"] == call.structured
    except (AttributeError, KeyError, IndexError, TypeError):
        right = False
    if not right:
        raise Failed(f"a wrong answer: {answer[:200]!r}")


def parsed(line: bytes) -> dict[str, Any]:
    """Decode a line."""
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise Failed(f"no message: {line[:200]!r}")
    return message


def _id_of(line: bytes) -> int:
    # Our own lines all begin alike, and a long one is not parsed for its id.
    head = line[: line.index(b",", 20)]
    return int(head.rpartition(b":")[2])


def memory_of(pid: int) -> tuple[int, int]:
    """Return the memory of a process and its peak, in bytes."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024, int(fields["VmHWM"].split()[0]) * 1024
