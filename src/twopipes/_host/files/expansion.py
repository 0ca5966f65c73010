"""How hosts expand references to variables in their configuration."""

from __future__ import annotations

import re
from typing import NamedTuple

# An unset variable with the default "$". Hosts do not expand the result again.
_A_DOLLAR = "${TWOPIPES_DOLLAR:-$}"


class Expansion(NamedTuple):
    """How a host expands references to variables, and what to write for a dollar sign; ``None`` if it cannot be escaped."""

    reference: re.Pattern[str]
    in_words: str | None = None  # of the command
    in_values: str | None = None  # of variables


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
