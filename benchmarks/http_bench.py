"""Compare servers over HTTP: requests per second, latency, CPU and memory. `make bench-http`.

The load comes from a process of its own. CPU per request is that of the server's processes, from the kernel; it is the figure that
a busy machine changes least. The rounds of the contenders alternate, and the middle of each figure counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environment import as_text, describe
from publish import PAGE, filled

HERE = Path(__file__).parent
ROOT = HERE.parent
SERVERS = HERE / "http_servers"
PEERS = ROOT / ".venv" / "peers"
OURS = ROOT / ".venv" / "bench" / "http"
TICK = os.sysconf("SC_CLK_TCK")
ASGI = {
    "uvicorn, h11": ["-m", "uvicorn", "--http", "h11", "--loop", "asyncio"],
    "uvicorn, httptools": ["-m", "uvicorn", "--http", "httptools", "--loop", "asyncio"],
    "uvicorn, httptools, uvloop": ["-m", "uvicorn", "--http", "httptools", "--loop", "uvloop"],
    "granian": ["-m", "granian", "--interface", "asgi", "--loop", "asyncio"],
    "granian, uvloop": ["-m", "granian", "--interface", "asgi", "--loop", "uvloop"],
}

QUIET = ("--no-access-log", "--log-level", "warning")


@dataclass(frozen=True)
class Contender:
    """A server under test."""

    name: str
    command: tuple[str, ...]
    folder: Path = SERVERS
    # V8 needs thousands of calls until it has compiled what is used often.
    warm_up: float = 1.0
    # It has subscriptions.
    listens: bool = True


def python_of(home: Path) -> str:
    """Return the interpreter of an environment."""
    return str(home / "bin" / "python")


def on_asgi_servers(app: str, python: str) -> list[Contender]:
    """Return one application on every ASGI server."""
    return [
        Contender(f"{app} on {name}", (python, *options, *QUIET, "--port", "PORT", f"{app}:app"), listens=False)
        for name, options in ASGI.items()
    ]


def contenders(python: str) -> list[Contender]:
    """Return everything that is installed here."""
    script = PEERS / "npm" / "bench_http.mjs"
    found = [
        Contender("twopipes", (python, "ours.py", "PORT")),
        Contender("bare ASGI", (python, *ASGI["uvicorn, httptools"], *QUIET, "--port", "PORT", "bare:app"), listens=False),
        Contender("official", (python_of(PEERS / "official-2"), "official.py", "PORT")),
        Contender("fastmcp", (python_of(PEERS / "fastmcp-4"), "fastmcp_server.py", "PORT"), listens=False),  # it has none
    ]
    if script.parent.exists() and (node := shutil.which("node")):
        # A module is looked for beside the script that imports it.
        script.write_bytes((SERVERS / "typescript.mjs").read_bytes())
        found.append(Contender("typescript", (node, str(script), "PORT"), warm_up=6.0))
    return [each for each in found if Path(each.command[0]).exists()]


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def serving(contender: Contender) -> Iterator[tuple[int, int]]:
    """Run a server; yield its process id and its port."""
    port = free_port()
    command = [str(port) if word == "PORT" else word for word in contender.command]
    process = subprocess.Popen(
        command, cwd=contender.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        _wait_for(process, port)
        yield process.pid, port
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _wait_for(process: subprocess.Popen[str], port: int) -> None:
    end = time.monotonic() + 60
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"the server exited: {process.communicate()[1]}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return


def processes_of(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = [pid]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
    return found


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants."""
    total = 0
    for each in processes_of(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def memory_of(pid: int) -> int:
    """Return the resident memory of a process and its descendants in KiB."""
    return sum(
        int(line.split()[1])
        for each in processes_of(pid)
        for line in Path(f"/proc/{each}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )


def load(port: int, **job: Any) -> dict[str, Any]:
    """Run the load generator."""
    command = [sys.executable, str(HERE / "http_load.py"), json.dumps({"port": port, **job})]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout)
    if found["failures"]:
        raise RuntimeError(f"the server failed: {found['failures']}")
    return found


def measure(contender: Contender, seconds: float) -> dict[str, float]:
    """Measure one server once."""
    figures: dict[str, float] = {}
    with serving(contender) as (pid, port):
        load(port, in_flight=8, seconds=contender.warm_up)
        figures["memory"] = memory_of(pid) / 1024
        for in_flight in (1, 64):
            before = cpu_of(pid)
            found = load(port, in_flight=in_flight, seconds=seconds)
            spent = cpu_of(pid) - before
            figures[f"per_second_{in_flight}"] = found["per_second"]
            figures[f"p50_{in_flight}"] = found["p50"] * 1000
            figures[f"p99_{in_flight}"] = found["p99"] * 1000
            figures[f"cpu_{in_flight}"] = spent / found["requests"] * 1e6
        if contender.listens:
            figures |= measure_listens(pid, port)
    return figures


def measure_listens(pid: int, port: int, count: int = 1000, seconds: float = 5.0) -> dict[str, float]:
    """Measure what idle listens cost."""
    before = memory_of(pid)
    command = [sys.executable, str(HERE / "http_load.py"), json.dumps({"port": port, "hold": count})]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        if not holder.stdout.readline():
            raise RuntimeError(f"the server refused {count} listens")
        memory, spent = memory_of(pid) - before, cpu_of(pid)
        time.sleep(seconds)
        idle = (cpu_of(pid) - spent) / max(seconds, 0.001)
        holder.stdin.close()
    return {"listen_memory": memory / count, "listen_cpu": idle * 100}


ROWS = [
    ("per_second_1", "requests/s, 1 in flight", "{:,.0f}"),
    ("per_second_64", "requests/s, 64 in flight", "{:,.0f}"),
    ("p50_1", "p50, 1 in flight, ms", "{:.2f}"),
    ("p99_1", "p99, 1 in flight, ms", "{:.2f}"),
    ("p50_64", "p50, 64 in flight, ms", "{:.1f}"),
    ("p99_64", "p99, 64 in flight, ms", "{:.1f}"),
    ("cpu_1", "CPU per request, 1 in flight, µs", "{:,.0f}"),
    ("cpu_64", "CPU per request, 64 in flight, µs", "{:,.0f}"),
    ("memory", "memory, MiB", "{:.0f}"),
    ("listen_memory", "memory per idle listen, KiB", "{:.1f}"),
    ("listen_cpu", "CPU of 1,000 idle listens, %", "{:.1f}"),
]


def table(results: dict[str, dict[str, float]]) -> str:
    """Return the figures as a table in Markdown."""
    lines = [f"| | {' | '.join(results)} |", f"|---|{'---|' * len(results)}"]
    for key, title, form in ROWS:
        cells = [form.format(figures[key]) if key in figures else "-" for figures in results.values()]
        if set(cells) != {"-"}:
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


# What is compared with whom, and the aim: at most this ratio of CPU, at least this ratio of requests per second.
AIMS = [
    ("CPU per request, 64 in flight", "cpu_64", "official", 0.2, True),
    ("CPU per request, 64 in flight", "cpu_64", "typescript", 1.0, True),
    ("CPU per request, 64 in flight", "cpu_64", "bare ASGI", 1.6, True),
    ("requests/s, 64 in flight", "per_second_64", "official", 5.0, False),
    ("requests/s, 64 in flight", "per_second_64", "typescript", 1.0, False),
]


def ratios(results: dict[str, dict[str, float]]) -> str:
    """Return our figures over those of others, and whether each aim is met, as a table in Markdown."""
    lines = ["| twopipes over ... | | ratio | aim |", "|---|---|---|---|"]
    for title, key, name, aim, is_less_better in AIMS:
        if name in results:
            ratio = results["twopipes"][key] / results[name][key]
            is_met = ratio <= aim if is_less_better else ratio >= aim
            wanted = f"at {'most' if is_less_better else 'least'} {aim:g}"
            lines.append(f"| {name} | {title} | {ratio:.2f} | {wanted}{'' if is_met else ' **missed**'} |")
    return "\n".join(lines)


def run(chosen: list[Contender], rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Measure everything in turns, and return the middle of each figure."""
    found: dict[str, list[dict[str, float]]] = {contender.name: [] for contender in chosen}
    for _ in range(rounds):
        for contender in chosen:
            found[contender.name].append(measure(contender, seconds))
            print(f"{contender.name}: {found[contender.name][-1]}", file=sys.stderr)
    return {
        name: {key: statistics.median(each[key] for each in runs if key in each) for key in runs[0]} for name, runs in found.items()
    }


def main() -> None:
    """Print a table, and write the figures to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--asgi", metavar="APP", help="compare the ASGI servers with this application instead: bare or ours")
    parser.add_argument("--only", action="append", help="a part of a name; repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--python", default=python_of(OURS), help="the interpreter with twopipes and the ASGI servers")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--publish", action="store_true", help="write the table and the ratios to the page about performance")
    given = parser.parse_args()
    chosen = on_asgi_servers(given.asgi, given.python) if given.asgi else contenders(given.python)
    if given.only:
        chosen = [each for each in chosen if any(part in each.name for part in given.only)]
    results = run(chosen, given.rounds, given.seconds)
    print(table(results))
    if given.publish:
        said = as_text(describe()).splitlines()[0]
        block = f"{said}\n\n{table(results)}\n\n{ratios(results)}"
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), {"http": block}), encoding="utf-8")
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
