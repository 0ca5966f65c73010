"""What JSON, TOML and YAML have in common: strings in double quotes, and when two values are the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from twopipes._tools.usage import UsageError

__all__ = ["AnotherEntry", "Refused", "check_place", "found_at", "newline_of", "quoted", "same", "with_entry"]

_MASK = "***"
_OFTEN_SECRET = {"env", "environment", "envs", "headers", "http_headers"}
# JSON lets these stand as they are in a string; TOML or YAML do not.
_NOT_EVERYWHERE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


class Refused(UsageError):
    """A file that is better left alone. Nothing was changed."""


class AnotherEntry(Refused):
    """The name is taken by an entry with another content, and nobody said that it may go."""

    def __init__(self, name: str, content: Any) -> None:
        super().__init__(name)
        self.name = name
        self.content = content

    def __str__(self) -> str:
        said = json.dumps(_without_secrets(self.content), ensure_ascii=False, default=str)
        return f"there is another server {self.name!r} already: {said}"


def _without_secrets(content: Any) -> Any:
    """An entry that can be shown: what people put into these members is often nobody else's business."""
    if not isinstance(content, dict):
        return content
    return {
        key: dict.fromkeys(value, _MASK) if key in _OFTEN_SECRET and isinstance(value, dict) else value
        for key, value in content.items()
    }


def quoted(text: str) -> str:
    """A string as JSON, TOML and YAML write it alike."""
    return _NOT_EVERYWHERE.sub(lambda found: f"\\u{ord(found.group()):04x}", json.dumps(text, ensure_ascii=False))


def same(left: Any, right: Any) -> bool:
    """Whether two documents say the same. Not ``==``: that takes 1 for true, and no NaN for any other."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and (left == right or (left != left and right != right))  # noqa: PLR0124 - NaN


def found_at(document: Any, place: Sequence[str]) -> Any:
    """What stands at a path of keys; ``None`` where nothing does."""
    for key in place:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def with_entry(document: Any, place: Sequence[str], name: str, content: Any) -> Any:
    """The document with one entry set, as a new one; what it must be after the file was edited."""
    if not place:
        return {**(document or {}), name: content}
    return {**(document or {}), place[0]: with_entry((document or {}).get(place[0]), place[1:], name, content)}


def check_place(document: Any, place: Sequence[str]) -> None:
    """Makes sure that an entry can be put there.

    Raises:
        Refused: Something else than a table or an object is in the way.
    """
    for depth in range(len(place) + 1):
        found = found_at(document, place[:depth])
        if found is not None and not isinstance(found, Mapping):
            where = ".".join(place[:depth])
            raise Refused(f"its {where} is {_kind(found)}, and should hold servers by name" if where else f"it is {_kind(found)}")


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else f"{value!r:.40}"


def newline_of(text: str) -> str:
    """How the lines of a text mostly end."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"
