"""Compare the ratios of a run with the committed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# A smaller loss may be noise of the machine.
TOLERATED = 0.30


class Comparison(NamedTuple):
    """The losses, and the ratios that could not be compared."""

    # As sentences, by the name of the ratio.
    losses: dict[str, str]
    left_out: list[str]


def compare(committed: Mapping[str, Mapping[str, Any]], fresh: Mapping[str, Mapping[str, Any]]) -> Comparison:
    """Compare the ratios of a run with the committed ones.

    A committed ratio that cannot be measured any more, because a contender failed, is a loss too.
    """
    losses: dict[str, str] = {}
    left_out = []
    for key, before in committed.items():
        if before["median"] is None:
            continue
        now = fresh.get(key)
        if now is None or now["verdict"] == "left out":
            left_out.append(key)
        elif now["median"] is None:
            losses[key] = f"{key}: {before['median']:.3g} before, now none: {now['why']}"
        elif _loss(before, now) > TOLERATED:
            losses[key] = f"{key}: {before['median']:.3g} before, now {now['median']:.3g} ({_loss(before, now):.0%} worse)"
    return Comparison(losses, left_out)


def _loss(before: Mapping[str, Any], now: Mapping[str, Any]) -> float:
    change: float = now["median"] / before["median"]
    return change - 1 if before["better"] == "lower" else 1 - change
