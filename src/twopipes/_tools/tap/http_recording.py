"""Turns HTTP requests and responses into the lines and events of a trace.

A body of JSON and the data of a server-sent event are messages, and become lines. Everything else that explains the conversation,
such as a refused request or an aborted response, becomes a note. Headers are not recorded: they contain credentials.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Literal, NamedTuple, Protocol

import h11
from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from twopipes._http.sse import SseEvent, SseParser
from twopipes._tools.tap.bodies import Bodies, decoder_for
from twopipes._tools.tap.connection_numbers import ConnectionNumbers
from twopipes._trace.units import size_of

SESSION = b"mcp-session-id"
_JSON = "application/json"
_EVENTS = "text/event-stream"
# Line breaks of JSON are white space: a line break in a string is escaped.
_TO_SPACE = bytes.maketrans(b"\r\n", b"  ")


class LineRecorder(Protocol):
    """The part of a recorder that is used here."""

    def line(self, kind: Literal[">", "<"], data: bytes, *, connection: int = 0) -> None:
        """Record a message."""

    def event(self, name: Any, *, connection: int = 0, stream: Any = None, reason: str | None = None) -> None:
        """Record an event."""


class _Fields(Struct):
    """The members of a message that decide about its connection."""

    id: Any = None
    method: Any = None


_decode_fields = Decoder(_Fields | list[_Fields]).decode


class HttpRecording:
    """What passes an HTTP endpoint, as one recording. ``path`` is that of the endpoint."""

    def __init__(self, recorder: LineRecorder, path: str) -> None:
        self.recorder = recorder
        self.numbers = ConnectionNumbers()
        self.bodies = Bodies()
        self._path = path.encode()

    def begin(self, request: h11.Request, peer: object) -> Exchange:
        """Return the record of a new exchange; ``peer`` is the address of the client."""
        is_endpoint = request.target.partition(b"?")[0] == self._path
        return Exchange(self, request, peer, records=is_endpoint)

    def note(self, reason: str, connection: int = 0) -> None:
        """Record something that belongs to no message."""
        self.recorder.event("note", connection=connection, reason=reason)


class _Sender(NamedTuple):
    """What identifies the client of requests without a session."""

    address: str
    agent: bytes
    token: int  # a hash: the token itself is not kept


class Exchange:
    """One request and its response."""

    def __init__(self, recording: HttpRecording, request: h11.Request, peer: object, *, records: bool) -> None:
        self._recording = recording
        self._records = records
        self._method = request.method.decode("ascii", "backslashreplace")
        self._target = request.target.partition(b"?")[0].decode("ascii", "backslashreplace")
        headers = dict(request.headers)
        self._session = headers.get(SESSION, b"").decode("latin-1")
        address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        self._sender = _Sender(address, headers.get(b"user-agent", b""), hash(headers.get(b"authorization", b"")))
        self._request = recording.bodies.new()
        self._response = recording.bodies.new()
        self._decode: Callable[[bytes], bytes] = bytes
        self._events: SseParser | None = None
        self._number: int | None = None
        self._subject = f"{self._method} {self._target}"
        self._status = 0
        self._status_line = ""
        self._request_id: Any = None
        self._is_answered = False
        self.has_response = False
        self.is_abandoned = False

    @property
    def number(self) -> int:
        """The number of its conversation."""
        if self._number is None:
            numbers = self._recording.numbers
            self._number = numbers.of_session(self._session) if self._session else numbers.of_client(self._sender)
        return self._number

    def note(self, reason: str) -> None:
        """Record what happened to it."""
        self._recording.note(f"{self._subject}: {reason}", self.number)

    # The request

    def request_data(self, data: bytes) -> None:
        """Take a part of the request's body."""
        if self._records and self._method == "POST":
            self._request.add(data)

    def request_end(self) -> None:
        """Record the request's body."""
        if not self._records or self._method != "POST":
            return
        body = self._request.take()
        if body is None:
            self.note(f"a message of {size_of(self._request.size)} was omitted")
            return
        self._assign(body)
        self._line(">", body)

    def client_closed(self) -> None:
        """Record that the client closed its connection before the end of the response."""
        self.is_abandoned = True
        # Some clients do not read the end of a stream after the response.
        if self._records and self._method == "POST" and not self._is_answered:
            self.note("the client closed the connection before the response was complete")

    def _assign(self, body: bytes) -> None:
        """Find the conversation of a message."""
        try:
            found = _decode_fields(body)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            return
        members = found if isinstance(found, list) else [found]
        request = next((each for each in members if isinstance(each.method, str) and each.id is not None), None)
        if request is not None:
            self._request_id = request.id
            self._subject = f"{request.method} #{request.id}"
        if not self._session:
            numbers, method = self._recording.numbers, None if request is None else request.method
            request_id = None if request is None else request.id
            self._number = numbers.of_client(self._sender, request_id, is_handshake=method == "initialize")

    # The response

    def response(self, head: h11.Response) -> None:
        """Take the status and the headers of the response."""
        self.has_response = True
        self._status = head.status_code
        self._status_line = f"HTTP {head.status_code} {head.reason.decode('latin-1')}".rstrip()
        if not self._records:
            self.note(self._status_line)
            return
        headers = {name: value.decode("latin-1") for name, value in head.headers}
        if self._status < HTTPStatus.BAD_REQUEST:  # some servers name a session also with an error
            self._name_session(headers.get(SESSION, ""))
        kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
        if kind == _EVENTS:
            self._events = SseParser()
            if self._method == "GET":
                self.note(f"the client opened the stream of the session ({self._status_line})")
        elif kind != _JSON:
            self._records = False
            if self._status != HTTPStatus.ACCEPTED:
                self.note(self._status_line + (f" with {kind}" if kind else ""))
        if self._method == "DELETE" and self._status < HTTPStatus.MULTIPLE_CHOICES:
            for stream in (">", "<"):
                self._recording.recorder.event("eof", stream=stream, connection=self.number)
        self._read_coding(headers.get(b"content-encoding", ""))

    def _read_coding(self, coding: str) -> None:
        decode = decoder_for(coding)
        if decode is None:
            self._records = False
            self.note(f"the response is not recorded: its Content-Encoding is {coding}")
        else:
            self._decode = decode

    def response_data(self, data: bytes) -> None:
        """Take a part of the response's body."""
        if not self._records:
            return
        if self._events is None:
            self._response.add(self._decode(data))
            return
        for event in self._events.feed(self._decode(data)):
            if isinstance(event, SseEvent):
                if event.data:
                    self._line("<", event.data)
                    self._is_answered = self._is_answered or self._answers(event.data)
            else:
                self.note(f"an event of {size_of(event.size)} was omitted")

    def response_end(self) -> None:
        """Record the response's body."""
        if not self._records or self._events is not None:
            return
        body = self._response.take()
        if body is None:
            self.note(f"a response of {size_of(self._response.size)} was omitted")
        elif self._status < HTTPStatus.BAD_REQUEST or b'"jsonrpc"' in body:
            if body.strip():
                self._line("<", body)
        else:
            self.note(f"{self._status_line} with JSON that is not a message")

    def close(self) -> None:
        """Release what it holds."""
        self._request.release()
        self._response.release()

    def _answers(self, data: bytes) -> bool:
        """Whether a message is the response to the request."""
        try:
            found = _decode_fields(data)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        members = found if isinstance(found, list) else [found]
        return any(each.method is None and each.id is not None and each.id == self._request_id for each in members)

    def _name_session(self, session: str) -> None:
        if session and not self._session:
            self._recording.numbers.bind(session, self.number)

    def _line(self, kind: Literal[">", "<"], data: bytes) -> None:
        self._recording.recorder.line(kind, data.translate(_TO_SPACE), connection=self.number)
