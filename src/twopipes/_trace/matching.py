"""What is the same in two conversations, and what is not: members that do not count, differences with their paths, sets.

Nothing here knows of a connection or a clock: JSON values go in, differences come out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct
from msgspec.json import Encoder

from twopipes._trace.redact import BLANK

__all__ = ["BUILT_IN", "SERVER_INFO", "Difference", "Ignoring", "differences", "pair_questions", "unmatched"]

# Where a path begins: one of these is the first step of what a user names by a path, and not by a name alone.
_ROOTS = ("result", "error", "params")

BUILT_IN = (
    "result.requestState",  # MR-07: means something to the server that made it, and to nobody else
    "result.nextCursor",
    "params.elicitationId",
    "result.inputRequests.*.params.elicitationId",
    "error.data.elicitations.*.elicitationId",
    "params._meta.progressToken",
)
"""Whose values nobody can foresee: they must be there if they were, and may be others. ``*`` stands for one step of a path."""

SERVER_INFO = "result._meta.io.modelcontextprotocol/serverInfo"
"""Stands in every modern result (VN-08). It is compared where it is asked for, by ``server/discover``, and once is enough."""

# What names an entry of a list, so that one entry more at the front is one difference, and not as many as there are entries.
_NAMES = ("name", "uri", "uriTemplate")

_encode_in_order = Encoder(order="sorted").encode

Path = tuple[str, ...]


class Difference(Struct, frozen=True):
    """One place where the two are not the same; ``UNSET`` for what is not there.

    Attributes:
        path: Such as ``result.content.0.text``.
        recorded: What stands there in the recording.
        live: What the live server has there.
        name: Of the entry of a list that it is in, where it has one: a tool, a resource.
    """

    path: str
    recorded: Any = UNSET
    live: Any = UNSET
    name: str = ""


class Ignoring:
    """The members that do not count.

    Args:
        names: A name counts wherever it stands; with a path that begins with ``result``, ``error`` or ``params``, such as
            ``result.content.0.text``, that place alone is meant, and ``*`` stands for any one step.
        values: Paths of which only the values do not count.
        blanked: Names of members whose values a recorder has blanked; what is there instead is equal to any value.
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
        """Whether what stands there does not count, and neither does whether anything stands there."""
        if not path:
            return False
        if path[-1] in self._names:
            return True
        if not self._paths:
            return False
        joined = ".".join(path)
        return any(pattern.fullmatch(joined) for pattern in self._paths)

    def covers_value(self, path: Path) -> bool:
        """Whether something must stand there, but not the same thing."""
        joined = ".".join(path)
        return any(pattern.fullmatch(joined) for pattern in self._values)

    def is_blank(self, recorded: Any, path: Path) -> bool:
        """Whether a recorder has written a blank in place of a value."""
        return recorded == BLANK and bool(path) and path[-1].casefold() in self._blanked

    def stripped(self, value: Any, path: Path) -> Any:
        """A value without what does not count; what must be there but may differ is ``null``."""
        # The params of notifications are searched by a recorder at any depth; which side this value is from is not known here.
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


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(r"\.".join(r"[^.]*" if step == "*" else re.escape(step) for step in path.split(".")))


def differences(recorded: Any, live: Any, ignoring: Ignoring, path: Path = (), name: str = "") -> list[Difference]:
    """Compares two JSON values, in the order in which the recorded one is written.

    Entries of lists are compared in their places; where all of them have names (tools, resources, prompts), by their names.
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
    """The entries by their names, if all of them have one of their own."""
    found = {_name_of(entry): entry for entry in entries}
    return found if len(found) == len(entries) and "" not in found else None


def _name_of(entry: Any) -> str:
    if isinstance(entry, dict):
        for key in _NAMES:
            if isinstance(entry.get(key), str):
                return str(entry[key])
    return ""


def _same(one: Any, other: Any) -> bool:
    # To Python true is 1, and to JSON it is not; 1 and 1.0 are the same number to both.
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def unmatched(recorded: Sequence[Any], live: Sequence[Any], ignoring: Ignoring, root: str) -> tuple[list[Any], list[Any]]:
    """Compares two sets: what stands in the recorded one alone, and in the live one alone. Order and number do not count.

    Args:
        recorded: JSON values.
        live: Likewise.
        ignoring: What does not count.
        root: The first step of the path of each, such as ``params``; or nothing.
    """
    path = (root,) if root else ()
    ours = {_encode_in_order(ignoring.stripped(value, path)): value for value in recorded}
    theirs = {_encode_in_order(ignoring.stripped(value, path)): value for value in live}
    missing = [value for key, value in ours.items() if key not in theirs]
    additional = [value for key, value in theirs.items() if key not in ours]
    return missing, additional


def pair_questions(recorded: Mapping[str, Any], live: Mapping[str, Any], ignoring: Ignoring) -> dict[str, str]:
    """Finds out which question of a live ``inputRequests`` is which of the recorded one: the keys are the server's own (MR-03).

    Returns:
        Live keys by recorded ones; for a question that was not asked again, there is none.
    """
    left = dict(live)
    found: dict[str, str] = {}

    def pair(is_it: Any) -> None:
        for key, question in recorded.items():
            if key not in found:
                match = next((other for other, asked in left.items() if is_it(key, question, other, asked)), None)
                if match is not None:
                    found[key] = match
                    del left[match]

    pair(lambda key, question, other, asked: key == other and _method_of(question) == _method_of(asked))
    pair(lambda _key, question, _other, asked: not differences(question, asked, ignoring, ("result", "inputRequests", "*")))
    pair(lambda _key, question, _other, asked: _method_of(question) == _method_of(asked))
    return found


def _method_of(question: Any) -> Any:
    return question.get("method") if isinstance(question, dict) else None
