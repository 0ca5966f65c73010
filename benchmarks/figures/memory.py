"""Memory of a server: at rest, and after many calls. The figure of long messages measures their peak.

It is the server with one tool, as at the cold start, which imports nothing but its library. The one with all the tools of the
benchmark imports asyncio for one of them; what it holds at rest is taken as well.
"""

from contenders import SERVERS
from measuring import ECHO, Bench, Metric, checked

IDLE = Metric("memory/idle", "B", "lower")
IDLE_MORE = Metric("memory/idle, with more tools", "B", "lower")
AFTER = Metric("memory/after many calls", "B", "lower")
BATCH = 2_000


def run(bench: Bench) -> None:
    """Start one process per round, and measure it after the first call and after many calls."""
    scale = bench.scale
    for turn, contender in bench.turns("memory", SERVERS, scale.repeat_long):
        with bench.attempt("memory", contender, turn), contender.start(bench.noise) as served:
            served.open()
            checked(served, ECHO, 1, in_flight=0)
            bench.sheet.put(IDLE_MORE, contender.name, turn, served.memory()[0])
        with bench.attempt("memory", contender, turn), contender.start(bench.noise, one_tool=True) as served:
            served.open()
            checked(served, ECHO, 1, in_flight=0)
            bench.sheet.put(IDLE, contender.name, turn, served.memory()[0])
            if contender.era == "modern" or (contender.slow and turn):
                continue
            calls = scale.calls_for_memory_slow if contender.slow else scale.calls_for_memory
            for _ in range(0, calls, BATCH):
                checked(served, ECHO, min(BATCH, calls), in_flight=64)
            bench.sheet.put(AFTER, contender.name, turn, served.memory()[0])
    bench.sheet.notes.append(
        f"Many calls, for memory: {scale.calls_for_memory:,}; for the official SDK and FastMCP {scale.calls_for_memory_slow:,}."
    )
