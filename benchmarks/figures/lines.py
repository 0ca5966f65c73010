"""The cost of a line without a process around it: ``bench_wire.py``, in the clean environment."""

import json
import subprocess

from contenders import HERE, SERVERS
from driver import Failed, clean_environment
from measuring import Bench, Metric

LIMIT = 300.0


def run(bench: Bench) -> None:
    """Run it once; it takes turns inside."""
    if not bench.scale.lines:
        return
    contender = SERVERS[0]
    for turn, _ in bench.turns("line", [contender], 1):
        with bench.attempt("line", contender, turn):
            done = subprocess.run(
                [contender.python, str(HERE / "bench_wire.py"), "--json"],
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
                env=clean_environment(),
            )
            # 1 says that a target was missed, which the table shows as well.
            if done.returncode not in {0, 1}:
                raise Failed(f"bench_wire.py ended with {done.returncode}: {done.stderr[-200:]}")
            for name, ratio, _ in json.loads(done.stdout):
                bench.sheet.put(Metric(f"line/{name}", "x", "lower"), contender.name, turn, ratio)
