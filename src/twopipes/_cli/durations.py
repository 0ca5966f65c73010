"""Durations as users type them: ``5``, ``0.5``, ``500ms``, ``5s``, ``2m``, ``1h``."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|m|h)?")


def duration(text: str, *, unit: str = "s") -> float:
    """Return the seconds that a text means."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ArgumentTypeError(f"{text!r} is not a duration, such as 5, 0.5s or 2m")
    return float(found[1]) * _UNITS[found[2] or unit]


def positive_duration(text: str) -> float:
    """Return the seconds that a text means, which must be more than 0."""
    seconds = duration(text)
    if not seconds:
        raise ArgumentTypeError(f"{text!r} is not a duration above 0")
    return seconds


def milliseconds(text: str) -> float:
    """Return the seconds that a text means; a number without a unit is in milliseconds."""
    return duration(text, unit="ms")
