"""What is known of the server that a client has reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from twopipes._client.callbacks import Callbacks
from twopipes._client.stray_output import StrayOutput, StrayReader
from twopipes._client.supervisor import Supervisor
from twopipes._process.shutdown import ShutdownReport
from twopipes._protocol.revisions import LEGACY, NEEDED_CAPABILITIES
from twopipes._protocol.types import Implementation, ServerCapabilities
from twopipes._session.events import ClientOpened
from twopipes.errors import CapabilityMissing, LocalProtocolError

__all__ = ["ServerInfo", "Undeclared"]

Undeclared = Literal["empty", "raise"]
"""What to do about a list of something that the server did not declare: give an empty one, or raise ``CapabilityMissing``."""


class ServerInfo:
    """The part of a client that only tells."""

    def __init__(self, supervisor: Supervisor, noise: StrayReader, callbacks: Callbacks, undeclared: Undeclared) -> None:
        self._supervisor = supervisor
        self._noise = noise
        self._callbacks = callbacks
        self._undeclared = undeclared

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
        child = self._supervisor.child
        return None if child is None else child.pid

    @property
    def stderr(self) -> Sequence[str]:
        """The last lines that the server wrote to its stderr."""
        child = self._supervisor.child
        return () if child is None else child.stderr.lines()

    @property
    def stray(self) -> Sequence[StrayOutput]:
        """What the server wrote to its stdout that is no message: the first of it."""
        return tuple(self._noise.kept)

    @property
    def stray_count(self) -> int:
        """How much of that there was."""
        return self._noise.count

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many events were dropped because a callback was too slow for them, by its name: ``{"on_log": 12}``.

        How much may wait is ``Limits.max_backlog``. A subscription counts its own: :attr:`Subscription.dropped`.
        """
        return dict(self._callbacks.dropped)

    @property
    def restarts(self) -> int:
        """How often the server was started again."""
        return self._supervisor.restarts

    @property
    def closed(self) -> ShutdownReport | None:
        """How the server was ended; ``None`` until it was."""
        return self._supervisor.report

    def _declares(self, method: str) -> bool:
        """Whether the server has declared what a request needs (LC-11)."""
        needed = NEEDED_CAPABILITIES.get(method)
        if needed is None or self.capabilities.allows(*needed):
            return True
        return method == "completion/complete" and self.revision == LEGACY[0]  # which has the method, and no capability for it

    def _may_send(self, method: str) -> bool:
        """Whether a request may be sent; where it may not, and that is an error to the user, it is raised (LC-11)."""
        if self._supervisor.is_closing or self._declares(method):  # a client that is closed says that, and nothing else
            return True
        if self._undeclared == "raise":
            self._require(method)
        return False

    def _require(self, method: str) -> None:
        """Refuse a request that the server has not declared and that has no empty result."""
        if not (self._supervisor.is_closing or self._declares(method)):
            name = ".".join(NEEDED_CAPABILITIES[method])
            raise CapabilityMissing(
                {NEEDED_CAPABILITIES[method][0]: {}},
                message=f"{method} needs the capability {name}, which the server did not declare; nothing was sent. "
                f"If it serves {method} all the same, use request()",
            )

    @property
    def _opened(self) -> ClientOpened:
        reached = self._supervisor.reached
        if reached is None:  # pragma: no cover - connect() hands out no other
            raise LocalProtocolError("the client is not connected")
        return reached.opened
