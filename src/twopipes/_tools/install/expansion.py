"""What a host replaces in the words of its configuration, and how a word is written that it must leave alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["BRACES", "DOLLAR", "DOLLAR_TWICE", "DOLLAR_WITHOUT_DEFAULT", "EDITOR", "OPENCODE", "Expansion", "Literal", "literal"]

# A variable that is not set, with the default "$". What comes out of it is not looked at again.
_A_DOLLAR = "${TWOPIPES_DOLLAR:-$}"


class Expansion(NamedTuple):
    """How a host expands references to variables.

    Attributes:
        reference: What it takes for one.
        in_words: Writes a word of the command so that the server gets it as it is; ``None`` if there is no way.
        in_values: The same for the value of a variable.
    """

    reference: re.Pattern[str]
    in_words: Callable[[str], str] | None = None
    in_values: Callable[[str], str] | None = None


class Literal(NamedTuple):
    """A command and variables as they have to be written, and what to tell the user."""

    words: list[str]
    values: dict[str, str]
    notes: list[str]


def _defaulted(text: str) -> str:
    return text.replace("$", _A_DOLLAR)


def _defaulted_twice(text: str) -> str:
    return text.replace("$", "\\" + _A_DOLLAR)


# ${NAME} and ${NAME:-default}.
BRACES = Expansion(re.compile(r"\$\{[A-Za-z_]\w*(?::-[^}]*)?\}"), _defaulted, _defaulted)
# $NAME as well.
DOLLAR = Expansion(re.compile(r"\$(?:\w+|\{[^}]+\})"), _defaulted, _defaulted)
# The same; and variables are expanded a second time, by dotenv-expand, in which a backslash protects a dollar sign.
DOLLAR_TWICE = Expansion(re.compile(r"\$(?:\w+|\{[^}]+\})|\\\$"), _defaulted, _defaulted_twice)
# There is no default, and so nothing that could stand for a dollar sign.
DOLLAR_WITHOUT_DEFAULT = Expansion(DOLLAR.reference)
# ${env:NAME}, ${workspaceFolder}, ...
EDITOR = Expansion(re.compile(r"\$\{[^}]+\}"))
OPENCODE = Expansion(re.compile(r"\{(?:env|file):[^}]+\}"))


def literal(host: str, expansion: Expansion | None, words: Sequence[str], values: Mapping[str, str], *, as_is: bool) -> Literal:
    """Writes a command and variables so that the server gets them as they were typed, whatever the host expands.

    Args:
        host: What the host is called.
        expansion: What it expands; ``None`` for nothing.
        words: The command.
        values: The variables.
        as_is: Leave everything to the host.
    """
    made = Literal(list(words), dict(values), [])
    if expansion is None:
        return made

    def write(text: str, what: str, escape: Callable[[str], str] | None) -> str:
        if expansion.reference.search(text) is None:
            return text
        if as_is:
            made.notes.append(f"{host} replaces variables in {what}; without --as-is it is written so that it does not")
        elif escape is None:
            made.notes.append(
                f"{host} replaces variables in {what}, and has no way to write it so that it does not;"
                " give the server this text in another way, such as a file"
            )
        else:
            made.notes.append(
                f"{what} is written so that {host} does not replace variables in it;"
                f" to have a variable of {host} passed on, use --env NAME"
            )
            return escape(text)
        return text

    made.words[:] = [write(word, f"the argument {word!r}", expansion.in_words) for word in words]
    # Not the value: it may be a secret.
    made.values.update({name: write(value, f"the value of {name}", expansion.in_values) for name, value in values.items()})
    return made
