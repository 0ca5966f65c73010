"""Compares JSON values of two conversations: ignored members, differences with their paths, and sets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct
from msgspec.json import Encoder

from twopipes._trace.redact import BLANK

# A name that begins with one of these steps is a path.
_ROOTS = ("result", "error", "params")

BUILT_IN = (
    "result.requestState",  # MR-07: only the server that made it can read it
    "result.nextCursor",
    "params.elicitationId",
    "result.inputRequests.*.params.elicitationId",
    "error.data.elicitations.*.elicitationId",
    "params._meta.progressToken",
)
"""Paths of members with unpredictable values. The member must exist, but its value may differ. ``*`` matches one step."""

SERVER_INFO = "result._meta.io.modelcontextprotocol/serverInfo"
"""Every modern result has this member (VN-08). It is compared only in the result of ``server/discover``."""

# Members that name an entry of a list, so that one additional entry at the front is one difference only.
_NAMES = ("name", "uri", "uriTemplate")

_encode_in_order = Encoder(order="sorted").encode

Path = tuple[str, ...]


class Difference(Struct, frozen=True):
    """One difference. The value of a missing member is ``UNSET``."""

    path: str  # such as ``result.content.0.text``
    recorded: Any = UNSET
    live: Any = UNSET
    name: str = ""  # of the list entry that contains it, if it has one: a tool, a resource


class Ignoring:
    """The members to ignore.

    Args:
        names: Ignored everywhere. A path from ``result``, ``error`` or ``params``, such as ``result.content.*.text``, is ignored
            only there.
        values: Paths whose values may differ.
        blanked: Names of members whose values the recorder has redacted. A redacted value is equal to any value.
    """

    def __init__(self, names: Iterable[str] = (), *, values: Iterable[str] = BUILT_IN, blanked: Iterable[str] = ()) -> None:
        self._names: set[str] = set()
        self._paths: list[re.Pattern[str]] = []
        for name in names:
            if name.partition(".")[0] in _ROOTS and "." in name:
                self._paths.append(_pattern(name))
            else:
                self._names.add(name)
        self._values = [_pattern(path) for path in values]
        self._blanked = frozenset(name.casefold() for name in blanked)

    def covers(self, path: Path) -> bool:
        """Whether the member at the path is ignored completely."""
        return bool(path) and (path[-1] in self._names or _is_in(path, self._paths))

    def covers_value(self, path: Path) -> bool:
        """Whether the member at the path must exist, but may have another value."""
        return _is_in(path, self._values)

    def is_blank(self, recorded: Any, path: Path) -> bool:
        """Whether the recorder has redacted the value."""
        return recorded == BLANK and bool(path) and path[-1].casefold() in self._blanked

    def stripped(self, value: Any, path: Path) -> Any:
        """Return a value without the ignored members, and with ``null`` for values that may differ."""
        # A recorder redacts the params of notifications at any depth, and this may be the live value.
        if self.covers_value(path) or (path[:1] == ("params",) and path[-1].casefold() in self._blanked):
            return None
        if isinstance(value, dict):
            steps = {key: (*path, key) for key in value}
            return {key: self.stripped(member, steps[key]) for key, member in value.items() if not self.covers(steps[key])}
        if isinstance(value, list):
            return [
                self.stripped(entry, (*path, str(number)))
                for number, entry in enumerate(value)
                if not self.covers((*path, str(number)))
            ]
        return value


def _is_in(path: Path, patterns: list[re.Pattern[str]]) -> bool:
    return bool(patterns) and any(pattern.fullmatch(".".join(path)) for pattern in patterns)


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(r"\.".join(r"[^.]*" if step == "*" else re.escape(step) for step in path.split(".")))


def differences(recorded: Any, live: Any, ignoring: Ignoring, path: Path = (), name: str = "") -> list[Difference]:
    """Compare two JSON values, in the order of the recorded one.

    Entries of lists are compared by position, or by name if all of them have one (tools, resources, prompts).
    """
    if ignoring.covers(path):
        return []
    if isinstance(recorded, dict) and isinstance(live, dict):
        found: list[Difference] = []
        for key in [*recorded, *(key for key in live if key not in recorded)]:
            found += differences(recorded.get(key, UNSET), live.get(key, UNSET), ignoring, (*path, key), name)
        return found
    if isinstance(recorded, list) and isinstance(live, list):
        return _differences_of_lists(recorded, live, ignoring, path, name)
    if _same(recorded, live):
        return []
    if recorded is not UNSET and live is not UNSET and (ignoring.covers_value(path) or ignoring.is_blank(recorded, path)):
        return []
    return [Difference(".".join(path), recorded, live, name)]


def _differences_of_lists(recorded: list[Any], live: list[Any], ignoring: Ignoring, path: Path, name: str) -> list[Difference]:
    found: list[Difference] = []
    ours, theirs = _named(recorded), _named(live)
    if ours is None or theirs is None or list(ours) == list(theirs):
        for number in range(max(len(recorded), len(live))):
            one = recorded[number] if number < len(recorded) else UNSET
            other = live[number] if number < len(live) else UNSET
            entry = one if one is not UNSET else other
            found += differences(one, other, ignoring, (*path, str(number)), _name_of(entry) or name)
        return found
    for number, (key, entry) in enumerate(ours.items()):
        found += differences(entry, theirs.get(key, UNSET), ignoring, (*path, str(number)), key)
    for number, (key, entry) in enumerate(theirs.items()):
        if key not in ours:
            found += differences(UNSET, entry, ignoring, (*path, str(number)), key)
    common = [key for key in ours if key in theirs]
    order = [key for key in theirs if key in ours]
    if common != order:
        found.append(Difference(".".join(path), common, order, "order"))
    return found


def _named(entries: list[Any]) -> dict[str, Any] | None:
    """Return the entries by name, if all of them have a unique name."""
    found = {_name_of(entry): entry for entry in entries}
    return found if len(found) == len(entries) and "" not in found else None


def _name_of(entry: Any) -> str:
    if isinstance(entry, dict):
        for key in _NAMES:
            if isinstance(entry.get(key), str):
                return str(entry[key])
    return ""


def _same(one: Any, other: Any) -> bool:
    # In Python True == 1, in JSON they differ; 1 and 1.0 are the same number in both.
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def unmatched(recorded: Sequence[Any], live: Sequence[Any], ignoring: Ignoring, root: str) -> tuple[list[Any], list[Any]]:
    """Compare two sets of JSON values and return those that only one of them has. Order and repetitions are ignored.

    ``root`` is the first step of the path of each value, such as ``params``; or empty.
    """
    path = (root,) if root else ()
    ours = {_encode_in_order(ignoring.stripped(value, path)): value for value in recorded}
    theirs = {_encode_in_order(ignoring.stripped(value, path)): value for value in live}
    missing = [value for key, value in ours.items() if key not in theirs]
    additional = [value for key, value in theirs.items() if key not in ours]
    return missing, additional


def pair_questions(recorded: Mapping[str, Any], live: Mapping[str, Any], ignoring: Ignoring) -> dict[str, str]:
    """Return the live key of each recorded question of ``inputRequests`` that was asked again. The server chooses keys (MR-03)."""
    left = dict(live)
    found: dict[str, str] = {}

    def pair(matches: Any) -> None:
        for key, question in recorded.items():
            if key not in found:
                match = next((other for other, asked in left.items() if matches(key, question, other, asked)), None)
                if match is not None:
                    found[key] = match
                    del left[match]

    pair(lambda key, question, other, asked: key == other and _method_of(question) == _method_of(asked))
    pair(lambda _key, question, _other, asked: not differences(question, asked, ignoring, ("result", "inputRequests", "*")))
    pair(lambda _key, question, _other, asked: _method_of(question) == _method_of(asked))
    return found


def _method_of(question: Any) -> Any:
    return question.get("method") if isinstance(question, dict) else None
