"""What a server wrote to its standard output that is not a message: a banner, a stray print, bytes that are no text.

It is skipped, counted, and the first of it kept: that is where the cause shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from twopipes._wire import LineRejected
from twopipes.errors import McpError, RemoteProtocolError

__all__ = ["StrayOutput", "StrayReader"]

# How many pieces are kept. The first ones tell where it comes from; a program that prints in a loop tells nothing more.
MOST_KEPT = 50


class StrayOutput(Struct, frozen=True):
    """One piece of noise.

    Attributes:
        what: What is wrong with it, in words.
        excerpt: How it begins, as text.
        size: How many bytes it had.
    """

    what: str
    excerpt: str = ""
    size: int = 0

    def __str__(self) -> str:
        return f"{self.excerpt!r} ({self.what})" if self.excerpt else self.what


class StrayReader:
    """Collects it, bounded.

    Attributes:
        kept: The first pieces.
        count: How many there were in all.
    """

    def __init__(self, tell: Callable[..., Any] | None = None) -> None:
        self.kept: list[StrayOutput] = []
        self.count = 0
        self._tell = tell

    def add_line(self, rejected: LineRejected) -> None:
        """A line that is no message."""
        self._add(StrayOutput(f"{rejected.reason}: {rejected.detail}", rejected.excerpt.decode("utf-8", "replace"), rejected.size))

    def add_request(self, method: str) -> None:
        """A request on the stateless wire, where a server sends none; it stays unanswered (FR-10)."""
        self._add(StrayOutput(f"a request of the server ({method}), which the stateless wire does not have"))

    def add_notification(self, method: str, error: RemoteProtocolError) -> None:
        """A notification that cannot be handed on."""
        self._add(StrayOutput(f"a notification of the server ({method}): {error}"))

    def add_complaint(self, error: McpError) -> None:
        """An error that answers nothing."""
        self._add(StrayOutput(f"an error without an id: {error}"))

    def _add(self, stray: StrayOutput) -> None:
        self.count += 1
        if len(self.kept) < MOST_KEPT:
            self.kept.append(stray)
        if self._tell is not None:
            self._tell(stray, size=len(stray.excerpt))

    def lines(self) -> tuple[str, ...]:
        """The kept pieces as text, and how many there were beyond them."""
        beyond = self.count - len(self.kept)
        return (*map(str, self.kept), *([f"... and {beyond:,} more"] if beyond else []))
