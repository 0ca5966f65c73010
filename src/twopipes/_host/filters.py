"""Which tools of a server are offered."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from twopipes._protocol.types import Tool


class ToolFilter(Struct, frozen=True, kw_only=True):
    """Selects tools by name or by annotation.

    Annotations are claims of the server itself: ``read_only`` helps to keep a list short, and does not stop a malicious server.

    Attributes:
        include: Patterns such as ``get_*`` for the names of tools, without a prefix. Empty: all tools.
        exclude: Patterns for the names of tools that are left out, also if ``include`` has them.
        read_only: Only tools that declare that they change nothing (``True``), or only others (``False``).
        destructive: Only tools that may destroy something, which is the default of the specification (``True``), or only
            others (``False``).
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    read_only: bool | None = None
    destructive: bool | None = None

    def allows(self, tool: Tool) -> bool:
        """Return whether a tool is offered."""
        if self.include and not _matches(tool.name, self.include):
            return False
        if _matches(tool.name, self.exclude):
            return False
        hints = tool.hints
        return self.read_only in (None, hints.read_only_hint) and self.destructive in (None, hints.destructive_hint)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
