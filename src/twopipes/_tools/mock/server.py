"""A server that answers from a recording: lines of a live client go in, lines for it come out.

No I/O, and nothing is imported that a host would have to wait for; see :mod:`.scanning`. What has to be said in another revision
than it was recorded in is put into it by :mod:`.adapting`, which is loaded when that is first needed.
"""

from __future__ import annotations

from twopipes._tools.mock.exchanges import META_SUBSCRIPTION_ID, Answer, Ask, Exchange, Note, Recording, era_of
from twopipes._tools.mock.handshakes import LEGACY, MODERN, discovered, initialized
from twopipes._tools.mock.scan import NotJson, elements, members, object_of, quoted, scan, with_member

TYPE_CHECKING = False  # as in twopipes/__init__.py
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Mock"]

META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_PROGRESS = "notifications/progress"
_MESSAGE = "notifications/message"
_UPDATED = "notifications/resources/updated"
# Which member of a subscription's filter asks for a change (SU-01).
_CHANGES = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    _UPDATED: "resourceSubscriptions",
}
# What a client must have declared to be asked.
_CAPABILITIES = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
# What only one era has, and what can be granted to those who ask in the other.
_GRANTED = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
# Where CON-09 wants the id of an error that answers nothing readable as null.
_NULL_ID_UNTIL = "2025-06-18"


class _Batch:
    """The answers to an array of requests, which go out as one array (JR-13)."""

    def __init__(self) -> None:
        self.left = 0
        self.answers: list[str] = []


class _Play:
    """A request of the live client, and how far its recorded counterpart has been played."""

    def __init__(self, identifier: str, method: str, params: dict[str, Any], revision: str, batch: _Batch | None) -> None:
        self.id = identifier  # its text
        self.method = method
        self.params = params
        self.revision = revision
        self.batch = batch
        self.exchange: Exchange | None = None
        self.position = 0
        self.waits_for = 0

    @property
    def meta(self) -> dict[str, Any]:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def is_modern(self) -> bool:
        return self.revision not in LEGACY


class Mock:
    """One live client and one recording.

    Args:
        recording: What to answer from.
        name: Of the recording, for error messages.
        strict: Answers only what was recorded, as often and in the revision in which it was.

    Attributes:
        out: Lines for the client, without their newlines; whoever sends them clears the list.
        complaints: Lines for whoever reads stderr; likewise.
        unmatched: How many requests the recording had no answer to.
    """

    def __init__(self, recording: Recording, *, name: str = "the recording", strict: bool = False) -> None:
        self._recording = recording
        self._name = name
        self._strict = strict
        self.out: list[str] = []
        self.complaints: list[str] = []
        self.unmatched = 0
        self._revision = ""  # of the session, if there is one
        self._capabilities: dict[str, Any] = {}
        self._used: dict[Any, int] = {}
        self._plays: dict[str, _Play] = {}
        self._asked: dict[str, _Play] = {}
        self._next_id = 1
        self._rounds: dict[Any, tuple[Exchange, int]] = {}
        self._listens: dict[str, _Play] = {}

    # What comes

    def receive(self, line: str) -> None:
        """Takes a line of the client."""
        if not line.strip():
            return
        try:
            if line.lstrip()[:1] == "[":
                batch = _Batch()
                parts = [members(element) for element in elements(line)]
                if not parts:
                    self._refuse(INVALID_REQUEST, "an empty batch")  # JR-13
                batch.left = sum("id" in part and "method" in part for part in parts)
                for part in parts:
                    self._take(part, batch)
            else:
                self._take(members(line), None)
        except NotJson as error:
            self._refuse(PARSE_ERROR, f"not a JSON-RPC message: {error}")

    def _take(self, message: dict[str, tuple[Any, str]], batch: _Batch | None) -> None:
        method = message["method"][0] if "method" in message else None
        params = message["params"][0] if "params" in message else {}
        if method is None:
            self._take_answer(message)
        elif not isinstance(method, str) or not isinstance(params, dict) or not _is_id(message):
            self._refuse(
                INVALID_REQUEST, "not a JSON-RPC message", message["id"][1] if _is_id(message) and "id" in message else None
            )
        elif "id" not in message:
            self._take_notification(method, params)
        else:
            revision = era_of(params) or self._revision or ""
            play = _Play(message["id"][1], method, params, revision, batch)
            self._plays[play.id] = play
            self._answer(play)

    def _take_answer(self, message: dict[str, tuple[Any, str]]) -> None:
        play = self._asked.pop(message["id"][1], None) if "id" in message else None
        if play is None:
            return
        play.waits_for -= 1
        if not play.waits_for:
            self._go_on(play)

    def _take_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/cancelled":
            wanted = params.get("requestId")
            text = quoted(wanted) if isinstance(wanted, str) else str(wanted)
            self._listens.pop(text, None)
            if (play := self._plays.pop(text, None)) is not None:
                self._asked = {key: asked for key, asked in self._asked.items() if asked is not play}
                play.exchange = None
            return
        exchange = self._take_turn(("", *self._recording.key_of(method, params)))
        if exchange is not None:
            play = _Play("", method, params, self._revision, None)
            play.exchange = exchange
            self._go_on(play)

    # What is answered

    def _answer(self, play: _Play) -> None:
        if play.is_modern and play.revision and play.revision not in MODERN:
            # VN-04, ER-09
            supported = "[" + ",".join(map(quoted, MODERN)) + "]"
            data = object_of({"supported": supported, "requested": quoted(play.revision)})
            self._fail(play, UNSUPPORTED_VERSION, f"Unsupported protocol version: {play.revision}", data)
            return
        if "requestState" in play.params or "inputResponses" in play.params:
            self._answer_round(play)
            return
        if play.method == "initialize":
            self._open_session(play)
            return
        exchange = self._take_turn(self._recording.key_of(play.method, play.params))
        if exchange is None:
            self._answer_unrecorded(play)
            return
        play.exchange = exchange
        if play.method == "subscriptions/listen":
            self._listens[play.id] = play
        self._go_on(play)

    def _take_turn(self, key: Any) -> Exchange | None:
        """The recorded exchange whose turn it is: equal requests get their answers in the recorded order, and then the last one."""
        number = self._used.get(key, 0)
        self._used[key] = number + 1
        exchange = self._recording.find(key, number)
        if self._strict and number >= len(self._recording.exchanges[key]):
            return None
        return exchange

    def _open_session(self, play: _Play) -> None:
        wanted = play.params.get("protocolVersion")
        capabilities = play.params.get("capabilities")
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        exchange = self._take_turn(("initialize",))
        if exchange is None and self._strict:
            self._answer_unrecorded(play)
            return
        if exchange is None or (not self._strict and exchange.params.get("protocolVersion") != wanted):
            # Nobody asked for this revision before. What was recorded in another one is put into it.
            text, self._revision = initialized(self._recording, wanted)
            self._succeed(play, text)
            return
        self._revision = exchange.revision or ""
        play.revision = self._revision
        play.exchange = exchange
        self._go_on(play)

    def _answer_round(self, play: _Play) -> None:
        """A further round of a call that was answered with a question: told by the state that it brings back (MR-07)."""
        key = self._recording.key_of(play.method, play.params)
        state = play.params.get("requestState")
        found = self._rounds.get((key, state)) or self._recorded_round(key, state)
        if found is None:
            self._complain(play, "requestState is none that the recording has for this request")
            return
        play.exchange, play.position = found
        self._go_on(play)

    def _recorded_round(self, key: Any, state: Any) -> tuple[Exchange, int] | None:
        # Asked of a process that is gone: the recording knows as well.
        self._recording.read_everything()
        for exchange in self._recording.exchanges.get(key, ()):
            for position, step in enumerate(exchange.steps):
                if isinstance(step, Ask) and step.state is not None and scan(step.state) == state:
                    return exchange, position + 1
        return None

    def _answer_unrecorded(self, play: _Play) -> None:
        """What nobody asked when it was recorded, but what follows from the rest."""
        if not self._strict:
            if play.method == "server/discover":
                self._succeed(play, discovered(self._recording))
                return
            if play.method in _GRANTED and not play.is_modern:
                self._succeed(play, "{}")
                return
            if play.method == "subscriptions/listen" and play.is_modern:
                self._listens[play.id] = play
                self._acknowledge(play)
                return
        recorded = self._recording.by_method.get(play.method)
        if recorded is None:
            self._complain(play, f"{self._name} has no {play.method}", METHOD_NOT_FOUND)
            return
        from twopipes._tools.mock.nearest import nearest  # noqa: PLC0415 - brings json along, and is needed when a test fails

        self._complain(play, *nearest(self._name, play.method, play.params, [each.params for each in recorded]))

    def _acknowledge(self, play: _Play) -> None:
        from json import dumps  # noqa: PLC0415 - where the recording has none

        tag = object_of({META_SUBSCRIPTION_ID: play.id})
        wanted = dumps(play.params.get("notifications", {}))
        self._say(_ACKNOWLEDGED, object_of({"_meta": tag, "notifications": wanted}))

    # What is played

    def _go_on(self, play: _Play) -> None:
        """Plays what was recorded until the client has to say something, or to the end."""
        exchange = play.exchange
        while exchange is not None and play.position < len(exchange.steps):
            step = exchange.steps[play.position]
            play.position += 1
            if isinstance(step, Note):
                self._tell(play, step)
            elif isinstance(step, Ask):
                if self._ask(play, step):
                    return
            elif not (exchange.is_listen and not step.is_error):  # SU-12: a subscription lives as long as the conversation
                self._give(play, step)
        if exchange is not None and not exchange.is_answered and not exchange.is_notification:
            if exchange.was_cancelled or exchange.is_listen:
                return  # silence is what the recording has
            self._complain(play, f"{self._name} ends before the answer to this {play.method}", INTERNAL_ERROR)

    def _give(self, play: _Play, answer: Answer) -> None:
        text = answer.text
        source = play.exchange.revision if play.exchange is not None else None
        if source and play.revision and source != play.revision and play.method != "server/discover":
            from twopipes._tools.mock.adapt import adapted_error, adapted_result  # noqa: PLC0415 - brings msgspec and all of mcp/ along

            if answer.is_error:
                text = adapted_error(play.method, text, source, play.revision)
            else:
                text = adapted_result(play.method, text, source, play.revision, self._recording.server_info)
        self._finish(play, "error" if answer.is_error else "result", text)

    def _ask(self, play: _Play, step: Ask) -> bool:
        """Asks the client, in the way of its era; whether there is something to wait for."""
        declared = play.meta.get(META_CAPABILITIES) if play.is_modern else self._capabilities
        questions = [
            each for each in step.questions if not isinstance(declared, dict) or _CAPABILITIES.get(each[1], "roots") in declared
        ]
        if not questions and step.questions:
            return False  # MR-04: what it did not declare, it is not asked
        if not play.is_modern:
            play.waits_for = len(questions)
            for _, method, params in questions:
                identifier = str(self._next_id)
                self._next_id += 1
                self._asked[identifier] = play
                self._say(method, params, identifier)
            return bool(questions)
        if play.id not in self._plays:
            return False  # it has its answer, and there is no other way to ask (MR-01)
        state = step.state
        text = step.result
        if text is None:
            # The same each time, so that what is remembered of rounds is bounded by the recording.
            state = quoted(f"{play.exchange.number if play.exchange is not None else 0} {play.position}")
            asked = {
                f"question-{number}": object_of({"method": quoted(method), "params": with_member(params, "_meta", None)})
                for number, (_, method, params) in enumerate(questions, 1)
            }
            parts = {"resultType": '"input_required"', "inputRequests": object_of(asked), "requestState": state}
            text = object_of(parts)
        if play.exchange is not None:
            key = self._recording.key_of(play.method, play.params)
            self._rounds[key, members(text)["requestState"][0] if state is not None else None] = (play.exchange, play.position)
        self._finish(play, "result", text)
        return True

    def _tell(self, play: _Play, note: Note) -> None:
        """Sends a notification as far as this client wants it: with its token, by its level, under its subscription."""
        params = note.params
        if note.method == _PROGRESS:
            token = play.meta.get("progressToken")
            if token is not None:
                self._say(
                    note.method, with_member(params, "progressToken", quoted(token) if isinstance(token, str) else str(token))
                )
        elif note.method == _MESSAGE:
            if not play.is_modern or META_LOG_LEVEL in play.meta:  # LG-05
                self._say(note.method, params)
        elif note.method == _ACKNOWLEDGED:
            self._say(note.method, _tagged(params, play.id))
        elif note.method in _CHANGES:
            self._tell_of_change(note, params)
        else:
            self._say(note.method, params)

    def _tell_of_change(self, note: Note, params: str) -> None:
        if self._revision and not self._listens:
            self._say(note.method, params if note.about is None else with_member(params, "_meta", None))
            return
        for listen in self._listens.values():
            # Under the subscription it was told under; or under all that want it, where that is not known.
            if note.about is not None and listen.exchange is not None:
                is_wanted = listen.exchange is note.about
            else:
                wanted = listen.params.get("notifications")
                is_wanted = isinstance(wanted, dict) and bool(wanted.get(_CHANGES[note.method]))
            if is_wanted:
                self._say(note.method, _tagged(params, listen.id))

    # What goes out

    def _say(self, method: str, params: str, identifier: str | None = None) -> None:
        parts = {"jsonrpc": '"2.0"'}
        if identifier is not None:
            parts["id"] = identifier
        parts["method"] = quoted(method)
        if params != "{}":
            parts["params"] = params
        self.out.append(object_of(parts))

    def _succeed(self, play: _Play, result: str) -> None:
        self._finish(play, "result", result)

    def _fail(self, play: _Play, code: int, message: str, data: str | None = None) -> None:
        parts = {"code": str(code), "message": quoted(message)}
        if data is not None:
            parts["data"] = data
        self._finish(play, "error", object_of(parts))

    def _complain(self, play: _Play, message: str, code: int = INVALID_PARAMS, data: str | None = None) -> None:
        self.unmatched += 1
        self.complaints.append(f"{message} (request {play.id})")
        self._fail(play, code, message, data)

    def _finish(self, play: _Play, member: str, text: str) -> None:
        self._plays.pop(play.id, None)
        line = object_of({"jsonrpc": '"2.0"', "id": play.id, member: text})
        if play.batch is None:
            self.out.append(line)
            return
        play.batch.answers.append(line)
        if len(play.batch.answers) == play.batch.left:
            self.out.append("[" + ",".join(play.batch.answers) + "]")

    def _refuse(self, code: int, message: str, identifier: str | None = None) -> None:
        """Answers what is no message."""
        if identifier is None and self._revision and self._revision <= _NULL_ID_UNTIL:
            identifier = "null"
        parts = {"jsonrpc": '"2.0"'}
        if identifier is not None:
            parts["id"] = identifier
        parts["error"] = object_of({"code": str(code), "message": quoted(message)})
        self.out.append(object_of(parts))


def _is_id(message: dict[str, tuple[Any, str]]) -> bool:
    """Whether the id can be one, or there is none (JR-02, JR-03)."""
    value = message["id"][0] if "id" in message else 0
    return isinstance(value, str | int) and not isinstance(value, bool)


def _tagged(params: str, identifier: str) -> str:
    """Params with the tag of a live subscription (SU-04)."""
    present = members(params)
    meta = present["_meta"][1] if "_meta" in present else "{}"
    return with_member(params, "_meta", with_member(meta, META_SUBSCRIPTION_ID, identifier))
