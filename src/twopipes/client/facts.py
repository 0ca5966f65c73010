"""What is known of the server that a client has reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from twopipes.client.keeper import Keeper
from twopipes.client.noise import Noise, Stray
from twopipes.errors import LocalProtocolError
from twopipes.mcp.types import Implementation, ServerCapabilities
from twopipes.process.shutdown import ShutdownReport
from twopipes.session.events import ClientOpened

__all__ = ["Facts"]


class Facts:
    """The part of a client that only tells."""

    def __init__(self, keeper: Keeper, noise: Noise) -> None:
        self._keeper = keeper
        self._noise = noise

    @property
    def era(self) -> Literal["legacy", "modern"]:
        """Which era the two sides speak."""
        return self._opened.era

    @property
    def revision(self) -> str:
        """Which revision of the protocol, such as ``2025-11-25``."""
        return self._opened.revision

    @property
    def server_info(self) -> Implementation | None:
        """Name and version, by the server's own account (VN-14: nothing to rely on)."""
        return self._opened.server_info

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server offers."""
        return self._opened.capabilities

    @property
    def instructions(self) -> str | None:
        """How the server should be used, for the model."""
        return self._opened.instructions

    @property
    def pid(self) -> int | None:
        """The process id of the server, where we launched it."""
        child = self._keeper.child
        return None if child is None else child.pid

    @property
    def stderr(self) -> Sequence[str]:
        """The last lines that the server wrote to its stderr."""
        child = self._keeper.child
        return () if child is None else child.stderr.lines()

    @property
    def stray(self) -> Sequence[Stray]:
        """What the server wrote to its stdout that is no message: the first of it."""
        return tuple(self._noise.kept)

    @property
    def stray_count(self) -> int:
        """How much of that there was."""
        return self._noise.count

    @property
    def restarts(self) -> int:
        """How often the server was started again."""
        return self._keeper.restarts

    @property
    def closed(self) -> ShutdownReport | None:
        """How the server was ended; ``None`` until it was."""
        return self._keeper.report

    @property
    def _opened(self) -> ClientOpened:
        reached = self._keeper.reached
        if reached is None:  # pragma: no cover - connect() hands out no other
            raise LocalProtocolError("the client is not connected")
        return reached.opened
