"""References to variables that hosts expand in their configuration, and how to escape text that looks like one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# An unset variable with the default "$". Hosts do not expand the result again.
_A_DOLLAR = "${TWOPIPES_DOLLAR:-$}"


class Expansion(NamedTuple):
    """How a host expands references to variables, and what to write for a dollar sign; ``None`` if it cannot be escaped."""

    reference: re.Pattern[str]
    in_words: str | None = None  # of the command
    in_values: str | None = None  # of variables


class Literal(NamedTuple):
    """A command and variables as they must be written, and notes for the user."""

    words: list[str]
    values: dict[str, str]
    notes: list[str]


# ${NAME} and ${NAME:-default}.
BRACES = Expansion(re.compile(r"\$\{[A-Za-z_]\w*(?::-[^}]*)?\}"), _A_DOLLAR, _A_DOLLAR)
# $NAME as well.
DOLLAR = Expansion(re.compile(r"\$(?:\w+|\{[^}]+\})"), _A_DOLLAR, _A_DOLLAR)
# The same; dotenv-expand then expands variables again, where a backslash escapes a dollar sign.
DOLLAR_TWICE = Expansion(re.compile(r"\$(?:\w+|\{[^}]+\})|\\\$"), _A_DOLLAR, "\\" + _A_DOLLAR)
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

    def write(text: str, what: str, dollar: str | None) -> str:
        if expansion.reference.search(text) is None:
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
    result.values.update({name: write(value, f"the value of {name}", expansion.in_values) for name, value in values.items()})
    return result
