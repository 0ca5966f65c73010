"""One client process and many servers: the time until all are ready, the memory of the client, and its calls per second."""

from contenders import CLIENTS
from measuring import Bench, Metric

from figures.client import run_client


def run(bench: Bench) -> None:
    """Measure the legacy era, where every client waits for a response before it reports a server as ready."""
    count = bench.scale.servers
    ready = Metric("many/ready", "s", "lower")
    held = Metric("many/memory of the client", "B", "lower")
    rate = Metric("many/calls per second", "1/s", "higher")
    contenders = [each for each in CLIENTS if each.era == "legacy"]
    for turn, contender in bench.turns("many", contenders, bench.scale.repeat_long):
        with bench.attempt("many", contender, turn):
            calls = int((2_000 if contender.slow else 12_000) * bench.scale.seconds)
            report = run_client(contender, calls=calls, in_flight=1, servers=count)
            bench.sheet.put(ready, contender.name, turn, report["ready"])
            bench.sheet.put(held, contender.name, turn, report["resident"])
            bench.sheet.put(rate, contender.name, turn, report["calls"] / report["seconds"])
    bench.sheet.notes.append(f"Many: {count} servers, written by hand; each start costs the machine as much as the client.")
