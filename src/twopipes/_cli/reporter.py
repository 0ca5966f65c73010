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

_LEVEL_STYLES = {"warning": "yellow", "error": "red", "critical": "bold red", "alert": "bold red", "emergency": "bold red"}
# Characters of a progress message that are shown beside the bar.
_MAX_MESSAGE = 40
_ERASE = "\r\x1b[K"


class Reporter:
    """Writes to stderr during a call. If ``quiet``, it hides log messages, the server's stderr and progress."""

    def __init__(self, terminal: Terminal, *, quiet: bool = False) -> None:
        self.terminal = terminal
        self.quiet = quiet
        self._bar: Any = None

    def say(self, *pieces: Styled) -> None:
        """Write one line."""
        with self.paused():
            self.terminal.say(*pieces)
            self.terminal.flush()

    def log(self, params: LogParams) -> None:
        """Write a log message of the server."""
        text = params.data if isinstance(params.data, str) else msgspec_json.encode(params.data).decode()
        logger = f" {visible(params.logger)}:" if params.logger else ""
        self._lines(f"[{visible(params.level)}]{logger}", text, _LEVEL_STYLES.get(params.level, "dim"))

    def stderr(self, line: StderrLine) -> None:
        """Write a line of the server's stderr."""
        self._lines("[stderr]", line.text, "dim")

    def stray(self, stray: StrayOutput) -> None:
        """Write output on the server's stdout that is not a message."""
        self._lines("[stdout, not a message]", stray.excerpt or stray.what, "yellow")

    def progress(self, params: ProgressParams) -> None:
        """Show progress as a bar, if stderr is a terminal."""
        # A dumb terminal cannot erase a line.
        if self.quiet or not self.terminal.is_terminal or os.environ.get("TERM") == "dumb":
            return
        if self._bar is None:
            self._bar = _PlainBar(self.terminal) if self.terminal.rich is None else self.terminal.rich.progress_bar()
        message = visible(" ".join((params.message or "").split()))
        if len(message) > _MAX_MESSAGE:
            message = message[: _MAX_MESSAGE - 3] + "..."
        self._bar.update(message, _count(params), params.progress, params.total)
        self._bar.show()

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
                self._bar.show()

    def _lines(self, head: str, text: str, style: str) -> None:
        if not self.quiet:
            with self.paused():
                for line in text.rstrip("\n").split("\n"):
                    self.terminal.say((f"{head} {visible(line)}", style))
                self.terminal.flush()


class _PlainBar:
    """The progress on the last line of the terminal, without rich."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._line = ""

    def update(self, message: str, count: str, _completed: float, _total: float | None) -> None:
        self._line = f"[{count}] {message}".rstrip()[: self._terminal.width - 1]

    def show(self) -> None:
        self._terminal.stream.write(_ERASE + self._line)
        self._terminal.flush()

    def hide(self) -> None:
        self._terminal.stream.write(_ERASE)
        self._terminal.flush()


def _count(params: ProgressParams) -> str:
    if not params.total:
        return f"{params.progress:g}"
    share = f"{100 * params.progress / params.total:.0f}%"
    return share if params.total == 100 else f"{params.progress:g}/{params.total:g} {share}"
