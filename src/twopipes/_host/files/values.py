"""What JSON, TOML and YAML have in common: quoted strings, the comparison of values, and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any

from twopipes.errors import ConfigError

_MASK = "***"
_OFTEN_SECRET = {"env", "environment", "envs", "headers", "http_headers"}
# JSON allows these characters in a string; TOML or YAML does not.
_NEEDS_ESCAPE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


class Refused(ConfigError):
    """A file cannot be edited safely. Nothing was changed."""


class AnotherEntry(Refused):
    """The name belongs to a different entry, and replacing it was not requested."""

    def __init__(self, name: str, content: Any) -> None:
        super().__init__(name)
        self.name = name
        self.content = content

    def __str__(self) -> str:
        entry = json.dumps(_without_secrets(self.content), ensure_ascii=False, default=str)
        return f"there is already another server {self.name!r}: {entry}"


def _without_secrets(content: Any) -> Any:
    """Return an entry that can be shown, with the values of members that often contain secrets masked."""
    if not isinstance(content, dict):
        return content
    return {
        key: dict.fromkeys(value, _MASK) if key in _OFTEN_SECRET and isinstance(value, dict) else value
        for key, value in content.items()
    }


def quoted(text: str) -> str:
    """Quote a string in the form that JSON, TOML and YAML share."""
    return _NEEDS_ESCAPE.sub(lambda found: f"\\u{ord(found.group()):04x}", json.dumps(text, ensure_ascii=False))


def same(left: Any, right: Any) -> bool:
    """Return whether two documents are equal. Unlike ``==``, 1 is not true, and NaN equals NaN."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and isnan(left):
        return isnan(right)
    return type(left) is type(right) and bool(left == right)


def parses_to(parse: Callable[[str], Any], text: str, wanted: Any) -> bool:
    """Return whether a text is valid and equal to a document."""
    try:
        return same(parse(text), wanted)
    except ValueError:
        return False


def nested(place: Sequence[str], content: Any) -> Any:
    """Return a document with only this content at a path of keys."""
    for key in reversed(place):
        content = {key: content}
    return content


def found_at(document: Any, place: Sequence[str]) -> Any:
    """Return the value at a path of keys; ``None`` if there is none."""
    for key in place:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def with_entry(document: Any, place: Sequence[str], name: str, content: Any) -> Any:
    """Return a copy of a document with one entry set, for comparison with the edited file."""
    if not place:
        return {**(document or {}), name: content}
    return {**(document or {}), place[0]: with_entry((document or {}).get(place[0]), place[1:], name, content)}


def check_place(document: Any, place: Sequence[str]) -> None:
    """Check that an entry can be added at a path of keys."""
    for depth in range(len(place) + 1):
        found = found_at(document, place[:depth])
        if found is not None and not isinstance(found, Mapping):
            where = ".".join(place[:depth])
            what = f"its {where}" if where else "it"
            raise Refused(f"{what} is {_kind(found)}, not an object{' with servers' if where else ''}")


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else f"{value!r:.40}"


def newline_of(text: str) -> str:
    """Return the line end that most lines of a text have."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"
