"""The blocks of a page: which of them show output, how they are marked, and how they are rewritten.

A block that shows commands is marked by a comment right above it, which readers do not see. Its first word says what it is:

``<!-- console -->``
    The commands behind ``$`` are run, one after another, and what stands below each is what it said.
``<!-- console not run: REASON -->``
    They cannot be run here, and this is why.
    A block in the language ``sh`` has no prompts: each line is a command, and only the exit codes are compared.
    A command that serves at an address (``--http``, ``--unix``, ``--tcp``) runs until the page ends; the next one starts once it
    listens.
``<!-- printed -->``
    What the Python block above printed.

The comment of the first kind may hold options, one a line, ``NAME: VALUE``:

==============  ====================================================================================================================
in              a folder in the home of the page, made where it is missing; the commands run there from now on
files           files of the repository to copy there; may hold ``*``, and ``FILE as NAME`` gives another name
python          a file to write there: the Python blocks of the page so far; ``first FILE`` and ``last FILE`` take one of them
before          a command to run first, of which nothing is shown; may be repeated
host            a command to put before each command that serves on stdio, such as ``twopipes tap``: what launches it in real life
serve           a server at an address to start first; may be repeated
launcher        names of programs, such as ``npx``, that start ``server.py`` whatever their arguments are
instead         ``TEXT => OTHER``: what the commands contain in place of TEXT, as long as the page runs; the output shows TEXT.
                In OTHER, ``{port}`` is a free port, and ``{root}`` the folder that the commands take for ``/``
skip            ``TEXT: REASON``: commands that contain TEXT are not run, and why; may be repeated
of              the block has no ``$``: all of it is what this command says
terminal        run at a terminal, this many columns wide
types           at that terminal: what to type at each prompt (``> ``), separated by `` | ``
env             ``NAME=VALUE``, for this block and those below
interrupt       press Ctrl-C once this regular expression is seen
output          ``none``: only the commands are shown; they are run all the same
exits           with that: the exit codes, if they are not all 0
varies          a regular expression: what it matches is another one each time, and may be missing if it is a line; may be repeated
unordered       a regular expression: lines that it matches may come in any order; may be repeated
slow            why the block is left out of the quick check
==============  ====================================================================================================================

A line ``...`` in the shown output stands for any number of lines, and ``...`` within a line for any part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {
    *("in", "files", "python", "before", "host", "serve", "launcher", "instead", "of", "terminal", "types", "env", "interrupt"),
    *("output", "exits", "varies", "unordered", "slow", "not run", "skip"),
}
PROMPT = "$ "
CUT = ("...", "…")

_FENCE = re.compile(r"^( *)(`{3,})(\w*).*$")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


class PageFault(Exception):
    """A mark that is invalid, or a block without one."""


class Step(NamedTuple):
    """One command, and the text below it."""

    command: str
    written: list[str]  # the command as the page has it, prompt and all
    shown: list[str]


class Block(NamedTuple):
    """One fenced block."""

    line: int  # of its fence, from 1
    language: str
    kind: str  # console, printed, or nothing
    options: dict[str, list[str]]
    indent: str
    body: list[str]

    @property
    def needs_a_mark(self) -> bool:
        """Whether it shows commands, by its language or by its first line."""
        return self.language in {"console", "sh"} or (bool(self.body) and self.body[0].startswith(PROMPT))

    def option(self, name: str, default: str = "") -> str:
        """The value of an option that is given once."""
        return self.options.get(name, [default])[0]

    @property
    def is_run(self) -> bool:
        """Whether its commands can be run here."""
        return bool(self.kind) and "not run" not in self.options

    def why_not_run(self, command: str) -> str:
        """Return why a command of this block is not run, or nothing."""
        if "not run" in self.options:
            return self.option("not run")
        reasons = (each.rsplit(": ", 1) for each in self.options.get("skip", []))
        return next((reason for text, reason in reasons if text in command), "")

    def steps(self) -> list[Step]:
        """Its commands, each with what is shown below it."""
        if "of" in self.options:
            return [Step(self.option("of"), [], self.body)]
        if self.language == "sh":
            return [Step(line, [line], []) for line in self.body if line.strip() and not line.startswith("#")]
        found: list[Step] = []
        waiting = list(self.body)
        while waiting:
            line = waiting.pop(0)
            if not line.startswith(PROMPT):
                if not found:
                    raise PageFault(f"line {self.line}: a block begins with a command: {line!r}")
                found[-1].shown.append(line)
                continue
            written = [line]
            while written[-1].endswith("\\") and waiting:
                written.append(waiting.pop(0))
            if heredoc := _HEREDOC.search(line):
                while waiting:
                    written.append(waiting.pop(0))
                    if written[-1] == heredoc[2]:
                        break
            found.append(Step("\n".join(written).removeprefix(PROMPT), written, []))
        return found


def pages() -> list[Path]:
    """All pages of the documentation."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def name(page: Path) -> str:
    """Return the name of a page."""
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return list(_blocks(text.split("\n")))


def _blocks(lines: list[str]) -> Iterator[Block]:
    mark: list[str] = []  # the comment that ended on the line before
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.lstrip().startswith("<!--"):
            mark = []
            while number < len(lines):
                mark.append(lines[number])
                number += 1
                if "-->" in mark[-1]:
                    break
            continue
        fence = _FENCE.match(line)
        if fence is None:
            mark = []
            number += 1
            continue
        indent, ticks, language = fence.groups()
        begun = number
        number += 1
        body = []
        while number < len(lines) and lines[number].strip() != ticks:
            body.append(lines[number].removeprefix(indent))
            number += 1
        number += 1
        kind, options = _read_mark(mark, begun + 1)
        mark = []
        yield Block(begun + 1, language, kind, options, indent, body)


def _read_mark(comment: list[str], line: int) -> tuple[str, dict[str, list[str]]]:
    text = "\n".join(each.strip() for each in comment).removeprefix("<!--").removesuffix("-->").strip()
    kind, _, rest = text.partition(" ") if "\n" not in text.split(" ")[0] else text.partition("\n")
    if kind not in {"console", "printed"}:
        return "", {}
    options: dict[str, list[str]] = {}
    for each in rest.split("\n"):
        if not each.strip():
            continue
        key, found, value = each.partition(":")
        if not found or key.strip() not in OPTIONS:
            raise PageFault(f"line {line}: what is {each!r} in the mark of this block? It is NAME: VALUE, of {sorted(OPTIONS)}")
        options.setdefault(key.strip(), []).append(value.strip())
    if options.get("not run") == [""]:
        raise PageFault(f"line {line}: it is not run, and the mark does not say why")
    for option, separator in (("skip", ": "), ("instead", " => ")):
        for value in options.get(option, []):
            if separator not in value:
                raise PageFault(f"line {line}: what is {value!r} in the mark of this block? {option} has two parts: A{separator}B")
    return kind, options


def faults(page: Path) -> list[str]:
    """Return the errors in the marks of a page."""
    try:
        found = blocks(page.read_text(encoding="utf-8"))
        for block in found:
            if block.kind == "console" and block.is_run:
                block.steps()
    except PageFault as fault:
        return [f"{name(page)}: {fault}"]
    return [
        f"{name(page)}: line {block.line}: this block shows commands and has no mark; put <!-- console --> above it"
        for block in found
        if block.needs_a_mark and not block.kind
    ]


def rewritten(text: str, changes: dict[int, list[str]]) -> str:
    """The page with other bodies in some of its blocks, by the line of their fences."""
    lines = text.split("\n")
    for block in reversed(blocks(text)):
        if block.line in changes:
            body = [f"{block.indent}{line}" if line else "" for line in changes[block.line]]
            lines[block.line : block.line + len(block.body)] = body
    return "\n".join(lines)
