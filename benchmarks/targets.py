"""The targets, as ratios of one run on one machine, and the judged ratios of a run.

A ratio is ours divided by theirs, within each round; the median counts. A slow machine affects both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, Literal, NamedTuple

from measuring import Better, Sheet

OURS, OFFICIAL, TYPESCRIPT, BY_HAND = "twopipes", "official", "typescript", "by hand, asyncio"


class Target(NamedTuple):
    """One cell of the table: a metric, the opponent, and the bound."""

    figure: str
    metric: str
    against: str | None
    bound: float | None
    ours: str = OURS

    @property
    def key(self) -> str:
        """The name under which its ratio is kept."""
        mine = "" if self.ours == OURS else f"{self.ours}: "
        return f"{mine}{self.metric} / {self.against or 'itself'}"


class Ratio(NamedTuple):
    """A ratio of a run, or why it is missing."""

    target: Target
    better: Better | None
    median: float | None
    low: float | None
    high: float | None
    why: str | None

    @property
    def verdict(self) -> Literal["met", "missed", "no target", "failed", "left out"]:
        """The comparison with its target."""
        if self.median is None:
            return "left out" if self.why is None else "failed"
        if self.target.bound is None:
            return "no target"
        met = self.median <= self.target.bound if self.better == "lower" else self.median >= self.target.bound
        return "met" if met else "missed"


def _row(figure: str, metric: str, official: float | None, typescript: float | None, by_hand: float | None) -> list[Target]:
    bounds = {OFFICIAL: official, TYPESCRIPT: typescript, BY_HAND: by_hand}
    return [Target(figure, metric, against, bound) for against, bound in bounds.items()]


PIPELINED = "pipelined/async/64"
TARGETS: tuple[Target, ...] = (
    *_row("launch to tools listed", "cold start/tools listed", 1 / 9, 1 / 4, 1.4),
    Target("launch to tools listed, modern", "cold start/tools listed", "official modern", 1 / 9, "twopipes modern"),
    Target("launch to tools listed, modern", "cold start/tools listed", "typescript modern", 1 / 4, "twopipes modern"),
    *_row("launch to first response", "cold start/first answer", 1 / 9, 1 / 4, 1.4),
    Target("launch to first response, modern", "cold start/first answer", "official modern", 1 / 9, "twopipes modern"),
    Target("launch to first response, modern", "cold start/first answer", "typescript modern", 1 / 4, "twopipes modern"),
    *_row("launch to first tool result", "cold start/first result of a tool", 1 / 9, 1 / 4, 1.4),
    *_row("launch to first response, CPU", "cold start/first answer, CPU", None, None, None),
    Target("import of what a server needs, CPU", "import/CPU", OFFICIAL, None),
    Target("import of what a server needs, CPU", "import/CPU", BY_HAND, None),
    *_row("round trip p50, async tool", "round trip/async/p50", 1 / 8, 0.8, 1.4),
    *_row("round trip p50, def tool", "round trip/def/p50", 1 / 6, None, None),
    *_row("round trip p50, struct result", "round trip/struct/p50", None, None, None),
    *_row("pipelined calls/s, async tool, 64 in flight", f"{PIPELINED}/calls per second", 40.0, 1.5, 0.5),
    Target("pipelined, modern", f"{PIPELINED}/calls per second", "official modern", None, "twopipes modern"),
    *_row("pipelined calls/s, def tool", "pipelined/def/64/calls per second", 25.0, None, None),
    *_row("server CPU per pipelined call", f"{PIPELINED}/CPU per call", 1 / 40, 1 / 2, 2.0),
    *_row("16 MiB message, our server, there and back, seconds", "payload/both/16 MiB/seconds", 1 / 8, 1 / 8, None),
    *_row("16 MiB message, our server, in, seconds", "payload/in/16 MiB/seconds", None, None, None),
    *_row("16 MiB message, our server, out, seconds", "payload/out/16 MiB/seconds", None, None, None),
    Target("64 MiB over 16 MiB, there and back", "payload/both/64 MiB over 16 MiB", None, 4.5),
    Target("64 MiB over 16 MiB, in", "payload/in/64 MiB over 16 MiB", None, 4.5),
    Target("64 MiB over 16 MiB, out", "payload/out/64 MiB over 16 MiB", None, 4.5),
    *_row("RSS at rest", "memory/idle", 0.36, 0.25, 1.35),
    *_row("RSS after many calls", "memory/after many calls", 0.36, 0.25, 1.35),
    # Of the official SDKs the clients, and of the TypeScript SDK also the server, read a long line in quadratic time.
    Target("16 MiB message, our client, there and back, seconds", "client/16 MiB there and back/seconds", OFFICIAL, 1 / 8),
    Target("16 MiB message, our client, there and back, seconds", "client/16 MiB there and back/seconds", TYPESCRIPT, 1 / 8),
    Target("client calls/s, 64 in flight", "client/64 in flight/calls per second", OFFICIAL, 8.0),
    Target("client calls/s, 64 in flight", "client/64 in flight/calls per second", TYPESCRIPT, 1.0),
    Target("client calls/s, blocking, one at a time", "client/1 in flight/calls per second", OFFICIAL, None, "twopipes blocking"),
    Target("client calls/s, blocking, one at a time", "client/1 in flight/calls per second", TYPESCRIPT, None, "twopipes blocking"),
)

TARGETS += tuple(
    Target(f"{command}: start", "tap/start to the first answer", "smallest copier", 1.5, command)
    for command in ("twopipes tap", "twopipes run", "twopipes mock")
)

LINE_TARGETS = {
    "first line of a process: 64 MiB over 16 MiB, wall clock": 4.5,
    "read: 64 MiB over 16 MiB": 4.5,
    "write: 64 MiB over 16 MiB": 4.5,
    "peak memory: read a line, over its length": 3.0,
    "peak memory: drop a line 64 times the limit, over the limit": 3.0,
    "peak memory: write a line, over its length": 3.0,
}
TARGETS += tuple(Target(f"line, {name}", f"line/{name}", None, bound) for name, bound in LINE_TARGETS.items())


def judged(sheet: Sheet, targets: Iterable[Target] = TARGETS) -> list[Ratio]:
    """The ratio of each target, from the values of a run."""
    return [_ratio(sheet, target) for target in targets]


def _ratio(sheet: Sheet, target: Target) -> Ratio:
    taken = sheet.values.get(target.metric, {})
    ours = taken.get(target.ours, {})
    theirs: Mapping[int, float] = dict.fromkeys(ours, 1.0) if target.against is None else taken.get(target.against, {})
    ratios = [ours[turn] / theirs[turn] for turn in ours if turn in theirs]
    metric = sheet.metrics.get(target.metric)
    if not ratios or metric is None:
        why = sheet.why_missing(target.metric, target.ours)
        if why is None and target.against is not None:
            why = sheet.why_missing(target.metric, target.against)
        return Ratio(target, None if metric is None else metric.better, None, None, None, why)
    return Ratio(target, metric.better, median(ratios), min(ratios), max(ratios), None)


def for_file(ratios: Iterable[Ratio]) -> dict[str, dict[str, Any]]:
    """The ratios, as they are kept in the file of a run."""
    return {
        ratio.target.key: {
            "figure": ratio.target.figure,
            "against": ratio.target.against,
            "better": ratio.better,
            "median": ratio.median,
            "low": ratio.low,
            "high": ratio.high,
            "target": ratio.target.bound,
            "verdict": ratio.verdict,
            "why": ratio.why,
        }
        for ratio in ratios
    }
