"""Measure what ``twopipes bridge`` and ``twopipes keep`` add to a direct connection. `make bench-gateway`.

Every figure is a difference within one round: the same server alone, and behind each way. CPU is that of all processes that belong
to a way (relay, daemon, gateway, server), from the kernel; it is the figure that a busy machine changes least. The ways take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from contenders import OURS
from driver import Call, Era, Served, check, clean_environment, cpu_seconds, memory_of
from environment import as_text, describe
from measuring import ECHO, checked, percentile
from publish import PAGE, filled

SERVER = Path(__file__).parent / "servers" / "behind_gateway.py"
ERAS: tuple[Era, ...] = ("legacy", "modern")
MIB = 1024 * 1024
LARGE = 16 * MIB
MORE_HOSTS = 10
DAEMON = b"twopipes._gateway.daemon"
# Seconds that the slow server needs to start.
SLOW_START = 5.0


@dataclass(frozen=True)
class Way:
    """The words between the interpreter and the server's command."""

    name: str
    words: tuple[str, ...] = ()


DIRECT = Way("direct")
BRIDGE = Way("bridge", ("-m", "twopipes", "bridge", "--"))
KEEP = Way("keep", ("-m", "twopipes", "keep", "--"))
# A legacy server has state for each session, so only `all` shares every server.
SHARE = Way("keep --share", ("-m", "twopipes", "keep", "--share=all", "--idle", "1s", "--"))
WAYS = (DIRECT, BRIDGE, KEEP, SHARE)


class Place:
    """One private state folder, and a mark in the environment by which every process of a way is found.

    Args:
        python: The interpreter with twopipes.
        folder: For state, sockets and stderr.
    """

    def __init__(self, python: str, folder: Path) -> None:
        self.python = python
        self.folder = folder
        self.mark = f"BENCH_MARK={uuid4().hex}"
        name, _, value = self.mark.partition("=")
        folders = {name: str(folder / name) for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")}
        for path in folders.values():
            Path(path).mkdir(mode=0o700)
        self.env = {**folders, name: value}

    def start(self, way: Way, *, front: Era, back: Era, seconds: float = 0.0) -> Served:
        """Start a server of one era behind a way, and connect a raw client of another."""
        server = [self.python, str(SERVER), back, *([str(seconds)] if seconds else [])]
        command = [self.python, *way.words, *server] if way.words else server
        return Served(command, stderr=self.folder / "stderr", era=front, env=self.env)

    def processes(self) -> list[int]:
        """Return every process with the mark, and the daemon, which does not have the environment of a host."""
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if self._has(path)]

    def _has(self, path: Path) -> bool:
        with suppress(OSError):
            if self.mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                return True
            command = (path / "cmdline").read_bytes()
            return DAEMON in command and str(self.folder).encode() in command
        return False

    def cpu(self) -> float:
        """Return the CPU seconds of all processes."""
        total = 0.0
        for pid in self.processes():
            with suppress(OSError):
                total += cpu_seconds(pid)
        return total

    def wait_for_end(self, seconds: float = 30.0) -> None:
        """Wait until every process has ended: the daemon ends some time after its last host."""
        end = time.monotonic() + seconds
        while left := self.processes():
            if time.monotonic() > end:
                raise RuntimeError(f"{len(left)} processes have not exited: {[_command(pid) for pid in left]}")
            time.sleep(0.05)


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    return f"{pid}, which has exited"


@contextmanager
def placed(python: str) -> Iterator[Place]:
    """Yield a new place, and wait for the end of its processes."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        place = Place(python, Path(folder))
        yield place
        place.wait_for_end()


def measure_calls(python: str, way: Way, front: Era, back: Era, count: int) -> dict[str, float]:
    """Return CPU per call with 64 in flight, and the latency of one call at a time, in microseconds."""
    with placed(python) as place, place.start(way, front=front, back=back) as served:
        served.open()
        served.list_tools()
        checked(served, ECHO, 200, in_flight=64)
        before = place.cpu()
        checked(served, ECHO, count, in_flight=64)
        spent = place.cpu() - before
        exchange = checked(served, ECHO, max(20, count // 10), in_flight=0)
        return {"cpu": spent / count * 1e6, "latency": percentile(exchange.latencies, 50) * 1e6}


def empty_python(python: str) -> float:
    """Return the memory of an interpreter that waits for its input, in MB."""
    command = [python, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment()) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held = memory_of(process.pid)[0] / 1e6
        process.communicate()
    return held


def measure_memory(python: str, way: Way) -> dict[str, float]:
    """Return the memory of the process that the host starts, and what a large result adds to the gateway, in MB."""
    with placed(python) as place, place.start(way, front="modern", back="modern") as served:
        served.open()
        served.list_tools()
        checked(served, ECHO, 1, in_flight=0)
        figures = {"memory": served.memory()[0] / 1e6}
        served.forget_peak()
        at_rest = served.memory()[0]
        call = Call("produce", {"size": LARGE}, None)
        lines = served.prepare(call, 1)
        check(served.one_large(lines[0], limit=60), lines, call)
        figures["copies"] = (served.memory()[1] - at_rest) / LARGE
        return figures


def measure_hosts(python: str) -> dict[str, float]:
    """Return what the daemon needs: for its first host, and for each additional one, in MB."""
    with placed(python) as place, ExitStack() as stack:
        hosts: list[Served] = []
        for _ in range(1 + MORE_HOSTS):
            hosts.append(stack.enter_context(place.start(SHARE, front="modern", back="modern")))
            hosts[-1].open()
            hosts[-1].list_tools()
            checked(hosts[-1], ECHO, 1, in_flight=0)
            if len(hosts) == 1:
                first = _daemon_memory(place)
        last = _daemon_memory(place)
        return {"daemon": first, "per_host": (last - first) / MORE_HOSTS}


def _daemon_memory(place: Place) -> float:
    (daemon,) = [pid for pid in place.processes() if DAEMON.decode() in _command(pid)]
    return memory_of(daemon)[0] / 1e6


def measure_start(python: str, way: Way, front: Era) -> dict[str, float]:
    """Return the milliseconds from launch to tools listed of a slow server, at its first and its second start."""
    figures = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        place = Place(python, Path(folder))
        for name in ("first", "second"):
            with place.start(way, front=front, back="modern", seconds=SLOW_START) as served:
                served.open()
                figures[name] = served.list_tools() * 1000
                # Wait until the server itself has responded: then its manifest is that of a whole run.
                with served.within(60.0):
                    served.response_to(served.prepare(ECHO, 1)[0])
            place.wait_for_end()
    return figures


class Aim(NamedTuple):
    """A bound for a figure, in the unit of its row."""

    title: str
    value: float
    bound: float
    unit: str


Figures = dict[str, float]


def run(python: str, rounds: int, count: int, ways: Sequence[Way]) -> Figures:
    """Measure everything in turns; return the middle of each figure by ``what/way/...``."""
    taken: dict[str, list[float]] = {}

    def put(name: str, figures: Figures) -> None:
        for key, value in figures.items():
            taken.setdefault(f"{key}/{name}" if name else key, []).append(value)
        print(f"{name}: {figures}", file=sys.stderr, flush=True)

    for _ in range(rounds):
        put("", {"empty": empty_python(python)})
        for front in ERAS:
            for back in ERAS:
                for way in ways:
                    if way is not DIRECT or front == back:
                        put(f"{way.name}/{front}/{back}", measure_calls(python, way, front, back, count))
        for way in ways:
            put(way.name, measure_memory(python, way))
        if SHARE in ways:
            put("", measure_hosts(python))
        for way in ways:
            for front in ERAS if way.words else ("modern",):
                put(f"{way.name}/{front}", measure_start(python, way, front))
    return {name: statistics.median(values) for name, values in taken.items()}


def added(figures: Figures, what: str, way: Way, front: Era, back: Era) -> float | None:
    """Return what a way adds to the same server connected directly, or ``None`` if it was not measured."""
    behind = figures.get(f"{what}/{way.name}/{front}/{back}")
    # The host and the server of a crossed pair cannot be connected directly: compare with the server's own era.
    direct = figures.get(f"{what}/{DIRECT.name}/{back}/{back}")
    return None if behind is None or direct is None else behind - direct


def aims(figures: Figures) -> list[Aim]:
    """Return the figures that have an aim."""
    found = []
    for way in WAYS[1:]:
        costs = [added(figures, "cpu", way, era, era) for era in ERAS]
        if None not in costs:
            found.append(Aim(f"{way.name}: CPU per call, added, one era", max(c for c in costs if c is not None), 150, "µs"))
    for way in (KEEP, SHARE):
        if f"memory/{way.name}" in figures:
            found.append(
                Aim(f"{way.name}: memory over an empty Python", figures[f"memory/{way.name}"] - figures["empty"], 15, "MB")
            )
        starts = [figures[name] for era in ERAS if (name := f"second/{way.name}/{era}") in figures]
        if starts:
            found.append(Aim(f"{way.name}: second launch of a slow server to tools listed", max(starts), 300, "ms"))
    return found


def calls_table(figures: Figures, ways: Sequence[Way]) -> str:
    """Return what each way adds to a call, as a table in Markdown."""
    pairs = [(front, back) for front in ERAS for back in ERAS]
    titles = [f"{front} host, {back} server" for front, back in pairs]
    lines = [f"| added to a direct connection, µs | {' | '.join(titles)} |", f"|---|{'---|' * len(pairs)}"]
    for what, title in (("cpu", "CPU per call, 64 in flight"), ("latency", "one call at a time, p50")):
        for way in ways[1:]:
            cells = [added(figures, what, way, front, back) for front, back in pairs]
            lines.append(f"| {way.name}: {title} | {' | '.join('-' if c is None else f'{c:,.0f}' for c in cells)} |")
    return "\n".join(lines)


ROWS = (
    ("memory", "memory of the process in the host's configuration, MB", "{:.1f}"),
    ("copies", "memory for a result of 16 MiB, times its size", "{:.1f}"),
    ("first", "launch to tools listed, first start, ms", "{:,.0f}"),
    ("second", "the same, second start, ms", "{:,.0f}"),
)


def ways_table(figures: Figures, ways: Sequence[Way]) -> str:
    """Return memory and start of each way, as a table in Markdown."""
    lines = [f"| a modern host | {' | '.join(way.name for way in ways)} |", f"|---|{'---|' * len(ways)}"]
    for key, title, form in ROWS:
        values = [figures.get(f"{key}/{way.name}", figures.get(f"{key}/{way.name}/modern")) for way in ways]
        lines.append(f"| {title} | {' | '.join('-' if value is None else form.format(value) for value in values)} |")
    said = f"An empty Python needs {figures['empty']:.1f} MB."
    if "daemon" in figures:
        said += (
            f" The daemon needs {figures['daemon']:.1f} MB with one host, and {figures['per_host']:.2f} MB for each further host."
        )
    return "\n".join(lines) + f"\n\n{said}"


def aims_table(found: Sequence[Aim]) -> str:
    """Return the aims, and whether each is met, as a table in Markdown."""
    lines = ["| | measured | aim |", "|---|---|---|"]
    for aim in found:
        missed = "" if aim.value <= aim.bound else " **missed**"
        lines.append(f"| {aim.title} | {aim.value:.1f} {aim.unit} | at most {aim.bound:g} {aim.unit}{missed} |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables, and write them to the page about performance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="a part of the name of a way, beside the direct connection; repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=3000, help="calls of one measurement (default: 3000)")
    parser.add_argument("--python", default=str(OURS / "bin" / "python"), help="the interpreter with twopipes")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--publish", action="store_true", help="write the tables to the page about performance")
    given = parser.parse_args()
    ways = [way for way in WAYS if way is DIRECT or not given.only or any(part in way.name for part in given.only)]
    said = as_text(describe()).splitlines()[0]
    figures = run(given.python, given.rounds, given.count, ways)
    block = "\n\n".join((said, calls_table(figures, ways), ways_table(figures, ways), aims_table(aims(figures))))
    print(block)
    if given.publish:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), {"gateway": block}), encoding="utf-8")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + os.linesep)


if __name__ == "__main__":
    main()
