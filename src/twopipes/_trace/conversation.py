"""A recorded conversation: calls with their responses and notifications, and calls without a response.

Feed the entries of a trace one by one, in the order of the file, so that a recording can be followed while it is written::

    conversation = Conversation(trace.header)
    for entry in trace:
        item = conversation.feed(entry)  # a Message, a stderr line, an event; None for an unfinished line
    conversation.finish()

The time is proportional to the size of the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import UNSET, MsgspecError, Raw, Struct, field
from msgspec.json import Decoder

from twopipes._protocol.revisions import LEGACY, META_PROGRESS_TOKEN, META_SUBSCRIPTION_ID, META_VERSION
from twopipes._trace.format import Damage, Entry, Event, Header, Line
from twopipes._trace.message import OTHER_WAY, Direction, Message, read_message

LISTEN = "subscriptions/listen"

# The parts of a conversation. A `Line` is a line of stderr; the lines of the wire are messages.
Item = Message | Line | Event | Damage

State = Literal["answered", "error", "cancelled", "listening", "open", "lost"]


class RecordedConnection(Struct, eq=False, kw_only=True):
    """One stream in each direction, from its start to its end."""

    number: int  # in the trace; a server that is restarted under the same number has a new connection
    began: float  # the time of its first entry
    ended: float | None = None  # when the server exited or its output ended, as far as the recording shows
    calls: list[Call] = field(default_factory=list)  # the requests of both sides
    handshake: Call | None = None  # the call of ``initialize``; if there were several, the last one with a result
    negotiated: str | None = None  # the revision negotiated by ``initialize``
    revisions: list[str] = field(default_factory=list)  # the modern ones that requests named, in the order of their first use
    has_start: bool = False  # it has a spawn event, or its first message opens a conversation
    is_complete: bool = True  # nothing is missing so far (``lost`` events, damaged lines)
    has_served_modern: bool = False  # a modern request, with its version in its ``_meta``, got a result
    messages: int = 0  # the number of lines on the wire
    pid: int | None = None  # of the server
    exit: Event | None = None
    ended_streams: list[str] = field(default_factory=list)  # in order: ``>`` of the client, ``<`` of the server

    def __repr__(self) -> str:
        return f"<RecordedConnection {self.number} {self.era or 'of no era yet'}>"

    @property
    def era(self) -> Literal["legacy", "modern", "both"] | None:
        """Legacy (with a handshake), modern, or both (DE-12); ``None`` while it is unknown."""
        if self.negotiated is not None:
            return "both" if self.has_served_modern else "legacy"
        return "modern" if self.revisions else None

    @property
    def revision(self) -> str | None:
        """The negotiated revision, or else the last one that a request named."""
        return self.negotiated or (self.revisions[-1] if self.revisions else None)


class Call(Struct, eq=False, kw_only=True):
    """A request of either side and everything that belongs to it."""

    number: int  # its position among the requests of the whole conversation, from 0
    request: Message
    answer: Message | None = None  # the first response
    further_answers: list[Message] = field(default_factory=list)  # more responses with the same id, which is an error
    progress: list[Message] = field(default_factory=list)  # ``notifications/progress`` with its token
    cancels: list[Message] = field(default_factory=list)  # ``notifications/cancelled`` of either side that name it
    notifications: list[Message] = field(default_factory=list)  # of its subscription, with the acknowledgement
    # All attempts of a call that was answered with ``input_required`` and sent again, in order, in one shared list. Else empty.
    rounds: list[Call] = field(default_factory=list)
    revision: str | None = None  # of the request, as far as the recording shows
    asks_back: bool = False  # its response is ``input_required``

    def __repr__(self) -> str:
        return f"<Call {self.request.direction} {self.method} {self.id!r} {self.state}>"

    @property
    def id(self) -> Any:
        """The id of the request."""
        return self.request.id

    @property
    def method(self) -> str:
        """The method of the request."""
        return self.request.method or ""

    @property
    def direction(self) -> Direction:
        """``>`` for a request of the client, ``<`` for one of the server."""
        return self.request.direction

    @property
    def connection(self) -> RecordedConnection:
        """The connection it was sent on."""
        return self.request.connection

    @property
    def latency(self) -> float | None:
        """Seconds from the request to its first response; ``None`` if there is none."""
        return None if self.answer is None else self.answer.at - self.request.at

    @property
    def is_listen(self) -> bool:
        """Whether it is a subscription, which has no response while it is active (SU-12)."""
        return self.method == LISTEN

    @property
    def state(self) -> State:
        """Its state: ``lost`` if the connection ended first, ``open`` if a response may still come or the recording ends."""
        if self.answer is not None:
            return "error" if self.answer.shape == "error" else "answered"
        if self.cancels:
            return "cancelled"
        if OTHER_WAY[self.direction] in self.connection.ended_streams or self.connection.exit is not None:
            return "lost"
        return "listening" if self.is_listen and self.notifications else "open"

    @property
    def is_hanging(self) -> bool:
        """Whether its response is missing. It may still come. A subscription does not wait for a response."""
        return self.state == "open" or (self.state == "lost" and not self.is_listen)

    @property
    def first_round(self) -> Call:
        """The first of the rounds; the call itself if there are none."""
        return self.rounds[0] if self.rounds else self

    @property
    def is_retry(self) -> bool:
        """Whether it is a later attempt at a call that was answered with ``input_required``."""
        return bool(self.rounds) and self.rounds[0] is not self


class _ParamsFields(Struct):
    """The fields that are read of the params of each message. The rest is not decoded."""

    meta: Any = field(name="_meta", default=UNSET)
    progress_token: Any = field(name="progressToken", default=UNSET)
    request_id: Any = field(name="requestId", default=UNSET)
    request_state: Any = field(name="requestState", default=UNSET)
    input_responses: dict[str, Raw] | Any = field(name="inputResponses", default=UNSET)
    name: Any = UNSET
    uri: Any = UNSET


class _ResultFields(Struct):
    """The fields that are read of each result."""

    result_type: Any = field(name="resultType", default=UNSET)
    request_state: Any = field(name="requestState", default=UNSET)
    input_requests: Any = field(name="inputRequests", default=UNSET)
    protocol_version: Any = field(name="protocolVersion", default=UNSET)


_decode_params = Decoder(_ParamsFields).decode
_decode_result = Decoder(_ResultFields).decode

_Key = tuple[Any, ...]


class Conversation:
    """The conversation in a recording, as far as it has been fed.

    Attributes:
        header: The header of the recording.
        items: Everything in order: messages (a batch is one), lines of stderr, events, damaged lines.
        connections: The connections, in the order of their first entries.
        calls: The requests of both sides on all connections, in order.
        is_finished: Whether the end of the recording has been reached.
        last_at: The time of the last entry.
    """

    def __init__(self, header: Header | None = None) -> None:
        self.header = header if header is not None else Header()
        self.items: list[Item] = []
        self.connections: list[RecordedConnection] = []
        self.calls: list[Call] = []
        self.is_finished = False
        self.last_at = 0.0
        self._index = -1
        self._current: dict[int, _ConnectionState] = {}
        # The pieces of unfinished lines, by connection and kind.
        self._unfinished: dict[tuple[int, str], list[Line]] = {}
        # Calls that were answered with `input_required`, by method and state; a retry may go to another process (ST-03).
        self._waiting_for_input: dict[_Key, list[Call]] = {}

    def feed(self, entry: Entry) -> Item | None:
        """Add the next entry and return its item of :attr:`items`, or ``None`` for a piece of an unfinished line."""
        self._index += 1
        if isinstance(entry, Damage):
            # It could have been an entry of any connection.
            for state in self._current.values():
                state.connection.is_complete = False
            return self._add(entry)
        self.last_at = max(self.last_at, entry.at)
        if isinstance(entry, Event):
            return self._add_event(entry)
        state = self._state(entry.connection, entry.at)
        pieces = self._unfinished.setdefault((entry.connection, entry.kind), [])
        pieces.append(entry)
        if not entry.is_whole:
            return None
        data = b"".join(piece.data for piece in pieces) if len(pieces) > 1 else entry.data
        pieces.clear()
        return self._add_line(state, entry, data, is_whole=True)

    def finish(self) -> list[Item]:
        """Mark the end of the recording and return the items for lines that never ended."""
        left = [item for key in list(self._unfinished) for item in self._add_unfinished(key)]
        self.is_finished = True
        return left

    @property
    def messages(self) -> Iterator[Message]:
        """The messages of both sides, with the members of batches one by one, and with noise and blank lines."""
        for item in self.items:
            if isinstance(item, Message):
                if item.shape == "batch" and item.members:
                    yield from item.members
                else:
                    yield item

    @property
    def hanging(self) -> list[Call]:
        """The calls whose response is missing."""
        return [call for call in self.calls if call.is_hanging]

    def _add(self, item: Item) -> Item:
        self.items.append(item)
        return item

    def _state(self, number: int, at: float) -> _ConnectionState:
        state = self._current.get(number)
        if state is None:
            state = self._current[number] = _ConnectionState(RecordedConnection(number=number, began=at))
            self.connections.append(state.connection)
        return state

    def _add_event(self, event: Event) -> Item:
        number = event.connection
        connection = self._state(number, event.at).connection
        if event.name == "spawn":
            if connection.ended is not None or connection.messages:
                del self._current[number]  # the server was restarted, so old ids no longer count
                connection = self._state(number, event.at).connection
            connection.pid = event.pid
            connection.has_start = True
        elif event.name == "lost":
            connection.is_complete = False
            for key in self._unfinished:
                if key[0] == number:
                    self._unfinished[key].clear()  # the rest of them was lost
        elif event.name == "eof" and event.stream is not None:
            self._add_unfinished((number, event.stream))
            connection.ended_streams.append(event.stream)
            if event.stream == "<":
                connection.ended = event.at
        elif event.name == "exit":
            for key in list(self._unfinished):
                if key[0] == number:
                    self._add_unfinished(key)
            connection.exit = event
            connection.ended = event.at if connection.ended is None else connection.ended
        return self._add(event)

    def _add_unfinished(self, key: tuple[int, str]) -> list[Item]:
        pieces = self._unfinished.pop(key, [])
        if not pieces:
            return []
        state = self._state(key[0], pieces[-1].at)
        return [self._add_line(state, pieces[-1], b"".join(piece.data for piece in pieces), is_whole=False)]

    def _add_line(self, state: _ConnectionState, entry: Line, data: bytes, *, is_whole: bool) -> Item:
        if entry.kind == "!":
            return self._add(Line(entry.at, "!", data, is_whole, entry.connection))
        connection = state.connection
        message = read_message(data, index=self._index, at=entry.at, direction=entry.kind, connection=connection, is_whole=is_whole)
        if not connection.messages and message.method in {"initialize", "server/discover"}:
            connection.has_start = True
        connection.messages += 1
        self._add(message)
        for part in message.members or (message,):
            self._assign(state, part)
        return message

    def _assign(self, state: _ConnectionState, message: Message) -> None:
        """Assign a message to its call."""
        if message.shape == "request":
            self._add_call(state, message, _params_fields(message))
        elif message.is_answer:
            self._add_response(state, message)
        elif message.shape == "notification":
            state.attach(message, _params_fields(message))

    def _add_call(self, state: _ConnectionState, message: Message, fields: _ParamsFields) -> None:
        connection = state.connection
        call = Call(number=len(self.calls), request=message)
        message.call = call
        version = message.meta.get(META_VERSION)
        if isinstance(version, str) and message.direction == ">":
            call.revision = version
            if version not in LEGACY and version not in connection.revisions:
                connection.revisions.append(version)
        elif message.method != "initialize":
            call.revision = connection.negotiated
        self.calls.append(call)
        connection.calls.append(call)
        state.open(call)
        if message.direction == ">" and (fields.request_state is not UNSET or fields.input_responses is not UNSET):
            self._join_rounds(call, fields)

    def _join_rounds(self, call: Call, fields: _ParamsFields) -> None:
        """Find the earlier attempt of this call by its ``requestState``, or without one by its method and target."""
        waiting = self._waiting_for_input.get(_round_key(call.method, fields.request_state), [])
        for earlier in reversed(waiting):
            if _same_request(earlier.request, fields):
                rounds = earlier.rounds or [earlier]
                earlier.rounds = call.rounds = rounds
                rounds.append(call)
                return

    def _add_response(self, state: _ConnectionState, message: Message) -> None:
        call = state.close(message)
        if call is None or message.shape != "result" or call.answer is not message:
            return
        try:
            fields = _decode_result(message.raw_result)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if call.revision in state.connection.revisions:
            state.connection.has_served_modern = True
        if call.method == "initialize" and call.direction == ">":
            if isinstance(fields.protocol_version, str):
                state.connection.handshake = call
                state.connection.negotiated = call.revision = fields.protocol_version
        elif fields.result_type == "input_required":
            call.asks_back = True
            self._waiting_for_input.setdefault(_round_key(call.method, fields.request_state), []).append(call)


class _ConnectionState:
    """The calls of one connection, by id and by progress token."""

    def __init__(self, connection: RecordedConnection) -> None:
        self.connection = connection
        self._open: dict[_Key, list[Call]] = {}
        self._last: dict[_Key, Call] = {}
        self._tokens: dict[_Key, Call] = {}

    def open(self, call: Call) -> None:
        key = (call.direction, *id_key(call.id))
        self._open.setdefault(key, []).append(call)
        self._last[key] = call
        if META_PROGRESS_TOKEN in call.request.meta:
            self._tokens[(call.direction, *id_key(call.request.meta[META_PROGRESS_TOKEN]))] = call

    def close(self, message: Message) -> Call | None:
        """Assign a response to the oldest open request with its id, preferring one that was not cancelled."""
        key = (OTHER_WAY[message.direction], *id_key(message.id))
        waiting = self._open.get(key)
        if not waiting:
            late = self._last.get(key)
            if late is not None:
                late.further_answers.append(message)
                message.call = late
            return late
        call = next((call for call in waiting if not call.cancels), waiting[0])
        waiting.remove(call)
        if not waiting:
            del self._open[key]
        call.answer = message
        message.call = call
        return call

    def attach(self, message: Message, fields: _ParamsFields) -> None:
        """Assign a notification to its request, if it has one."""
        if message.method == "notifications/progress":
            call = self._tokens.get((OTHER_WAY[message.direction], *id_key(fields.progress_token)))
            if call is not None:
                call.progress.append(message)
        elif message.method == "notifications/cancelled":
            call = self._cancelled_call(message, fields)
            if call is not None:
                call.cancels.append(message)
        else:
            call = self._last.get((">", *id_key(message.meta.get(META_SUBSCRIPTION_ID))))
            if call is None or not call.is_listen:
                return
            call.notifications.append(message)
        message.call = call

    def _cancelled_call(self, message: Message, fields: _ParamsFields) -> Call | None:
        """Return the request that is cancelled: one of the sender (CA-02), or a subscription that the server ends (CA-09)."""
        named = id_key(fields.request_id)
        own = self._last.get((message.direction, *named))
        if own is not None or message.direction == ">":
            return own
        other = self._last.get((">", *named))
        return other if other is not None and other.is_listen else None


def read_conversation(entries: Iterable[Entry], header: Header | None = None) -> Conversation:
    """Return the conversation of a whole recording: ``read_conversation(trace, trace.header)``."""
    conversation = Conversation(header)
    for entry in entries:
        conversation.feed(entry)
    conversation.finish()
    return conversation


def _params_fields(message: Message) -> _ParamsFields:
    """Read the params of a message, and set its ``meta``."""
    try:
        fields = _decode_params(message.raw_params)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return _ParamsFields()
    if isinstance(fields.meta, dict):
        message.meta = fields.meta
    return fields


def id_key(value: Any) -> _Key:
    """Return an id or a token as a key that keeps 7 and "7" apart (JR-06). An invalid id gets a unique key."""
    return (type(value), value) if isinstance(value, str | int | float) else (object(),)


def _round_key(method: str, state: Any) -> _Key:
    return (method, *(id_key(state) if isinstance(state, str) else (None,)))


def _same_request(request: Message, fields: _ParamsFields) -> bool:
    earlier = _params_fields(request)
    return (earlier.name, earlier.uri) == (fields.name, fields.uri)
