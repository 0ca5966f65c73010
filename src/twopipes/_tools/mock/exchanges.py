"""A recording as a mock server needs it: each request of the client, with everything the server sent in reply, step by step.

The recording is read only as far as needed, so that the first response does not wait for the end of a long recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Raw, Struct

from twopipes._protocol.revisions import META_SERVER_INFO
from twopipes._tools.mock.raw_json import NotJson, decode, members
from twopipes._trace.conversation import Call, Conversation, RecordedConnection
from twopipes._trace.format import Entry, Header
from twopipes._trace.message import Message

# Members of params that describe how a request is made, not what it asks for.
ENVELOPE_MEMBERS = ("_meta", "requestState", "inputResponses")
# Requests that open a conversation. They match whatever their params are.
_OPENINGS = ("initialize", "server/discover")


class Question(Struct, frozen=True):
    """One question of the server to the client. The params are as written; empty if there are none."""

    method: str
    params: Raw


class RecordedQuestions(Struct, eq=False):
    """Questions of the server: its own requests, or an ``input_required`` result."""

    questions: list[Question]
    state: Any = None  # requestState
    result: Raw | None = None  # the whole input_required result as written
    is_open: bool = True  # the next request of the server belongs to the same group: none of these has been answered yet


class Exchange(Struct, eq=False):
    """A request of the client with everything the server sent in reply; or a notification, with what it led to."""

    message: Message  # in its first round
    params: dict[str, Any]
    number: int  # its position in the recording
    # What the server sent, in order, until the client sent something else. msgspec copies an empty default.
    steps: list[Message | RecordedQuestions] = []
    is_answered: bool = False
    was_cancelled: bool = False
    is_complete: bool = False  # everything that belongs to it has been read

    @property
    def is_notification(self) -> bool:
        """Whether it is a notification."""
        return self.message.shape == "notification"

    @property
    def is_listen(self) -> bool:
        """Whether it is a subscription."""
        return self.message.call is not None and self.message.call.is_listen

    @property
    def revision(self) -> str | None:
        """The revision it was sent in, if the recording shows it."""
        return self.message.call.revision if self.message.call is not None else self.message.connection.negotiated


class _ConnectionState:
    """The exchanges in progress on one connection of the recording."""

    def __init__(self) -> None:
        self.open: dict[Call, Exchange] = {}
        self.latest: Exchange | None = None

    def current(self) -> Exchange | None:
        """Return what an untagged message most likely belongs to: the newest open request, else the newest exchange."""
        return next((exchange for exchange in reversed(self.open.values()) if not exchange.is_listen), self.latest)

    def set_latest(self, exchange: Exchange) -> None:
        """Complete the exchange before this one, unless its response is missing."""
        before, self.latest = self.latest, exchange
        if before is not None and before is not exchange and (before.is_answered or before.is_notification):
            before.is_complete = True


class Recording:
    """A trace, indexed by request while it is read."""

    def __init__(self, header: Header, entries: Iterable[Entry]) -> None:
        self.exchanges: dict[Any, list[Exchange]] = {}  # by request_key(); the key of a notification starts with ""
        self.by_method: dict[str, list[Exchange]] = {}  # only requests
        self.server_info: Raw | None = None  # of the recorded server, as written
        self.redacted = tuple(name.casefold() for name in header.redacted)
        self._entries = iter(entries)
        self._conversation = Conversation(header)
        self._connections: dict[RecordedConnection, _ConnectionState] = {}
        self._exchange_of: dict[Call, Exchange] = {}  # also those in which the server asked something
        self._count = 0

    def find(self, key: Any, number: int) -> Exchange | None:
        """Return exchange ``number`` (from 0) with this key, or the last answered one if there are fewer, or ``None``."""
        found = self.exchanges.setdefault(key, [])
        while len(found) <= number and self._read_entry():
            pass
        if not found:
            return None
        exchange = found[number] if number < len(found) else next((each for each in reversed(found) if each.is_answered), found[-1])
        self.complete(exchange)
        return exchange

    def complete(self, exchange: Exchange) -> None:
        """Read until everything that belongs to the exchange is known."""
        while not exchange.is_complete and self._read_entry():
            pass

    def read_everything(self) -> None:
        """Read to the end."""
        while self._read_entry():
            pass

    def request_key(self, method: str, params: dict[str, Any]) -> Any:
        """Return :func:`request_key` with the redacted members of this recording."""
        return request_key(method, params, self.redacted)

    def exchange_of(self, message: Message) -> Exchange | None:
        """Return the exchange whose progress token or subscription id a notification carries."""
        return None if message.call is None else self._exchange_of.get(message.call)

    def _read_entry(self) -> bool:
        entry = next(self._entries, None)
        if entry is None:
            return False
        item = self._conversation.feed(entry)
        if isinstance(item, Message):
            connection = self._connections.setdefault(item.connection, _ConnectionState())
            for message in item.members or (item,):
                if message.direction == ">":
                    self._add_client_message(connection, message)
                else:
                    self._add_server_message(connection, message)
        return True

    def _add_client_message(self, connection: _ConnectionState, message: Message) -> None:
        call = message.call
        asked = None if call is None else self._exchange_of.get(call.first_round)
        if message.shape == "request" and call is not None:
            exchange = asked or self._add_exchange(message)
            self._exchange_of[call] = connection.open[call] = exchange
            connection.set_latest(exchange)
        elif message.method == "notifications/cancelled":
            if call is not None and (cancelled := connection.open.pop(call, None)) is not None:
                cancelled.was_cancelled = cancelled.is_complete = True
        elif message.shape == "notification" and message.method != "notifications/progress":
            connection.set_latest(self._add_exchange(message))
        elif message.is_answer and asked is not None:
            for step in asked.steps:
                if isinstance(step, RecordedQuestions):
                    step.is_open = False

    def _add_exchange(self, message: Message) -> Exchange:
        method, params = message.method or "", message.params
        self._count += 1
        exchange = Exchange(message, params if isinstance(params, dict) else {}, self._count)
        key = self.request_key(method, exchange.params)
        if exchange.is_notification:
            key = ("", *key)
        else:
            self.by_method.setdefault(method, []).append(exchange)
        self.exchanges.setdefault(key, []).append(exchange)
        return exchange

    def _add_server_message(self, connection: _ConnectionState, message: Message) -> None:
        if message.is_answer:
            exchange = None if message.call is None else connection.open.pop(message.call, None)
            if exchange is not None:
                self._add_response(connection, exchange, message)
        elif message.shape == "request":
            self._add_question(connection, message)
        elif message.shape == "notification" and message.method != "notifications/cancelled":
            about = self.exchange_of(message)
            # A change is repeated when the request that caused it is repeated; an acknowledgement belongs to its subscription.
            is_about = message.method in {"notifications/progress", "notifications/subscriptions/acknowledged"}
            cause = about if is_about else connection.current()
            if cause is not None:
                cause.steps.append(message)

    def _add_response(self, connection: _ConnectionState, exchange: Exchange, message: Message) -> None:
        result = message.result
        if message.shape == "result" and not isinstance(result, dict):
            return  # it breaks a rule
        if message.call is not None and message.call.asks_back:
            exchange.steps.append(_questions_in(message.raw_result, result))
            return
        exchange.steps.append(message)
        if message.shape == "result":
            parts = members(message.raw_result)
            if exchange.message.method == "initialize":
                self.server_info = parts.get("serverInfo")
            elif self.server_info is None and isinstance(result.get("_meta"), dict):
                self.server_info = members(parts["_meta"]).get(META_SERVER_INFO)
        exchange.is_answered = True
        if exchange is not connection.latest:
            exchange.is_complete = True

    def _add_question(self, connection: _ConnectionState, message: Message) -> None:
        exchange = connection.current()
        if message.method == "ping" or message.call is None or exchange is None:
            return
        question = Question(message.method or "", message.raw_params)
        last = exchange.steps[-1] if exchange.steps else None
        if isinstance(last, RecordedQuestions) and last.is_open:
            last.questions.append(question)
        else:
            exchange.steps.append(RecordedQuestions([question]))
        self._exchange_of[message.call] = exchange


def _questions_in(text: Raw, result: dict[str, Any]) -> RecordedQuestions:
    try:
        asked = [members(question) for question in members(members(text)["inputRequests"]).values()]
    except (NotJson, KeyError):  # it breaks a rule, or has only a state
        asked = []
    questions = [
        Question(method, each.get("params", Raw())) for each in asked if isinstance(method := decode(each.get("method")), str)
    ]
    return RecordedQuestions(questions, result.get("requestState"), text, is_open=False)


def request_key(method: str, params: dict[str, Any], redacted: tuple[str, ...] = ()) -> Any:
    """Return a key that is equal for requests that ask for the same: method and params, without ``_meta`` and ``requestState``."""
    if method in _OPENINGS:
        return (method,)
    return method, _frozen(
        {name: value for name, value in params.items() if name not in ENVELOPE_MEMBERS and value not in (None, {})}, redacted
    )


def _frozen(value: Any, redacted: tuple[str, ...]) -> Any:
    """Return a JSON value as a hashable key. Values that the recorder may have redacted are equal to any other value."""
    if isinstance(value, dict):
        return (
            "{",
            *sorted((name, "*" if name.casefold() in redacted else _frozen(each, redacted)) for name, each in value.items()),
        )
    if isinstance(value, list):
        return ("[", *[_frozen(each, redacted) for each in value])
    if isinstance(value, str) and redacted and _may_be_redacted(value, redacted):
        return "*"
    return (type(value).__name__ if not isinstance(value, int | float) or isinstance(value, bool) else "number", value)


def _may_be_redacted(text: str, redacted: tuple[str, ...]) -> bool:
    """Whether the recording may hold another string: the recorder keeps ``name=`` and replaces the value."""
    folded = text.casefold().replace("-", "_")
    return ("=" in text or ":" in text) and any(name.replace("-", "_") in folded for name in redacted)
