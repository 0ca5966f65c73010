"""Output for people: colours and tables if rich is installed and the stream is a terminal, else plain text."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any, TextIO

__all__ = ["Styled", "Terminal", "visible"]

# A piece of text, or one with a style of rich: ("failed", "bold red").
Styled = str | tuple[str, str]


def visible(text: str) -> str:
    """Escape control characters: text of others must not control the terminal."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character == "\t" else _escape(character) for character in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


class Terminal:
    """A stream that people read.

    Args:
        stream: The stream; stdout by default.
        colour: Whether to use colours; by default if the stream is a terminal and ``NO_COLOR`` is not set.
        width: The columns; by default those of the terminal.
    """

    def __init__(self, stream: TextIO | None = None, *, colour: bool | None = None, width: int | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.is_terminal = self.stream.isatty()
        # A pipe gets plain lines, without padding, rules or folded cells.
        self._console = _console(self.stream, colour, width) if colour or self.is_terminal else None
        self.width = width or (self._console.width if self._console is not None else shutil.get_terminal_size().columns)

    def say(self, *pieces: Styled) -> None:
        """Write one line. The terminal wraps a long one."""
        if self._console is None:
            self.stream.write("".join(piece if isinstance(piece, str) else piece[0] for piece in pieces) + "\n")
            return
        from rich.text import Text  # noqa: PLC0415 - optional: the extra `cli`

        # Text.assemble() does not interpret markup in the text.
        text = Text.assemble(*pieces)
        self._console.print(text, soft_wrap=True, highlight=False)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table. The last column takes the remaining width."""
        if self._console is None:
            for line in _plain_table(columns, rows):
                self.stream.write(line + "\n")
            return
        from rich import box  # noqa: PLC0415 - optional: the extra `cli`
        from rich.table import Table  # noqa: PLC0415 - optional: the extra `cli`
        from rich.text import Text  # noqa: PLC0415 - optional: the extra `cli`

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for number, column in enumerate(columns):
            table.add_column(Text(column), overflow="fold", no_wrap=number == 0 and len(columns) > 1)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(table)

    def flush(self) -> None:
        """Flush the stream."""
        self.stream.flush()

    @property
    def rich(self) -> Any:
        """The console of rich, for progress bars and prompts; ``None`` if rich is not used."""
        return self._console


def _console(stream: TextIO, colour: bool | None, width: int | None) -> Any:  # noqa: FBT001 - private
    try:
        from rich.console import Console  # noqa: PLC0415 - optional: the extra `cli`
    except ImportError:
        return None
    return Console(
        file=stream,
        force_terminal=colour,
        no_color=None if colour is None else not colour,
        width=width,
        markup=False,
        emoji=False,
        highlight=False,
    )


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]
    lines = [columns, ["-" * width for width in widths], *rows]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
