"""Two ledgers: the requests that this side sent, and those that it received.

A request is in its ledger from the moment it is sent or received until it is answered, cancelled, expired or lost. Each of these
removes it in one place. Ending a request that is no longer in the ledger has no effect: this makes late responses, unexpected
responses and races between a cancellation and a response harmless (JR-19, CA-07).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from twopipes._protocol.dialect import Dialect
from twopipes._protocol.revisions import META_PROGRESS_TOKEN
from twopipes._protocol.types import ClientCapabilities, Implementation, LoggingLevel
from twopipes.errors import InvalidRequest, RequestId

__all__ = ["Call", "Incoming", "Outgoing", "SentRequest", "is_number", "progress_token"]

Limit = Literal["idle", "total"]


class SentRequest:
    """A request that this side sent and that is, or was, waiting for its response.

    Attributes:
        id: Its id, which is also its progress token: unique among the open requests (PR-01).
        method: Its method.
        params: Its params before they were adapted to the revision; a retry starts from them.
        sent_at: When it was sent.
        idle: Seconds without progress before it expires. ``None`` for no limit.
        total: Seconds before it expires in any case (TO-03). ``None`` for no limit.
        cancellable: Whether the peer is notified when it is given up. Never for ``initialize`` (LC-12).
        round: How often the peer asked for input before this attempt.
        log_level: The lowest level of log messages requested with it; a retry requests the same.
        extra_meta: Additional keys of ``_meta``; a retry sends them again.
        context: For the caller; not used here.
    """

    __slots__ = (
        "cancellable",
        "context",
        "extra_meta",
        "id",
        "idle",
        "log_level",
        "method",
        "params",
        "round",
        "sent_at",
        "total",
    )

    def __init__(
        self,
        request_id: RequestId,
        method: str,
        params: Any,
        *,
        sent_at: float,
        idle: float | None,
        total: float | None,
        cancellable: bool = True,
        context: Any = None,
    ) -> None:
        self.id = request_id
        self.method = method
        self.params = params
        self.sent_at = sent_at
        self.idle = idle
        self.total = total
        self.cancellable = cancellable
        self.round = 0
        self.log_level: LoggingLevel | None = None
        self.extra_meta: Mapping[str, Any] | None = None
        self.context = context

    def __repr__(self) -> str:
        return f"<SentRequest {self.method} id={self.id!r}>"


class Outgoing:
    """The sent requests: ids, deadlines, progress.

    Checking deadlines is independent of the number of open requests. Requests with the same limit expire in the order of their last
    activity, so there is one queue per limit in use, and only the first entry of each queue is examined.
    """

    def __init__(self) -> None:
        self._open: dict[RequestId, SentRequest] = {}
        self.last_id = 0
        """The id of the last request. Set it before the first request to continue the ids of another connection."""
        self._queues: dict[tuple[Limit, float], OrderedDict[RequestId, float]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[SentRequest]:
        return iter(list(self._open.values()))

    def get(self, request_id: RequestId) -> SentRequest | None:
        """Return the open request with this id, by value and JSON type, or ``None``."""
        return self._open.get(request_id)

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
        """Add a new request under an id that this side has never used before (JR-04, JR-05)."""
        self.last_id += 1
        asked = SentRequest(
            self.last_id, method, params, sent_at=now, idle=idle, total=total, cancellable=cancellable, context=context
        )
        self._open[asked.id] = asked
        self._enqueue(asked, "idle", idle, now)
        self._enqueue(asked, "total", total, now)
        return asked

    def settle(self, request_id: RequestId) -> SentRequest | None:
        """Remove a request that was answered, cancelled or given up. Return ``None`` if it is not open (JR-19, CA-06)."""
        asked = self._open.pop(request_id, None)
        if asked is not None:
            self._dequeue(asked, "idle", asked.idle)
            self._dequeue(asked, "total", asked.total)
        return asked

    def record_progress(self, token: RequestId, *, now: float) -> SentRequest | None:
        """Restart the idle limit, but not the total limit, because progress arrived (TO-03)."""
        asked = self._open.get(token)
        if asked is not None:
            self._enqueue(asked, "idle", asked.idle, now)
        return asked

    def restart(self, asked: SentRequest, *, now: float) -> None:
        """Restart both limits of an open request."""
        if asked.id in self._open:
            self._enqueue(asked, "idle", asked.idle, now)
            self._enqueue(asked, "total", asked.total, now)

    def remove_limits(self, asked: SentRequest) -> None:
        """Remove the limits of an open request: an acknowledged subscription may stay silent (TO-04)."""
        self._dequeue(asked, "idle", asked.idle)
        self._dequeue(asked, "total", asked.total)
        asked.idle = asked.total = None

    def next_deadline(self) -> float | None:
        """The earliest time at which :meth:`expire` has something to do."""
        return min((next(iter(queue.values())) for queue in self._queues.values()), default=None)

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
        lost = list(self._open.values())
        self._open.clear()
        self._queues.clear()
        return lost

    def _enqueue(self, asked: SentRequest, limit: Limit, seconds: float | None, now: float) -> None:
        if seconds is None:
            return
        queue = self._queues.setdefault((limit, seconds), OrderedDict())
        queue[asked.id] = now + seconds
        queue.move_to_end(asked.id)

    def _dequeue(self, asked: SentRequest, limit: Limit, seconds: float | None) -> None:
        if seconds is None:
            return
        queue = self._queues[limit, seconds]
        del queue[asked.id]
        if not queue:
            del self._queues[limit, seconds]


class Call:
    """A request of the peer.

    Attributes:
        id: The id for the response, exactly as received.
        method: Its method.
        params: The typed params of the method.
        dialect: The revision of the request and its response.
        capabilities: What the client declared for this request (ST-01): in the handshake, or in the request itself.
        client_info: The client's name and version, for logs only (VN-14).
        log_level: The lowest level of log messages that the request wants; ``None`` for none (LG-05).
        progress_token: The token for progress notifications; ``None`` if none are wanted (PR-02).
        answers: The client's answers to the questions of this call so far; see :mod:`twopipes._session.input_rounds`.
        context: For the handler; not used here.
    """

    __slots__ = (
        "_progress",
        "answers",
        "batch",
        "capabilities",
        "client_info",
        "context",
        "dialect",
        "dialogue",
        "id",
        "log_level",
        "method",
        "params",
        "progress_token",
        "rounds",
    )

    def __init__(
        self,
        request_id: RequestId,
        method: str,
        params: Any,
        *,
        dialect: Dialect,
        capabilities: ClientCapabilities,
        client_info: Implementation | None = None,
        log_level: LoggingLevel | None = None,
        progress_token: RequestId | None = None,
        batch: Any = None,
    ) -> None:
        self.id = request_id
        self.method = method
        self.params = params
        self.dialect = dialect
        self.capabilities = capabilities
        self.client_info = client_info
        self.log_level = log_level
        self.progress_token = progress_token
        self.batch = batch
        self.answers: dict[str, Any] = {}
        self.dialogue = ""
        self.rounds = 0
        self.context: Any = None
        self._progress: float | None = None

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
        self.answers = retry.answers
        self._progress = None


def is_number(value: float) -> bool:
    """Whether JSON can represent the number. ``math.isfinite`` would reject integers too large for a float."""
    return -math.inf < value < math.inf


def progress_token(meta: Mapping[str, Any]) -> RequestId | None:
    """Return the progress token of a request, or ``None``. Zero and strings are valid tokens (PR-01)."""
    token = meta.get(META_PROGRESS_TOKEN)
    # MT-06: a malformed token disables progress but not the request. A bool is an int in Python, but not a token.
    return token if isinstance(token, (str, int)) and not isinstance(token, bool) else None


class Incoming:
    """The received requests. A call can be answered only while it is in here; there is one call per id."""

    def __init__(self, *, max_open: int | None = None) -> None:
        self._open: dict[RequestId, Call] = {}
        self._max_open = max_open

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._open

    def get(self, request_id: RequestId) -> Call | None:
        """Return the open call with this id, by value and JSON type, or ``None``."""
        return self._open.get(request_id)

    def is_open(self, call: Call) -> bool:
        """Whether a response or a notification for this call may still be sent."""
        # By identity: its id may have been freed by a cancellation and reused since.
        return self._open.get(call.id) is call

    def begin(self, call: Call) -> None:
        """Add a request of the peer.

        Raises:
            InvalidRequest: Too many requests are open.
        """
        if self._max_open is not None and len(self._open) >= self._max_open:
            raise InvalidRequest(f"{len(self._open):,} requests are open already; wait for responses before sending more")
        self._open[call.id] = call

    def finish(self, call: Call) -> bool:
        """Remove a call to answer it. Return False if it is no longer open: then nothing may be sent (CA-04)."""
        if not self.is_open(call):
            return False
        del self._open[call.id]
        return True

    def cancel(self, request_id: RequestId) -> Call | None:
        """Remove a call that the peer cancelled. ``7`` does not cancel ``"7"`` (CA-13); unknown ids are ignored (CA-05)."""
        return self._open.pop(request_id, None)

    def close(self) -> list[Call]:
        """Remove all calls, because the connection is over; return them in the order they arrived."""
        lost = list(self._open.values())
        self._open.clear()
        return lost
