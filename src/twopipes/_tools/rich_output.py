"""Output with rich, the optional extra ``cli``. Only :mod:`twopipes._tools.terminal` imports this module, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.color import ColorSystem
from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.style import Style
from rich.table import Table
from rich.text import Text

_COLOR_SYSTEMS = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "windows": ColorSystem.WINDOWS}


class RichOutput:
    """A console of rich. Text is printed as it is: markup in it has no meaning."""

    def __init__(self, stream: TextIO, *, colour: bool | None, width: int | None) -> None:
        self.console = Console(
            file=stream,
            force_terminal=colour,
            no_color=None if colour is None else not colour,
            width=width,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def say(self, pieces: Sequence[str | tuple[str, str]]) -> None:
        """Print one line. The terminal wraps a long one."""
        self.console.print(Text.assemble(*pieces), soft_wrap=True, highlight=False)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table. The last column takes the remaining width."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for number, column in enumerate(columns):
            table.add_column(Text(column), overflow="fold", no_wrap=number == 0 and len(columns) > 1)
        for row in rows:
            table.add_row(*map(Text, row))
        self.console.print(table)

    def json(self, line: str) -> None:
        """Print a line of JSON in colours."""
        self.console.print(JSONHighlighter()(Text(line)), soft_wrap=True)

    def progress_bar(self) -> RichBar:
        """Return a progress bar, which is not shown yet."""
        return RichBar(self.console)

    def escape_codes(self, style: str) -> tuple[str, str]:
        """Return the escape codes before and after a text of a style; empty ones without colours."""
        system = self.console.color_system
        if not style or not self.console.is_terminal or self.console.no_color or system is None:
            return "", ""
        codes = Style.parse(style).render("|", color_system=_COLOR_SYSTEMS.get(system, ColorSystem.TRUECOLOR))
        before, _, after = codes.partition("|")
        return before, after


class RichBar:
    """A progress bar on the last line of the terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}", markup=False, style="progress.percentage"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=None, count="")

    def update(self, message: str, count: str, completed: float, total: float | None) -> None:
        """Set what the bar shows."""
        self._progress.update(self._task, completed=completed, total=total, description=message or "working", count=count)

    def show(self) -> None:
        """Show the bar, at first or after other output."""
        self._progress.start()

    def hide(self) -> None:
        """Erase the bar."""
        self._progress.stop()
