"""What a dying server's last words say about why: tracebacks and complaints that many programs have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

__all__ = ["Clue", "clue_in", "names_variable"]

_VARIABLE: Final = r"[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]"
_ANY_VARIABLE: Final = r"[A-Z][A-Z0-9_]{2,}"
_IS_MISSING: Final = r"(?:not set|unset|required|missing|undefined|set\b|not defined|not found|empty|provided)"

# Each way to say that an environment variable is missing; the group is its name.
_MISSING_VARIABLE: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b({_ANY_VARIABLE})[`'\"]? (?:environment variable|env(?:ironment)? var)",
        rf"[Ee]nvironment [Vv]ariables?:? [`'\"]?({_ANY_VARIABLE})\b",
        rf"\bprocess\.env\.({_ANY_VARIABLE})",
        rf"\b({_VARIABLE})\b[`'\"]?,?:? (?:(?:is|was|are|must be|has to be|needs to be|not) )*{_IS_MISSING}",
        rf"(?i:missing|required?|requires|provide|export|please set|must set|set the|no)\b[^.]{{0,40}}?\b({_VARIABLE})\b",
    )
)
_KEY_ERROR: Final = re.compile(rf"KeyError: ['\"]({_ANY_VARIABLE})['\"]")

# The code of the diagnosis, and how it shows; the group, if there is one, is what it is about.
_CLUES: Final = tuple(
    (code, re.compile(pattern))
    for code, pattern in (
        ("docker-not-running", r"(?i)cannot connect to the docker daemon|failed to connect to the docker api"),
        ("script-not-found", r"can't open file '?([^':]+)'?: \[Errno 2\]"),
        ("script-not-found", r"Cannot find module '((?:/|[A-Z]:\\)[^']+)'"),
        ("module-not-found", r"ModuleNotFoundError: No module named '([^']+)'"),
        ("module-not-found", r"\bNo module named ([\w.]+)"),
        ("module-not-found", r"Cannot find (?:module|package) '([^']+)'"),
        ("module-not-found", r"ImportError: (.+)"),
        ("package-not-found", r"(?:npm (?:ERR!|error)) (?:code )?(E?404.*)"),
        ("package-not-found", r"Because (\S+) was not found in the (?:package )?registry"),
        ("package-not-found", r"No matching distribution found for (\S+)"),
        ("package-not-found", r"(?i)unable to find image '([^']+)'"),
        (
            "no-network",
            r"\b(?:ENOTFOUND|EAI_AGAIN|ENETUNREACH)\b|name resolution|error sending request for url|Network is unreachable",
        ),
        ("runtime-too-old", r"(?:EBADENGINE|Unsupported engine|requires Python|requires-python|Requires-Python)(.*)"),
        ("syntax-error", r"((?:SyntaxError|IndentationError|TabError)\b.*)"),
        ("address-in-use", r"(?:EADDRINUSE|[Aa]ddress already in use|port is already allocated)(.*)"),
        ("permission-denied", r"((?:PermissionError|EACCES|EPERM)\b.*|.*[Pp]ermission denied.*)"),
        ("wrong-arguments", r"(error: (?:the following arguments are required|unrecognized arguments|invalid choice|argument ).*)"),
        ("wrong-arguments", r"(?i)^\s*(usage: .+)"),
    )
)
# Lines from the end that are looked at. A program that dies says why last.
_LOOKED_AT: Final = 60


class Clue(Struct, frozen=True):
    """What the last words say: the code of the diagnosis, what it is about, and the line that says it."""

    code: str
    about: str
    line: str


def clue_in(lines: Sequence[str]) -> Clue | None:
    """The likeliest reason that the lines give; ``None`` if nothing in them is known."""
    last = lines[-_LOOKED_AT:]
    variable = names_variable(last)
    if variable is not None:
        return variable
    for code, pattern in _CLUES:
        for line in reversed(last):
            if found := pattern.search(line):
                about = next((group for group in found.groups() if group), "").strip() if found.groups() else ""
                return Clue(code, about, line.strip())
    return None


def names_variable(lines: Sequence[str]) -> Clue | None:
    """The environment variable that the lines miss, if they name one."""
    about_environment = any("environ" in line or "getenv" in line or "<frozen os>" in line for line in lines)
    for line in reversed(lines):
        if about_environment and (found := _KEY_ERROR.search(line)):
            return Clue("environment-variable-missing", found[1], line.strip())
    for pattern in _MISSING_VARIABLE:
        for line in reversed(lines):
            if found := pattern.search(line):
                return Clue("environment-variable-missing", found[1], line.strip())
    return None
