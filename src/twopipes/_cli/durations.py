"""Durations as users type them: 5, 0.5, 500ms, 5s, 2m, 1h. A host waits for ``keep``, so this does not import argparse."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|m|h)?")


def seconds_in(text: str, *, unit: str = "s") -> float:
    """Return the seconds that a text means; a number without a unit is in ``unit``. Raises ``ValueError``, with a sentence."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a duration, such as 5, 0.5s or 2m")
    return float(found[1]) * _UNITS[found[2] or unit]


def positive_seconds_in(text: str) -> float:
    """Return the seconds that a text means, which must be more than 0. Raises ``ValueError``, with a sentence."""
    seconds = seconds_in(text)
    if not seconds:
        raise ValueError(f"{text!r} is not a duration above 0")
    return seconds
