"""The job of a benchmark client, and the report of what it took."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

MODERN = "2026-07-28"


@dataclass(frozen=True)
class Job:
    """One run of a client."""

    command: list[str]
    era: str
    calls: int
    in_flight: int
    warm_up: int
    servers: int = 1
    text: str = "hello"
    # Bytes of one long text that goes there and back before the calls; none if 0.
    large: int = 0


class Clock:
    """Measures wall-clock and CPU seconds between entry and exit."""

    cpu = seconds = 0.0

    def __enter__(self) -> Self:
        self.cpu, self.seconds = -time.process_time(), -time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter()
        self.cpu += time.process_time()


def resident() -> int:
    """Return the memory of this process in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def report(job: Job, clock: Clock, *, large: Clock, ready: float, resident: int) -> dict[str, float]:
    """Print what the run took."""
    return {
        "calls": job.calls,
        "seconds": clock.seconds,
        "cpu": clock.cpu,
        "large": large.seconds,
        "ready": ready,
        "resident": resident,
    }
