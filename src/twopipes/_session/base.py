"""What both ends of a conversation do alike: lines in, lines out, ids, batches, deadlines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

from msgspec import UNSET, UnsetType

from twopipes import _jsonrpc as jsonrpc
from twopipes._codes import INTERNAL_ERROR, PARSE_ERROR
from twopipes._jsonrpc import Batch, ErrorObject, ErrorResponse, Message, Notification, Request, Response
from twopipes._protocol.dialect import Dialect
from twopipes._protocol.revisions import BATCHES, ERROR_ID_IS_NULL
from twopipes._protocol.types import CancelledParams, Result
from twopipes._session.events import Event, PeerComplained, PeerLeft
from twopipes._session.ledger import Asked, Call, Incoming, Outgoing
from twopipes._wire import LineDecoder, LineRejected
from twopipes.errors import (
    ConnectionLost,
    InternalError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestId,
    RequestTimedOut,
    TwopipesError,
)
from twopipes.settings import Limits

__all__ = ["Session"]


# Bytes. About what a response without content takes in memory.
_RESPONSE = 256


class BatchReply:
    """The answers to one batch: collected, and sent as one array when the last is there (JR-13)."""

    __slots__ = ("_answers", "_missing", "_out")

    def __init__(self, missing: int, out: list[bytes]) -> None:
        self._missing = missing
        self._answers: list[bytes] = []
        self._out = out

    def add(self, line: bytes | None) -> None:
        """Takes the answer to one member as a line; ``None`` for a member that was cancelled and gets no answer."""
        if line is not None:
            self._answers.append(line[:-1])
        self._missing -= 1
        if self._missing == 0 and self._answers:
            self._out.append(b"[" + b",".join(self._answers) + b"]\n")


class Session(ABC):
    """One end of one connection. It is called and does not call: bytes and times in, events and bytes out.

    A driver does this, and nothing else, with it::

        for event in session.receive(chunk, now=clock()):
            ...
        channel.write(session.data_to_send())

    and calls :meth:`tick` when :meth:`next_deadline` has come.
    """

    def __init__(self, *, limits: Limits) -> None:
        self.limits = limits
        self.outgoing = Outgoing()
        self.incoming = Incoming(max_open=limits.max_in_flight)
        self._lines = LineDecoder(max_line=limits.max_line, max_excerpt=limits.max_excerpt)
        self._out: list[bytes] = []
        self.responded = 0
        """Bytes that the peer has made this side say: errors in full, of other responses the id and some bytes more."""
        self._events: list[Event] = []
        self._size = 0  # of the message that is being read, in bytes
        self._ending = False  # what is read now is what came before the end, and may have been cut off by it
        self._ended = False

    # What comes in

    def receive(self, data: bytes, *, now: float) -> list[Event]:
        """Takes bytes, cut anywhere, and returns what happened. Never raises, whatever the bytes are (JR-20)."""
        for line in self._lines.feed(data):
            self._read(line, now)
        return self._take_events()

    def receive_eof(self, *, now: float) -> list[Event]:
        """Takes the end of the stream: a last line without newline, then the loss of all that was open."""
        if not self._ended:
            self._ending = True
            for line in self._lines.finish():
                self._read(line, now)
            self._ended = True
            self._lose_everything(now)
            self._events.append(PeerLeft())
        return self._take_events()

    def tick(self, *, now: float) -> list[Event]:
        """Gives up whatever is overdue and returns what came of it."""
        for asked, limit in self.outgoing.expire(now=now):
            self._tell_cancelled(asked, f"no answer within the {limit} limit")  # TO-02
            error = RequestTimedOut(asked.method, asked.id, waited=now - asked.sent_at, limit=limit)
            self._on_failure(asked, error, now)
        return self._take_events()

    def next_deadline(self) -> float | None:
        """When to call :meth:`tick` at the latest; ``None`` if nothing is pending."""
        # What a call of the driver brought about is told by the next tick, so that one is due at once.
        return 0.0 if self._events else self.outgoing.next_deadline()

    # What goes out

    def data_to_send(self) -> bytes:
        """All bytes that were produced since the last call: whole lines, in order."""
        out = self._out
        if not out:
            return b""
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    def respond(self, call: Call, result: Result) -> bool:
        """Answers a call. False if its answer is no longer wanted and nothing was sent (CA-04).

        Raises:
            LocalProtocolError: The result cannot be written as JSON. The peer got an error instead, so that it does not wait.
        """
        if not self.incoming.finish(call):
            return False
        try:
            line = jsonrpc.encode(Response(call.id, self._finish(call, result)))
        except BaseException as error:  # what runs here may be the author's: the peer has its response, whatever that raises
            self._emit_error(call, InternalError("the result cannot be written as JSON"))
            if isinstance(error, LocalProtocolError) or not isinstance(error, Exception):
                raise
            raise LocalProtocolError(f"the result of {call.method} cannot be written: {error}") from error
        self._send_response(line, call.batch, size=_size_of(call))
        return True

    def fail(self, call: Call, error: BaseException) -> bool:
        """Answers a call with an error, worded for the revision of the call. False as for :meth:`respond`."""
        if not self.incoming.finish(call):
            return False
        self._emit_error(call, error)
        return True

    # For the two ends to fill in

    @property
    @abstractmethod
    def session_dialect(self) -> Dialect | None:
        """The dialect of the legacy session; ``None`` while there is none."""

    @abstractmethod
    def _on_request(self, request: Request, now: float, batch: BatchReply | None) -> None: ...

    @abstractmethod
    def _on_notification(self, notification: Notification, now: float) -> None: ...

    @abstractmethod
    def _on_answer(self, asked: Asked, answer: Response | ErrorResponse, now: float) -> None: ...

    @abstractmethod
    def _on_failure(self, asked: Asked, error: TwopipesError, now: float) -> None:
        """A request of this side ends without an answer that could be read: too late, lost or broken."""

    @abstractmethod
    def _may_answer(self, rejected: LineRejected) -> bool: ...

    @abstractmethod
    def _finish(self, call: Call, result: Result) -> Result: ...

    def _lose_everything(self, now: float) -> None:
        """The connection is over: every request of this side ends with a local error (ER-16)."""
        for asked in self.outgoing.close():
            self._on_failure(asked, ConnectionLost(asked.method, asked.id), now)

    # Underneath

    def _read(self, line: bytes | LineRejected, now: float) -> None:
        if isinstance(line, LineRejected):
            self._reject(jsonrpc.salvage_id(line), now)
            return
        dialect = self.session_dialect
        batches = dialect is not None and BATCHES.has(dialect.revision)
        message = jsonrpc.decode(line, max_batch=self.limits.max_batch if batches else 0, max_excerpt=self.limits.max_excerpt)
        self._size = len(line)
        if isinstance(message, Batch):
            self._size //= len(message.members) or 1
            self._read_batch(message, now)
        else:
            self._dispatch(message, now, None)

    def _read_batch(self, batch: Batch, now: float) -> None:
        if not batch.members:
            rejected = LineRejected(reason="not JSON-RPC", detail="an empty batch", excerpt=b"[]", size=2)
            self._events.append(rejected)
            self._refuse(rejected)  # JR-13: one error object, not an array; whichever side it comes from
            return
        to_answer = sum(
            isinstance(member, Request) or (isinstance(member, LineRejected) and self._is_answered(member))
            for member in batch.members
        )
        reply = BatchReply(to_answer, self._out)
        for member in batch.members:
            self._dispatch(member, now, reply)

    def _dispatch(self, message: Message | LineRejected, now: float, batch: BatchReply | None) -> None:
        match message:
            case Request():
                self._on_request(message, now, batch)
            case Notification():
                self._on_notification(message, now)
            case Response() | ErrorResponse():
                self._read_answer(message, now)
            case _:
                self._reject(message, now, batch)

    def _read_answer(self, answer: Response | ErrorResponse, now: float) -> None:
        request_id = answer.id
        if request_id is UNSET or request_id is None:  # only an error may come without one
            self._events.append(PeerComplained(_plain_error(cast("ErrorResponse", answer).error)))
            return
        # FR-14: matched by id alone. JR-19, CA-06: whatever is not waited for (any more) is dropped.
        asked = self.outgoing.settle(request_id)
        if asked is not None:
            self._on_answer(asked, answer, now)

    def _reject(self, rejected: LineRejected, now: float, batch: BatchReply | None = None) -> None:
        self._events.append(rejected)
        if rejected.is_response:
            if self._ending and rejected.code == PARSE_ERROR:
                return  # SD-03: cut off by the end, not broken by the peer; whoever waits for it has lost it
            # The answer is broken, but it was the answer: nobody should wait for another one.
            asked = None if rejected.request_id is None else self.outgoing.settle(rejected.request_id)
            if asked is not None:
                error = RemoteProtocolError(f"the answer to {asked.method} is {rejected}", excerpt=rejected.excerpt)
                self._on_failure(asked, error, now)
        elif self._is_answered(rejected):
            self._refuse(rejected, batch)

    def _refuse(self, rejected: LineRejected, batch: BatchReply | None = None) -> None:
        answer = ErrorResponse(
            self._readable_id(rejected.request_id), ErrorObject(rejected.code, f"{rejected.reason}: {rejected.detail}")
        )
        line = jsonrpc.encode(answer)
        self._send_response(line, batch, size=len(line))

    def _is_answered(self, rejected: LineRejected) -> bool:
        # JR-10: a notification is never answered, even if malformed. An answer is never answered.
        return not rejected.is_response and not rejected.is_notification and self._may_answer(rejected)

    def _readable_id(self, request_id: RequestId | None) -> RequestId | UnsetType | None:
        """The id of an error, or the way in which this revision says that there is none (JR-17, CON-09)."""
        # An open request keeps its id to itself: an error that carries it would be taken for its answer.
        if request_id is not None and request_id not in self.incoming:
            return request_id
        dialect = self.session_dialect
        return None if dialect is not None and ERROR_ID_IS_NULL.has(dialect.revision) else UNSET

    def _emit(self, line: bytes) -> None:
        self._out.append(line)

    def _send_response(self, line: bytes, batch: BatchReply | None, *, size: int) -> None:
        """Emit a response, or add it to those of its batch. ``size`` is what :attr:`responded` grows by."""
        self.responded += size
        if batch is None:
            self._out.append(line)
        else:
            batch.add(line)

    def _emit_error(self, call: Call, error: BaseException) -> None:
        try:
            line = jsonrpc.encode(ErrorResponse(call.id, call.dialect.write_error(error)))
        except BaseException as failure:  # the text or the data of an error may be an object of the author's
            # The call has left the ledger: if nothing were sent now, the peer would wait forever (JR-16).
            line = jsonrpc.encode(ErrorResponse(call.id, ErrorObject(INTERNAL_ERROR, "Internal error")))
            if isinstance(failure, KeyboardInterrupt):
                self._send_response(line, call.batch, size=_size_of(call))
                raise
        self._send_response(line, call.batch, size=_size_of(call))

    def _book(
        self,
        method: str,
        params: Any = None,
        *,
        now: float,
        idle: float | None = None,
        total: float | None = None,
        context: Any = None,
    ) -> Asked:
        """Books a request of this side, unless the stream has ended: then nobody would ever answer it."""
        asked = self.outgoing.open(method, params, now=now, idle=idle, total=total, context=context)
        if self._ended:
            self.outgoing.settle(asked.id)
            raise ConnectionLost(method, asked.id)
        return asked

    def _notify(self, method: str, params: Any = UNSET) -> None:
        self._emit(jsonrpc.encode(Notification(method, params)))

    def _tell_cancelled(self, asked: Asked, reason: str | None) -> None:
        """Tells the peer that an own request was given up (CA-01), unless it is one that must not be cancelled (LC-12)."""
        if asked.cancellable:
            self._notify("notifications/cancelled", CancelledParams(request_id=asked.id, reason=reason))

    def _cancelled_call(self, params: CancelledParams) -> Call | None:
        """The call that a ``notifications/cancelled`` ends, taken out of the ledger; its place in a batch stays empty."""
        # CA-05, CON-10: unknown, finished and missing ids are ignored. LC-12: initialize is answered at once, so it never is here.
        call = None if params.request_id is None else self.incoming.cancel(params.request_id)
        if call is not None and call.batch is not None:
            call.batch.add(None)
        return call

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events


def _size_of(call: Call) -> int:
    """What a response costs that a handler has made. How much the handler has to say is not of the peer's making."""
    return _RESPONSE + (len(call.id) if isinstance(call.id, str) else 0)


def _plain_error(error: ErrorObject) -> McpError:
    return McpError(error.message, code=error.code, data=None if error.data is UNSET else error.data)
