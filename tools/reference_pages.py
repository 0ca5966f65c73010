"""Writes the pages of the reference that say what the code says: the command line from its help, the settings from their source.

python tools/reference_pages.py             writes docs/reference/cli.md and docs/reference/settings.md
python tools/reference_pages.py --check     writes nothing, and ends with 1 where a page is not current
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from twopipes import settings
from twopipes._cli import _COMMANDS as COMMANDS
from twopipes._cli import main as twopipes

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"

# The command line

CLI_INTRODUCTION = """\
# Command line

What `twopipes COMMAND --help` says, for every command. `python -m twopipes` is the same command. All exit codes beside each other:
[exit codes](exit-codes.md).

<!-- This page is written by tools/reference_pages.py. -->
"""
# The pages that show a command at work.
GUIDES = {
    "run": "[Run a server](../howto/run-a-server.md)",
    "mock": "[A server without the server](../howto/replay-and-mock.md#a-server-without-the-server)",
    "list": "[Talk to a server](../howto/talk-to-a-server.md)",
    "call": "[Call a tool](../howto/talk-to-a-server.md#call-a-tool)",
    "read": "[Talk to a server](../howto/talk-to-a-server.md#read-a-resource-get-a-prompt)",
    "prompt": "[Talk to a server](../howto/talk-to-a-server.md#read-a-resource-get-a-prompt)",
    "tap": "[Record a conversation](../howto/record-a-conversation.md)",
    "view": "[View a recording](../howto/view-a-recording.md)",
    "replay": "[Replay a recording](../howto/replay-and-mock.md)",
    "doctor": "[A server that will not connect](../howto/a-server-that-will-not-connect.md)",
    "check": "[Check a server](../howto/check-a-server.md), [check a client](../howto/check-a-client.md)",
    "new": "[Start a project](../howto/start-a-project.md)",
    "install": "[Install in a host](../howto/install-in-a-host.md)",
}
_ROW = re.compile(r"^ {0,4}(\S(?:.*?\S)?)(?: {2,}(\S.*))?$")
_CODE_ROW = re.compile(r"^ *(\d+) {2,}(\S.*)$")


class Section(NamedTuple):
    """A part of a help text that has a title."""

    title: str
    lines: list[str]


def help_of(*command: str) -> str:
    """What a command says of itself, in lines as long as it takes."""
    said = io.StringIO()
    wide = {"COLUMNS": "2000", "NO_COLOR": "1"}
    with mock.patch.dict(os.environ, wide), contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        twopipes([*command, "--help"])
    return said.getvalue()


def command_line() -> str:
    """The page of the command line."""
    parts = [CLI_INTRODUCTION, f"```text\n{help_of().rstrip()}\n```\n"]
    for command in COMMANDS:
        parts.append(f"## twopipes {command}\n")
        parts += described(help_of(command))
        guide = GUIDES.get(command, "")
        if guide and (REFERENCE / guide.split("](")[1].split(")")[0].partition("#")[0]).exists():
            parts.append(f"See {guide}.\n")
    return "\n".join(parts)


def described(text: str) -> Iterator[str]:
    """A help text in Markdown: usage, paragraphs, tables of options, examples, exit codes."""
    usage, rest = _usage(text.rstrip().split("\n"))
    yield "```text\n" + "\n".join(usage) + "\n```\n"
    for part in _parts(rest):
        if isinstance(part, str):
            yield f"{_escaped(part)}\n"
        elif part.title.startswith("examples"):
            yield "```sh\n" + "\n".join(line.removeprefix("  ") for line in part.lines) + "\n```\n"
        else:
            yield from _table(part)


def _usage(lines: list[str]) -> tuple[list[str], list[str]]:
    end = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
    usage = [lines[0].removeprefix("usage: ").strip(), *(line.strip() for line in lines[1:end])]
    return usage, lines[end:]


def _parts(lines: list[str]) -> Iterator[str | Section]:
    paragraph: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        following = lines[number + 1] if number + 1 < len(lines) else ""
        is_title = bool(line) and not line.startswith(" ") and not paragraph and following.startswith("  ")
        if not line.strip() or is_title:
            if paragraph:
                yield " ".join(paragraph)
            paragraph = []
        if is_title:
            section = Section(line.rstrip(":"), [])
            number += 1
            while number < len(lines) and (lines[number].startswith(" ") or not lines[number] or _CODE_ROW.match(lines[number])):
                section.lines.append(lines[number])
                number += 1
            while section.lines and not section.lines[-1].strip():
                section.lines.pop()
            yield section
            continue
        if line.strip():
            paragraph.append(line.strip())
        number += 1
    if paragraph:
        yield " ".join(paragraph)


def _table(section: Section) -> Iterator[str]:
    introduction, rows = _rows(section)
    title = {"positional arguments": "arguments", "optional arguments": "options"}.get(section.title, section.title)
    first = "code" if title == "exit codes" else ""
    yield f"**{title[0].upper()}{title[1:]}**" + (f": {_escaped(introduction)}\n" if introduction else "\n")
    lines = [f"| {first} | |", "|---|---|"]
    for left, right in rows:
        word = left if title == "exit codes" else _code(re.sub(r"^(-\w) \S+, (--\S+ \S+)$", r"\1, \2", left))
        lines.append(f"| {_escaped(word) if title == 'exit codes' else word} | {_escaped(right)} |")
    yield "\n".join(lines) + "\n"


def _rows(section: Section) -> tuple[str, list[tuple[str, str]]]:
    """The sentence at the head of a section, and its rows; what is indented further goes on with the row above."""
    introduction: list[str] = []
    lines = list(section.lines)
    if "" in lines and not lines[0].lstrip().startswith("-"):
        cut = lines.index("")
        introduction, lines = [line.strip() for line in lines[:cut]], lines[cut + 1 :]
    rows: list[tuple[str, str]] = []
    for line in lines:
        if not line.strip():
            continue
        if found := _CODE_ROW.match(line) or _ROW.match(line):
            rows.append((found[1], found[2] or ""))
        elif rows:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}".strip())
    return " ".join(introduction), rows


def _code(text: str) -> str:
    # A pipe within code ends a cell in some renderers and not in others.
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;")
    return f"<code>{escaped}</code>"


def _escaped(text: str) -> str:
    return re.sub(r"([*_`\[\]|])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))


# The settings

SETTINGS_INTRODUCTION = """\
# Settings

Values that can be set, with their defaults and the reason for each. They are immutable and keyword-only, and come from `twopipes`:
`from twopipes import Timeouts`. `None` switches a limit off, where the type allows it.
[How to use them](../howto/limits-and-timeouts.md).

<!-- This page is written by tools/reference_pages.py from src/twopipes/settings.py. -->
"""
GIVEN_TO = {
    "Limits": "`Server(limits=...)`, `connect(limits=...)`",
    "Timeouts": "`connect(timeouts=...)`; `request` and `total` also to every call of a client, by `timeouts=`",
    "RestartPolicy": "`connect(restart=...)`",
    "InputPolicy": "`Server(questions=...)`",
    "ServerSettings": "`Server(settings=...)`",
}


class Field(NamedTuple):
    """One value that can be set."""

    name: str
    type: str
    default: Any
    reason: str


def fields_of(kind: str, source: str) -> list[Field]:
    """The fields of one group, with the comments above them."""
    lines = source.split("\n")
    (group,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == kind)
    found = []
    for node in group.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                reason: list[str] = []
                number = node.lineno - 2
                while lines[number].strip().startswith("#"):
                    reason.insert(0, lines[number].strip().removeprefix("#").strip())
                    number -= 1
                found.append(Field(name, ast.unparse(annotation), getattr(getattr(settings, kind)(), name), " ".join(reason)))
    return found


def all_settings() -> str:
    """The page of the settings."""
    source = Path(settings.__file__).read_text(encoding="utf-8")
    parts = [SETTINGS_INTRODUCTION]
    for kind in settings.__all__:
        summary = (getattr(settings, kind).__doc__ or "").partition("\n")[0]
        parts.append(f"## {kind}\n\n{_without_ids(summary)} Given to {GIVEN_TO[kind]}.\n")
        rows = ["| field | type | default | |", "|---|---|---|---|"]
        for field in fields_of(kind, source):
            type_ = " or ".join(f"`{each}`" for each in field.type.replace('"', "'").split(" | "))
            rows.append(f"| `{field.name}` | {type_} | `{_shown(field.default)}` | {_escaped(_without_ids(field.reason))} |")
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def _shown(value: Any) -> str:
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else repr(value).replace("'", '"')


def _without_ids(text: str) -> str:
    """Without the ids of rules, which are for those who read the source."""
    return re.sub(r" \([A-Z]{2}-\d\d(, [A-Z]{2}-\d\d)*\)", "", text)


PAGES = {"cli.md": command_line, "settings.md": all_settings}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words not in ([], ["--check"]):
        sys.stderr.write("usage: python tools/reference_pages.py [--check]\n")
        return 2
    stale = []
    for name, make in PAGES.items():
        page, text = REFERENCE / name, make()
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not words:
                page.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"docs/reference/{name} " + ("is not current; run: python tools/reference_pages.py" if words else "is written anew"))
    return 1 if stale and words else 0


if __name__ == "__main__":
    sys.exit(main())
