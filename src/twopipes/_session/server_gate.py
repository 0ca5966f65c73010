"""Validation of requests on the server: era, method and params are checked in a fixed order before a request is handled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import UNSET, Raw, Struct, ValidationError, convert

from twopipes._jsonrpc import Request, Response
from twopipes._protocol import types as t
from twopipes._protocol.dialect import Dialect, dialect
from twopipes._protocol.methods import KNOWN_METHODS, NEEDED_CAPABILITIES
from twopipes._protocol.params import AnsweringParams
from twopipes._protocol.revisions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_VERSION,
    is_modern,
)
from twopipes._session.base import BatchReply, Outbound, Session
from twopipes._session.eras import SERVER_MOVES, Kind, Move, Phase, kind_of
from twopipes._session.events import ServerOpened
from twopipes._session.identity import ServerProfile, info_in
from twopipes._session.ledger import Call, progress_token, read_meta
from twopipes._wire import encode_line
from twopipes.errors import InvalidParams, InvalidRequest, McpError, MethodNotFound, RequestId, UnsupportedRevision
from twopipes.settings import Limits

# Methods that the session can handle itself.
OWN_METHODS: Final = frozenset(
    (
        "initialize",
        "ping",
        "server/discover",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
    )
)


class Arrival(Struct, frozen=True):
    """A request, decoded as far as possible. ``params`` are ``None`` if they are invalid or the method is unknown.

    ``fault`` is what is wrong with the params; it is raised only after the earlier checks (ER-17).
    """

    request: Request
    meta: Mapping[str, Any]
    params: t.Params | None
    fault: InvalidParams | None
    batch: BatchReply | None


def read_request(request: Request, batch: BatchReply | None) -> Arrival:
    """Decode the params of a request into the types of its method."""
    raw: Raw | None = None if request.params is UNSET else request.params
    fault: InvalidParams | None = None
    for revision in (LATEST_MODERN, LATEST_LEGACY):  # the types are the same in all revisions; these two know every method
        try:
            params = dialect(revision).read_params(request.method, raw)
        except MethodNotFound:
            continue
        except InvalidParams as error:
            fault = error
            break
        return Arrival(request, params.meta or {}, params, None, batch)
    return Arrival(request, read_meta(raw), None, fault, batch)


class ServerGate(Session):
    """The part of a server session that validates requests: era, method, params."""

    def __init__(self, profile: ServerProfile, *, limits: Limits, delegates: bool = False, transparent: bool = False) -> None:
        super().__init__(limits=limits)
        self.profile = profile
        self._delegates = delegates
        self._transparent = transparent
        self.phase = Phase.FRESH
        self.log_level: t.LoggingLevel = "info"  # LG-03: the server's own choice until the client makes one
        self._eras = profile.eras
        self.client_capabilities = t.ClientCapabilities()
        self._client_info: t.Implementation | None = None
        # The capabilities sent in the handshake; the profile may have changed since.
        self._declared = t.ServerCapabilities()
        # LC-06: requests that must wait for notifications/initialized.
        self._held: dict[RequestId, Outbound] = {}

    @abstractmethod
    def _serve(self, call: Call, now: float) -> None:
        """Handle a valid call."""

    def _on_request(self, request: Request, now: float, batch: BatchReply | None) -> None:
        arrival = read_request(request, batch)
        kind = kind_of(request.method, arrival.meta)
        move = SERVER_MOVES[self._eras, self.phase, kind]
        spoken = self.session_dialect
        if move is Move.SERVE_MODERN or spoken is None:
            modern = kind is Kind.MODERN or self._eras == "modern"
            spoken = dialect(LATEST_MODERN if modern else LATEST_LEGACY)
        try:
            if request.id in self.incoming:
                # A response with that id would be taken for the response to the open request, so this error has no id.
                raise InvalidRequest(f"the id {request.id!r} belongs to a request that is still open; use a new id")
            self._make_move(move, arrival, spoken, now)
        except McpError as error:
            self._send_error(request.id, spoken.write_error(error), batch)

    def _respond_now(self, arrival: Arrival, result: t.Result) -> None:
        """Respond to a request that does not become a call."""
        line = encode_line(Response(arrival.request.id, result))
        self._send_response(Outbound(line, self._route), arrival.batch, size=len(line))

    def _make_move(self, move: Move, arrival: Arrival, spoken: Dialect, now: float) -> None:
        request = arrival.request
        match move:
            case Move.SERVE_MODERN:
                self._serve(self._modern_call(arrival), now)
            case Move.SERVE_LEGACY:
                self._check(arrival, spoken)
                self._serve(self._session_call(arrival, spoken), now)
            case Move.ANSWER_PING if self._delegates:
                self._serve(self._session_call(arrival, spoken), now)
            case Move.ANSWER_PING:
                self._respond_now(arrival, t.EmptyResult())
            case Move.OPEN_SESSION:
                self._open_session(arrival, now)
            case Move.REFUSE_SECOND:
                raise InvalidRequest("this connection already has a session; send initialize only once")
            case Move.REFUSE_EARLY:
                raise InvalidRequest(f"{request.method} was sent before initialize; send initialize first")
            case Move.REFUSE_BARE:
                handshake = ", or an initialize before it" if self._eras == "both" else ""
                raise InvalidParams(f"{request.method} needs params._meta with {META_VERSION} and {META_CAPABILITIES}{handshake}")
            case Move.REFUSE_HANDSHAKE:
                versions = self.profile.supported_versions
                message = f"initialize is not supported; send requests with version {', '.join(versions)} in params._meta"
                raise UnsupportedRevision(getattr(arrival.params, "protocol_version", ""), versions, message=message)

    def _modern_call(self, arrival: Arrival) -> Call:
        """Validate a modern request by what it carries (ST-01, VN-13), in the order of ER-17."""
        if arrival.batch is not None:
            raise InvalidRequest("a modern request must not be part of a batch")  # JR-15
        meta = arrival.meta
        version = meta.get(META_VERSION)
        declared = meta.get(META_CAPABILITIES)
        if not isinstance(version, str):
            raise InvalidParams(f"params._meta needs {META_VERSION}, a string")  # VN-02
        if not isinstance(declared, dict):
            raise InvalidParams(f"params._meta needs {META_CAPABILITIES}, an object")
        if version not in self.profile.revisions or not (spoken := dialect(version)).modern:
            raise UnsupportedRevision(version, self.profile.supported_versions)  # VN-04, DE-14
        self._check(arrival, spoken)
        level = meta.get(META_LOG_LEVEL)
        if level is not None and level not in t.LOGGING_LEVELS:
            raise InvalidParams(f"{META_LOG_LEVEL} must be one of {', '.join(t.LOGGING_LEVELS)}, not {level!r}")  # LG-08
        try:
            capabilities = convert(declared, t.ClientCapabilities)
        except ValidationError as error:
            raise InvalidParams(f"{META_CAPABILITIES} is invalid: {error}") from None
        return Call(
            arrival.request.id,
            arrival.request.method,
            AnsweringParams(meta=dict(meta)) if arrival.params is None else arrival.params,  # only in a transparent session
            spoken,
            capabilities,
            info_in(meta, META_CLIENT_INFO),
            cast("t.LoggingLevel | None", level),
            progress_token(meta),
            route=self._route,
            raw_params=self._kept_params(arrival),
        )

    def _session_call(self, arrival: Arrival, spoken: Dialect) -> Call:
        return Call(
            arrival.request.id,
            arrival.request.method,
            t.EmptyParams() if arrival.params is None else arrival.params,  # a ping gets a response whatever its params are
            spoken,
            self.client_capabilities,
            self._client_info,
            self.log_level,
            progress_token(arrival.meta),
            arrival.batch,
            route=self._route,
            raw_params=self._kept_params(arrival),
        )

    def _kept_params(self, arrival: Arrival) -> Raw | None:
        """The params as received, for a transparent session. Others do not keep the line in memory."""
        if not self._transparent or arrival.request.params is UNSET:
            return None
        return cast("Raw", arrival.request.params)

    def _check(self, arrival: Arrival, spoken: Dialect) -> None:
        """The checks that both eras share: the method exists (ER-03), its params are valid (ER-04)."""
        method = arrival.request.method
        if self._transparent and method not in OWN_METHODS and (method not in KNOWN_METHODS or method in spoken.served):
            return  # the server behind this one decides
        needed = NEEDED_CAPABILITIES.get(method)
        if arrival.fault is None and arrival.params is None:
            raise MethodNotFound(f"unknown method {method}")
        # What the server behind a transparent session declares is known only when it has been opened.
        is_missing = needed and not self._transparent and not self.profile.capabilities.allows(*needed)
        if method not in spoken.served or is_missing:
            raise MethodNotFound(f"this server does not support {method} in revision {spoken.revision}")
        if arrival.fault is not None:
            raise arrival.fault

    def _open_session(self, arrival: Arrival, now: float) -> None:
        if arrival.fault is not None:
            raise arrival.fault  # LC-02, CON-08: the only case in which a handshake fails
        opening = cast("t.InitializeParams", arrival.params)
        legacy = [revision for revision in self.profile.revisions if not is_modern(revision)]
        # LC-08: the requested revision if supported. LC-09, LC-16: else the newest, as a result and not as an error.
        spoken = dialect(opening.protocol_version if opening.protocol_version in legacy else max(legacy))
        self.client_capabilities = opening.capabilities
        self._client_info = opening.client_info
        if self._delegates:
            self._serve(self._session_call(arrival, spoken), now)
        else:
            self._respond_now(arrival, spoken.fit(self._introduction(spoken)))
        # At once, even if the response is sent later: the next message in the same read belongs to the session already.
        self.session_dialect = spoken
        self.phase = Phase.OPENING

    def _introduction(self, spoken: Dialect) -> t.InitializeResult:
        """Return the result of ``initialize`` for the current profile."""
        profile = self.profile
        self._declared = profile.capabilities
        return t.InitializeResult(
            protocol_version=spoken.revision,
            capabilities=profile.capabilities,
            server_info=profile.info,
            instructions=profile.instructions,
        )

    def _close_session(self) -> None:
        """Discard the session of a handshake that was refused after all; the client may try again."""
        self.session_dialect = None
        self.client_capabilities = t.ClientCapabilities()
        self._client_info = None
        self.phase = Phase.FRESH

    def _on_initialized(self) -> None:
        if self.phase is not Phase.OPENING or self.session_dialect is None or self._client_info is None:
            return
        self.phase = Phase.OPEN
        self.outbox += self._held.values()
        self._held.clear()
        self._events.append(ServerOpened(self.session_dialect.revision, self._client_info, self.client_capabilities))
