"""Says what is wrong with a value so that a model can mend it: where, what was expected, what was given."""

from __future__ import annotations

import re
from typing import Any

from msgspec import ValidationError
from msgspec.json import encode

from twopipes._protocol.rejections import Problem, Refused

# The patterns are compiled when something is wrong, and not before.
# msgspec ends its messages with the place: " - at `$.items[0]`", or " - at `key` in `$.items`".
_PLACE = r"(?s) - at (?P<key>`key` in )?`\$(?P<path>.*)`\Z"
_STEP = r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]"
_EXCERPT = 60
_LONGEST = 400  # msgspec repeats the value in some of its messages, however long that is
# msgspec speaks of types as Python calls them, the model as JSON does.
_WORDS = {"int": "integer", "str": "string", "float": "number", "bool": "boolean"}
_WORD = r"\b(?:int|str|float|bool)\b"
_QUOTED = r"`[^`]*`"
_MISSING = object()


def problems_in(error: ValidationError, value: Any) -> list[Problem]:
    """Takes apart what msgspec says about a value, which is given so that its offending part can be shown."""
    text = str(error)
    place = re.search(_PLACE, text)
    path = place["path"] if place else ""
    shown = path.removeprefix(".")
    if isinstance(error.__cause__, Refused):
        return [problem.under(shown) for problem in error.__cause__.problems]
    text = text[: place.start()] if place else text
    if not isinstance(error.__cause__, Exception):  # else the words of the author
        text = re.sub(_QUOTED, lambda quoted: re.sub(_WORD, lambda word: _WORDS[word[0]], quoted[0]), text)
        if place and place["key"]:
            text = f"{text} as a key"
        elif text.startswith("Expected"):
            text += given(_at(value, path))
    return [Problem(shown, text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")]


def given(value: Any) -> str:
    """A value in brackets, cut to a length at which it is a reminder; nothing for an object or an array."""
    if value is _MISSING or isinstance(value, dict | list):
        return ""
    text = encode(value).decode()
    return f" ({text})" if len(text) <= _EXCERPT else f" ({text[:_EXCERPT]}...)"


def _at(value: Any, path: str) -> Any:
    """The part of a value that a path leads to, as far as the path says."""
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
