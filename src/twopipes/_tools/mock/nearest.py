"""What a mock says to a request that its recording does not have: the recorded one that is most like it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

__all__ = ["nearest"]

# Members of params that say how a request is made.
_HOW = ("_meta", "requestState", "inputResponses")
# Characters of params in a message; the data of the error has all of them.
_SHOWN = 300
# How many that are equally near are compared letter by letter, which takes its time.
_LOOKED_AT = 50
INVALID_PARAMS = -32602


def nearest(name: str, method: str, params: dict[str, Any], recorded: Sequence[dict[str, Any]]) -> tuple[str, int, str]:
    """The message, the code and the data (as JSON) of the error for params that were not recorded.

    Args:
        name: Of the recording.
        method: What was asked.
        params: With what.
        recorded: The params of all recorded requests of that method, at least one.
    """
    asked = set(_leaves(_what(params)))
    best = max(_likeness(asked, each) for each in recorded)
    alike = [_what(each) for each in recorded if _likeness(asked, each) == best][:_LOOKED_AT]
    spelt = json.dumps(_what(params))
    found = max(alike, key=lambda each: SequenceMatcher(None, spelt, json.dumps(each)).ratio())
    shown = json.dumps(found, ensure_ascii=False)
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "..."
    message = f"{name} has no {method} with these params; the nearest of {len(recorded)} recorded has {shown}"
    return message, INVALID_PARAMS, json.dumps({"method": method, "nearest": found, "asked": _what(params)})


def _what(params: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key not in _HOW}


def _likeness(asked: set[tuple[str, str]], recorded: dict[str, Any]) -> tuple[int, int]:
    """How many members are the same, first of all those at the top, such as the name of the tool; and how few are not."""
    has = set(_leaves(_what(recorded)))
    same = asked & has
    return sum(10 if "." not in path else 1 for path, _ in same), -len(has ^ asked)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, member in value.items():
            yield from _leaves(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for number, entry in enumerate(value):
            yield from _leaves(entry, f"{path}.{number}")
    else:
        yield path, json.dumps(value, sort_keys=True)
