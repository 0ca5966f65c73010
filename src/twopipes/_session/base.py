"""What both sides of a connection share: lines in, lines out, ids, batches, deadlines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from typing import Any, NamedTuple, cast

from msgspec import UNSET, Struct, UnsetType

from twopipes import _jsonrpc as jsonrpc
from twopipes._codes import INTERNAL_ERROR, PARSE_ERROR
from twopipes._jsonrpc import Batch, ErrorObject, ErrorResponse, Message, Notification, Request, Response
from twopipes._protocol.dialect import Dialect
from twopipes._protocol.revisions import BATCHES, ERROR_ID_IS_NULL
from twopipes._protocol.types import CancelledParams, Result
from twopipes._session.events import Event, PeerClosed, PeerReportedError
from twopipes._session.ledger import Call, Incoming, Outgoing, Route, SentRequest
from twopipes._wire import LineDecoder, LineRejected, check_utf8, encode_line
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

# Bytes. Roughly the memory for a response without content.
_RESPONSE = 256


class Outbound(NamedTuple):
    """A message to send, and what it belongs to. A byte stream only needs the line; HTTP routes by the rest.

    Attributes:
        line: The message, with its newline.
        about: On a server, the route of the request that this message answers or belongs to; ``None`` if it belongs to no request.
            On a client, the request that this message is, or that it cancels; ``None`` for anything else.
        error_code: The code, if this is an error response.
        is_refusal: Whether the request was answered with this error without being handled.
    """

    line: bytes
    about: Any = None
    error_code: int = 0
    is_refusal: bool = False


class BatchReply(Struct, eq=False):
    """The responses to one batch: collected and sent as one array when the last one is ready (JR-13)."""

    _missing: int
    _out: list[Outbound]
    _route: Route | None = None
    _responses: list[bytes] = []

    def add(self, line: bytes | None) -> None:
        """Add the response to one member as a line, or ``None`` for a cancelled member, which gets no response."""
        if line is not None:
            self._responses.append(line[:-1])
        self._missing -= 1
        if self._missing == 0 and self._responses:
            self._out.append(Outbound(b"[" + b",".join(self._responses) + b"]\n", self._route))


class Session(ABC):
    """One side of one connection, without I/O: bytes and times in, events and bytes out.

    Attributes:
        limits: Limits of what the connection may hold.
        outgoing: The open requests of this side.
        incoming: The open requests of the peer.
        session_dialect: The dialect of the legacy session; ``None`` if there is no such session.
        outbox: Messages for the next :meth:`data_to_send` or :meth:`messages_to_send`.
        responded: Bytes of responses caused by the peer: errors in full, other responses with their id and a fixed size.

    A driver only does this::

        for event in session.receive(chunk, now=clock()):
            ...
        channel.write(session.data_to_send())

    and calls :meth:`tick` when :meth:`next_deadline` is reached.
    """

    def __init__(self, *, limits: Limits) -> None:
        self.limits = limits
        self.outgoing = Outgoing()
        self.incoming = Incoming(max_open=limits.max_in_flight)
        self._lines = LineDecoder(max_line=limits.max_line, max_excerpt=limits.max_excerpt)
        self.session_dialect: Dialect | None = None
        self.outbox: list[Outbound] = []
        self.responded = 0
        self._events: list[Event] = []
        self._size = 0  # of the message that is being read, in bytes
        self._route: Route | None = None  # of the message that is being read
        self._ending = False  # whether the line being read is the last one before EOF, which may be incomplete
        self._ended = False

    # Input

    def receive(self, data: bytes, *, now: float) -> list[Event]:
        """Process bytes, split anywhere, and return the events. Never raises, whatever the bytes are (JR-20).

        After :meth:`receive_eof`, bytes are ignored.
        """
        if self._ended:
            return []
        for line in self._lines.feed(data):
            self._read(line, now)
        return self._take_events()

    def receive_message(self, message: Message | Batch | LineRejected, *, size: int, now: float, route: Any = None) -> list[Event]:
        """Process one message that :meth:`decode` returned, and return the events.

        Args:
            message: The message.
            size: Its size in bytes.
            now: The time.
            route: Where the messages that belong to it go. They carry it in :attr:`Outbound.about`.
        """
        if self._ended:
            return []
        self._route = route
        try:
            self._receive_one(message, size, now)
        finally:
            self._route = None
        return self._take_events()

    def decode(self, line: bytes) -> Message | Batch | LineRejected:
        """Decode one message. Only a session of a revision with batches takes a batch."""
        batches = self.session_dialect is not None and BATCHES.has(self.session_dialect.revision)
        return jsonrpc.decode(line, max_batch=self.limits.max_batch if batches else 0, max_excerpt=self.limits.max_excerpt)

    def decode_body(self, data: bytes) -> Message | Batch | LineRejected:
        """Decode one message that no :class:`LineDecoder` has checked: the body of an HTTP request, or the data of an event."""
        line = check_utf8(data.removeprefix(BOM_UTF8), max_excerpt=self.limits.max_excerpt)
        return jsonrpc.salvage_id(line) if isinstance(line, LineRejected) else self.decode(line)

    def receive_eof(self, *, now: float) -> list[Event]:
        """Process the end of the stream: a last line without a newline, then the loss of all open requests."""
        if not self._ended:
            self._ending = True
            for line in self._lines.finish():
                self._read(line, now)
            self._ended = True
            self._lose_everything(now)
            self._events.append(PeerClosed())
        return self._take_events()

    def tick(self, *, now: float) -> list[Event]:
        """End the requests that are past their deadline and return the events."""
        for asked, limit in self.outgoing.expire(now=now):
            self._notify_cancelled(asked, f"no response within the {limit} limit")  # TO-02
            error = RequestTimedOut(asked.method, asked.id, waited=now - asked.sent_at, limit=limit)
            self._on_failure(asked, error, now)
        return self._take_events()

    def next_deadline(self) -> float | None:
        """The latest time to call :meth:`tick`; ``None`` if nothing is pending."""
        # Events caused by a call of the driver are returned by the next tick, so that one is due at once.
        if self._events:
            return 0.0
        return self.outgoing.next_deadline() if self.outgoing else None

    # Output

    def data_to_send(self) -> bytes:
        """Return all bytes produced since the last call: whole lines, in order."""
        out = self.outbox
        if not out:
            return b""
        data = out[0].line if len(out) == 1 else b"".join([message.line for message in out])
        out.clear()
        return data

    def messages_to_send(self) -> list[Outbound]:
        """Return all messages produced since the last call, in order."""
        messages = self.outbox.copy()
        self.outbox.clear()
        return messages

    def respond(self, call: Call, result: Result) -> bool:
        """Send the result of a call. Return False if the call is no longer open and nothing was sent (CA-04).

        Raises:
            LocalProtocolError: The result cannot be encoded as JSON. The peer got an error instead, so that it does not wait.
        """
        if not self.incoming.finish(call):
            return False
        try:
            line = encode_line(Response(call.id, self._finish(call, result)))
        except BaseException as error:  # user code may run here; the peer must get a response whatever it raises
            self._emit_error(call, InternalError("the result cannot be encoded as JSON"))
            if isinstance(error, LocalProtocolError) or not isinstance(error, Exception):
                raise
            raise LocalProtocolError(f"the result of {call.method} cannot be encoded as JSON: {error}") from error
        self._send_result(line, call)
        return True

    def fail(self, call: Call, error: BaseException) -> bool:
        """Send an error as the response to a call, worded for its revision. Return False as :meth:`respond` does."""
        if not self.incoming.finish(call):
            return False
        self._emit_error(call, error)
        return True

    # Implemented by the client and the server session

    @abstractmethod
    def _on_request(self, request: Request, now: float, batch: BatchReply | None) -> None: ...

    @abstractmethod
    def _on_notification(self, notification: Notification, now: float) -> None: ...

    @abstractmethod
    def _on_response(self, asked: SentRequest, response: Response | ErrorResponse, now: float) -> None: ...

    @abstractmethod
    def _on_failure(self, asked: SentRequest, error: TwopipesError, now: float) -> None:
        """Handle a request of this side that ends without a readable response: too late, lost or broken."""

    def _may_respond(self, rejected: LineRejected) -> bool:
        return True

    @abstractmethod
    def _finish(self, call: Call, result: Result) -> Any: ...

    def _lose_everything(self, now: float) -> None:
        """End every request of this side with a local error, because the connection is over (ER-16)."""
        for asked in self.outgoing.close():
            self._on_failure(asked, ConnectionLost(asked.method, asked.id), now)

    # Internals

    def _read(self, line: bytes | LineRejected, now: float) -> None:
        if isinstance(line, LineRejected):
            self._reject(jsonrpc.salvage_id(line), now)
            return
        self._receive_one(self.decode(line), len(line), now)

    def _receive_one(self, message: Message | Batch | LineRejected, size: int, now: float) -> None:
        self._size = size
        if isinstance(message, Batch):
            self._size //= len(message.members) or 1
            self._read_batch(message, now)
        else:
            self._dispatch(message, now, None)

    def _read_batch(self, batch: Batch, now: float) -> None:
        if not batch.members:
            rejected = LineRejected(reason="not JSON-RPC", detail="an empty batch", excerpt=b"[]", size=2)
            self._events.append(rejected)
            self._refuse(rejected)  # JR-13: one error object, not an array, on either side
            return
        expected = sum(
            isinstance(member, Request) or (isinstance(member, LineRejected) and self._gets_response(member))
            for member in batch.members
        )
        reply = BatchReply(expected, self.outbox, self._route)
        for member in batch.members:
            self._dispatch(member, now, reply)

    def _dispatch(self, message: Message | LineRejected, now: float, batch: BatchReply | None) -> None:
        match message:
            case Request():
                self._on_request(message, now, batch)
            case Notification():
                self._on_notification(message, now)
            case Response() | ErrorResponse():
                self._read_response(message, now)
            case _:
                self._reject(message, now, batch)

    def _read_response(self, response: Response | ErrorResponse, now: float) -> None:
        request_id = response.id
        if request_id is UNSET or request_id is None:  # only an error may have no id
            error = cast("ErrorResponse", response).error
            data = None if error.data is UNSET else error.data
            self._events.append(PeerReportedError(McpError(error.message, code=error.code, data=data)))
            return
        # FR-14: matched by id alone. JR-19, CA-06: a response to a request that is not open is dropped.
        asked = self.outgoing.settle(request_id)
        if asked is not None:
            self._on_response(asked, response, now)

    def _reject(self, rejected: LineRejected, now: float, batch: BatchReply | None = None) -> None:
        self._events.append(rejected)
        if rejected.is_response:
            if self._ending and rejected.code == PARSE_ERROR:
                return  # SD-03: truncated by EOF, not broken by the peer; the request ends as lost
            # The response is broken, but it was the response: do not wait for another one.
            asked = None if rejected.request_id is None else self.outgoing.settle(rejected.request_id)
            if asked is not None:
                error = RemoteProtocolError(f"the response to {asked.method} is {rejected}", excerpt=rejected.excerpt)
                self._on_failure(asked, error, now)
        elif self._gets_response(rejected):
            self._refuse(rejected, batch)

    def _refuse(self, rejected: LineRejected, batch: BatchReply | None = None) -> None:
        self._send_error(rejected.request_id, ErrorObject(rejected.code, str(rejected)), batch)

    def _gets_response(self, rejected: LineRejected) -> bool:
        # JR-10: a notification never gets a response, even if malformed. Neither does a response.
        return not rejected.is_response and not rejected.is_notification and self._may_respond(rejected)

    def _send_error(self, request_id: RequestId | None, error: ErrorObject, batch: BatchReply | None) -> None:
        """Respond with an error to a line that does not become a call."""
        line = encode_line(ErrorResponse(self._readable_id(request_id), error))
        self._send_response(Outbound(line, self._route, error.code, is_refusal=True), batch, size=len(line))

    def _readable_id(self, request_id: RequestId | None) -> RequestId | UnsetType | None:
        """The id for an error, or this revision's way to express a missing id (JR-17, CON-09)."""
        # Never the id of an open request: the error would be taken for its response.
        if request_id is not None and request_id not in self.incoming:
            return request_id
        dialect = self.session_dialect
        return None if dialect is not None and ERROR_ID_IS_NULL.has(dialect.revision) else UNSET

    def _send_response(self, response: Outbound, batch: BatchReply | None, *, size: int) -> None:
        """Emit a response, or add it to its batch. ``size`` is added to :attr:`responded`."""
        self.responded += size
        if batch is None:
            self.outbox.append(response)
        else:
            batch.add(response.line)

    def _send_result(self, line: bytes, call: Call, *, error_code: int = 0) -> None:
        """Emit the response of a handler. The size of its content is not caused by the peer."""
        size = _RESPONSE + (len(call.id) if isinstance(call.id, str) else 0)
        self._send_response(Outbound(line, call.route, error_code), call.batch, size=size)

    def _emit_error(self, call: Call, error: BaseException) -> None:
        # The call has left the ledger: if nothing were sent now, the peer would wait forever (JR-16).
        code = INTERNAL_ERROR
        line = encode_line(ErrorResponse(call.id, ErrorObject(code, "Internal error")))
        try:
            written = call.dialect.write_error(error)
            line = encode_line(ErrorResponse(call.id, written))
            code = written.code
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: S110 - the text or the data of an error may come from user code
            pass
        finally:
            self._send_result(line, call, error_code=code)

    def _notify(self, method: str, params: Any = UNSET, *, about: Any = None) -> None:
        self.outbox.append(Outbound(encode_line(Notification(method, params)), about))

    def _notify_cancelled(self, asked: SentRequest, reason: str | None) -> None:
        """Send the cancellation of an own request (CA-01), unless it must not be cancelled (LC-12)."""
        if asked.cancellable:
            params = CancelledParams(request_id=asked.id, reason=reason)
            self._notify("notifications/cancelled", params, about=self._place_of(asked))

    def _place_of(self, asked: SentRequest) -> Any:
        """What the messages about an own request carry in :attr:`Outbound.about`."""
        return asked

    def _cancelled_call(self, params: CancelledParams) -> Call | None:
        """Remove the call that a ``notifications/cancelled`` names from the ledger and return it; it gets no place in its batch."""
        # CA-05, CON-10: unknown, finished and missing ids are ignored. LC-12: initialize gets its response at once.
        call = None if params.request_id is None else self.incoming.pop(params.request_id, None)
        if call is not None and call.batch is not None:
            call.batch.add(None)
        return call

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events
