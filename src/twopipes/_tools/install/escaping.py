"""Escape text in which a host would expand references to variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from twopipes._host.files.expansion import Expansion


class Literal(NamedTuple):
    """A command and variables as they must be written, and notes for the user."""

    words: list[str]
    values: dict[str, str]
    notes: list[str]


def literal(host: str, expansion: Expansion | None, words: Sequence[str], values: Mapping[str, str], *, as_is: bool) -> Literal:
    """Escape a command and variables, so that the server gets them as typed although the host expands references."""
    result = Literal(list(words), dict(values), [])
    if expansion is None:
        return result

    def write(text: str, what: str, dollar: str | None, inescapable: re.Pattern[str] | None = None) -> str:
        if inescapable is not None and inescapable.search(text):
            dollar = None
        elif dollar == "$" or expansion.reference.search(text) is None:
            return text
        if as_is:
            note = f"{host} expands variables in {what}; leave out --as-is to prevent that"
        elif dollar is None:
            note = (
                f"{host} expands variables in {what}, and that cannot be prevented;"
                " pass this text to the server in another way, such as a file"
            )
        else:
            text = text.replace("$", dollar)
            note = f"{what} is escaped, so that {host} does not expand variables in it;"
            note += f" to pass a variable of {host} on, use --env NAME"
        result.notes.append(note)
        return text

    result.words[:] = [write(word, f"the argument {word!r}", expansion.in_words) for word in words]
    # Notes do not contain the value: it may be a secret.
    for name, value in values.items():
        result.values[name] = write(value, f"the value of {name}", expansion.in_values, expansion.inescapable)
    return result
