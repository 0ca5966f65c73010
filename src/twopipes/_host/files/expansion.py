"""How hosts expand references to variables in their configuration, for those who write it and for those who read it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from twopipes.errors import ConfigError

# An unset variable with the default "$". Hosts do not expand the result again.
_A_DOLLAR = "${TWOPIPES_DOLLAR:-$}"


class Expansion(NamedTuple):
    """How a host expands references to variables, and what to write for a dollar sign; ``None`` if it cannot be escaped."""

    reference: re.Pattern[str]
    in_words: str | None = None  # of the command; "$" if nothing is expanded there
    in_values: str | None = None  # of variables
    inescapable: re.Pattern[str] | None = None  # more references in values


# ${NAME} and ${NAME:-default}.
BRACES = Expansion(re.compile(r"\$\{[A-Za-z_]\w*(?::-[^}]*)?\}"), _A_DOLLAR, _A_DOLLAR)
# The same, but only in values.
BRACES_IN_VALUES = Expansion(BRACES.reference, "$", _A_DOLLAR)
# $NAME as well.
DOLLAR = Expansion(re.compile(r"\$(?:\w+|\{[^}]+\})"), _A_DOLLAR, _A_DOLLAR)
# The same; dotenv-expand then expands variables again, where a backslash escapes a dollar sign. On Windows %NAME% is expanded, too.
DOLLAR_TWICE = Expansion(
    re.compile(r"\$(?:\w+|\{[^}]+\})|\\\$"), _A_DOLLAR, "\\" + _A_DOLLAR, re.compile(r"%\w+%") if sys.platform == "win32" else None
)
# There are no defaults, so a dollar sign cannot be escaped.
DOLLAR_WITHOUT_DEFAULT = Expansion(DOLLAR.reference)
# ${env:NAME}, ${workspaceFolder}, ...
EDITOR = Expansion(re.compile(r"\$\{[^}]+\}"))
OPENCODE = Expansion(re.compile(r"\{(?:env|file):[^}]+\}"))


# Reading


class Scope(NamedTuple):
    """What references in one file can refer to."""

    environment: Mapping[str, str]
    folder: Path  # of the file
    project: Path  # the folder that the host was started in, as far as the file shows it
    inputs: Mapping[str, str] = {}  # answers to the questions of VS Code

    def word(self, name: str) -> str | None:
        """Return the value of a predefined name of VS Code and Cursor."""
        words = {
            "workspaceFolder": str(self.project),
            "workspaceFolderBasename": self.project.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }
        return words.get(name)


class Syntax(NamedTuple):
    """One form of references, and what an unset variable becomes.

    The groups of the pattern: ``name`` or ``bare`` is a variable, with ``default``; ``word`` a predefined name; ``input`` a
    question to the user; ``file`` a path; and ``escaped`` text whose first character is removed.
    """

    reference: re.Pattern[str]
    unset: Literal["error", "empty", "literal"]
    empty_is_unset: bool = False
    default_if_empty: bool = False  # whether the default also replaces an empty variable

    def expanded(self, text: str, scope: Scope) -> str:
        """Replace the references in a text. Raises ``ConfigError`` if that is not possible."""
        return self.reference.sub(lambda found: self._value(found, scope), text)

    def names(self, text: str) -> list[str]:
        """Return the variables that a text refers to."""
        return [found.get("name") or found["bare"] for found in map(re.Match.groupdict, self.reference.finditer(text))]

    def _value(self, found: re.Match[str], scope: Scope) -> str:
        groups = {name: value for name, value in found.groupdict().items() if value is not None}
        if "escaped" in groups:
            return groups["escaped"][1:]
        if "word" in groups:
            word = scope.word(groups["word"])
            return found[0] if word is None else word
        if "input" in groups:
            return _answer(groups["input"], scope)
        if "file" in groups:
            return _content(groups["file"], scope)
        name = groups.get("name") or groups["bare"]
        value = scope.environment.get(name)
        if value is None or (self.empty_is_unset and not value):
            value = groups.get("default")
        if value is not None:
            return groups.get("default", "") if self.default_if_empty and not value else value
        if self.unset == "error":
            raise ConfigError(f"needs the variable {name}, which is not set")
        return "" if self.unset == "empty" else found[0]


def _answer(name: str, scope: Scope) -> str:
    if name not in scope.inputs:
        raise ConfigError(f"asks the user for {name!r}; pass it with load(..., inputs={{{name!r}: ...}})")
    return scope.inputs[name]


def _content(path: str, scope: Scope) -> str:
    """Return what opencode puts in the place of ``{file:PATH}``."""
    full = scope.folder / Path(path).expanduser()
    try:
        return full.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"refers to the file {full}, which cannot be read: {why}") from None


def expand(text: str, passes: Sequence[Syntax], scope: Scope) -> str:
    """Replace references in a text, once for each pass."""
    for syntax in passes:
        text = syntax.expanded(text, scope)
    return text
