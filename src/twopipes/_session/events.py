"""The events that a session returns to its driver. A driver may ignore any event it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct

from twopipes._protocol.types import (
    ClientCapabilities,
    Implementation,
    ProgressParams,
    ServerCapabilities,
    SubscriptionFilter,
)
from twopipes._session.ledger import Call, SentRequest
from twopipes._wire import LineRejected
from twopipes.errors import McpError, RequestId, TwopipesError


class CallReceived(Struct, frozen=True):
    """The peer sent a request. The driver must answer it with ``respond`` or ``fail``."""

    call: Call


class SessionCallReceived(Struct, frozen=True):
    """A server session with ``delegates=True`` received a request that it can ``perform``, or ``listen`` to, itself."""

    call: Call


class CallCancelled(Struct, frozen=True):
    """The peer cancelled its request. Stop working on it; a response is not sent any more (CA-03, CA-04)."""

    call: Call
    reason: str | None = None


class CallAbandoned(Struct, frozen=True):
    """A handler waits for input that will not arrive: too late, too many handlers waiting, or the connection ended (MR-18)."""

    call: Call


class InputsAnswered(Struct, frozen=True):
    """The client answered the questions of a handler. Each value is a result, or an error if the client could not answer."""

    call: Call
    answers: Mapping[str, Any]


class RequestEnded(Struct, frozen=True):
    """A request of this side has ended: with a result, with an error of the peer, or without a response (timeout, loss)."""

    asked: SentRequest
    result: Any = None
    error: TwopipesError | None = None


class ProgressReceived(Struct, frozen=True):
    """The peer reported progress of a request of this side. ``size`` is the length of the notification in bytes.

    ``raw`` has the params as received.
    """

    asked: SentRequest
    params: ProgressParams
    size: int = 0
    raw: Any = None


class NotificationReceived(Struct, frozen=True):
    """A notification that the session itself does not handle. ``size`` is its length in bytes.

    ``params`` are raw, or ``UNSET``, if the method is unknown. ``raw`` always has them as received.
    """

    method: str
    params: Any
    size: int = 0
    raw: Any = UNSET


class PeerReportedError(Struct, frozen=True):
    """The peer sent an error without an id: it could not read something that this side sent."""

    error: McpError


class RequestIgnored(Struct, frozen=True):
    """A modern server sent a request, which it must not do. The client does not respond (FR-10)."""

    method: str
    request_id: RequestId


class PeerClosed(Struct, frozen=True):
    """The peer closed its side of the connection: no more messages will arrive."""


class ServerOpened(Struct, frozen=True):
    """On the server: a legacy client has completed its handshake."""

    revision: str
    client_info: Implementation
    capabilities: ClientCapabilities


class ClientOpened(Struct, frozen=True):
    """On the client: both sides have agreed on a revision, and requests may be sent."""

    era: Literal["legacy", "modern"]
    revision: str
    capabilities: ServerCapabilities
    server_info: Implementation | None = None
    instructions: str | None = None
    raw: Raw | None = None  # the result of the opening request as received


class OpeningEnded(Struct, frozen=True):
    """On the client: there is no agreement. With ``respawn``, a new process opened as a legacy server may succeed (DE-06)."""

    error: TwopipesError
    respawn: bool = False


class ListenAcknowledged(Struct, frozen=True):
    """On the client: a subscription is active; ``honoured`` is what the server will deliver (SU-07)."""

    asked: SentRequest
    honoured: SubscriptionFilter


class ListenNotified(Struct, frozen=True):
    """On the client: a notification of one subscription (SU-08)."""

    asked: SentRequest
    method: str
    params: Any


class ListenEnded(Struct, frozen=True):
    """On the client: a subscription has ended. Reported once (SU-15); ``error`` is ``None`` if the server ended it."""

    asked: SentRequest
    error: TwopipesError | None = None


Event = (
    CallReceived
    | SessionCallReceived
    | CallCancelled
    | CallAbandoned
    | InputsAnswered
    | RequestEnded
    | ProgressReceived
    | NotificationReceived
    | PeerReportedError
    | RequestIgnored
    | PeerClosed
    | ServerOpened
    | ClientOpened
    | OpeningEnded
    | ListenAcknowledged
    | ListenNotified
    | ListenEnded
    | LineRejected
)
