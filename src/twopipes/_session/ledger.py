"""Two ledgers: what I asked, and what I was asked.

A request is in its ledger from the moment it is sent or received until it is answered, cancelled, expired or lost, and each of
these ways out goes through one door here. Whoever settles a request that is no longer in the ledger learns so and does
nothing: that is how late answers, answers to nobody and races between a cancel and an answer become harmless (JR-19, CA-07).
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

__all__ = ["Asked", "Call", "Incoming", "Outgoing", "is_number", "progress_token"]

Limit = Literal["idle", "total"]


class Asked:
    """One request that this side sent and that is, or was, waiting for its answer.

    Attributes:
        id: Its id, which is its progress token too: unique among the open ones (PR-01).
        method: What was asked.
        params: What was sent, before it was fitted to the revision; a retry starts from it.
        sent_at: The time it was sent.
        idle: Seconds of silence it survives; progress starts them again. ``None`` for no limit.
        total: Seconds it survives whatever happens (TO-03). ``None`` for no limit.
        cancellable: Whether giving it up is told to the peer. An ``initialize`` never is (LC-12).
        round: How many times the peer has asked back for input before this attempt.
        log_level: The least level of log messages that was asked for with it; a retry asks for the same.
        extra_meta: The caller's own keys of ``_meta``; a retry carries them again.
        context: The caller's own; nothing here reads it.
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
        return f"<Asked {self.method} id={self.id!r}>"


class Outgoing:
    """What I asked: ids, deadlines, progress.

    Deadlines cost the same however many requests are open. Requests with the same limit expire in the order in which they
    were last heard of, so each limit in use has one queue, and only the heads of the queues are looked at.
    """

    def __init__(self) -> None:
        self._open: dict[RequestId, Asked] = {}
        self.last_id = 0
        """The id of the last request. Set it before the first one, to go on where another connection ended."""
        self._queues: dict[tuple[Limit, float], OrderedDict[RequestId, float]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Asked]:
        return iter(list(self._open.values()))

    def get(self, request_id: RequestId) -> Asked | None:
        """The open request with this id, by value and JSON type, or ``None``."""
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
    ) -> Asked:
        """Books a new request under an id that this side has never used before (JR-04, JR-05)."""
        self.last_id += 1
        asked = Asked(self.last_id, method, params, sent_at=now, idle=idle, total=total, cancellable=cancellable, context=context)
        self._open[asked.id] = asked
        self._enqueue(asked, "idle", idle, now)
        self._enqueue(asked, "total", total, now)
        return asked

    def settle(self, request_id: RequestId) -> Asked | None:
        """Takes a request out: it was answered, cancelled or given up. ``None`` if it is not open (any more) (JR-19, CA-06)."""
        asked = self._open.pop(request_id, None)
        if asked is not None:
            self._dequeue(asked, "idle", asked.idle)
            self._dequeue(asked, "total", asked.total)
        return asked

    def heard(self, token: RequestId, *, now: float) -> Asked | None:
        """Progress arrived: the idle limit starts again, the total one does not (TO-03)."""
        asked = self._open.get(token)
        if asked is not None:
            self._enqueue(asked, "idle", asked.idle, now)
        return asked

    def restart(self, asked: Asked, *, now: float) -> None:
        """Starts both limits of an open request again."""
        if asked.id in self._open:
            self._enqueue(asked, "idle", asked.idle, now)
            self._enqueue(asked, "total", asked.total, now)

    def await_for_ever(self, asked: Asked) -> None:
        """Lifts the limits of an open request: a subscription that was acknowledged may stay silent (TO-04)."""
        self._dequeue(asked, "idle", asked.idle)
        self._dequeue(asked, "total", asked.total)
        asked.idle = asked.total = None

    def next_deadline(self) -> float | None:
        """When :meth:`expire` has something to do at the earliest."""
        return min((next(iter(queue.values())) for queue in self._queues.values()), default=None)

    def expire(self, *, now: float) -> list[tuple[Asked, Limit]]:
        """Takes out whatever ran past a limit, the longest overdue first."""
        overdue: list[tuple[float, RequestId, Limit]] = []
        for (limit, _), queue in self._queues.items():
            for request_id, deadline in queue.items():
                if deadline > now:
                    break
                overdue.append((deadline, request_id, limit))
        overdue.sort(key=lambda entry: entry[0])
        # A request can be past both of its limits; it leaves once, for the one that came first.
        return [(asked, limit) for _, request_id, limit in overdue if (asked := self.settle(request_id)) is not None]

    def close(self) -> list[Asked]:
        """The connection is over: takes out everything, in the order it was asked."""
        lost = list(self._open.values())
        self._open.clear()
        self._queues.clear()
        return lost

    def _enqueue(self, asked: Asked, limit: Limit, seconds: float | None, now: float) -> None:
        if seconds is None:
            return
        queue = self._queues.setdefault((limit, seconds), OrderedDict())
        queue[asked.id] = now + seconds
        queue.move_to_end(asked.id)

    def _dequeue(self, asked: Asked, limit: Limit, seconds: float | None) -> None:
        if seconds is None:
            return
        queue = self._queues[limit, seconds]
        del queue[asked.id]
        if not queue:
            del self._queues[limit, seconds]


class Call:
    """One request of the peer: what a handler needs to know, and whether its answer is still wanted.

    Attributes:
        id: The id to answer with, exactly as it came.
        method: What is asked.
        params: The typed params of the method.
        dialect: The revision in which it was asked and will be answered.
        capabilities: What the client can do, for this request (ST-01): from the handshake, or from the request itself.
        client_info: Who asks, for logs only (VN-14).
        log_level: The lowest level the request wants log messages of; ``None`` for none (LG-05).
        progress_token: Where to report progress; ``None`` for nowhere (PR-02).
        answers: What the client already answered to this call's questions, by key; see :mod:`twopipes._session.input_rounds`.
        context: The handler's own; nothing here reads it.
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

    def rises_to(self, progress: float) -> bool:
        """Whether this progress may be reported: only what is more than before (PR-03), and a number to JSON too."""
        if not is_number(progress) or (self._progress is not None and progress <= self._progress):
            return False
        self._progress = progress
        return True

    def continue_as(self, retry: Call) -> None:
        """Goes on under the id of the retried request, whose own token, level and capabilities count from here (MR-08, ST-01)."""
        self.id = retry.id
        self.params = retry.params
        self.capabilities = retry.capabilities
        self.client_info = retry.client_info
        self.log_level = retry.log_level
        self.progress_token = retry.progress_token
        self.answers = retry.answers
        self._progress = None


def is_number(value: float) -> bool:
    """Whether JSON can say it. Not by ``math.isfinite``, which refuses whole numbers too large for a float."""
    return -math.inf < value < math.inf


def progress_token(meta: Mapping[str, Any]) -> RequestId | None:
    """The token that a request wants its progress reported to, or ``None``. Zero and strings are tokens (PR-01)."""
    token = meta.get(META_PROGRESS_TOKEN)
    # MT-06: a malformed token costs the progress, not the request. True is an int to Python, and no token.
    return token if isinstance(token, (str, int)) and not isinstance(token, bool) else None


class Incoming:
    """What I was asked. A call is answered only while it is in here, and under an id only one call can be."""

    def __init__(self, *, max_open: int | None = None) -> None:
        self._open: dict[RequestId, Call] = {}
        self._max_open = max_open

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._open

    def get(self, request_id: RequestId) -> Call | None:
        """The open call with this id, by value and JSON type, or ``None``."""
        return self._open.get(request_id)

    def is_open(self, call: Call) -> bool:
        """Whether an answer to this call, or anything else about it, may still be sent."""
        # By identity: its id may have been freed by a cancel and taken by another request since.
        return self._open.get(call.id) is call

    def begin(self, call: Call) -> None:
        """Books a request of the peer.

        Raises:
            InvalidRequest: There are more open requests than this side is willing to hold.
        """
        if self._max_open is not None and len(self._open) >= self._max_open:
            raise InvalidRequest(f"{len(self._open):,} requests are open already; wait for some of them to be answered")
        self._open[call.id] = call

    def finish(self, call: Call) -> bool:
        """Takes a call out to be answered. False if it was cancelled or answered before: then nothing may be sent (CA-04)."""
        if not self.is_open(call):
            return False
        del self._open[call.id]
        return True

    def cancel(self, request_id: RequestId) -> Call | None:
        """Takes a call out because the peer lost interest. ``7`` does not cancel ``"7"`` (CA-13), unknown ids nothing (CA-05)."""
        return self._open.pop(request_id, None)

    def close(self) -> list[Call]:
        """The connection is over: takes out everything, in the order it arrived."""
        lost = list(self._open.values())
        self._open.clear()
        return lost
