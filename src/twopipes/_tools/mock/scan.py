"""JSON for a program that has to be quick to start: values together with the text they were written in.

``import json`` takes most of the time in which the smallest Python program starts and ends, because of the regular expressions it
is made with, and msgspec takes more. The scanner in C that both ends of ``json`` are built on takes none. Where a value only has to
be handed on, its text is, so nothing has to be written as JSON either.
"""

from __future__ import annotations

try:
    from _json import encode_basestring_ascii as quoted
    from _json import make_scanner
except ImportError:  # pragma: no cover - a Python that has no such module has a json of its own
    from json import JSONDecoder
    from json.encoder import encode_basestring_ascii as quoted

    _scan = JSONDecoder().scan_once  # type: ignore[attr-defined]
else:

    def _no_constant(name: str) -> float:
        raise ValueError(f"{name} is not JSON")

    class _Context:
        """What the scanner asks of a decoder."""

        strict = True
        object_hook = None
        object_pairs_hook = None
        array_hook = None
        parse_float = float
        parse_int = int
        parse_constant = staticmethod(_no_constant)

    _scan = make_scanner(_Context())  # type: ignore[arg-type]

TYPE_CHECKING = False  # as in twopipes/__init__.py
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NotJson", "elements", "members", "object_of", "quoted", "scan", "with_member"]

_SPACE = " \t\n\r"


class NotJson(ValueError):
    """The text is none."""


def scan(text: str) -> Any:
    """Reads a JSON value.

    Raises:
        NotJson: It is none, or nested too deeply.
    """
    value, end = _value_at(text, _skip(text, 0))
    if _skip(text, end) != len(text):
        raise NotJson("something follows the value")
    return value


def members(text: str) -> dict[str, tuple[Any, str]]:
    """Reads an object one level deep: the value of each member, and its text.

    Raises:
        NotJson: It is no object.
    """
    found: dict[str, tuple[Any, str]] = {}
    place = _expect(text, 0, "{")
    if text[place : place + 1] == "}":
        place += 1
    else:
        while True:
            name, place = _value_at(text, place)
            if not isinstance(name, str):
                raise NotJson("a member has no name")
            start = _expect(text, place, ":")
            value, place = _value_at(text, start)
            found[name] = (value, text[start:place])
            place = _skip(text, place)
            if text[place : place + 1] != ",":
                break
            place = _skip(text, place + 1)
        place = _expect(text, place, "}")
    if _skip(text, place) != len(text):
        raise NotJson("something follows the object")
    return found


def elements(text: str) -> list[str]:
    """Reads an array one level deep: the text of each element.

    Raises:
        NotJson: It is no array.
    """
    found: list[str] = []
    place = _expect(text, 0, "[")
    if text[place : place + 1] == "]":
        return found
    while True:
        _, end = _value_at(text, place)
        found.append(text[place:end])
        place = _skip(text, end)
        if text[place : place + 1] != ",":
            _expect(text, place, "]")
            return found
        place = _skip(text, place + 1)


def object_of(texts: dict[str, str]) -> str:
    """Writes an object from the texts of its members."""
    return "{" + ",".join([f"{quoted(name)}:{text}" for name, text in texts.items()]) + "}"


def with_member(text: str, name: str, value: str | None) -> str:
    """An object with a member in its place, or without it for ``None``; the rest stays as it was written."""
    texts = {key: written for key, (_, written) in members(text).items()}
    if value is None:
        texts.pop(name, None)
    else:
        texts[name] = value
    return object_of(texts)


def _value_at(text: str, place: int) -> tuple[Any, int]:
    try:
        return _scan(text, place)  # type: ignore[no-any-return]
    except StopIteration:
        raise NotJson("a value is missing") from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except NotJson:
        raise
    except ValueError as error:
        raise NotJson(str(error)) from None


def _skip(text: str, place: int) -> int:
    while text[place : place + 1] in _SPACE and place < len(text):
        place += 1
    return place


def _expect(text: str, place: int, character: str) -> int:
    place = _skip(text, place)
    if text[place : place + 1] != character:
        raise NotJson(f"{character} is missing")
    return _skip(text, place + 1)
