"""Output on a server's stdout that is not a message: a banner, a stray print, bytes that are not text.

It is skipped and counted. The first pieces are kept, because they usually show the cause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

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

    def add(self, what: str, excerpt: bytes = b"", size: int = 0) -> None:
        """Add a piece; see :class:`StrayOutput`."""
        stray = StrayOutput(what, excerpt.decode("utf-8", "replace"), size)
        self.count += 1
        if len(self.kept) < MAX_KEPT:
            self.kept.append(stray)
        if self._on_stray is not None:
            self._on_stray(stray, size=len(stray.excerpt))

    def lines(self) -> tuple[str, ...]:
        """Return the kept pieces as text, and the number of further ones."""
        beyond = self.count - len(self.kept)
        return (*map(str, self.kept), *([f"... and {beyond:,} more"] if beyond else []))
