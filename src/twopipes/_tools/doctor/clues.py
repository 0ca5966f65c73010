"""Finds the reason of a failure in what a server wrote to stderr: known error messages, and the lines that state the error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

_VARIABLE: Final = r"[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]"
_ANY_VARIABLE: Final = r"[A-Z][A-Z0-9_]{2,}"
_IS_MISSING: Final = r"(?:not set|unset|required|missing|undefined|set\b|not defined|not found|empty|provided)"

# Messages about a missing environment variable; the group is its name.
_MISSING_VARIABLE: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b({_ANY_VARIABLE})[`'\"]? (?:environment variable|env(?:ironment)? var)",
        rf"[Ee]nvironment [Vv]ariables?:? [`'\"]?({_ANY_VARIABLE})\b",
        rf"\b[Ss]et (?:the )?[`'\"]?({_VARIABLE})\b.*\benv(?:ironment)?\b",
        rf"\bprocess\.env\.({_ANY_VARIABLE})",
        rf"\b({_VARIABLE})\b[`'\"]?,?:? (?:(?:is|was|are|must be|has to be|needs to be|not) )*{_IS_MISSING}",
        rf"(?i:missing|required?|requires|provide|export|please set|must set|set the|no)\b[^.]{{0,40}}?\b({_VARIABLE})\b",
    )
)
_KEY_ERROR: Final = re.compile(rf"KeyError: ['\"]({_ANY_VARIABLE})['\"]")

# The code of the diagnosis, the runtime that writes the message, and the pattern; the group, if any, is the subject.
_CLUES: Final = tuple(
    (code, runtime, re.compile(pattern))
    for code, runtime, pattern in (
        ("docker-not-running", None, r"(?i)cannot connect to the docker daemon|failed to connect to the docker api"),
        ("script-not-found", "python", r"can't open file '?([^':]+)'?: \[Errno 2\]"),
        ("script-not-found", "node", r"Cannot find module '((?:/|[A-Z]:\\)[^']+)'"),
        ("module-not-found", "python", r"ModuleNotFoundError: No module named '([^']+)'"),
        ("module-not-found", "python", r"\bNo module named ([\w.]+)"),
        ("module-not-found", "node", r"Cannot find (?:module|package) '([^']+)'"),
        ("module-not-found", "python", r"ImportError: (.+)"),
        ("package-not-found", "node", r"npm (?:ERR!|error) 404 .*'([^']+?)(?:@\*)?' (?:is not in|could not be found)"),
        ("package-not-found", "node", r"(?:npm (?:ERR!|error)) (?:code )?(E?404 .*|E404)"),
        ("package-not-found", "python", r"Because (\S+) was not found in the (?:package )?registry"),
        ("package-not-found", "python", r"No matching distribution found for (\S+)"),
        ("package-not-found", None, r"(?i)unable to find image '([^']+)'"),
        (
            "no-network",
            None,
            r"\b(?:ENOTFOUND|EAI_AGAIN|ENETUNREACH)\b|name resolution|error sending request for url|Network is unreachable",
        ),
        ("runtime-too-old", None, r"(?:EBADENGINE|Unsupported engine|requires Python|requires-python|Requires-Python)(.*)"),
        ("syntax-error", None, r"((?:SyntaxError|IndentationError|TabError)\b.*)"),
        ("address-in-use", None, r"(?:EADDRINUSE|WinError 100(?:13|48)\b|[Aa]ddress already in use|port is already allocated)(.*)"),
        ("permission-denied", None, r"((?:PermissionError|EACCES|EPERM)\b.*|.*[Pp]ermission denied.*)"),
        # argparse, clap and commander; click; yargs and Node's parseArgs; Go's flag.
        ("wrong-arguments", None, r"(error: (?:the following (?:required )?arguments|unrecognized arguments|invalid choice).*)"),
        ("wrong-arguments", None, r"(error: (?:argument |unexpected argument|unknown option|missing required).*)"),
        ("wrong-arguments", None, r"^Error: ((?:Missing|Invalid value for|No such) (?:argument|option|command|parameter).*)"),
        ("wrong-arguments", None, r"(?:ERR_PARSE_ARGS\w+\]: |^)((?:Unknown (?:option|argument)|Missing required argument)s?\b.*)"),
        ("wrong-arguments", None, r"^(flag provided but not defined: .*|flag needs an argument: .*)"),
        ("wrong-arguments", None, r"(?i)^\s*(usage: .+)"),
    )
)
_USAGE: Final = re.compile(r"(?i)^\s*usage\b")
# Lines searched, from the end. A program that fails writes the reason last.
_MAX_SEARCHED: Final = 60
# Characters searched of each line. The patterns take quadratic time on a long one.
_MAX_SEARCHED_LENGTH: Final = 1000
# Lines shown of a failure, and the characters of each.
_MAX_RELEVANT: Final = 5
_MAX_LENGTH: Final = 240

# A line that states an error: a log level, or the name of an exception with its message.
_STATES_ERROR: Final = re.compile(
    r"\b(?:FATAL|Fatal|fatal|CRITICAL|panic)\b|\b\w*(?:Error|Exception)\b(?: \[\w+\])?(?::|$)|\b(?:ERROR|error)\b[:\]]|^npm ERR!"
)
# Lines around an error that do not help the reader: frames of a JavaScript stack, the members of a JavaScript error, brackets,
# carets, the version of Node, and where npm keeps its log.
_FILLER: Final = re.compile(
    r"""^\s+at\s\S
    |^\s*[\]\[(){},;^~]*\s*$
    |^\s+(?:code|errno|syscall|address|port|path|requireStack)\s*:
    |^\s+\.\.\.\ \d+\ (?:lines\ matching|more\ items)
    |^Node\.js\ v\d
    |^npm\ (?:ERR!|error)\ (?:A\ complete\ log|404\s*$)
    |^npm\ (?:WARN|warn|notice)\b
    """,
    re.VERBOSE,
)


class Clue(Struct, frozen=True):
    """A known error message."""

    code: str  # the code of the diagnosis
    about: str  # the subject: a module, a variable, a path; empty if the message does not name one
    line: str  # the line that contains it
    runtime: str | None = None  # the runtime that writes such messages, `python` or `node`; `None` if any program may

    @property
    def is_usage_alone(self) -> bool:
        """Whether the line only shows the usage of the program, not what is wrong."""
        return _USAGE.match(self.line) is not None


def clue_in(lines: Sequence[str]) -> Clue | None:
    """Return the most likely reason in the lines, or ``None`` if they contain no known message."""
    last = [line[:_MAX_SEARCHED_LENGTH] for line in lines[-_MAX_SEARCHED:]]
    variable = missing_variable(last)
    if variable is not None:
        return variable
    for code, runtime, pattern in _CLUES:
        for line in reversed(last):
            if found := pattern.search(line):
                about = next((group for group in found.groups() if group), "").strip() if found.groups() else ""
                return Clue(code, about, line.strip(), runtime)
    return None


def missing_variable(lines: Sequence[str]) -> Clue | None:
    """Return the clue about a missing environment variable, if the lines name one."""
    about_environment = any("environ" in line or "getenv" in line or "<frozen os>" in line for line in lines)
    for line in reversed(lines):
        if about_environment and (found := _KEY_ERROR.search(line)):
            return Clue("environment-variable-missing", found[1], line.strip())
    for pattern in _MISSING_VARIABLE:
        for line in reversed(lines):
            if found := pattern.search(line):
                return Clue("environment-variable-missing", found[1], line.strip())
    return None


def error_line(lines: Sequence[str]) -> str | None:
    """Return the line that states the error, or ``None`` if no line helps."""
    position = _main(lines)
    return None if position is None else lines[position].strip()


def states_error(line: str) -> bool:
    """Whether a line states an error, with a log level or the name of an exception."""
    return _STATES_ERROR.search(line) is not None


def relevant_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the most useful lines of a failure, in order: those that state an error, then those around the main one."""
    main = _main(lines)
    if main is None:
        return tuple(line[:_MAX_LENGTH] for line in lines if line.strip())[-_MAX_RELEVANT:]
    chosen = [main, *(each for each in reversed(_stating(lines)) if each != main)][:_MAX_RELEVANT]
    around = [*range(main - 1, -1, -1), *range(main + 1, len(lines))]
    more = [each for each in around if each not in chosen and not _FILLER.match(lines[each])]
    chosen += more[: _MAX_RELEVANT - len(chosen)]
    return tuple(lines[each][:_MAX_LENGTH] for each in sorted(chosen))


def _main(lines: Sequence[str]) -> int | None:
    lines = [line[:_MAX_SEARCHED_LENGTH] for line in lines]
    clue = clue_in(lines)
    if clue is not None and not clue.is_usage_alone:
        return next(each for each in reversed(range(len(lines))) if lines[each].strip() == clue.line)
    useful = [each for each, line in enumerate(lines) if not _FILLER.match(line)]
    plain = [each for each in useful if not lines[each][0].isspace()]
    for candidates in (_stating(lines), plain, useful):
        if candidates:
            return candidates[-1]
    return None


def _stating(lines: Sequence[str]) -> list[int]:
    """Return the positions of lines that state an error. Indented lines are source code or the cause of another error."""
    return [each for each, line in enumerate(lines) if line[:1].strip() and not _FILLER.match(line) and states_error(line)]
