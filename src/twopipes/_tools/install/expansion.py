"""References to variables that hosts expand in their configuration, and how to escape text that looks like one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

# An unset variable with the default "$". Hosts do not expand the result again.
_A_DOLLAR = "${TWOPIPES_DOLLAR:-$}"


class Expansion(NamedTuple):
    """How a host expands references to variables."""

    reference: re.Pattern[str]  # matches a reference
    # Escapes a word of the command, so that the server gets it unchanged; `None` if that is impossible.
    in_words: Callable[[str], str] | None = None
    in_values: Callable[[str], str] | None = None  # the same for the value of a variable


class Literal(NamedTuple):
    """A command and variables as they must be written, and notes for the user."""

    words: list[str]
    values: dict[str, str]
    notes: list[str]


def _escape_dollar(text: str) -> str:
    return text.replace("$", _A_DOLLAR)


def _escape_dollar_twice(text: str) -> str:
    return text.replace("$", "\\" + _A_DOLLAR)


# ${NAME} and ${NAME:-default}.
BRACES = Expansion(re.compile(r"\$\{[A-Za-z_]\w*(?::-[^}]*)?\}"), _escape_dollar, _escape_dollar)
# $NAME as well.
DOLLAR = Expansion(re.compile(r"\$(?:\w+|\{[^}]+\})"), _escape_dollar, _escape_dollar)
# The same; dotenv-expand then expands variables again, where a backslash escapes a dollar sign.
DOLLAR_TWICE = Expansion(re.compile(r"\$(?:\w+|\{[^}]+\})|\\\$"), _escape_dollar, _escape_dollar_twice)
# There are no defaults, so a dollar sign cannot be escaped.
DOLLAR_WITHOUT_DEFAULT = Expansion(DOLLAR.reference)
# ${env:NAME}, ${workspaceFolder}, ...
EDITOR = Expansion(re.compile(r"\$\{[^}]+\}"))
OPENCODE = Expansion(re.compile(r"\{(?:env|file):[^}]+\}"))


def literal(host: str, expansion: Expansion | None, words: Sequence[str], values: Mapping[str, str], *, as_is: bool) -> Literal:
    """Escape a command and variables, so that the server gets them as typed although the host expands references."""
    result = Literal(list(words), dict(values), [])
    if expansion is None:
        return result

    def write(text: str, what: str, escape: Callable[[str], str] | None) -> str:
        if expansion.reference.search(text) is None:
            return text
        if as_is:
            result.notes.append(f"{host} expands variables in {what}; leave out --as-is to prevent that")
        elif escape is None:
            result.notes.append(
                f"{host} expands variables in {what}, and that cannot be prevented;"
                " pass this text to the server in another way, such as a file"
            )
        else:
            result.notes.append(
                f"{what} is escaped, so that {host} does not expand variables in it;"
                f" to pass a variable of {host} on, use --env NAME"
            )
            return escape(text)
        return text

    result.words[:] = [write(word, f"the argument {word!r}", expansion.in_words) for word in words]
    # Notes do not contain the value: it may be a secret.
    result.values.update({name: write(value, f"the value of {name}", expansion.in_values) for name, value in values.items()})
    return result
