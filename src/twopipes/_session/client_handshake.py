"""The opening of a client connection: find out what the server speaks, by :data:`~twopipes._session.eras.CLIENT_MOVES`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

from msgspec import Raw, structs

from twopipes._jsonrpc import ErrorResponse, Request, Response
from twopipes._protocol import types as t
from twopipes._protocol.dialect import Dialect, dialect
from twopipes._protocol.revisions import META_SERVER_INFO, is_modern
from twopipes._session.base import Outbound, Session
from twopipes._session.eras import CLIENT_MOVES, ClientPhase, Eras, Reply, versions_offered
from twopipes._session.events import ClientOpened, OpeningEnded
from twopipes._session.identity import ClientProfile, info_in
from twopipes._session.ledger import SentRequest
from twopipes._wire import encode_line
from twopipes.errors import CapabilityMissing, LocalProtocolError, McpError, OpeningFailed, RemoteProtocolError, UnsupportedRevision
from twopipes.settings import Limits, Timeouts

Probed = Literal["answered", "refused", "silent", "died", "skipped"]
"""The outcome of the probe. ``answered``: as only a modern server answers; ``skipped``: no probe was sent."""

_PROBED: Final[dict[Reply, Probed]] = {
    Reply.REFUSED: "refused",
    Reply.UNUSABLE: "refused",
    Reply.SILENCE: "silent",
    Reply.GONE: "died",
}


class ClientOpening(Session):
    """The part of a client session that ends with an agreement on a revision, or fails."""

    def __init__(self, profile: ClientProfile, *, timeouts: Timeouts, limits: Limits, skip_probe: bool) -> None:
        super().__init__(limits=limits)
        if skip_probe and profile.eras == "modern":
            raise LocalProtocolError("skip_probe needs a client with a legacy revision, because only those have a handshake")
        self.profile = profile
        self.timeouts = timeouts
        self.phase = ClientPhase.CLOSED
        self.probed: Probed = "skipped"
        self.server_capabilities = t.ServerCapabilities()
        self._eras: Eras = "legacy" if skip_probe else profile.eras
        self._dialect: Dialect | None = None
        self._meta: Mapping[str, Any] = {}  # the part of _meta that is the same in every request
        self._opening: SentRequest | None = None
        self._offered: Sequence[str] = ()

    @property
    def dialect(self) -> Dialect:
        """The dialect that both sides agreed on. It is an error to use it before the connection is open."""
        if self._dialect is None or self.phase not in {ClientPhase.MODERN, ClientPhase.LEGACY}:
            raise LocalProtocolError(f"the connection is not open: {self.phase.value}")
        return self._dialect

    @property
    def spoken(self) -> Dialect | None:
        """The dialect of the last request, also during the opening; ``None`` before it."""
        return self._dialect

    def open(self, *, now: float) -> None:
        """Send the first request: the probe, or the handshake if the era is known (DE-01, LC-01).

        Raises:
            LocalProtocolError: The connection was opened before.
            OpeningFailed: The server is gone already.
        """
        if self.phase is not ClientPhase.CLOSED:
            raise LocalProtocolError(f"a connection can be opened only once; its state is: {self.phase.value}")
        if self._ended:
            raise OpeningFailed("the server exited before the connection was opened")
        if self._eras == "legacy":
            self._send_initialize(now)
        else:
            self._send_discover(self.profile.newest_modern, now)
            self.phase = ClientPhase.PROBING

    def note_activity(self, *, now: float) -> None:
        """Restart the time limit of the probe, because the server is alive: it wrote to stderr, for example."""
        if self.phase is ClientPhase.PROBING and self._opening is not None:
            self.outgoing.restart(self._opening, now=now)

    def _send_discover(self, version: str, now: float) -> None:
        self._speak(version)
        # With a fallback the limit is short; without one the server gets all the time there is.
        can_fall_back = self._eras == "both" and self.phase is not ClientPhase.RECONSIDERING
        limit = self.timeouts.probe if can_fall_back else self.timeouts.connect
        # Not cancellable: a legacy server need not know what a cancelled discover is.
        asked = self._opening = self.outgoing.open("server/discover", now=now, total=limit, cancellable=False)
        self.outbox.append(Outbound(encode_line(Request(asked.id, asked.method, t.EmptyParams(meta=dict(self._meta)))), asked))

    def _send_initialize(self, now: float) -> None:
        version = self.profile.newest_legacy
        spoken = self._speak(version)
        asked = self._opening = self.outgoing.open("initialize", now=now, total=self.timeouts.connect, cancellable=False)
        params = t.InitializeParams(protocol_version=version, capabilities=self.profile.capabilities, client_info=self.profile.info)
        fitted = spoken.fit(params)
        if self.profile.transparent:  # no legacy revision has extensions, but hosts and servers use them there (SEP-2133)
            declared = structs.replace(fitted.capabilities, extensions=self.profile.capabilities.extensions)
            fitted = structs.replace(fitted, capabilities=declared)
        self.outbox.append(Outbound(encode_line(Request(asked.id, asked.method, fitted)), asked))
        self.phase = ClientPhase.INITIALIZING

    def _speak(self, version: str) -> Dialect:
        spoken = dialect(version)
        if spoken is not self._dialect:
            self._dialect = spoken
            self._meta = spoken.client_meta(self.profile.info, self.profile.capabilities)
        return spoken

    def _on_opening_response(self, asked: SentRequest, response: Response | ErrorResponse, now: float) -> None:
        spoken = cast("Dialect", self._dialect)
        if isinstance(response, ErrorResponse):
            self._on_opening_error(spoken.read_error(response.error, method=asked.method), now)
            return
        try:
            result = spoken.read_result(asked.method, response.result)
        except RemoteProtocolError as error:
            self._move(Reply.UNUSABLE, f"the server's response to {asked.method} is invalid: {error.what}", now)
            return
        if isinstance(result, t.DiscoverResult):
            self._on_discovered(result, response.result, now)
        else:
            self._on_initialized(cast("t.InitializeResult", result), response.result, now)

    def _on_opening_error(self, error: McpError, now: float) -> None:
        method = cast("SentRequest", self._opening).method
        why = f"the server responded to {method} with an error: {error}"
        # CON-17: two errors prove a modern server, each by data that only such a server sends.
        if method == "server/discover" and isinstance(error, UnsupportedRevision):
            reply, version = self._choose(error.supported)
            self._move(reply, "the server supports none of our revisions", now, version)
        elif method == "server/discover" and isinstance(error, CapabilityMissing):
            self._move(Reply.NEEDS_CAPABILITY, f"the server needs a capability that this client lacks: {error}", now)
        elif method == "initialize" and (choice := self._choose(_supported(error)))[0] is Reply.OTHER_VERSION:  # DE-09
            self._move(Reply.OTHER_VERSION, why, now, choice[1])
        else:
            self._move(Reply.REFUSED, why, now)

    def _choose(self, offered: Sequence[str]) -> tuple[Reply, str | None]:
        """Classify the revisions of a server. A client of one era does not use those of the other."""
        self._offered = offered
        spoken = [each for each in self.profile.revisions if self._eras == "both" or is_modern(each) == (self._eras == "modern")]
        return versions_offered(offered, spoken=spoken)

    def _on_discovered(self, result: t.DiscoverResult, raw: Raw, now: float) -> None:
        reply, version = self._choose(result.supported_versions)
        if version is None:
            self._move(reply, "the server supports none of our revisions", now)
            return
        self._speak(version)
        self._move(Reply.DISCOVERED, "", now)
        self._opened(result.capabilities, info_in(result.meta, META_SERVER_INFO), result.instructions, raw)

    def _on_initialized(self, result: t.InitializeResult, raw: Raw, now: float) -> None:
        version = result.protocol_version
        if version not in self.profile.revisions or is_modern(version):
            self._offered = (version,)
            self._move(Reply.STRANGE_VERSION, f"the server chose revision {version!r}, which this client does not support", now)
            return
        self.session_dialect = self._speak(version)
        self._move(Reply.INITIALIZED, "", now)
        self._notify("notifications/initialized")  # LC-04
        self._opened(result.capabilities, result.server_info, result.instructions, raw)

    def _opened(
        self, capabilities: t.ServerCapabilities, info: t.Implementation | None, instructions: str | None, raw: Raw
    ) -> None:
        self._opening = None
        self.server_capabilities = capabilities
        era: Literal["legacy", "modern"] = "modern" if self.dialect.modern else "legacy"
        self._events.append(ClientOpened(era, self.dialect.revision, capabilities, info, instructions, raw.copy()))

    def _move(self, reply: Reply, why: str, now: float, version: str | None = None) -> None:
        """Move to the phase that the table gives, and act on it."""
        phase = CLIENT_MOVES[self.phase, reply]
        if self.phase is ClientPhase.PROBING:
            self.probed = _PROBED.get(reply, "answered")
        if self._eras == "modern" and phase in {ClientPhase.INITIALIZING, ClientPhase.RESPAWN}:
            phase = ClientPhase.FAILED  # DE-08: no fallback
            why = f"this looks like a legacy server, and this client supports only {self.profile.newest_modern}: {why}"
        if phase is ClientPhase.INITIALIZING:
            self._send_initialize(now)
            return
        self.phase = phase
        if phase in {ClientPhase.RETRYING, ClientPhase.RECONSIDERING}:
            self._send_discover(cast("str", version), now)
        elif phase in {ClientPhase.FAILED, ClientPhase.RESPAWN}:
            self._opening = None
            error = OpeningFailed(why, offered=self._offered)
            self._events.append(OpeningEnded(error, respawn=phase is ClientPhase.RESPAWN))


def _supported(error: McpError) -> Sequence[str]:
    """The revisions that a refused handshake names, if any; its error code is not fixed (DE-09, CON-08)."""
    named = error.data.get("supported") if isinstance(error.data, Mapping) else None
    return tuple(each for each in named if isinstance(each, str)) if isinstance(named, list) else ()
