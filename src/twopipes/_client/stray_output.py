"""Output on a server's stdout that is not a message: a banner, a stray print, bytes that are not text.

It is skipped and counted. The first pieces are kept, because they usually show the cause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from twopipes._wire import LineRejected
from twopipes.errors import McpError, RemoteProtocolError

# The number of pieces to keep. Later ones rarely add anything to the first ones.
MAX_KEPT = 50


class StrayOutput(Struct, frozen=True):
    """One piece of stray output.

    Attributes:
        what: What is wrong with it.
        excerpt: Its beginning, as text.
        size: Its size in bytes.
    """

    what: str
    excerpt: str = ""
    size: int = 0

    def __str__(self) -> str:
        return f"{self.excerpt!r} ({self.what})" if self.excerpt else self.what


class StrayCollector:
    """Collects the stray output of one server. ``on_stray`` is called with each piece and its ``size``."""

    def __init__(self, on_stray: Callable[..., Any] | None = None) -> None:
        self.kept: list[StrayOutput] = []  # the first pieces
        self.count = 0
        self._on_stray = on_stray

    def add_line(self, rejected: LineRejected) -> None:
        """Add a line that is not a message."""
        self._add(StrayOutput(f"{rejected.reason}: {rejected.detail}", rejected.excerpt.decode("utf-8", "replace"), rejected.size))

    def add_request(self, method: str) -> None:
        """Add a request on the stateless wire, where servers must not send any. It gets no response (FR-10)."""
        self._add(StrayOutput(f"a request of the server ({method}), which the stateless wire does not allow"))

    def add_notification(self, method: str, error: RemoteProtocolError) -> None:
        """Add a notification that cannot be decoded."""
        self._add(StrayOutput(f"a notification of the server ({method}): {error}"))

    def add_error(self, error: McpError) -> None:
        """Add an error response that belongs to no request."""
        self._add(StrayOutput(f"an error without an id: {error}"))

    def _add(self, stray: StrayOutput) -> None:
        self.count += 1
        if len(self.kept) < MAX_KEPT:
            self.kept.append(stray)
        if self._on_stray is not None:
            self._on_stray(stray, size=len(stray.excerpt))

    def lines(self) -> tuple[str, ...]:
        """Return the kept pieces as text, and the number of further ones."""
        beyond = self.count - len(self.kept)
        return (*map(str, self.kept), *([f"... and {beyond:,} more"] if beyond else []))
