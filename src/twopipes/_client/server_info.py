"""The properties of a client that describe its server; the async and the blocking client share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from twopipes._client.stray_output import StrayOutput
from twopipes._client.supervisor import Supervisor
from twopipes._process.child import Child
from twopipes._process.shutdown import ShutdownReport
from twopipes._protocol.types import Implementation, ServerCapabilities


class ServerInfo:
    """What a client knows about its server."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    @property
    def era(self) -> Literal["legacy", "modern"]:
        """The protocol era of this connection."""
        return self._supervisor.opened.era

    @property
    def revision(self) -> str:
        """The negotiated protocol revision, such as ``2025-11-25``."""
        return self._supervisor.opened.revision

    @property
    def server_info(self) -> Implementation | None:
        """Name and version as the server reports them. Do not base decisions on them (VN-14)."""
        return self._supervisor.opened.server_info

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declared."""
        return self._supervisor.opened.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's usage instructions for the model."""
        return self._supervisor.opened.instructions

    @property
    def pid(self) -> int | None:
        """The process id of the server, if this client launched it."""
        return None if self._child is None else self._child.pid

    @property
    def stderr(self) -> Sequence[str]:
        """The last lines that the server wrote to its stderr."""
        return () if self._child is None else self._child.stderr.lines()

    @property
    def stray(self) -> Sequence[StrayOutput]:
        """The first pieces of output on the server's stdout that were not messages."""
        return tuple(self._supervisor.stray.kept)

    @property
    def stray_count(self) -> int:
        """The number of such pieces in total."""
        return self._supervisor.stray.count

    @property
    def dropped(self) -> Mapping[str, int]:
        """The number of events dropped because a callback was too slow, by callback: ``{"on_log": 12}``.

        ``Limits.max_backlog`` sets how many may wait. A subscription has its own count: :attr:`Subscription.dropped`.
        """
        return dict(self._supervisor.callbacks.dropped)

    @property
    def restarts(self) -> int:
        """How often the server was restarted."""
        return self._supervisor.restarts

    @property
    def closed(self) -> ShutdownReport | None:
        """How the server was shut down; ``None`` before that."""
        return self._supervisor.report

    @property
    def _child(self) -> Child | None:
        handle = self._supervisor.handle
        return None if handle is None else handle.endpoint.child
