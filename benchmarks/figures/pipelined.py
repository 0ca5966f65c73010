"""Many calls in flight: calls per second and CPU per call. The most stable figure."""

from contenders import BUSY_SERVERS
from measuring import ECHO, ECHO_DEF, Bench, Metric, checked


def metrics(kind: str, in_flight: int) -> tuple[Metric, Metric]:
    """Calls per second, and CPU per call."""
    prefix = f"pipelined/{kind}/{in_flight}"
    return Metric(f"{prefix}/calls per second", "1/s", "higher"), Metric(f"{prefix}/CPU per call", "s", "lower")


def run(bench: Bench) -> None:
    """A fresh process in each round, and each depth in it."""
    plan = [("async", ECHO, in_flight) for in_flight in bench.scale.in_flight] + [("def", ECHO_DEF, 64)]
    for turn, contender in bench.turns("pipelined", BUSY_SERVERS, bench.scale.repeat):
        with bench.attempt("pipelined", contender, turn), contender.start(bench.noise) as served:
            served.open()
            for kind, call, in_flight in plan:
                if call.tool in contender.lacks:
                    continue
                count = bench.warmed(served, contender, call, in_flight=in_flight)
                exchange = checked(served, call, count, in_flight=in_flight)
                rate, cpu = metrics(kind, in_flight)
                bench.sheet.put(rate, contender.name, turn, count / exchange.seconds)
                bench.sheet.put(cpu, contender.name, turn, exchange.cpu / count)
