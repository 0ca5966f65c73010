"""What ``twopipes tap`` costs: from its launch to the first answer, a round trip, and bytes a second.

The server behind it is ``cat``, so that hardly anything but what stands between is measured. The two other commands that hosts
launch start beside it: ``run`` until the author's file begins, ``mock`` until its first answer.
"""

import json
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from contenders import HERE, Contender
from driver import Call, Served, clean_environment
from measuring import ECHO, Bench, Metric, checked, percentile

TAP, COPIER, NOTHING = "twopipes tap", "smallest copier", "nothing between"
START_UP = Metric("tap/start to the first answer", "s", "lower")
ROUND_TRIP = Metric("tap/round trip/p50", "s", "lower")
ROUND_TRIP_P99 = Metric("tap/round trip/p99", "s", "lower")
ADDED = Metric("tap/round trip/added", "s", "lower")
CPU = Metric("tap/round trip/CPU", "s", "lower")
RATE = Metric("tap/there and back", "MB/s", "higher")
MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Between(Contender):
    """The words before the server's command; ``FILE`` is replaced by a new file."""

    words: tuple[str, ...] = ()

    def start(self, noise: Path, *, one_tool: bool = False) -> Served:
        """Start it."""
        file = noise / f"{self.name}.jsonl"
        file.unlink(missing_ok=True)
        words = [str(file) if word == "FILE" else word for word in self.words]
        cat = shutil.which("cat") or "cat"
        return Served([*words, cat], stderr=noise / f"{self.name}.stderr", era=self.era, echoes=True)


def between(name: str, *words: str) -> Between:
    """Return the metric of one way to start the server."""
    return Between(name=name, era="legacy", home="ours", script="", echoes=True, words=words)


def run(bench: Bench) -> None:
    """Measure each way in turn; the first round compiles and fills caches, and is not counted."""
    python = between("python").python
    ways = (
        between(TAP, python, "-m", "twopipes", "tap", "-q", "-o", "FILE", "--"),
        between(COPIER, python, str(HERE / "servers" / "smallest_copier.py")),
        between(NOTHING),
    )
    put = bench.sheet.put
    for turn, way in bench.turns("tap, start", ways, bench.scale.cold_starts + 2):
        with bench.attempt("tap", way, turn), way.start(bench.noise) as served:
            seconds = served.open()
            if turn:
                put(START_UP, way.name, turn, seconds)
            if turn and way.name == COPIER:
                for name, seconds in others(python, bench.noise).items():
                    put(START_UP, name, turn, seconds)
    direct: dict[int, float] = {}
    size = 16 * MIB
    large = Call("echo", {"text": "x" * size}, None)
    for turn, way in bench.turns("tap", ways[::-1], bench.scale.repeat):
        with bench.attempt("tap", way, turn), way.start(bench.noise) as served:
            served.open()
            count = bench.warmed(served, way, ECHO, in_flight=1)
            exchange = checked(served, ECHO, count, in_flight=0)
            middle = percentile(exchange.latencies, 50)
            put(ROUND_TRIP, way.name, turn, middle)
            put(ROUND_TRIP_P99, way.name, turn, percentile(exchange.latencies, 99))
            put(CPU, way.name, turn, exchange.cpu / count)
            if way.name == NOTHING:
                direct[turn] = middle
            elif turn in direct:
                put(ADDED, way.name, turn, middle - direct[turn])
            lines = served.prepare(large, 1)
            put(RATE, way.name, turn, size / served.one_large(lines[0], limit=bench.scale.patience).seconds / 1e6)


def others(python: str, folder: Path) -> dict[str, float]:
    """Measure the time from the launch of ``run`` and ``mock`` to their first response."""
    recording = folder / "mocked.jsonl"
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    question = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {**hello, "serverInfo": {"name": "s", "version": "1"}}})
    entries = [{"twopipes_trace": 1}, {"at": 0.1, "kind": ">", "line": question}, {"at": 0.2, "kind": "<", "line": answer}]
    recording.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    file = str(HERE / "servers" / "first_line.py")
    command = str(Path(python).parent / "twopipes")
    return {
        "twopipes run": _first_byte([command, "run", file], b"", "stderr"),
        "twopipes mock": _first_byte([command, "mock", str(recording)], question.encode() + b"\n", "stdout"),
    }


def _first_byte(command: list[str], said: bytes, stream: str) -> float:
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(), bufsize=0
    ) as process:
        process.stdin.write(said)
        if not getattr(process, stream).read(1):
            raise ValueError(f"{' '.join(command)} said nothing on {stream}")
        seconds = time.perf_counter() - began
        process.communicate()  # which closes its input
    return seconds
