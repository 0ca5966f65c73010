"""Measure ``twopipes hub`` in front of 20 servers with 500 tools. `make bench-hub`.

The start is a ratio within one round: the time from launch to all tools listed through the hub, over that of the slowest of the
same servers if a host starts all of them at once. A call is compared with the same call through ``twopipes bridge``, and directly.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from contenders import OURS
from driver import Failed, Served, parsed, request_line
from environment import as_text, describe
from measuring import ECHO, checked, percentile
from publish import PAGE, filled

SERVER = Path(__file__).parent / "servers" / "many_tools.py"
SERVERS = 20
TOOLS = 500
# Seconds that the slowest server needs to start, in the second scenario.
SLOW_START = 3.0
# Calls at once.
IN_FLIGHT = 64
AIM = 2.0


class Start(NamedTuple):
    """Seconds from the launch to the tools listed: of the slowest server, and through the hub."""

    slowest: float
    hub: float

    @property
    def ratio(self) -> float:
        """The time through the hub, in times of the slowest server."""
        return self.hub / self.slowest


class Cost(NamedTuple):
    """Microseconds of one call: CPU of the process that the host has started, and the median latency."""

    cpu: float
    latency: float


def commands(python: str, slow: float, *, servers: int = SERVERS, tools: int = TOOLS) -> list[list[str]]:
    """Return the commands of the servers; the first one needs ``slow`` seconds."""
    command = [python, str(SERVER), str(tools // servers)]
    return [[*command, str(slow)] if slow else command, *([command] * (servers - 1))]


def hub_command(python: str, folder: Path, servers: Sequence[Sequence[str]]) -> list[str]:
    """Return the command of a hub in front of these servers."""
    file = folder / "servers.json"
    entries = {f"s{number}": {"command": words[0], "args": list(words[1:])} for number, words in enumerate(servers)}
    file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    return [python, "-m", "twopipes", "hub", "--no-watch", str(file)]


def measure_start(python: str, slow: float = 0.0, *, servers: int = SERVERS, tools: int = TOOLS) -> Start:
    """Start the servers without and with the hub."""
    wanted = commands(python, slow, servers=servers, tools=tools)
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
        folder = Path(name)
        env = {"XDG_STATE_HOME": name}

        def start(words: Sequence[str], number: int) -> Served:
            return stack.enter_context(Served(words, stderr=folder / f"stderr{number}", env=env))

        with ThreadPoolExecutor(servers) as threads:
            direct = list(threads.map(_listed, [start(words, number) for number, words in enumerate(wanted)]))
        stack.close()
        with Served(hub_command(python, folder, wanted), stderr=folder / "stderr", env=env) as hub:
            seconds = _listed(hub, tools)
    return Start(max(direct), seconds)


def _listed(served: Served, count: int | None = None) -> float:
    """Open a connection and list the tools; return the seconds since the launch."""
    served.open()
    if count is None:
        return served.list_tools()
    seconds = served.list_tools()
    with served.within(60.0):
        found = parsed(served.response_to(request_line(1_000_000, "tools/list", {}, served.era)))["result"]["tools"]
    if len(found) != count:
        raise Failed(f"the hub listed {len(found)} tools, not {count}")
    return seconds


def measure_calls(python: str, count: int) -> dict[str, Cost]:
    """Call one tool directly, through a bridge, and through a hub with all servers."""
    server = commands(python, 0.0)[0]
    found = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        hub = hub_command(python, folder, commands(python, 0.0))
        ways = {
            "direct": (server, ECHO),
            "bridge": ([python, "-m", "twopipes", "bridge", "--", *server], ECHO),
            "hub": (hub, ECHO._replace(tool="s7__echo")),
        }
        for way, (command, call) in ways.items():
            with Served(command, stderr=folder / "stderr", env={"XDG_STATE_HOME": name}) as served:
                _listed(served)
                checked(served, call, 200, in_flight=IN_FLIGHT)
                busy = checked(served, call, count, in_flight=IN_FLIGHT)
                alone = checked(served, call, count // 4, in_flight=0)
                found[way] = Cost(busy.cpu / count * 1e6, percentile(alone.latencies, 50) * 1e6)
    return found


def table(starts: dict[str, list[Start]], calls: dict[str, Cost]) -> str:
    """Return everything as tables in Markdown."""
    lines = [
        f"| {SERVERS} servers, {TOOLS} tools: launch to tools listed | slowest server | hub | hub / slowest |",
        "|---|---|---|---|",
    ]
    for name, taken in starts.items():
        middle = sorted(taken, key=lambda start: start.ratio)[len(taken) // 2]
        missed = "" if middle.ratio <= AIM else " **missed**"
        lines.append(f"| {name} | {middle.slowest:.2f} s | {middle.hub:.2f} s | {middle.ratio:.2f} (aim: {AIM:g}){missed} |")
    lines += ["", f"| one call | CPU of the first process, {IN_FLIGHT} in flight | one at a time, p50 |", "|---|---|---|"]
    lines += [f"| {way} | {cost.cpu:,.0f} µs | {cost.latency:,.0f} µs |" for way, cost in calls.items()]
    return "\n".join(lines)


def main() -> None:
    """Print the tables, and write them to the page about performance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=3000, help="calls of one measurement (default: 3000)")
    parser.add_argument("--python", default=str(OURS / "bin" / "python"), help="the interpreter with twopipes")
    parser.add_argument("--publish", action="store_true", help="write the tables to the page about performance")
    given = parser.parse_args()
    starts: dict[str, list[Start]] = {}
    taken: dict[str, list[Cost]] = {}
    for _ in range(given.rounds):
        for name, slow in (("all start equally fast", 0.0), (f"one needs {SLOW_START:g} s", SLOW_START)):
            starts.setdefault(name, []).append(measure_start(given.python, slow))
            print(name, starts[name][-1], file=sys.stderr, flush=True)
        for way, cost in measure_calls(given.python, given.count).items():
            taken.setdefault(way, []).append(cost)
            print(way, cost, file=sys.stderr, flush=True)
    calls = {way: Cost(*(statistics.median(column) for column in zip(*costs, strict=True))) for way, costs in taken.items()}
    block = "\n\n".join((as_text(describe()).splitlines()[0], table(starts, calls)))
    print(block)
    if given.publish:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), {"hub": block}), encoding="utf-8")


if __name__ == "__main__":
    main()
