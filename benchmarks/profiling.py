"""Where the time and the memory of our server go: ``make bench-profile``.

Three tables, for ``docs/explanation/performance.md``: the CPU of a call with many in flight, by what is at work; what is imported
before the first answer; and what memory is made of. They are shares and differences of one machine, measured in one run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from contenders import FAST_SERVER, OURS  # noqa: E402 - it is in the folder of this file
from driver import INITIALIZED, Served, clean_environment, opening_line  # noqa: E402
from measuring import ECHO, ECHO_DEF, checked  # noqa: E402
from publish import PAGE, filled  # noqa: E402
from table import grid, short  # noqa: E402

PYTHON = str(OURS / "bin" / "python")
SERVER = str(HERE / "servers" / "ours.py")
ONE_TOOL = str(HERE / "servers" / "one_tool" / "ours.py")
CALLS = 150_000
STARTS = 7
SHOWN = 0.005

# What a file belongs to: the first part of its path that fits.
WORKERS = (
    ("twopipes/_wire.py", "lines and JSON-RPC"),
    ("twopipes/_jsonrpc.py", "lines and JSON-RPC"),
    ("twopipes/_session/", "the session: ids, eras, limits, what is open"),
    ("twopipes/_protocol/", "types, arguments, results, dialects"),
    ("twopipes/_server/", "the server: contexts, tasks, tools"),
    ("twopipes/_client/", "the client: calls, results, what is remembered"),
    ("twopipes/_channels/", "the channel: reading and writing, with the kernel's part"),
    ("asyncio/", "asyncio"),
    ("selectors.py", "waiting for input: selectors, with the kernel's part"),
    ("threading.py", "threads"),
    ("queue.py", "threads"),
)
OTHER = "everything else"


def main() -> int:
    """Measure, print, fill in the page, and return the exit code."""
    blocks = {"profile of a call": calls_table(), "profile of the start": start_table(), "profile of memory": memory_table()}
    for name, block in blocks.items():
        print(f"## {name}\n\n{block}\n")
    PAGE.write_text(filled(PAGE.read_text(), blocks))
    return 0


def worker(file: str) -> str:
    """Return the part of the program that a file belongs to."""
    return next((name for part, name in WORKERS if part in file), OTHER)


def calls_table() -> str:
    """Return the shares of CPU time per call: of the server with ``async`` and ``def`` tools, and of our client."""
    shares = {kind: _shares(_sampled(call)) for kind, call in (("async tool", ECHO), ("`def` tool", ECHO_DEF))}
    shares["our client"] = _shares(_sampled_client())
    names = sorted({name for share in shares.values() for name in share}, key=lambda name: -shares["async tool"].get(name, 0))
    return grid(
        ["64 in flight", *shares],
        [[name, *(f"{share.get(name, 0):.0%}" for share in shares.values())] for name in names],
    )


def _shares(counts: Counter[str]) -> dict[str, float]:
    total = sum(counts.values())
    by_worker: Counter[str] = Counter()
    for place, count in counts.items():
        by_worker[worker(place.split("\n")[0])] += count
    return {name: count / total for name, count in by_worker.items() if count / total >= SHOWN}


def _sampled(call) -> Counter[str]:  # noqa: ANN001 - a call of the benchmark
    with tempfile.TemporaryDirectory(prefix="twopipes-profile-") as folder:
        counts = Path(folder) / "counts.json"
        command = [PYTHON, str(HERE / "servers" / "sampled.py"), str(counts), SERVER]
        with Served(command, stderr=Path(folder) / "stderr") as served:
            served.open()
            checked(served, call, 2_000, in_flight=64)
            os.kill(served.pid, signal.SIGUSR1)
            checked(served, call, CALLS, in_flight=64)
        return Counter(json.loads(counts.read_text()))


def _sampled_client() -> Counter[str]:
    job = {"command": FAST_SERVER.command(), "era": "legacy", "calls": CALLS, "in_flight": 64, "warm_up": 1}
    with tempfile.TemporaryDirectory(prefix="twopipes-profile-") as folder:
        counts = Path(folder) / "counts.json"
        command = [PYTHON, str(HERE / "servers" / "sampled.py"), str(counts), str(HERE / "clients" / "ours.py"), json.dumps(job)]
        subprocess.run(command, capture_output=True, env=clean_environment(), timeout=120, check=True)
        return Counter(json.loads(counts.read_text()))


def start_table() -> str:
    """Return the milliseconds of imports before the first response, by importer; medians of several starts."""
    taken: dict[str, list[float]] = {}
    for _ in range(STARTS):
        for name, seconds in _imports().items():
            taken.setdefault(name, []).append(seconds)
    rows = sorted(((name, median(values)) for name, values in taken.items()), key=lambda row: -row[1])
    return grid(["imported before the first answer", "ms"], [[name, short(seconds * 1e3)] for name, seconds in rows])


def _imports() -> dict[str, float]:
    """Return the times of ``-X importtime`` up to the first response, each counted for the package that imported the module."""
    child = subprocess.run(
        [PYTHON, "-X", "importtime", ONE_TOOL],
        input=opening_line("legacy") + INITIALIZED,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # in one pipe, so that it can be seen what came before the answer
        env=clean_environment(),
        timeout=60,
        check=True,
    )
    before, _, _ = child.stdout.decode().partition('{"jsonrpc"')
    rows = re.findall(r"^import time: +(\d+) \| +\d+ \|( +)(\S+)$", before, re.MULTILINE)
    # A module stands after what it imported, one level deeper: read from the end, everything stands under its importer.
    found: Counter[str] = Counter()
    above: list[str] = []
    for own, indent, module in reversed(rows):
        level = (len(indent) - 1) // 2
        del above[level:]
        above.append(module)
        found[_owner(above)] += int(own)
    return {name: own / 1e6 for name, own in found.items()}


def _owner(above: list[str]) -> str:
    for owner, name in (("msgspec", "msgspec, with what it imports"), ("asyncio", "asyncio, with what it imports")):
        if any(module.split(".")[0] == owner for module in above):
            return name
    if above[-1].split(".")[0] == "twopipes":
        return "twopipes itself"
    if any(module.split(".")[0] == "twopipes" for module in above):
        return "the standard library, for twopipes"
    return "Python itself, before anything of ours"


def memory_table() -> str:
    """Return the megabytes of processes that import more and more."""
    steps = {
        "an empty Python": "",
        "with msgspec": "import msgspec, msgspec.json",
        "with asyncio as well": "import msgspec, msgspec.json, asyncio",
    }
    rows = [[name, short(median(_held(code) for _ in range(STARTS)) / 1e6)] for name, code in steps.items()]
    servers = {"our server with one tool": ONE_TOOL, "our server with more, which imports asyncio by itself": SERVER}
    rows += [[name, short(median(_held_by_server(script) for _ in range(STARTS)) / 1e6)] for name, script in servers.items()]
    return grid(["held by", "MB"], rows)


def _held_by_server(script: str) -> int:
    with tempfile.TemporaryDirectory(prefix="twopipes-profile-") as folder:  # noqa: SIM117 - the one is for the other
        with Served([PYTHON, script], stderr=Path(folder) / "stderr") as served:
            served.open()
            checked(served, ECHO, 1, in_flight=0)
            return served.memory()[0]


def _held(code: str) -> int:
    look = f"{code}\nimport os; print(int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGE_SIZE'))"
    child = subprocess.run([PYTHON, "-c", look], capture_output=True, env=clean_environment(), timeout=60, check=True)
    return int(child.stdout)


if __name__ == "__main__":
    sys.exit(main())
