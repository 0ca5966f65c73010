"""A recorded conversation as people think of it: calls with their answers, what was told meanwhile, and what never came.

Entries of a trace go in one by one, in the order of the file, so that a recording can be followed while it is made::

    conversation = Conversation(trace.header)
    for entry in trace:
        item = conversation.feed(entry)  # a Message, a stderr line, an event; None while a line lacks its end
    conversation.finish()

Everything costs time in proportion to the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import UNSET, MsgspecError, Raw, Struct, field
from msgspec.json import Decoder

from twopipes._protocol.revisions import LEGACY, META_PROGRESS_TOKEN, META_SUBSCRIPTION_ID, META_VERSION
from twopipes._trace.format import Damage, Entry, Event, Header, Line
from twopipes._trace.message import Direction, Message, read_message

__all__ = ["Call", "Conversation", "Item", "Message", "RecordedConnection", "State", "read_conversation"]

_LISTEN = "subscriptions/listen"

# What a conversation consists of, in the order in which it happened. A `Line` is one of stderr; those of the wire are messages.
Item = Message | Line | Event | Damage

State = Literal["answered", "error", "cancelled", "listening", "open", "lost"]

_OTHER_WAY: dict[Direction, Direction] = {">": "<", "<": ">"}


class RecordedConnection(Struct, eq=False, kw_only=True):
    """One stream in each direction, from its start to its end.

    Attributes:
        number: As in the trace; a server that was started again under the same number makes a connection of its own.
        began: When its first entry was written.
        ended: When the server was gone or its output ended; ``None`` while it lives, or if the recording does not tell.
        calls: The requests of both sides.
        handshake: The call of ``initialize``, the last one that got a result if there were several.
        negotiated: The revision that ``initialize`` agreed on.
        revisions: The modern revisions that requests named in their ``_meta``, in the order of their first use.
        has_start: Whether the recording shows the connection from its beginning. Judged kindly: a recording that shows a spawn,
            or whose first message is one that opens a conversation.
        is_complete: Whether nothing was lost on the way into the recording so far (events ``lost``, damaged lines).
        has_served_modern: Whether a request that stood alone, with its version in its ``_meta``, got a result.
        messages: How many lines of the wire it has.
        pid: Of the server.
        exit: The event that told of its end.
        ended_streams: The directions that came to their end, in that order: ``>`` the client's, ``<`` the server's.
    """

    number: int
    began: float
    ended: float | None = None
    calls: list[Call] = field(default_factory=list)
    handshake: Call | None = None
    negotiated: str | None = None
    revisions: list[str] = field(default_factory=list)
    has_start: bool = False
    is_complete: bool = True
    has_served_modern: bool = False
    messages: int = 0
    pid: int | None = None
    exit: Event | None = None
    ended_streams: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<RecordedConnection {self.number} {self.era or 'of no era yet'}>"

    @property
    def era(self) -> Literal["legacy", "modern", "both"] | None:
        """With a handshake, without one, or (a server may serve both, DE-12) both; ``None`` while nothing tells."""
        if self.negotiated is not None:
            return "both" if self.has_served_modern else "legacy"
        return "modern" if self.revisions else None

    @property
    def revision(self) -> str | None:
        """The revision of the handshake, or else the newest that a request named."""
        return self.negotiated or (self.revisions[-1] if self.revisions else None)


class Call(Struct, eq=False, kw_only=True):
    """A request of either side and all that belongs to it.

    Attributes:
        number: In the order of the requests of the whole conversation, from 0.
        request: The message that asked.
        answer: The first answer to it.
        further_answers: Answers to the same id that came when it had been answered. There should be none.
        progress: ``notifications/progress`` with its token.
        cancels: ``notifications/cancelled`` that name it, of either side.
        notifications: What was told under its subscription, the acknowledgement included (``subscriptions/listen`` alone).
        rounds: For a call that was answered with ``input_required`` and sent again: all the attempts in their order, this one
            among them. They share one list. For all other calls: nothing.
        revision: Of the protocol, by which the request is to be read; ``None`` where the recording does not tell.
    """

    number: int
    request: Message
    answer: Message | None = None
    further_answers: list[Message] = field(default_factory=list)
    progress: list[Message] = field(default_factory=list)
    cancels: list[Message] = field(default_factory=list)
    notifications: list[Message] = field(default_factory=list)
    rounds: list[Call] = field(default_factory=list)
    revision: str | None = None
    asks_back: bool = False

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
        """``>`` if the client asked, ``<`` if the server did."""
        return self.request.direction

    @property
    def connection(self) -> RecordedConnection:
        """The connection it went over."""
        return self.request.connection

    @property
    def latency(self) -> float | None:
        """Seconds from the request to its first answer; ``None`` without one."""
        return None if self.answer is None else self.answer.at - self.request.at

    @property
    def is_listen(self) -> bool:
        """Whether it is a subscription, which stays without an answer while it lives (SU-12)."""
        return self.method == _LISTEN

    @property
    def state(self) -> State:
        """How it stands: ``lost`` if the connection ended first, ``open`` if an answer may still come or the recording ends."""
        if self.answer is not None:
            return "error" if self.answer.shape == "error" else "answered"
        if self.cancels:
            return "cancelled"
        if _OTHER_WAY[self.direction] in self.connection.ended_streams or self.connection.exit is not None:
            return "lost"
        return "listening" if self.is_listen and self.notifications else "open"

    @property
    def is_hanging(self) -> bool:
        """Whether somebody waits for an answer that is not there: it may still come, or never (a subscription waits for none)."""
        return self.state == "open" or (self.state == "lost" and not self.is_listen)

    @property
    def first_round(self) -> Call:
        """The attempt that began the rounds; the call itself where there are none."""
        return self.rounds[0] if self.rounds else self

    @property
    def is_retry(self) -> bool:
        """Whether it is a later attempt at a call that was answered with ``input_required``."""
        return bool(self.rounds) and self.rounds[0] is not self


class _Told(Struct):
    """What is looked at in the params of each message; the rest is not even decoded."""

    meta: Any = field(name="_meta", default=UNSET)
    progress_token: Any = field(name="progressToken", default=UNSET)
    request_id: Any = field(name="requestId", default=UNSET)
    request_state: Any = field(name="requestState", default=UNSET)
    input_responses: dict[str, Raw] | Any = field(name="inputResponses", default=UNSET)
    name: Any = UNSET
    uri: Any = UNSET


class _Answered(Struct):
    """What is looked at in each result."""

    result_type: Any = field(name="resultType", default=UNSET)
    request_state: Any = field(name="requestState", default=UNSET)
    input_requests: Any = field(name="inputRequests", default=UNSET)
    protocol_version: Any = field(name="protocolVersion", default=UNSET)


_decode_told = Decoder(_Told).decode
_decode_answered = Decoder(_Answered).decode

_Key = tuple[Any, ...]


class Conversation:
    """What a recording tells, as far as it has been fed.

    Attributes:
        header: Of the recording.
        items: Everything, in the order in which it happened: each message (a batch as one), line of stderr, event, damage.
        connections: In the order of their first entries.
        calls: The requests of both sides on all connections, in their order.
        is_finished: Whether the recording has come to its end.
        last_at: When the last thing happened.
    """

    def __init__(self, header: Header | None = None) -> None:
        self.header = header if header is not None else Header()
        self.items: list[Item] = []
        self.connections: list[RecordedConnection] = []
        self.calls: list[Call] = []
        self.is_finished = False
        self.last_at = 0.0
        self._index = -1
        self._current: dict[int, _Threads] = {}
        # The beginnings of lines that lack their ends, by connection and kind.
        self._begun: dict[tuple[int, str], list[Line]] = {}
        # Calls that were answered with `input_required`, by method and state; a retry may go to another process (ST-03).
        self._asking: dict[_Key, list[Call]] = {}

    def feed(self, entry: Entry) -> Item | None:
        """Takes the next entry and returns what it has become: one of :attr:`items`, or ``None`` while a line lacks its end."""
        self._index += 1
        if isinstance(entry, Damage):
            # What stood there is not known, and on which connection neither.
            for threads in self._current.values():
                threads.connection.is_complete = False
            return self._add(entry)
        self.last_at = max(self.last_at, entry.at)
        if isinstance(entry, Event):
            return self._take_event(entry)
        threads = self._threads(entry.connection, entry.at)
        pieces = self._begun.get((entry.connection, entry.kind))
        if not entry.is_whole:
            self._begun.setdefault((entry.connection, entry.kind), []).append(entry)
            return None
        data = entry.data
        if pieces:
            data = b"".join([piece.data for piece in pieces] + [data])
            pieces.clear()
        return self._take_line(threads, entry, data, is_whole=True)

    def finish(self) -> list[Item]:
        """Takes the end of the recording and returns what is left: lines that never got their ends."""
        left = [item for key in list(self._begun) for item in self._take_unfinished(key)]
        self.is_finished = True
        return left

    @property
    def messages(self) -> Iterator[Message]:
        """The messages of both sides, those of batches one by one; noise and blank lines too."""
        for item in self.items:
            if isinstance(item, Message):
                if item.shape == "batch" and item.members:
                    yield from item.members
                else:
                    yield item

    @property
    def hanging(self) -> list[Call]:
        """The calls whose answer is missing."""
        return [call for call in self.calls if call.is_hanging]

    def _add(self, item: Item) -> Item:
        self.items.append(item)
        return item

    def _threads(self, number: int, at: float) -> _Threads:
        threads = self._current.get(number)
        if threads is None:
            threads = self._current[number] = _Threads(RecordedConnection(number=number, began=at))
            self.connections.append(threads.connection)
        return threads

    def _take_event(self, event: Event) -> Item:
        number = event.connection
        connection = self._threads(number, event.at).connection
        if event.name == "spawn":
            if connection.ended is not None or connection.messages:
                del self._current[number]  # started again: the ids of the old one mean nothing to the new one
                connection = self._threads(number, event.at).connection
            connection.pid = event.pid
            connection.has_start = True
        elif event.name == "lost":
            connection.is_complete = False
            for key in self._begun:
                if key[0] == number:
                    self._begun[key].clear()  # their ends are among what was lost
        elif event.name == "eof":
            if event.stream is not None:
                self._take_unfinished((number, event.stream))
                connection.ended_streams.append(event.stream)
                if event.stream == "<":
                    connection.ended = event.at
        elif event.name == "exit":
            for key in list(self._begun):
                if key[0] == number:
                    self._take_unfinished(key)
            connection.exit = event
            connection.ended = event.at if connection.ended is None else connection.ended
        return self._add(event)

    def _take_unfinished(self, key: tuple[int, str]) -> list[Item]:
        pieces = self._begun.pop(key, [])
        if not pieces:
            return []
        threads = self._threads(key[0], pieces[-1].at)
        return [self._take_line(threads, pieces[-1], b"".join(piece.data for piece in pieces), is_whole=False)]

    def _take_line(self, threads: _Threads, entry: Line, data: bytes, *, is_whole: bool) -> Item:
        if entry.kind == "!":
            return self._add(Line(entry.at, "!", data, is_whole, entry.connection))
        connection = threads.connection
        message = read_message(data, index=self._index, at=entry.at, direction=entry.kind, connection=connection, is_whole=is_whole)
        if not connection.messages and message.method in {"initialize", "server/discover"}:
            connection.has_start = True
        connection.messages += 1
        self._add(message)
        for part in message.members or (message,):
            self._place(threads, part)
        return message

    def _place(self, threads: _Threads, message: Message) -> None:
        """Finds what a message belongs to."""
        if message.shape == "request":
            told = _told(message)
            self._open(threads, message, told)
        elif message.is_answer:
            self._answer(threads, message)
        elif message.shape == "notification":
            threads.attach(message, _told(message))

    def _open(self, threads: _Threads, message: Message, told: _Told) -> None:
        connection = threads.connection
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
        threads.open(call)
        if message.direction == ">" and (told.request_state is not UNSET or told.input_responses is not UNSET):
            self._join_rounds(call, told)

    def _join_rounds(self, call: Call, told: _Told) -> None:
        """Finds the call of which this is a further attempt: by the state it carries, or where there is none by its answers."""
        asking = self._asking.get(_round_key(call.method, told.request_state), [])
        for earlier in reversed(asking):
            if _same_request(earlier.request, told):
                rounds = earlier.rounds or [earlier]
                earlier.rounds = call.rounds = rounds
                rounds.append(call)
                return

    def _answer(self, threads: _Threads, message: Message) -> None:
        call = threads.close(message)
        if call is None or message.shape != "result" or call.answer is not message:
            return
        try:
            answered = _decode_answered(message.raw_result)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if call.revision in threads.connection.revisions:
            threads.connection.has_served_modern = True
        if call.method == "initialize" and call.direction == ">":
            if isinstance(answered.protocol_version, str):
                threads.connection.handshake = call
                threads.connection.negotiated = call.revision = answered.protocol_version
        elif answered.result_type == "input_required":
            call.asks_back = True
            self._asking.setdefault(_round_key(call.method, answered.request_state), []).append(call)


class _Threads:
    """What is open on one connection: which request an answer, a token, an id or a tag belongs to."""

    def __init__(self, connection: RecordedConnection) -> None:
        self.connection = connection
        self._open: dict[_Key, list[Call]] = {}
        self._last: dict[_Key, Call] = {}
        self._tokens: dict[_Key, Call] = {}

    def open(self, call: Call) -> None:
        key = (call.direction, *_typed(call.id))
        self._open.setdefault(key, []).append(call)
        self._last[key] = call
        token = call.request.meta.get(META_PROGRESS_TOKEN, UNSET)
        if token is not UNSET:
            self._tokens[(call.direction, *_typed(token))] = call

    def close(self, message: Message) -> Call | None:
        """Gives an answer to its request: the oldest open one of that id, one that was not cancelled first."""
        key = (_OTHER_WAY[message.direction], *_typed(message.id))
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

    def attach(self, message: Message, told: _Told) -> None:
        """Gives a notification to the request that it is about, if it is about one."""
        if message.method == "notifications/progress":
            call = self._tokens.get((_OTHER_WAY[message.direction], *_typed(told.progress_token)))
            if call is not None:
                call.progress.append(message)
        elif message.method == "notifications/cancelled":
            call = self._named(message, told)
            if call is not None:
                call.cancels.append(message)
        else:
            tag = message.meta.get(META_SUBSCRIPTION_ID, UNSET)
            call = self._last.get((">", *_typed(tag))) if tag is not UNSET else None
            if call is not None and not call.is_listen:
                call = None
            if call is not None:
                call.notifications.append(message)
        message.call = call

    def _named(self, message: Message, told: _Told) -> Call | None:
        """The request that a cancellation names: one of its sender (CA-02), or a subscription that the server ends (CA-09)."""
        named = _typed(told.request_id)
        own = self._last.get((message.direction, *named))
        if own is not None or message.direction == ">":
            return own
        other = self._last.get((">", *named))
        return other if other is not None and other.is_listen else None


def read_conversation(entries: Iterable[Entry], header: Header | None = None) -> Conversation:
    """The conversation of a whole recording: ``read_conversation(trace, trace.header)``."""
    conversation = Conversation(header)
    for entry in entries:
        conversation.feed(entry)
    conversation.finish()
    return conversation


def _told(message: Message) -> _Told:
    """What the params of a message tell; nothing where they are none."""
    try:
        told = _decode_told(message.raw_params)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return _Told()
    if isinstance(told.meta, dict):
        message.meta = told.meta
    return told


def _typed(value: Any) -> _Key:
    """An id or a token as a key: 7 and "7" are two (JR-06). What can be no id is one of a kind that is never found again."""
    return (type(value), value) if isinstance(value, str | int | float) else (object(),)


def _round_key(method: str, state: Any) -> _Key:
    return (method, *(_typed(state) if isinstance(state, str) else (None,)))


def _same_request(request: Message, told: _Told) -> bool:
    earlier = _told(request)
    return (earlier.name, earlier.uri) == (told.name, told.uri)
