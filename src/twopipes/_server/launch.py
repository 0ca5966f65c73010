"""What ``twopipes run`` wants of a server that its file runs by itself. Read before the author's file, so it loads nothing."""

from __future__ import annotations

TYPE_CHECKING = False  # as in twopipes/__init__.py
if TYPE_CHECKING:
    from typing import ClassVar

__all__ = ["Launch"]


class Launch:
    """What ``twopipes run`` was asked for. A module that runs its server while it is imported serves there, and as the user wants.

    Attributes:
        has_served: Whether a server was run.
    """

    current: ClassVar[Launch | None] = None

    def __init__(self, *, unix: str | None = None, tcp: tuple[str, int] | None = None, trace: str | None = None) -> None:
        self.unix = unix
        self.tcp = tcp
        self.trace = trace
        self.has_served = False
