"""What a command says to a person: in colours and tables where rich is installed and somebody looks, else in plain text."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any, TextIO

__all__ = ["Styled", "Terminal", "visible"]

# A piece of text, or one with a style in rich's words: ("failed", "bold red").
Styled = str | tuple[str, str]


def visible(text: str) -> str:
    """The text with what could steer a terminal made visible: what others wrote must not move the cursor or change the title."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character == "\t" else _escape(character) for character in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


class Terminal:
    """One stream that people read.

    Args:
        stream: Where to; stdout unless told.
        colour: Whether to use colours; by default where the stream is a terminal and ``NO_COLOR`` is not set.
        width: In columns; by default that of the terminal.
    """

    def __init__(self, stream: TextIO | None = None, *, colour: bool | None = None, width: int | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.is_terminal = self.stream.isatty()
        # Programs that read a pipe want lines, and no padding, rules or folded cells.
        self._console = _console(self.stream, colour, width) if colour or self.is_terminal else None
        self.width = width or (self._console.width if self._console is not None else shutil.get_terminal_size().columns)

    def say(self, *pieces: Styled) -> None:
        """Writes one line made of the pieces; longer than the terminal is wide, it is left to the terminal to wrap."""
        if self._console is None:
            self.stream.write("".join(piece if isinstance(piece, str) else piece[0] for piece in pieces) + "\n")
            return
        from rich.text import Text  # noqa: PLC0415 - the extra `cli`

        # No markup is read from the text, so nothing in it can become a style.
        text = Text.assemble(*pieces)
        self._console.print(text, soft_wrap=True, highlight=False)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Writes a table; the last column takes what room there is."""
        if self._console is None:
            for line in _plain_table(columns, rows):
                self.stream.write(line + "\n")
            return
        from rich import box  # noqa: PLC0415 - the extra `cli`
        from rich.table import Table  # noqa: PLC0415 - likewise
        from rich.text import Text  # noqa: PLC0415 - likewise

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for number, column in enumerate(columns):
            table.add_column(Text(column), overflow="fold", no_wrap=number == 0 and len(columns) > 1)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(table)

    def flush(self) -> None:
        """Lets the reader see what was said."""
        self.stream.flush()

    @property
    def rich(self) -> Any:
        """The console of rich for what only it can do (a progress bar, a prompt), or ``None`` where it is not installed."""
        return self._console


def _console(stream: TextIO, colour: bool | None, width: int | None) -> Any:  # noqa: FBT001 - private
    try:
        from rich.console import Console  # noqa: PLC0415 - the extra `cli`
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
