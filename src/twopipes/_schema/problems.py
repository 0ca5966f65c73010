"""Errors about functions and values, and how a problem is described so that a model can fix it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import ValidationError
from msgspec.json import encode

from twopipes.errors import Problem, SignatureRejected, ValueRejected

# The patterns are compiled on first use.
# msgspec ends its messages with the place: " - at `$.items[0]`", or " - at `key` in `$.items`".
_PLACE = r"(?s) - at (?P<key>`key` in )?`\$(?P<path>.*)`\Z"
_STEP = r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]"
_EXCERPT = 60
_MAX_MESSAGE = 400  # some messages of msgspec repeat the whole value
# msgspec uses the type names of Python; a model expects those of JSON.
_WORDS = {"int": "integer", "str": "string", "float": "number", "bool": "boolean"}
_WORD = r"\b(?:int|str|float|bool)\b"
_QUOTED = r"`[^`]*`"
_MISSING = object()


class ArgumentsRejected(ValueRejected):
    """The arguments of a call do not match the function (TL-06)."""

    heading = "Invalid arguments for"
    part = "argument"


class ReturnRejected(ValueRejected):
    """A function returned a value that its annotation does not allow (TL-10)."""

    heading = "Invalid return value of"


class Unsupported(TypeError):
    """An annotation that JSON cannot represent; :func:`located` adds the function."""


class Refused(ValueError):
    """Problems raised inside a msgspec hook; msgspec adds the path of the value."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


@contextmanager
def located(subject: str, part: str) -> Iterator[None]:
    """Turn an :class:`Unsupported` into a :class:`SignatureRejected` that names the function or class, and its part."""
    try:
        yield
    except Unsupported as error:
        raise SignatureRejected(subject, part, str(error)) from error


def problems_in(error: ValidationError, value: Any) -> list[Problem]:
    """Return the problems in an error of msgspec; ``value`` is needed to show the part that is wrong."""
    text = str(error)
    place = re.search(_PLACE, text)
    path = place["path"] if place else ""
    shown = path.removeprefix(".")
    if isinstance(error.__cause__, Refused):
        return [problem.under(shown) for problem in error.__cause__.problems]
    text = text[: place.start()] if place else text
    if not isinstance(error.__cause__, Exception):  # otherwise it is the author's own message
        text = re.sub(_QUOTED, lambda quoted: re.sub(_WORD, lambda word: _WORDS[word[0]], quoted[0]), text)
        if place and place["key"]:
            text = f"{text} as a key"
        elif text.startswith("Expected"):
            text += given(_at(value, path))
    return [Problem(shown, text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}...")]


def given(value: Any) -> str:
    """Return a value in parentheses, shortened; empty for an object or an array."""
    if value is _MISSING or isinstance(value, dict | list):
        return ""
    text = encode(value).decode()
    return f" ({text})" if len(text) <= _EXCERPT else f" ({text[:_EXCERPT]}...)"


def _at(value: Any, path: str) -> Any:
    """Return the part of a value at a path, or ``_MISSING``."""
    position = 0
    while position < len(path):
        step = re.match(_STEP, path[position:])
        if step is None:
            return _MISSING
        try:
            value = value[step["name"] if step["name"] is not None else int(step["index"])]
        except (KeyError, IndexError, TypeError):
            return _MISSING
        position += step.end()
    return value
