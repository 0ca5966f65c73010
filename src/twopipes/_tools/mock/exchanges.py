"""A recording as a mock server needs it: each request of the client, with everything the server sent in reply, step by step.

The recording is read only as far as needed, so that the first response does not wait for the end of a long recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Raw, Struct

from twopipes._protocol.revisions import META_SERVER_INFO, META_SUBSCRIPTION_ID, META_VERSION
from twopipes._tools.mock.raw_json import Members, NotJson, decode, members, read_line
from twopipes._trace.format import Entry, Header, Line

# Members of params that describe how a request is made, not what it asks for.
_ENVELOPE_MEMBERS = ("_meta", "requestState", "inputResponses")
# Requests that open a conversation. They match whatever their params are.
_OPENINGS = ("initialize", "server/discover")


class RecordedNotification(Struct, eq=False):
    """A notification of the server.

    Attributes:
        method: Its method.
        params: Its params as written; ``None`` if it has none.
        about: The recorded request whose progress token or subscription id it carries.
    """

    method: str
    params: Raw | None
    about: Exchange | None = None


class Question(Struct, frozen=True):
    """One question of the server to the client."""

    method: str
    params: Raw | None


class RecordedQuestions(Struct, eq=False):
    """Questions of the server: its own requests, or an ``input_required`` result.

    Attributes:
        questions: The questions, in order.
        state: ``requestState`` as written; ``None`` if there was none.
        result: The whole ``input_required`` result as written; ``None`` for requests.
        is_open: Whether the next request of the server belongs to the same group: none of these has been answered yet.
    """

    questions: list[Question]
    state: Raw | None = None
    result: Raw | None = None
    is_open: bool = True


class RecordedResponse(Struct, eq=False):
    """The response to a request: its ``result`` or its ``error`` as written."""

    text: Raw
    is_error: bool


class Exchange(Struct, eq=False):
    """A request of the client with everything the server sent in reply; or a notification, with what it led to.

    Attributes:
        method: The method.
        params: The params, decoded.
        revision: The revision it was sent in, if the recording shows it.
        is_notification: Whether it is a notification.
        steps: What the server sent, in order. Steps after the response came before the client sent anything else.
        is_answered: Whether there is a response among the steps.
        was_cancelled: Whether the client cancelled it.
        is_complete: Whether everything that belongs to it has been read.
        number: Its position in the recording.
    """

    method: str
    params: dict[str, Any]
    revision: str | None
    is_notification: bool = False
    steps: list[RecordedNotification | RecordedQuestions | RecordedResponse] = []  # msgspec copies an empty default
    is_answered: bool = False
    was_cancelled: bool = False
    is_complete: bool = False
    number: int = 0

    @property
    def is_listen(self) -> bool:
        """Whether it is a subscription."""
        return self.method == "subscriptions/listen"


class _ConnectionState:
    """What is in progress on one connection of the recording."""

    def __init__(self) -> None:
        self.revision: str | None = None
        self.open: dict[Any, Exchange] = {}
        self.listens: dict[Any, Exchange] = {}
        self.tokens: dict[Any, Exchange] = {}
        self.questions: dict[Any, Exchange] = {}
        self.latest: Exchange | None = None

    def current(self) -> Exchange | None:
        """Return what an untagged message most likely belongs to: the newest open request, else the newest exchange."""
        for exchange in reversed(self.open.values()):
            if not exchange.is_listen:
                return exchange
        return self.latest


class Recording:
    """A trace, indexed by request while it is read.

    Args:
        header: The header of the trace.
        entries: Its entries with whole lines, as :meth:`Trace.whole_lines` yields them.

    Attributes:
        exchanges: What has been read so far, by :func:`request_key`. The key of a notification starts with ``""``.
        by_method: The requests read so far, by method.
        redacted: Lower-case names of members whose values the recording does not hold.
        server_info: ``serverInfo`` of the recorded server as written, once it has been read.
    """

    def __init__(self, header: Header, entries: Iterable[Entry]) -> None:
        self._entries = iter(entries)
        self.exchanges: dict[Any, list[Exchange]] = {}
        self.by_method: dict[str, list[Exchange]] = {}
        self.server_info: Raw | None = None
        self._connections: dict[int, _ConnectionState] = {}
        self._waiting_for_input: dict[Any, list[Exchange]] = {}
        self._is_at_end = False
        self._count = 0
        self.redacted = tuple(name.casefold() for name in header.redacted)

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

    def _read_entry(self) -> bool:
        if self._is_at_end:
            return False
        entry = next(self._entries, None)
        if entry is None:
            self._is_at_end = True
            for connection in self._connections.values():
                self._complete_all(connection, *connection.open.values())
            return False
        if isinstance(entry, Line) and entry.kind != "!" and entry.is_whole:
            connection = self._connections.setdefault(entry.connection, _ConnectionState())
            try:
                message = read_line(entry.data)
                for each in message if isinstance(message, list) else [message]:
                    self._add_message(connection, entry.kind, each)
            except (NotJson, KeyError, TypeError, AttributeError):
                pass  # not a message, or one that breaks a rule
        return True

    def _add_message(self, connection: _ConnectionState, kind: str, message: Members) -> None:
        if "method" in message and not isinstance(decode(message["method"]), str):
            return  # there is nothing a client could request
        if kind == ">":
            if "method" in message:
                self._add_client_message(connection, message)
            elif (asked := connection.questions.pop(id_key(decode(message.get("id"))), None)) is not None:
                for step in asked.steps:
                    if isinstance(step, RecordedQuestions):
                        step.is_open = False
        elif "method" not in message:
            self._add_response(connection, message)
        elif "id" in message:
            self._add_question(connection, message)
        else:
            self._add_notification(connection, message)

    # Messages of the client

    def _add_client_message(self, connection: _ConnectionState, message: Members) -> None:
        method = decode(message["method"])
        params = _params(message)
        if "id" not in message:
            if method == "notifications/cancelled":
                cancelled = connection.open.pop(id_key(params.get("requestId")), None)
                if cancelled is not None:
                    cancelled.was_cancelled = True
                    self._complete_all(connection, cancelled)
            elif method != "notifications/progress":
                self._add_exchange(connection, Exchange(method, params, connection.revision, is_notification=True))
            return
        key = id_key(decode(message["id"]))
        meta = _meta(params)
        exchange = self._continued(method, params)
        if exchange is None:
            exchange = Exchange(method, params, meta.get(META_VERSION, connection.revision))
            self._add_exchange(connection, exchange)
        else:
            self._set_latest(connection, exchange)
        connection.open[key] = exchange
        if exchange.is_listen:
            connection.listens[key] = exchange
        token = meta.get("progressToken")
        if token is not None:
            connection.tokens[id_key(token)] = exchange

    def _continued(self, method: str, params: dict[str, Any]) -> Exchange | None:
        """Return the exchange that this request continues with another round (MR-05)."""
        if "requestState" not in params and "inputResponses" not in params:
            return None
        waiting = self._waiting_for_input.get((self.request_key(method, params), params.get("requestState")))
        return waiting.pop(0) if waiting else None

    def _add_exchange(self, connection: _ConnectionState, exchange: Exchange) -> None:
        self._set_latest(connection, exchange)
        self._count += 1
        exchange.number = self._count
        key = self.request_key(exchange.method, exchange.params)
        if exchange.is_notification:
            key = ("", *key)
        else:
            self.by_method.setdefault(exchange.method, []).append(exchange)
        self.exchanges.setdefault(key, []).append(exchange)

    def _set_latest(self, connection: _ConnectionState, exchange: Exchange) -> None:
        before, connection.latest = connection.latest, exchange
        if before is not None and before is not exchange and (before.is_answered or before.is_notification):
            self._complete_all(connection, before)

    def _complete_all(self, connection: _ConnectionState, *exchanges: Exchange) -> None:
        for exchange in exchanges:
            exchange.is_complete = True
        if self._is_at_end and connection.latest is not None:
            connection.latest.is_complete = True

    # Messages of the server

    def _add_response(self, connection: _ConnectionState, message: Members) -> None:
        exchange = connection.open.pop(id_key(decode(message.get("id"))), None)
        if exchange is None:
            return
        if "error" in message:
            exchange.steps.append(RecordedResponse(message["error"], is_error=True))
        else:
            text = message["result"]
            result = decode(text)
            if result.get("resultType") == "input_required":
                self._add_input_required(exchange, result, text)
                return
            exchange.steps.append(RecordedResponse(text, is_error=False))
            self._read_identity(connection, exchange, result, text)
        exchange.is_answered = True
        if exchange is not connection.latest:
            exchange.is_complete = True

    def _add_input_required(self, exchange: Exchange, result: dict[str, Any], text: Raw) -> None:
        parts = members(text)
        questions = []
        if "inputRequests" in parts:
            for question in map(members, members(parts["inputRequests"]).values()):
                method = decode(question.get("method"))
                if isinstance(method, str):
                    questions.append(Question(method, question.get("params")))
        exchange.steps.append(RecordedQuestions(questions, parts.get("requestState"), text, is_open=False))
        key = (self.request_key(exchange.method, exchange.params), result.get("requestState"))
        self._waiting_for_input.setdefault(key, []).append(exchange)

    def _read_identity(self, connection: _ConnectionState, exchange: Exchange, result: dict[str, Any], text: Raw) -> None:
        if exchange.method == "initialize":
            connection.revision = exchange.revision = result.get("protocolVersion")
            self.server_info = members(text)["serverInfo"]
        elif self.server_info is None and META_SERVER_INFO in _meta(result):
            self.server_info = members(members(text)["_meta"])[META_SERVER_INFO]

    def _add_question(self, connection: _ConnectionState, message: Members) -> None:
        method = decode(message["method"])
        exchange = connection.current()
        if method == "ping" or exchange is None:
            return
        question = Question(method, message.get("params"))
        last = exchange.steps[-1] if exchange.steps else None
        if isinstance(last, RecordedQuestions) and last.is_open:
            last.questions.append(question)
        else:
            exchange.steps.append(RecordedQuestions([question]))
        connection.questions[id_key(decode(message["id"]))] = exchange

    def _add_notification(self, connection: _ConnectionState, message: Members) -> None:
        method = decode(message["method"])
        params = _params(message)
        text = message.get("params")
        if method == "notifications/cancelled":
            return  # it cancels a question of the server, or ends a subscription
        if method == "notifications/progress":
            about = connection.tokens.get(id_key(params.get("progressToken")))
            if about is not None:
                about.steps.append(RecordedNotification(method, text, about))
            return
        about = connection.listens.get(id_key(_meta(params).get(META_SUBSCRIPTION_ID)))
        # A change is repeated when the request that caused it is repeated; an acknowledgement belongs to its subscription.
        cause = about if method == "notifications/subscriptions/acknowledged" else connection.current()
        if cause is not None:
            cause.steps.append(RecordedNotification(method, text, about))


def request_key(method: str, params: dict[str, Any], redacted: tuple[str, ...] = ()) -> Any:
    """Return a key that is equal for requests that ask for the same: method and params, without ``_meta`` and ``requestState``."""
    if method in _OPENINGS:
        return (method,)
    return method, _frozen(
        {name: value for name, value in params.items() if name not in _ENVELOPE_MEMBERS and value not in (None, {})}, redacted
    )


def requested_revision(params: dict[str, Any]) -> str | None:
    """Return the revision that a request of the modern era names; ``None`` for one of a session (VN-01)."""
    version = _meta(params).get(META_VERSION)
    return version if isinstance(version, str) else None


def id_key(value: Any) -> Any:
    """Return an id or a token as a key that keeps 7 and "7" apart (JR-06); ``None`` if it cannot be an id."""
    return (type(value).__name__, value) if isinstance(value, str | int | float) else None


def _frozen(value: Any, redacted: tuple[str, ...]) -> Any:
    """Return a JSON value as a hashable key. ``True`` and 1 are different values, as in JSON.

    Values that the recorder may have redacted, by name or inside a string, are equal to any other value.
    """
    if isinstance(value, dict):
        return ("{", *sorted((name, _frozen_member(name, each, redacted)) for name, each in value.items()))
    if isinstance(value, list):
        return ("[", *[_frozen(each, redacted) for each in value])
    if isinstance(value, str) and redacted and _may_be_redacted(value, redacted):
        return "*"
    return (type(value).__name__ if not isinstance(value, int | float) or isinstance(value, bool) else "number", value)


def _frozen_member(name: str, value: Any, redacted: tuple[str, ...]) -> Any:
    return "*" if name.casefold() in redacted else _frozen(value, redacted)


def _may_be_redacted(text: str, redacted: tuple[str, ...]) -> bool:
    """Whether the recording may hold another string: the recorder keeps ``name=`` and replaces the value."""
    folded = text.casefold().replace("-", "_")
    return ("=" in text or ":" in text) and any(name.replace("-", "_") in folded for name in redacted)


def _params(message: Members) -> dict[str, Any]:
    params = decode(message.get("params"))
    return params if isinstance(params, dict) else {}


def _meta(params: dict[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}
