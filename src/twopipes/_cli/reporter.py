"""Output on stderr during a call: log messages, the server's stderr, and progress."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import json as msgspec_json

from twopipes._client.stray_output import StrayOutput
from twopipes._process.stderr import StderrLine
from twopipes._protocol.types import LogParams, ProgressParams
from twopipes._tools.terminal import Styled, Terminal, visible

__all__ = ["Reporter"]

_DIM = "dim"
_LEVEL_STYLES = {"warning": "yellow", "error": "red", "critical": "bold red", "alert": "bold red", "emergency": "bold red"}
# Characters of a progress message that are shown beside the bar.
_MAX_MESSAGE = 40
_ERASE = "\r\x1b[K"


class Reporter:
    """Writes to stderr during a call.

    Args:
        terminal: The output.
        quiet: Whether to hide log messages, the server's stderr and progress.
    """

    def __init__(self, terminal: Terminal, *, quiet: bool = False) -> None:
        self.terminal = terminal
        self.quiet = quiet
        self._bar: _Bar | None = None

    def say(self, *pieces: Styled) -> None:
        """Write one line."""
        with self.paused():
            self.terminal.say(*pieces)
            self.terminal.flush()

    def log(self, params: LogParams) -> None:
        """Write a log message of the server."""
        if not self.quiet:
            text = params.data if isinstance(params.data, str) else msgspec_json.encode(params.data).decode()
            logger = f" {visible(params.logger)}:" if params.logger else ""
            self._lines(f"[{visible(params.level)}]{logger}", text, _LEVEL_STYLES.get(params.level, _DIM))

    def stderr(self, line: StderrLine) -> None:
        """Write a line of the server's stderr."""
        if not self.quiet:
            self._lines("[stderr]", line.text, _DIM)

    def stray(self, stray: StrayOutput) -> None:
        """Write output on the server's stdout that is not a message."""
        if not self.quiet:
            self._lines("[stdout, not a message]", stray.excerpt or stray.what, "yellow")

    def progress(self, params: ProgressParams) -> None:
        """Show progress as a bar, if stderr is a terminal."""
        # A dumb terminal cannot erase a line.
        if self.quiet or not self.terminal.is_terminal or os.environ.get("TERM") == "dumb":
            return
        if self._bar is None:
            self._bar = _PlainBar(self.terminal) if self.terminal.rich is None else _RichBar(self.terminal)
        self._bar.show(params)

    def done(self) -> None:
        """Remove the bar at the end of a call."""
        if self._bar is not None:
            self._bar.hide()
            self._bar = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the bar while a line or a question is written."""
        if self._bar is None:
            yield
            return
        self._bar.hide()
        try:
            yield
        finally:
            if self._bar is not None:
                self._bar.show_again()

    def _lines(self, head: str, text: str, style: str) -> None:
        with self.paused():
            for line in text.rstrip("\n").split("\n"):
                self.terminal.say((f"{head} {visible(line)}", style))
            self.terminal.flush()


class _Bar:
    """A progress bar on the last line of the terminal."""

    def show(self, params: ProgressParams) -> None:
        """Show the progress."""
        raise NotImplementedError

    def show_again(self) -> None:
        """Show the last progress again after other output."""
        raise NotImplementedError

    def hide(self) -> None:
        """Erase the bar."""
        raise NotImplementedError


class _RichBar(_Bar):
    def __init__(self, terminal: Terminal) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - optional: the extra `cli`

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}", markup=False, style="progress.percentage"),
            TimeElapsedColumn(),
            console=terminal.rich,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task: Any = self._progress.add_task("", total=None, count="")

    def show(self, params: ProgressParams) -> None:
        self._progress.update(
            self._task,
            completed=params.progress,
            total=params.total,
            description=_message(params) or "working",
            count=_count(params),
        )
        self._progress.start()

    def show_again(self) -> None:
        self._progress.start()

    def hide(self) -> None:
        self._progress.stop()


class _PlainBar(_Bar):
    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._line = ""

    def show(self, params: ProgressParams) -> None:
        self._line = f"[{_count(params)}] {_message(params)}".rstrip()[: self._terminal.width - 1]
        self.show_again()

    def show_again(self) -> None:
        self._terminal.stream.write(_ERASE + self._line)
        self._terminal.flush()

    def hide(self) -> None:
        self._terminal.stream.write(_ERASE)
        self._terminal.flush()


def _message(params: ProgressParams) -> str:
    text = visible(" ".join((params.message or "").split()))
    return text if len(text) <= _MAX_MESSAGE else text[: _MAX_MESSAGE - 3] + "..."


def _count(params: ProgressParams) -> str:
    if not params.total:
        return f"{params.progress:g}"
    share = f"{100 * params.progress / params.total:.0f}%"
    return share if params.total == 100 else f"{params.progress:g}/{params.total:g} {share}"
