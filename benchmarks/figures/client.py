"""Clients with the same fast server: calls per second and CPU per call, one at a time and with many in flight."""

import json
import subprocess
from typing import Any

from contenders import CLIENTS, FAST_SERVER, Contender
from driver import Failed, clean_environment
from measuring import Bench, Metric

IN_FLIGHT = (1, 64)
LIMIT = 300.0
KIB = 1024
MIB = 1024 * KIB
LARGE = Metric("client/16 MiB there and back/seconds", "s", "lower")


def rate_metric(in_flight: int) -> Metric:
    """Calls per second."""
    return Metric(f"client/{in_flight} in flight/calls per second", "1/s", "higher")


def run(bench: Bench) -> None:
    """A fresh client in each round, for each depth."""
    for turn, contender in bench.turns("client", CLIENTS, bench.scale.repeat):
        for in_flight in IN_FLIGHT:
            with bench.attempt(f"client/{in_flight} in flight", contender, turn):
                # Roughly the time of a measurement, by what such clients are known to do.
                calls = int((2_000 if contender.slow else 12_000) * bench.scale.seconds)
                report = run_client(contender, calls=calls, in_flight=in_flight)
                bench.sheet.put(rate_metric(in_flight), contender.name, turn, report["calls"] / report["seconds"])
                cpu = Metric(f"client/{in_flight} in flight/CPU per call", "s", "lower")
                bench.sheet.put(cpu, contender.name, turn, report["cpu"] / report["calls"])
                held = Metric(f"client/{in_flight} in flight/memory", "B", "lower")
                bench.sheet.put(held, contender.name, turn, report["resident"])
        # Reading a long answer costs some the square of its length, so once is often enough for everybody.
        if turn < bench.scale.repeat_long:
            with bench.attempt("client/16 MiB", contender, turn):
                report = run_client(contender, calls=1, in_flight=1, large=16 * MIB - KIB)
                bench.sheet.put(LARGE, contender.name, turn, report["large"])


def run_client(contender: Contender, *, calls: int, in_flight: int, servers: int = 1, large: int = 0) -> dict[str, Any]:
    """Run a client to its end and return its report. It checks each response itself."""
    job = {
        "command": FAST_SERVER.command(),
        "era": contender.era,
        "calls": calls,
        "in_flight": in_flight,
        "warm_up": max(contender.warm_up if calls > 1 else 1, calls // 4),
        "servers": servers,
        "large": large,
    }
    done = subprocess.run(
        [*contender.command(), json.dumps(job)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["nothing on stderr"]
        raise Failed(f"the client ended with {done.returncode}: {said[0]}"[:300])
    report: dict[str, Any] = json.loads(done.stdout)
    return report
