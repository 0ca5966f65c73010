"""Two ledgers: the requests that this side sent, and those that it received.

A request is in its ledger from the moment it is sent or received until it is answered, cancelled, expired or lost. Each of these
removes it in one place. Ending a request that is no longer in the ledger has no effect: this makes late responses, unexpected
responses and races between a cancellation and a response harmless (JR-19, CA-07).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from twopipes._protocol.dialect import Dialect
from twopipes._protocol.revisions import META_PROGRESS_TOKEN
from twopipes._protocol.types import ClientCapabilities, Implementation, LoggingLevel
from twopipes.errors import ConnectionLost, InvalidRequest, RequestId

Limit = Literal["idle", "total"]
_LIMITS: tuple[Limit, ...] = ("idle", "total")


class SentRequest(Struct, eq=False):
    """A request that this side sent and that is, or was, waiting for its response. A retry starts from it."""

    id: RequestId  # also its progress token: unique among the open requests (PR-01)
    method: str
    params: Any  # before they were adapted to the revision
    sent_at: float
    idle: float | None  # seconds without progress before it expires
    total: float | None  # seconds before it expires in any case (TO-03)
    cancellable: bool = True  # whether the peer is notified when it is given up; never for initialize (LC-12)
    context: Any = None  # for the caller
    log_level: LoggingLevel | None = None
    extra_meta: Mapping[str, Any] | None = None
    round: int = 0  # how often the peer asked for input before this attempt
    raw: bool = False  # whether the result is returned as it was received
    wants_progress: bool = True
    client_meta: Mapping[str, Any] | None = None  # the client's part of _meta, if it is not the session's
    route: Any = None  # of the call that it belongs to, if it is not a question

    def __repr__(self) -> str:
        return f"<SentRequest {self.method} id={self.id!r}>"


class Outgoing(dict[RequestId, SentRequest]):
    """The sent requests by id, which is compared by value and JSON type (FR-14).

    Checking deadlines is independent of the number of open requests. Requests with the same limit expire in the order of their last
    activity, so there is one queue per limit in use, and only the first entry of each queue is examined.

    Attributes:
        last_id: The id of the last request. Set it before the first request to continue the ids of another connection.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last_id = 0
        self._is_closed = False
        self._queues: dict[tuple[Limit, float], OrderedDict[RequestId, float]] = {}

    def open(
        self,
        method: str,
        params: Any = None,
        *,
        now: float,
        idle: float | None = None,
        total: float | None = None,
        cancellable: bool = True,
        context: Any = None,
    ) -> SentRequest:
        """Add a new request under an id that this side has never used before (JR-04, JR-05), unless the connection is over."""
        self.last_id += 1
        if self._is_closed:
            raise ConnectionLost(method, self.last_id)
        asked = self[self.last_id] = SentRequest(self.last_id, method, params, now, idle, total, cancellable, context)
        self.restart(asked, now=now)
        return asked

    def settle(self, request_id: RequestId) -> SentRequest | None:
        """Remove a request that was answered, cancelled or given up. Return ``None`` if it is not open (JR-19, CA-06)."""
        asked = self.pop(request_id, None)
        if asked is not None:
            self._dequeue(asked)
        return asked

    def record_progress(self, token: RequestId, *, now: float) -> SentRequest | None:
        """Restart the idle limit, but not the total limit, because progress arrived (TO-03)."""
        asked = self.get(token)
        if asked is not None:
            self.restart(asked, ("idle",), now=now)
        return asked

    def restart(self, asked: SentRequest, limits: Sequence[Limit] = _LIMITS, *, now: float) -> None:
        """Restart limits of an open request."""
        for limit in limits:
            seconds = getattr(asked, limit)
            if seconds is not None and asked.id in self:
                queue = self._queues.setdefault((limit, seconds), OrderedDict())
                queue[asked.id] = now + seconds
                queue.move_to_end(asked.id)

    def remove_limits(self, asked: SentRequest) -> None:
        """Remove the limits of an open request: an acknowledged subscription may stay silent (TO-04)."""
        self._dequeue(asked)
        asked.idle = asked.total = None

    def next_deadline(self) -> float | None:
        """The earliest time at which :meth:`expire` has something to do."""
        earliest: float | None = None
        for queue in self._queues.values():
            deadline = next(iter(queue.values()))
            if earliest is None or deadline < earliest:
                earliest = deadline
        return earliest

    def expire(self, *, now: float) -> list[tuple[SentRequest, Limit]]:
        """Remove the requests that are past a limit, the longest overdue first."""
        overdue: list[tuple[float, RequestId, Limit]] = []
        for (limit, _), queue in self._queues.items():
            for request_id, deadline in queue.items():
                if deadline > now:
                    break
                overdue.append((deadline, request_id, limit))
        overdue.sort(key=lambda entry: entry[0])
        # A request can be past both of its limits; it is removed once, for the limit that came first.
        return [(asked, limit) for _, request_id, limit in overdue if (asked := self.settle(request_id)) is not None]

    def close(self) -> list[SentRequest]:
        """Remove all requests, because the connection is over; return them in the order they were sent."""
        self._is_closed = True
        lost = list(self.values())
        self.clear()
        self._queues.clear()
        return lost

    def _dequeue(self, asked: SentRequest) -> None:
        for limit in _LIMITS:
            seconds = getattr(asked, limit)
            if seconds is not None:
                queue = self._queues[limit, seconds]
                del queue[asked.id]
                if not queue:
                    del self._queues[limit, seconds]


class Route:
    """Where the messages that belong to a request go, if each request has its own stream, as over HTTP.

    Attributes:
        principal: The name of the caller, if it is known. The state of questions belongs to it.
        identity: The caller, for the handler; not used here.
    """

    principal: str = ""
    identity: Any = None

    def identify(self, identity: Any) -> None:
        """Set the caller, an object with a ``subject``, or ``None``."""
        if identity is not None:
            self.identity, self.principal = identity, identity.subject


class Call(Struct, eq=False):
    """A request of the peer.

    Attributes:
        id: The id for the response, exactly as received.
        method: Its method.
        params: The typed params of the method.
        dialect: The revision of the request and its response.
        capabilities: What the client declared for this request (ST-01): in the handshake, or in the request itself.
        client_info: The client's name and version, for logs only (VN-14).
        log_level: The lowest level of log messages that the request asks for; ``None`` for no messages (LG-05).
        progress_token: The token for progress notifications; ``None`` if none are wanted (PR-02).
        batch: The batch it is part of, if any.
        route: Where its response and its notifications go; ``None`` on a byte stream.
        key: Its key in the ledger, once it is in there.
        answers: The client's answers to the questions of this call so far; see :mod:`twopipes._session.input_rounds`.
        dialogue: The name of its rounds of questions.
        rounds: How often it has asked.
        context: For the handler; not used here.
        raw_params: The params as received, in a transparent session; ``None`` if there were none.
    """

    id: RequestId
    method: str
    params: Any
    dialect: Dialect
    capabilities: ClientCapabilities
    client_info: Implementation | None = None
    log_level: LoggingLevel | None = None
    progress_token: RequestId | None = None
    batch: Any = None
    route: Route | None = None
    key: Any = None
    answers: dict[str, Any] = {}
    dialogue: str = ""
    rounds: int = 0
    context: Any = None
    raw_params: Raw | None = None
    _progress: float | None = None

    def __repr__(self) -> str:
        return f"<Call {self.method} id={self.id!r} {self.dialect.revision}>"

    def advances_to(self, progress: float) -> bool:
        """Whether this progress may be reported: it must increase (PR-03) and be a number in JSON."""
        if not is_number(progress) or (self._progress is not None and progress <= self._progress):
            return False
        self._progress = progress
        return True

    def continue_as(self, retry: Call) -> None:
        """Continue under the id of the retried request, with its token, level and capabilities (MR-08, ST-01)."""
        self.id = retry.id
        self.params = retry.params
        self.capabilities = retry.capabilities
        self.client_info = retry.client_info
        self.log_level = retry.log_level
        self.progress_token = retry.progress_token
        self.route = retry.route
        self.answers = retry.answers
        self.raw_params = retry.raw_params
        self._progress = None


def is_number(value: float) -> bool:
    """Whether JSON can represent the number. ``math.isfinite`` would reject integers too large for a float."""
    return -math.inf < value < math.inf


def progress_token(meta: Mapping[str, Any]) -> RequestId | None:
    """Return the progress token of a request, or ``None``. Zero and strings are valid tokens (PR-01)."""
    token = meta.get(META_PROGRESS_TOKEN)
    # MT-06: a malformed token disables progress but not the request. A bool is an int in Python, but not a token.
    return token if isinstance(token, (str, int)) and not isinstance(token, bool) else None


class _MetaOnly(Struct, rename={"meta": "_meta"}):
    """The one member that every params object may have."""

    meta: dict[str, Any] | None = None


_decode_meta = Decoder(_MetaOnly).decode


def read_meta(raw: Raw | None) -> Mapping[str, Any]:
    """Return the ``_meta`` of params that are not known otherwise; empty if it is absent or malformed."""
    try:
        return {} if raw is None else _decode_meta(raw).meta or {}
    except (DecodeError, RecursionError):
        return {}


class Incoming(dict[Any, Call]):
    """The received requests by id. A call can be answered only while it is in here; there is one call per id.

    A cancellation removes a call by its id: ``7`` does not cancel ``"7"`` (CA-13), and unknown ids are ignored (CA-05).

    Where one session serves many clients, ids may collide. There the route is the key (``by_route``), with one call per route.
    """

    def __init__(self, *, max_open: int | None = None, by_route: bool = False) -> None:
        super().__init__()
        self._max_open = max_open
        self._by_route = by_route

    def is_open(self, call: Call) -> bool:
        """Whether a response or a notification for this call may still be sent."""
        # By identity: its id may have been freed by a cancellation and reused since.
        return self.get(call.key) is call

    def begin(self, call: Call) -> None:
        """Add a request of the peer, unless too many are open."""
        if self._max_open is not None and len(self) >= self._max_open:
            raise InvalidRequest(f"{len(self):,} requests are open already; wait for responses before sending more")
        call.key = call.route if self._by_route else call.id
        self[call.key] = call

    def finish(self, call: Call) -> bool:
        """Remove a call to answer it. Return False if it is no longer open: then nothing may be sent (CA-04)."""
        if self.get(call.key) is not call:
            return False
        del self[call.key]
        return True
