"""The shared part of the attack programs: the command line, the seed, the time limit, and the report.

Each ``attack_*.py`` in this folder attacks one promise with random timing. ``make soak`` runs all of them, ``make kill`` runs one
of them for minutes, and CI runs each for some seconds. If the promise does not hold, a program exits with 1 and prints
what it expected and found; ``--seed`` repeats the same choices.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from random import Random, SystemRandom

MAX_VIOLATIONS = 10


class Attack:
    """One run of an attack program.

    Attributes:
        random: The source of every random choice.
        counts: The actions, for the report.
        violations: The checks that failed.
    """

    def __init__(self, seed: int, seconds: float, rounds: int | None) -> None:
        self.random = Random(seed)
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self._ends = time.monotonic() + seconds
        self._rounds = rounds

    def rounds(self) -> Iterator[int]:
        """Number the rounds until the time is up, the count is reached, or there are too many violations."""
        number = 0
        while time.monotonic() < self._ends and number != self._rounds and len(self.violations) < MAX_VIOLATIONS:
            yield number
            number += 1

    def check(self, holds: bool, what: str, expected: str, found: object) -> None:  # noqa: FBT001 - it is the condition itself
        """Record a violation unless the condition holds."""
        if not holds:
            self.violations.append(f"{what}: expected {expected}, found {found}")


def main(attack: Callable[[Attack], Awaitable[None]], description: str) -> int:
    """Parse the command line, run the attack, print the report, and return the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after this time (default: 60)")
    parser.add_argument("--rounds", type=int, help="stop after this many rounds, if that is earlier")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32), help="repeat the choices of an earlier run")
    options = parser.parse_args()
    # A shell lets its background jobs ignore SIGINT, and so would every program that is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run = Attack(options.seed, options.seconds, options.rounds)
    asyncio.run(attack(run))
    done = ", ".join(f"{count} {name}" for name, count in sorted(run.counts.items()))
    sys.stdout.write(f"seed {options.seed}: {done or 'nothing was done'}\n")
    for violation in run.violations:
        sys.stdout.write(f"VIOLATION {violation}\n")
    return 1 if run.violations or not run.counts else 0
