"""The error for a request that a recording does not have. It names the most similar recorded request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from twopipes._tools.mock.exchanges import ENVELOPE_MEMBERS

# Characters of params in the message. The data of the error has all of them.
_MAX_SHOWN = 300
# How many equally similar requests are compared character by character, which is slow.
_MAX_COMPARED = 50


def nearest_request(
    name: str, method: str, params: dict[str, Any], recorded: Sequence[dict[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """Return the message and the data of the error for params that are not among the recorded ones of the method."""
    asked = _content(params)
    leaves = set(_leaves(asked))
    best = max(_similarity(leaves, each) for each in recorded)
    candidates = [_content(each) for each in recorded if _similarity(leaves, each) == best][:_MAX_COMPARED]
    text = json.dumps(asked)
    nearest = max(candidates, key=lambda each: SequenceMatcher(None, text, json.dumps(each)).ratio())
    shown = json.dumps(nearest, ensure_ascii=False)
    if len(shown) > _MAX_SHOWN:
        shown = shown[:_MAX_SHOWN] + "..."
    message = f"{name} has no {method} with these params; the nearest of {len(recorded)} recorded has {shown}"
    return message, {"method": method, "nearest": nearest, "asked": asked}


def _content(params: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key not in ENVELOPE_MEMBERS}


def _similarity(asked: set[tuple[str, str]], recorded: dict[str, Any]) -> tuple[int, int]:
    """Count the equal members, with more weight for those at the top such as the name of the tool; then the fewest differences."""
    found = set(_leaves(_content(recorded)))
    same = asked & found
    return sum(10 if "." not in path else 1 for path, _ in same), -len(found ^ asked)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, member in value.items():
            yield from _leaves(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for number, entry in enumerate(value):
            yield from _leaves(entry, f"{path}.{number}")
    else:
        yield path, json.dumps(value, sort_keys=True)
