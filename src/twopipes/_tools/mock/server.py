"""A server that answers from a recording: lines of a live client go in, lines for it come out. No I/O.

Responses recorded in another revision are translated by :mod:`.adapt`, which is loaded when it is first needed.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct
from msgspec.json import encode

from twopipes._codes import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, UNSUPPORTED_REVISION
from twopipes._protocol.revisions import LEGACY, META_CAPABILITIES, META_LOG_LEVEL, META_SUBSCRIPTION_ID, META_VERSION, MODERN
from twopipes._tools.mock.exchanges import Exchange, RecordedQuestions, Recording
from twopipes._tools.mock.handshakes import discover_result, initialize_result
from twopipes._tools.mock.raw_json import Members, NotJson, decode, members, raw, read_line
from twopipes._trace.conversation import id_key
from twopipes._trace.message import Message

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_PROGRESS = "notifications/progress"
_MESSAGE = "notifications/message"
# The member of a subscription's filter that asks for each change notification (SU-01).
_CHANGES = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    "notifications/resources/updated": "resourceSubscriptions",
}
# The capability that a client must declare before it may be asked.
_CAPABILITIES = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
# Legacy requests that get an empty result if the recording, of the modern era, does not have them.
_GRANTED = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
# Up to this revision the id of an error for an unreadable request is null; later it is absent (CON-09).
_NULL_ID_UNTIL = "2025-06-18"


class _Batch(Struct):
    """The responses to an array of requests, which are sent as one array (JR-13)."""

    size: int
    responses: list[Members] = []  # msgspec copies an empty default


class _LiveRequest(Struct, eq=False):
    """A request or notification of the live client, and how far its recorded counterpart has been played."""

    id: Raw  # as the client wrote it; null for a notification
    method: str
    params: dict[str, Any]
    meta: dict[str, Any]
    revision: str
    batch: _Batch | None = None
    exchange: Exchange | None = None
    position: int = 0
    unanswered_questions: int = 0

    @property
    def key(self) -> Any:
        return id_key(decode(self.id))

    @property
    def is_modern(self) -> bool:
        return self.revision not in LEGACY


class Mock:
    """One live client and one recording.

    With ``strict``, answer only recorded requests, only as often as they were recorded and only in the recorded revision.
    """

    def __init__(self, recording: Recording, *, name: str = "the recording", strict: bool = False) -> None:
        self._recording = recording
        self._name = name
        self._strict = strict
        self.out: list[bytes] = []  # lines for the client, without newlines; the sender clears the list
        self.complaints: list[str] = []  # lines for stderr; the writer clears the list
        self.unmatched = 0  # the number of requests that the recording could not answer
        self._revision = ""  # of the session, if there is one
        self._capabilities: dict[str, Any] = {}
        self._used: dict[Any, int] = {}
        self._requests: dict[Any, _LiveRequest] = {}
        self._questions: dict[Any, _LiveRequest] = {}
        self._next_id = 1
        self._rounds: dict[Any, tuple[Exchange, int]] = {}
        self._listens: dict[Any, _LiveRequest] = {}

    def receive(self, line: bytes) -> None:
        """Handle a line of the client."""
        if not line.strip():
            return
        try:
            received = read_line(line)
            if not isinstance(received, list):
                self._handle(received, None)
                return
            if not received:
                self._reject(INVALID_REQUEST, "an empty batch")  # JR-13
            batch = _Batch(sum("id" in message and "method" in message for message in received))
            for message in received:
                self._handle(message, batch)
        except NotJson as error:
            self._reject(PARSE_ERROR, f"not a JSON-RPC message: {error}")

    def _handle(self, message: Members, batch: _Batch | None) -> None:
        method = decode(message.get("method"))
        params = decode(message["params"]) if "params" in message else {}
        identifier = message.get("id")
        if method is None:
            self._handle_response(message)
        elif not isinstance(method, str) or not isinstance(params, dict) or not _is_valid_id(identifier):
            self._reject(INVALID_REQUEST, "not a JSON-RPC message", identifier if _is_valid_id(identifier) else None)
        elif identifier is None:
            self._handle_notification(method, params)
        else:
            meta = _meta(params)
            version = meta.get(META_VERSION)
            request = _LiveRequest(identifier, method, params, meta, version if isinstance(version, str) else self._revision, batch)
            self._requests[request.key] = request
            self._handle_request(request)

    def _handle_response(self, message: Members) -> None:
        request = self._questions.pop(id_key(decode(message.get("id"))), None)
        if request is None:
            return
        request.unanswered_questions -= 1
        if not request.unanswered_questions:
            self._play(request)

    def _handle_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/cancelled":
            key = id_key(params.get("requestId"))
            self._listens.pop(key, None)
            if (request := self._requests.pop(key, None)) is not None:
                self._questions = {key: asking for key, asking in self._questions.items() if asking is not request}
                request.exchange = None
            return
        exchange = self._next_exchange(("", *self._recording.request_key(method, params)))
        if exchange is not None:
            self._play(_LiveRequest(raw(None), method, params, _meta(params), self._revision, exchange=exchange))

    def _handle_request(self, request: _LiveRequest) -> None:
        if request.is_modern and request.revision and request.revision not in MODERN:
            # VN-04, ER-09
            data = {"supported": MODERN, "requested": request.revision}
            self._send_error(request, UNSUPPORTED_REVISION, f"Unsupported protocol version: {request.revision}", data)
            return
        if "requestState" in request.params or "inputResponses" in request.params:
            self._handle_round(request)
            return
        if request.method == "initialize":
            self._open_session(request)
            return
        exchange = self._next_exchange(self._recording.request_key(request.method, request.params))
        if exchange is None:
            self._handle_unrecorded(request)
            return
        request.exchange = exchange
        if exchange.is_listen:
            self._listens[request.key] = request
        self._play(request)

    def _next_exchange(self, key: Any) -> Exchange | None:
        """Return the exchange to play next: equal requests get their responses in recorded order, then the last one again."""
        number = self._used.get(key, 0)
        self._used[key] = number + 1
        exchange = self._recording.find(key, number)
        if self._strict and number >= len(self._recording.exchanges[key]):
            return None
        return exchange

    def _open_session(self, request: _LiveRequest) -> None:
        requested = request.params.get("protocolVersion")
        capabilities = request.params.get("capabilities")
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        exchange = self._next_exchange(("initialize",))
        if exchange is None and self._strict:
            self._handle_unrecorded(request)
            return
        if exchange is None or (not self._strict and exchange.params.get("protocolVersion") != requested):
            # The recorded client requested another revision. Responses will be translated.
            result, self._revision = initialize_result(self._recording, requested)
            self._send_response(request, "result", result)
            return
        self._revision = exchange.revision or ""
        request.revision = self._revision
        request.exchange = exchange
        self._play(request)

    def _handle_round(self, request: _LiveRequest) -> None:
        """Continue a call that was answered with a question, identified by its ``requestState`` (MR-07)."""
        key = self._recording.request_key(request.method, request.params)
        state = request.params.get("requestState")
        found = self._rounds.get((key, encode(state))) or self._recorded_round(key, state)
        if found is None:
            self._complain(request, "the recording does not have this requestState for this request")
            return
        request.exchange, request.position = found
        self._play(request)

    def _recorded_round(self, key: Any, state: Any) -> tuple[Exchange, int] | None:
        # Another process may have sent the question. The recording has its state as well.
        self._recording.read_everything()
        for exchange in self._recording.exchanges.get(key, ()):
            for position, step in enumerate(exchange.steps):
                if isinstance(step, RecordedQuestions) and step.state is not None and step.state == state:
                    return exchange, position + 1
        return None

    def _handle_unrecorded(self, request: _LiveRequest) -> None:
        """Answer a request that was not recorded, if the response follows from the rest of the recording."""
        if not self._strict:
            if request.method == "server/discover":
                self._send_response(request, "result", discover_result(self._recording))
                return
            if request.method in _GRANTED and not request.is_modern:
                self._send_response(request, "result", raw({}))
                return
            if request.method == "subscriptions/listen" and request.is_modern:
                self._listens[request.key] = request
                tag = {META_SUBSCRIPTION_ID: request.id}
                self._send(_ACKNOWLEDGED, raw({"_meta": tag, "notifications": request.params.get("notifications", {})}))
                return
        recorded = self._recording.by_method.get(request.method)
        if recorded is None:
            self._complain(request, f"{self._name} has no {request.method}", METHOD_NOT_FOUND)
            return
        from twopipes._tools.mock.nearest import nearest_request  # loads difflib, which few runs need

        message, data = nearest_request(self._name, request.method, request.params, [each.params for each in recorded])
        self._complain(request, message, INVALID_PARAMS, data)

    # Playing recorded steps

    def _play(self, request: _LiveRequest) -> None:
        """Play the recorded steps up to the next question to the client, or to the end."""
        exchange = request.exchange
        if exchange is None:
            return
        while request.position < len(exchange.steps):
            step = exchange.steps[request.position]
            request.position += 1
            if isinstance(step, RecordedQuestions):
                if self._play_questions(request, step):
                    return
            elif not step.is_answer:
                self._play_notification(request, step)
            elif step.shape == "error" or not exchange.is_listen:  # SU-12: a subscription lasts as long as the connection
                self._play_response(request, exchange, step)
        # A request that was cancelled or a subscription has no response in the recording either.
        if not (exchange.is_answered or exchange.is_notification or exchange.was_cancelled or exchange.is_listen):
            self._complain(request, f"{self._name} ends before the response to this {request.method}", INTERNAL_ERROR)

    def _play_response(self, request: _LiveRequest, exchange: Exchange, response: Message) -> None:
        text = response.raw_result
        if response.shape == "error":
            line = read_line(response.line)  # raw_error has no unknown members
            text = line["error"] if isinstance(line, dict) else response.raw_error
        source = exchange.revision
        if source and request.revision and source != request.revision and request.method != "server/discover":
            from twopipes._tools.mock.adapt import adapted_error, adapted_result  # loads all protocol types

            if response.shape == "error":
                text = adapted_error(request.method, text, source, request.revision)
            else:
                text = adapted_result(request.method, text, source, request.revision, self._recording.server_info)
        self._send_response(request, response.shape, text)

    def _play_questions(self, request: _LiveRequest, step: RecordedQuestions) -> bool:
        """Ask the client in the way of its era. Return whether there is a reply to wait for."""
        declared = request.meta.get(META_CAPABILITIES) if request.is_modern else self._capabilities
        questions = [
            each for each in step.questions if not isinstance(declared, dict) or _CAPABILITIES.get(each.method, "roots") in declared
        ]
        if not questions and step.questions:
            return False  # MR-04: do not ask what the client did not declare
        if not request.is_modern:
            request.unanswered_questions = len(questions)
            for question in questions:
                self._questions[id_key(self._next_id)] = request
                self._send(question.method, question.params, self._next_id)
                self._next_id += 1
            return bool(questions)
        if request.key not in self._requests:
            return False  # it already has its response, and there is no other way to ask (MR-01)
        result = step.result
        if result is None:
            # The state is the same each time, so that the size of _rounds is bounded by the recording.
            state = f"{request.exchange.number if request.exchange is not None else 0} {request.position}"
            asked = {
                f"question-{number}": {"method": question.method, "params": _without_meta(question.params)}
                for number, question in enumerate(questions, 1)
            }
            result = raw({"resultType": "input_required", "inputRequests": asked, "requestState": state})
        if request.exchange is not None:
            key = self._recording.request_key(request.method, request.params)
            self._rounds[key, encode(decode(members(result).get("requestState")))] = (request.exchange, request.position)
        self._send_response(request, "result", result)
        return True

    def _play_notification(self, request: _LiveRequest, notification: Message) -> None:
        """Send a notification if this client asked for it, with its own progress token or subscription id."""
        method, params = notification.method or "", notification.raw_params
        if method == _PROGRESS:
            token = request.meta.get("progressToken")
            if token is not None:
                self._send(method, raw(_members_of(params) | {"progressToken": raw(token)}))
        elif method == _MESSAGE:
            if not request.is_modern or META_LOG_LEVEL in request.meta:  # LG-05
                self._send(method, params)
        elif method == _ACKNOWLEDGED:
            self._send(method, _tagged(params, request.id))
        elif method in _CHANGES:
            self._play_change(method, params, self._recording.exchange_of(notification))
        else:
            self._send(method, params)

    def _play_change(self, method: str, params: Raw, about: Exchange | None) -> None:
        if self._revision and not self._listens:
            self._send(method, params if about is None else raw(_without_meta(params)))
            return
        for listen in self._listens.values():
            # Send it under the recorded subscription, or under all that asked for it if that one is not known.
            if about is not None and listen.exchange is not None:
                is_wanted = listen.exchange is about
            else:
                wanted = listen.params.get("notifications")
                is_wanted = isinstance(wanted, dict) and bool(wanted.get(_CHANGES[method]))
            if is_wanted:
                self._send(method, _tagged(params, listen.id))

    # Output

    def _send(self, method: str, params: Raw, identifier: int | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0"}
        if identifier is not None:
            message["id"] = identifier
        message["method"] = method
        if bytes(params) not in {b"", b"{}"}:
            message["params"] = params
        self.out.append(encode(message))

    def _send_error(self, request: _LiveRequest, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        error: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        self._send_response(request, "error", raw(error))

    def _complain(
        self, request: _LiveRequest, message: str, code: int = INVALID_PARAMS, data: dict[str, Any] | None = None
    ) -> None:
        self.unmatched += 1
        self.complaints.append(f"{message} (request {bytes(request.id).decode()})")
        self._send_error(request, code, message, data)

    def _send_response(self, request: _LiveRequest, member: str, text: Raw) -> None:
        self._requests.pop(request.key, None)
        response = {"jsonrpc": raw("2.0"), "id": request.id, member: text}
        if request.batch is None:
            self.out.append(encode(response))
            return
        request.batch.responses.append(response)
        if len(request.batch.responses) == request.batch.size:
            self.out.append(encode(request.batch.responses))

    def _reject(self, code: int, message: str, identifier: Raw | None = None) -> None:
        """Answer a line that is not a message."""
        response: dict[str, Any] = {"jsonrpc": "2.0"}
        if identifier is not None or (self._revision and self._revision <= _NULL_ID_UNTIL):
            response["id"] = identifier
        response["error"] = {"code": code, "message": message}
        self.out.append(encode(response))


def _is_valid_id(identifier: Raw | None) -> bool:
    """Whether the id is a string or an integer, or is absent (JR-02, JR-03)."""
    if identifier is None:
        return True
    value = decode(identifier)
    return isinstance(value, str | int) and not isinstance(value, bool)


def _meta(params: dict[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _members_of(params: Raw) -> Members:
    return members(params) if bytes(params) else {}


def _without_meta(params: Raw) -> Members:
    return {name: text for name, text in _members_of(params).items() if name != "_meta"}


def _tagged(params: Raw, identifier: Raw) -> Raw:
    """Return params with the id of a live subscription (SU-04)."""
    parts = _members_of(params)
    meta = _members_of(parts.get("_meta", Raw())) | {META_SUBSCRIPTION_ID: identifier}
    return raw(parts | {"_meta": raw(meta)})
