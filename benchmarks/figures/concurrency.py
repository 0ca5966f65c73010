"""Many waiting calls at once: the time until all have a response, and the time of a ping meanwhile."""

from contenders import servers
from driver import Call, check
from measuring import Bench, Metric, percentile

PAUSE = 0.1
BLOCKING_CALLS = 32
# Seconds from one ping to the next.
PING_EVERY = 0.005


def run(bench: Bench) -> None:
    """Calls that await, and calls that block."""
    plan = {"async": ("pause", bench.scale.pauses), "def": ("pause_def", BLOCKING_CALLS)}
    for turn, contender in bench.turns("concurrency", servers(era="legacy", need="pause"), bench.scale.repeat_long):
        with bench.attempt("concurrency", contender, turn), contender.start(bench.noise) as served:
            served.open()
            for kind, (tool, count) in plan.items():
                if tool in contender.lacks:
                    continue
                bench.warmed(served, contender, Call("echo", {"text": "hello"}, "hello"), in_flight=64)
                call = Call(tool, {"seconds": PAUSE}, "done")
                lines = served.prepare(call, count)
                exchange, pings = served.beside(lines, every=PING_EVERY)
                check(exchange, lines, call)
                prefix = f"concurrency/{kind}"
                put = bench.sheet.put
                put(Metric(f"{prefix}/all answered", "s", "lower"), contender.name, turn, exchange.seconds)
                if pings:
                    put(Metric(f"{prefix}/ping p50", "s", "lower"), contender.name, turn, percentile(pings, 50))
                    put(Metric(f"{prefix}/ping longest", "s", "lower"), contender.name, turn, max(pings))
