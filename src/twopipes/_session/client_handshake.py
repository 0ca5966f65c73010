"""How a client finds out what a server speaks: a walk through :data:`~twopipes._session.eras.CLIENT_MOVES`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

from msgspec import ValidationError, convert

from twopipes import _jsonrpc as jsonrpc
from twopipes._jsonrpc import ErrorResponse, Request, Response
from twopipes._protocol.dialect import Dialect, dialect
from twopipes._protocol.revisions import META_SERVER_INFO, is_modern
from twopipes._protocol.types import (
    DiscoverResult,
    EmptyParams,
    Implementation,
    InitializeParams,
    InitializeResult,
    Result,
    ServerCapabilities,
)
from twopipes._session.base import Session
from twopipes._session.eras import CLIENT_MOVES, ClientPhase, Eras, Reply, versions_offered
from twopipes._session.events import ClientOpened, OpeningEnded
from twopipes._session.identity import ClientProfile
from twopipes._session.ledger import Asked
from twopipes.errors import CapabilityMissing, LocalProtocolError, McpError, OpeningFailed, RemoteProtocolError, UnsupportedRevision
from twopipes.settings import Limits, Timeouts

__all__ = ["ClientOpening", "Probed"]

Probed = Literal["answered", "refused", "silent", "died", "skipped"]
"""What became of the probe. An answer is one that only a modern server gives; ``skipped`` means that there was none."""

_PROBED: Final[dict[Reply, Probed]] = {
    Reply.REFUSED: "refused",
    Reply.UNUSABLE: "refused",
    Reply.SILENCE: "silent",
    Reply.GONE: "died",
}


class ClientOpening(Session):
    """The part of a client's connection that ends with an agreement, or without one."""

    def __init__(self, profile: ClientProfile, *, timeouts: Timeouts, limits: Limits, skip_probe: bool) -> None:
        super().__init__(limits=limits)
        if skip_probe and profile.eras == "modern":
            raise LocalProtocolError(
                "without the probe there is only the handshake, and this client speaks no revision that has one"
            )
        self.profile = profile
        self.timeouts = timeouts
        self.phase = ClientPhase.CLOSED
        self.probed: Probed = "skipped"
        self.server_capabilities = ServerCapabilities()
        self._eras: Eras = "legacy" if skip_probe else profile.eras
        self._dialect: Dialect | None = None
        self._opening: Asked | None = None
        self._offered: Sequence[str] = ()

    @property
    def dialect(self) -> Dialect:
        """The dialect that the two sides agreed on.

        Raises:
            LocalProtocolError: They have not yet.
        """
        if self._dialect is None or self.phase not in {ClientPhase.MODERN, ClientPhase.LEGACY}:
            raise LocalProtocolError(f"the connection is not open: {self.phase.value}")
        return self._dialect

    @property
    def session_dialect(self) -> Dialect | None:
        """The dialect of a legacy session; ``None`` on the stateless wire and before the opening is over."""
        return self._dialect if self.phase is ClientPhase.LEGACY else None

    def open(self, *, now: float) -> None:
        """Sends the first request: the probe, or the handshake where there is nothing to find out (DE-01, LC-01).

        Raises:
            LocalProtocolError: It was opened before.
            OpeningFailed: The server is gone already.
        """
        if self.phase is not ClientPhase.CLOSED:
            raise LocalProtocolError(f"a connection is opened once; this one is: {self.phase.value}")
        if self._ended:
            raise OpeningFailed("the server left before the connection was opened")
        if self._eras == "legacy":
            self._send_initialize(now)
        else:
            self._send_discover(self.profile.newest_modern, now)
            self.phase = ClientPhase.PROBING

    def stirred(self, *, now: float) -> None:
        """The server gave a sign of life that is no message, such as a line on stderr: the patience of the probe starts again."""
        if self.phase is ClientPhase.PROBING and self._opening is not None:
            self.outgoing.restart(self._opening, now=now)

    def _send_discover(self, version: str, now: float) -> None:
        spoken = self._dialect = dialect(version)
        # Whoever can fall back is impatient; whoever cannot gives the server all the time there is.
        can_fall_back = self._eras == "both" and self.phase is not ClientPhase.RECONSIDERING
        limit = self.timeouts.probe if can_fall_back else self.timeouts.connect
        # Given up without a word: a legacy server need not know what a cancelled discover is.
        asked = self._opening = self.outgoing.open("server/discover", now=now, total=limit, cancellable=False)
        meta = spoken.request_meta(client_info=self.profile.info, capabilities=self.profile.capabilities)
        self._emit(jsonrpc.encode(Request(asked.id, asked.method, EmptyParams(meta=meta))))

    def _send_initialize(self, now: float) -> None:
        version = self.profile.newest_legacy
        spoken = self._dialect = dialect(version)
        asked = self._opening = self.outgoing.open("initialize", now=now, total=self.timeouts.connect, cancellable=False)
        params = InitializeParams(protocol_version=version, capabilities=self.profile.capabilities, client_info=self.profile.info)
        self._emit(jsonrpc.encode(Request(asked.id, asked.method, spoken.fit(params))))
        self.phase = ClientPhase.INITIALIZING

    def _on_opening_answer(self, asked: Asked, answer: Response | ErrorResponse, now: float) -> None:
        spoken = cast("Dialect", self._dialect)
        if isinstance(answer, ErrorResponse):
            self._on_opening_error(spoken.read_error(answer.error, method=asked.method), now)
            return
        try:
            result = spoken.read_result(asked.method, answer.result)
        except RemoteProtocolError as error:
            self._move(Reply.UNUSABLE, f"the server's answer to {asked.method} makes no sense: {error.what}", now)
            return
        if isinstance(result, DiscoverResult):
            self._on_discovered(result, now)
        else:
            self._on_initialized(cast("InitializeResult", result), now)

    def _on_opening_error(self, error: McpError, now: float) -> None:
        method = cast("Asked", self._opening).method
        # CON-17: two errors prove a modern server, each by the data that only such a server sends.
        if isinstance(error, UnsupportedRevision) and method == "server/discover":
            self._offered = error.supported
            reply, version = versions_offered(error.supported, spoken=self._spoken_here())
            self._move(reply, "the server speaks none of our versions", now, version)
        elif isinstance(error, CapabilityMissing) and method == "server/discover":
            self._move(Reply.NEEDS_CAPABILITY, f"the server wants a client that can do more: {error}", now)
        else:
            why = f"the server answered {method} with an error: {error}"
            if method == "initialize":
                self._offered = _supported(error)  # DE-09
                reply, version = versions_offered(self._offered, spoken=self._spoken_here())
                if reply is Reply.OTHER_VERSION:
                    self._move(reply, why, now, version)
                    return
            self._move(Reply.REFUSED, why, now)

    def _on_discovered(self, result: DiscoverResult, now: float) -> None:
        self._offered = result.supported_versions
        reply, version = versions_offered(result.supported_versions, spoken=self._spoken_here())
        if version is None:
            self._move(reply, "the server speaks none of our versions", now)
            return
        self._dialect = dialect(version)
        info = _server_info(result)
        self._move(Reply.DISCOVERED, "", now)
        self._opened(result.capabilities, info, result.instructions)

    def _on_initialized(self, result: InitializeResult, now: float) -> None:
        version = result.protocol_version
        if version not in self.profile.revisions or is_modern(version):
            self._offered = (version,)
            self._move(Reply.STRANGE_VERSION, f"the server chose version {version!r}, which is not spoken here", now)
            return
        self._dialect = dialect(version)
        self._move(Reply.INITIALIZED, "", now)
        self._notify("notifications/initialized")  # LC-04
        self._opened(result.capabilities, result.server_info, result.instructions)

    def _opened(self, capabilities: ServerCapabilities, info: Implementation | None, instructions: str | None) -> None:
        self._opening = None
        self.server_capabilities = capabilities
        self._events.append(
            ClientOpened(
                "modern" if self.phase is ClientPhase.MODERN else "legacy",
                self.dialect.revision,
                capabilities,
                info,
                instructions,
            )
        )

    def _spoken_here(self) -> Sequence[str]:
        """The versions that may be chosen: a client of one era does not speak the other's."""
        if self._eras == "both":
            return self.profile.revisions
        return [revision for revision in self.profile.revisions if is_modern(revision) == (self._eras == "modern")]

    def _move(self, reply: Reply, why: str, now: float, version: str | None = None) -> None:
        """Goes where the table says, and does what is to be done there."""
        phase = CLIENT_MOVES[self.phase, reply]
        if self.phase is ClientPhase.PROBING:
            self.probed = _PROBED.get(reply, "answered")
        if self._eras == "modern" and phase in {ClientPhase.INITIALIZING, ClientPhase.RESPAWN}:
            phase = ClientPhase.FAILED  # DE-08: nothing to fall back to
            why = f"this looks like a server of the handshake era, and only {self.profile.newest_modern} is spoken here: {why}"
        if phase is ClientPhase.INITIALIZING:
            self._send_initialize(now)
            return
        self.phase = phase
        if phase in {ClientPhase.RETRYING, ClientPhase.RECONSIDERING}:
            self._send_discover(cast("str", version), now)
        elif phase in {ClientPhase.FAILED, ClientPhase.RESPAWN}:
            self._opening = None
            respawn = phase is ClientPhase.RESPAWN
            self._events.append(OpeningEnded(OpeningFailed(why, offered=self._offered), respawn=respawn))


def _server_info(result: Result) -> Implementation | None:
    try:
        return convert((result.meta or {}).get(META_SERVER_INFO), Implementation | None)
    except ValidationError:
        return None


def _supported(error: McpError) -> Sequence[str]:
    """The versions that a refused handshake names, where it does; the code is left open (DE-09, CON-08)."""
    named = error.data.get("supported") if isinstance(error.data, Mapping) else None
    return tuple(each for each in named if isinstance(each, str)) if isinstance(named, list) else ()
