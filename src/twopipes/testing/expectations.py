"""Compare a JSON value with an expected one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET, json

from twopipes._trace.matching import Difference

ANYTHING = "..."
"""Matches any value; as the name of a member, it matches any further members."""

# Characters of a value that a message shows.
_SHOWN = 200


class ExpectationFailed(AssertionError):
    """An expectation of a test was not met."""


def differences(expected: Any, found: Any, path: tuple[str, ...] = (), *, further_members: bool = False) -> Iterator[Difference]:
    """Yield the differences between a JSON value and an expected one; ``further_members`` of objects may be allowed."""
    if _is(expected, ANYTHING) and found is not UNSET:
        return
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        is_open = further_members or _is(expected.get(ANYTHING), ANYTHING)
        for name in [*expected, *(name for name in found if name not in expected)]:
            if name in expected and name != ANYTHING:
                yield from differences(expected[name], found.get(name, UNSET), (*path, name), further_members=further_members)
            elif name in found and not is_open:
                yield Difference(".".join((*path, name)), UNSET, found[name])
    elif _is_list(expected) and _is_list(found):
        for number in range(max(len(expected), len(found))):
            wanted = expected[number] if number < len(expected) else UNSET
            there = found[number] if number < len(found) else UNSET
            yield from differences(wanted, there, (*path, str(number)), further_members=further_members)
    # In Python True equals 1, in JSON it does not.
    elif isinstance(expected, bool) != isinstance(found, bool) or expected != found:
        yield Difference(".".join(path), expected, found)


def describe_difference(difference: Difference, expected: str, found: str) -> str:
    """Describe a difference on one line, with these labels of the two sides."""
    return f"{difference.path or 'the whole'}: {expected} {_shown(difference.recorded)}, {found} {_shown(difference.live)}"


def _is(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _shown(value: Any) -> str:
    if value is UNSET:
        return "nothing"
    try:
        text = json.encode(value).decode()
    except TypeError:  # the expected value of a test need not be JSON
        text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text):,} characters)"
