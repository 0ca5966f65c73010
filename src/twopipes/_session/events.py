"""What a session tells its driver. Each event is one thing that happened; none of them has to be understood to be ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from twopipes._protocol.types import (
    ClientCapabilities,
    Implementation,
    ProgressParams,
    ServerCapabilities,
    SubscriptionFilter,
)
from twopipes._session.ledger import Asked, Call
from twopipes._wire import LineRejected
from twopipes.errors import McpError, OpeningFailed, RequestId, TwopipesError

__all__ = [
    "Answered",
    "CallAbandoned",
    "CallCancelled",
    "CallReceived",
    "ClientOpened",
    "Event",
    "InputsAnswered",
    "LineRejected",
    "ListenAcknowledged",
    "ListenEnded",
    "ListenNotified",
    "NotificationReceived",
    "OpeningEnded",
    "OwnCallReceived",
    "PeerComplained",
    "PeerLeft",
    "ProgressReceived",
    "RequestIgnored",
    "ServerOpened",
]


class CallReceived(Struct, frozen=True):
    """The peer asks; somebody must answer with ``respond`` or ``fail``."""

    call: Call


class OwnCallReceived(Struct, frozen=True):
    """On a server that delegates: the peer asks what the session itself can do.

    ``perform`` does it and gives the answer, or ``listen`` opens the subscription. ``respond`` or ``fail`` ends the call.
    """

    call: Call


class CallCancelled(Struct, frozen=True):
    """The peer no longer wants the answer. Stop working on it; whatever is still said about it is not sent (CA-03, CA-04)."""

    call: Call
    reason: str | None = None


class CallAbandoned(Struct, frozen=True):
    """A handler waits for answers that will not come to it: too late, too many waiting, or the connection ended (MR-18)."""

    call: Call


class InputsAnswered(Struct, frozen=True):
    """The client answered what a handler asked. A value is a result, or an error where the client could not answer."""

    call: Call
    answers: Mapping[str, Any]


class Answered(Struct, frozen=True):
    """A request of this side is over: with a result, with an error of the peer, or without an answer (timeout, loss)."""

    asked: Asked
    result: Any = None
    error: TwopipesError | None = None


class ProgressReceived(Struct, frozen=True):
    """The peer reports progress of a request of this side. ``size`` is what the notification took on the wire, in bytes."""

    asked: Asked
    params: ProgressParams
    size: int = 0


class NotificationReceived(Struct, frozen=True):
    """A notification that the session itself does not act on. ``size`` is what it took on the wire, in bytes."""

    method: str
    params: Any
    size: int = 0


class PeerComplained(Struct, frozen=True):
    """An error without an id: the peer could not read something that this side sent."""

    error: McpError


class RequestIgnored(Struct, frozen=True):
    """A modern server sent a request, which it must not; it stays unanswered (FR-10)."""

    method: str
    request_id: RequestId


class PeerLeft(Struct, frozen=True):
    """End of file: nothing more will come."""


class ServerOpened(Struct, frozen=True):
    """On the server: a legacy client finished its handshake."""

    revision: str
    client_info: Implementation
    capabilities: ClientCapabilities


class ClientOpened(Struct, frozen=True):
    """On the client: the two sides agree, and requests may be sent."""

    era: Literal["legacy", "modern"]
    revision: str
    capabilities: ServerCapabilities
    server_info: Implementation | None = None
    instructions: str | None = None


class OpeningEnded(Struct, frozen=True):
    """On the client: no agreement. With ``respawn`` a fresh process opened as a legacy one may still succeed (DE-06)."""

    error: OpeningFailed
    respawn: bool = False


class ListenAcknowledged(Struct, frozen=True):
    """On the client: a subscription is live; ``honoured`` is what the server will really deliver (SU-07)."""

    asked: Asked
    honoured: SubscriptionFilter


class ListenNotified(Struct, frozen=True):
    """On the client: something happened that this very subscription wanted to hear of (SU-08)."""

    asked: Asked
    method: str
    params: Any


class ListenEnded(Struct, frozen=True):
    """On the client: a subscription is over, told once whichever way it ended (SU-15); no ``error`` if the server ended it."""

    asked: Asked
    error: TwopipesError | None = None


Event = (
    CallReceived
    | OwnCallReceived
    | CallCancelled
    | CallAbandoned
    | InputsAnswered
    | Answered
    | ProgressReceived
    | NotificationReceived
    | PeerComplained
    | RequestIgnored
    | PeerLeft
    | ServerOpened
    | ClientOpened
    | OpeningEnded
    | ListenAcknowledged
    | ListenNotified
    | ListenEnded
    | LineRejected
)
