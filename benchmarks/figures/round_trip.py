"""One small call after another. Most of the time is spent in the kernel, which wakes the other process."""

from contenders import BUSY_SERVERS
from measuring import ECHO, ECHO_DEF, WEATHER, Bench, Metric, checked, percentile

CALLS = {"async": ECHO, "def": ECHO_DEF, "struct": WEATHER}


def metric(kind: str, what: str) -> Metric:
    """The metric of one kind of tool."""
    return Metric(f"round trip/{kind}/{what}", "s", "lower")


def run(bench: Bench) -> None:
    """A fresh process in each round, and each kind of tool in it."""
    for turn, contender in bench.turns("round trip", BUSY_SERVERS, bench.scale.repeat):
        with bench.attempt("round trip", contender, turn), contender.start(bench.noise) as served:
            served.open()
            # Each SDK as it comes: for `-> str` those of Python send the text twice, the second time as a structure.
            for kind, call in CALLS.items():
                if call.tool in contender.lacks:
                    continue
                count = bench.warmed(served, contender, call, in_flight=1)
                exchange = checked(served, call, count, in_flight=0)
                put = bench.sheet.put
                put(metric(kind, "p50"), contender.name, turn, percentile(exchange.latencies, 50))
                put(metric(kind, "p99"), contender.name, turn, percentile(exchange.latencies, 99))
                put(metric(kind, "CPU per call"), contender.name, turn, exchange.cpu / count)
                size = Metric(f"round trip/{kind}/length of an answer", "bytes", "lower")
                put(size, contender.name, turn, len(exchange.answers) / count)
