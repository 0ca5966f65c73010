"""How figures are taken: the contenders take turns in each round, and every value and every failure is kept."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Literal, NamedTuple

from contenders import Contender
from driver import Call, Exchange, Failed, Served, check

Better = Literal["lower", "higher"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The sizes of a run. A figure may give a contender less than this."""

    name: str
    # Rounds of each figure, and of those in which a round takes long.
    repeat: int
    repeat_long: int
    cold_starts: int
    # Seconds that one measurement shall take; as many calls are made as fit.
    seconds: float
    fewest_calls: int
    in_flight: Sequence[int]
    # Sizes of a message, in KiB.
    sizes: Sequence[int]
    # Up to this size, messages go to other implementations as well.
    largest_for_others: int
    # Seconds that one message may take.
    patience: float
    # Calls before memory is looked at again.
    calls_for_memory: int
    calls_for_memory_slow: int
    servers: int
    pauses: int
    lines: bool
    # Who is left out; except the stateless era at the cold start.
    without: frozenset[str] = frozenset()


FULL = Scale(
    name="full",
    repeat=5,
    repeat_long=2,
    cold_starts=7,
    seconds=0.3,
    fewest_calls=200,
    in_flight=(1, 8, 64, 512),
    sizes=(1, 64, 1024, 16 * 1024, 64 * 1024),
    largest_for_others=64 * 1024,
    patience=75.0,
    calls_for_memory=100_000,
    calls_for_memory_slow=10_000,
    servers=100,
    pauses=1000,
    lines=True,
)
QUICK = Scale(
    name="quick",
    repeat=2,
    repeat_long=1,
    cold_starts=3,
    seconds=0.15,
    fewest_calls=100,
    in_flight=(1, 64),
    sizes=(1, 1024, 16 * 1024, 64 * 1024),
    largest_for_others=16 * 1024,
    patience=20.0,
    calls_for_memory=10_000,
    calls_for_memory_slow=1_000,
    servers=20,
    pauses=1000,
    lines=False,
    without=frozenset({"fastmcp", "official modern", "twopipes modern", "typescript modern"}),
)


class Metric(NamedTuple):
    """What is measured: ``figure/detail/...``, its unit, and which way is better."""

    name: str
    unit: str
    better: Better


@dataclass
class Sheet:
    """Every value of a run, by metric, contender and round; and every failure."""

    metrics: dict[str, Metric] = field(default_factory=dict)
    values: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def put(self, metric: Metric, contender: str, turn: int, value: float) -> None:
        """Keep a value."""
        self.metrics[metric.name] = metric
        self.values.setdefault(metric.name, {}).setdefault(contender, {})[turn] = value

    def fail(self, what: str, contender: str, turn: int, why: str) -> None:
        """Keep the failure of a figure or a part of it."""
        self.failures.append({"what": what, "contender": contender, "round": turn, "why": why})

    def why_missing(self, metric: str, contender: str) -> str | None:
        """Return the failure that explains why a contender has no value."""
        for failure in self.failures:
            if failure["contender"] == contender and metric.startswith(failure["what"]):
                return str(failure["why"])
        return None

    def summary(self) -> dict[str, Any]:
        """Return the content for a file: the values with median, lowest and highest."""
        return {
            name: {
                "unit": self.metrics[name].unit,
                "better": self.metrics[name].better,
                "contenders": {
                    contender: {**spread(list(rounds.values())), "values": [rounds[turn] for turn in sorted(rounds)]}
                    for contender, rounds in contenders.items()
                },
            }
            for name, contenders in self.values.items()
        }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, lowest and highest."""
    return {"median": median(values), "low": min(values), "high": max(values)}


@dataclass
class Bench:
    """One run: its scale, its sheet, and where the stderr of the contenders goes."""

    scale: Scale
    sheet: Sheet
    noise: Path
    say: Callable[[str], None] = lambda said: print(said, file=sys.stderr, flush=True)

    def turns(
        self, figure: str, contenders: Iterable[Contender], repeat: int, *, both_eras: bool = False
    ) -> Iterator[tuple[int, Contender]]:
        """Yield the contenders in turn, round after round: A B C A B C, never A A B B."""
        present = []
        for contender in contenders:
            if contender.name in self.scale.without and not (both_eras and contender.era == "modern"):
                continue
            why = contender.missing()
            if why is None:
                present.append(contender)
            else:
                self.sheet.fail(figure, contender.name, 0, why)
        for turn in range(repeat):
            self.say(f"  {figure}: round {turn + 1} of {repeat}")
            for contender in present:
                yield turn, contender

    @contextmanager
    def attempt(self, what: str, contender: Contender, turn: int) -> Iterator[None]:
        """Record a failure and continue with the others."""
        try:
            yield
        except Failed as failure:
            why = str(failure)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            why = f"{type(error).__name__}: {error}"[:300]
        else:
            return
        self.sheet.fail(what, contender.name, turn, why)
        self.say(f"    {contender.name} failed at {what}: {why}")

    def warmed(self, served: Served, contender: Contender, call: Call, *, in_flight: int) -> int:
        """Call until the server has warmed up; return how many calls fit into one measurement."""
        if call.tool not in served.warm:
            # Many at a time, whatever is measured then: it is the same code that gets warm, and sooner.
            lines = served.prepare(call, contender.warm_up)
            check(served.pipelined(lines, in_flight=64), lines, call, echoes=served.echoes)
            served.warm.add(call.tool)
        count = 20
        while True:
            lines = served.prepare(call, count)
            exchange = served.pipelined(lines, in_flight=in_flight)
            check(exchange, lines, call, echoes=served.echoes)
            if exchange.seconds >= self.scale.seconds / 4:
                fitting = int(count * self.scale.seconds / exchange.seconds)
                return max(self.scale.fewest_calls, fitting)
            count *= 4


def checked(served: Served, call: Call, count: int, *, in_flight: int) -> Exchange:
    """Make so many calls and check the responses after the clock has stopped; ``in_flight=0`` times each call."""
    lines = served.prepare(call, count)
    exchange = served.pipelined(lines, in_flight=in_flight) if in_flight else served.one_by_one(lines)
    check(exchange, lines, call, echoes=served.echoes)
    return exchange


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile."""
    return median(values) if percent == 50 else quantiles(values, n=100, method="inclusive")[percent - 1]


ECHO = Call("echo", {"text": "hello"}, "hello")
ECHO_DEF = Call("echo_def", {"text": "hello"}, "hello")
# The text beside the structure is written differently by everybody, and all of it is right.
WEATHER = Call("weather", {"city": "Rome"}, None, {"city": "Rome", "celsius": 7.5})
