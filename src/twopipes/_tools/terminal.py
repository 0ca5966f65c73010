"""Output for people: colours and tables if rich is installed and the stream is a terminal, else plain text."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from twopipes._tools.rich_output import RichOutput

# A piece of text, or one with a style of rich: ("failed", "bold red").
Styled = str | tuple[str, str]


def visible(text: str) -> str:
    """Escape control characters: text of others must not control the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode() for each in text)


class Terminal:
    """A stream that people read. By default it uses colours if it is a terminal and ``NO_COLOR`` is not set."""

    def __init__(self, stream: TextIO | None = None, *, colour: bool | None = None, width: int | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.is_terminal = self.stream.isatty()
        # A pipe gets plain lines, without padding, rules or folded cells.
        self.rich = _rich_output(self.stream, colour=colour, width=width) if colour or self.is_terminal else None
        self.width = width or (self.rich.console.width if self.rich is not None else shutil.get_terminal_size().columns)

    def say(self, *pieces: Styled) -> None:
        """Write one line. The terminal wraps a long one."""
        if self.rich is not None:
            self.rich.say(pieces)
        else:
            self.stream.write("".join(piece if isinstance(piece, str) else piece[0] for piece in pieces) + "\n")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table. The last column takes the remaining width."""
        if self.rich is not None:
            self.rich.table(columns, rows)
            return
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        for line in (columns, ["-" * width for width in widths], *rows):
            self.stream.write("  ".join(map(str.ljust, line, widths)).rstrip() + "\n")

    def flush(self) -> None:
        """Flush the stream."""
        self.stream.flush()


def _rich_output(stream: TextIO, *, colour: bool | None, width: int | None) -> RichOutput | None:
    try:
        from twopipes._tools.rich_output import RichOutput  # the optional extra `cli`
    except ImportError:
        return None
    return RichOutput(stream, colour=colour, width=width)
