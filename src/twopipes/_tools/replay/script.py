"""Sends the messages of a recorded client to a live server: which message is due, and what must come before it.

Without I/O and clock: lines of the live server go in (:meth:`Replay.receive`), lines for it come out (:meth:`Replay.due`), and the
caller decides how long to wait (:meth:`Replay.give_up`).

A message is due when everything that the recorded server sent before it has come: responses and questions always, notifications as
long as the live server sends them as well. Values that the live server chooses (question ids, ``requestState``, cursors) replace
the recorded ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import UNSET, Struct, json

from twopipes._trace.conversation import Call, Conversation, RecordedConnection
from twopipes._trace.format import Event, Line
from twopipes._trace.matching import Ignoring, differences, pair_questions
from twopipes._trace.message import Message

PING = "ping"
PROGRESS = "notifications/progress"
LISTEN = "subscriptions/listen"
# The response to a question that the recorded server did not ask. The server must not wait forever.
_NOT_RECORDED = {"code": -32603, "message": "the replayed recording has no response to this request"}
# Noise lines that are kept; the rest is only counted.
MAX_NOISE = 100

_Group = tuple[str, Call | None]


class Expected(Struct, eq=False, kw_only=True):
    """A message of the recorded server that the live server is expected to send."""

    message: Message
    kind: Literal["answer", "question", "notification"]
    call: Call | None
    state: Literal["awaited", "came", "missed", "off"] = "awaited"  # missed: given up; off: no longer expected
    waited: float = 0.0  # seconds that the recorded client waited for it since its last message

    def describe(self) -> str:
        """Return a description: ``the response to tools/call add (id 3)``."""
        if self.kind == "answer" and self.call is not None:
            return f"the response to {name_of(self.call)}"
        if self.kind == "question":
            return f"the server's question {self.message.method}"
        if self.message.method is None:
            return "an error without an id"
        of = f" of {name_of(self.call)}" if self.call is not None else ""
        return f"{self.message.method}{of}"


class Replay:
    """The replay of one connection of a recording."""

    def __init__(self, recorded: Conversation, connection: RecordedConnection, *, ignore: Sequence[str] = ()) -> None:
        self.recorded = recorded
        self.connection = connection
        self.ignoring = Ignoring(ignore, blanked=recorded.header.redacted)
        self.ignored = tuple(ignore)
        self.live = Conversation()
        self.partners: dict[Call, Call] = {}  # the live call for each recorded one
        self.not_sent: dict[Message, str] = {}  # recorded messages that could not be sent again, and why
        self.additional: list[Call] = []  # questions that the recorded server did not ask
        self.noise: list[bytes] = []  # the first lines that are not messages
        self.noise_count = 0
        self.has_ended = False  # the output of the live server
        self.was_cut_short = False  # it ended while there was something to send or to wait for
        self._recorded_of: dict[Call, Call] = {}
        self._replies: list[bytes] = []
        self._counts: dict[_Group, int] = {}
        self._doubted: set[str] = set()
        self._cursors: dict[tuple[str, str], str | None] = {}
        self._tokens: dict[Any, Any] = {}
        self._next = 0
        self._first = 0
        self.lines: list[Message] = []
        self.expected: list[Expected] = []
        self._answers: dict[Call, Expected] = {}
        self._notifications: dict[_Group, list[Expected]] = {}
        self._plan()

    def _plan(self) -> None:
        """Split the recording into lines to send and messages to expect."""
        sent_at = 0.0
        for item in self.recorded.items:
            if isinstance(item, Event) and item.name == "eof" and item.stream == ">" and item.connection == self.connection.number:
                # What came after the end of the client's output is not expected before we end ours.
                if self.lines:
                    break
                continue
            if not isinstance(item, Message) or item.connection is not self.connection:
                continue
            if item.direction == ">":
                sent_at = item.at
                if item.is_whole:
                    self.lines.append(item)
                else:
                    self.not_sent[item] = "the recorded client did not finish the line"
                continue
            for part in item.members or (item,):
                expected = self._expectation(part)
                if expected is not None:
                    expected.waited = item.at - sent_at
                    self.expected.append(expected)

    def _expectation(self, part: Message) -> Expected | None:
        call = part.call
        if part.is_answer:
            if call is None:
                return self._add_notification("", None, part)  # an error for an unreadable message (JR-17)
            if call.answer is not part or call.direction == "<" or is_not_compared(call):
                return None
            return self._answers.setdefault(call, Expected(message=part, kind="answer", call=call))
        if part.shape == "request":
            # Pings depend on the time that the conversation takes.
            return None if part.method == PING else Expected(message=part, kind="question", call=call)
        return self._add_notification(part.method or "", call, part) if part.shape == "notification" else None

    def _add_notification(self, method: str, call: Call | None, part: Message) -> Expected:
        group = self._notifications.setdefault((method, call), [])
        group.append(Expected(message=part, kind="notification", call=call))
        return group[-1]

    # Lines that are due

    def due(self) -> list[bytes]:
        """Return the lines to send now, with their newlines. They count as sent."""
        found, self._replies = self._replies, []
        while not self.has_ended and self._next < len(self.lines) and not any(self._blocking()):
            line = self.lines[self._next]
            self._next += 1
            data = self._prepared(line)
            if data is not None:
                found.append(data + b"\n")
                self._record_sent(line, data)
        return found

    @property
    def waiting_for(self) -> list[Expected]:
        """What must come before the next message is due, or before the end if no message is left."""
        return list(self._blocking())

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to send or to wait for."""
        return self.has_ended or (self._next == len(self.lines) and not self._replies and not any(self._blocking()))

    @property
    def sent(self) -> int:
        """The number of recorded lines that were sent or skipped."""
        return self._next

    def give_up(self) -> None:
        """Go on without what is awaited, because it does not come in time."""
        for expected in self.waiting_for:
            expected.state = "missed"
            if expected.kind == "notification":
                # After one timeout, do not wait again for notifications of this method.
                self._doubted.add(expected.message.method or "")

    def _blocking(self) -> Iterator[Expected]:
        before = self.lines[self._next].index if self._next < len(self.lines) else None
        settled = True
        for position in range(self._first, len(self.expected)):
            expected = self.expected[position]
            if before is not None and expected.message.index >= before:
                return
            if expected.state != "awaited":
                continue
            if expected.kind == "notification" and expected.message.method in self._doubted:
                expected.state = "off"
                continue
            if settled:
                settled = False
                self._first = position
            yield expected
        if settled and before is None:
            self._first = len(self.expected)

    # Sending

    def _record_sent(self, line: Message, data: bytes) -> None:
        item = self.live.feed(Line(line.at, ">", data))
        if not isinstance(item, Message):  # pragma: no cover - a whole line is a message
            return
        for ours, theirs in zip(line.members or (line,), item.members or (item,), strict=True):
            if ours.shape == "request" and ours.call is not None and theirs.call is not None:
                self._pair(ours.call, theirs.call)

    def _pair(self, recorded: Call, live: Call) -> None:
        self.partners[recorded] = live
        self._recorded_of[live] = recorded

    def _prepared(self, line: Message) -> bytes | None:
        """Return a line as it is sent, or ``None`` if it no longer makes sense."""
        if not line.members:
            return self._rewritten(line)
        members = [self._rewritten(member) for member in line.members]
        kept = [member for member in members if member is not None]
        if [member.data for member in line.members] == kept:
            return line.data
        return b"[" + b",".join(kept) + b"]" if kept else None

    def _rewritten(self, part: Message) -> bytes | None:
        changed: Any = None
        if part.is_answer:
            changed = self._with_live_id(part)
        elif part.shape == "request" and part.call is not None:
            params = part.params
            if part.call.is_retry:
                changed = self._with_live_state(part, params, part.call)
            elif isinstance(params, dict) and isinstance(params.get("cursor"), str):
                changed = self._with_live_cursor(part, params)
        elif part.method == PROGRESS and isinstance(params := part.params, dict):
            token = params.get("progressToken")
            if isinstance(token, str | int) and token in self._tokens:
                changed = {**part.value, "params": {**params, "progressToken": self._tokens[token]}}
        if isinstance(changed, str):
            self.not_sent[part] = changed
            for expected in self.expected:
                if part.call is not None and expected.call is part.call and expected.state == "awaited":
                    expected.state = "off"
            return None
        return part.data if changed is None else json.encode(changed)

    def _with_live_id(self, part: Message) -> Any:
        """Return a response to a question of the server, with the live id."""
        if part.call is None or part.call.method == PING:
            return "it is not a response to a question of the live server"
        live = self.partners.get(part.call)
        if live is None:
            return f"the live server did not ask {part.call.method}"
        is_same = type(live.id) is type(part.id) and live.id == part.id  # JR-06
        return None if is_same else {**part.value, "id": live.id}

    def _with_live_state(self, part: Message, params: Any, call: Call) -> Any:
        """Return the next round of a call, with the state and the question keys of the live server (MR-05, MR-07)."""
        earlier = call.rounds[call.rounds.index(call) - 1]
        live = self.partners.get(earlier)
        asked = live.answer.result if live is not None and live.answer is not None else UNSET
        if not isinstance(asked, dict) or asked.get("resultType") != "input_required":
            return "the live server did not ask for input"
        if not isinstance(params, dict):  # pragma: no cover - a retry is known by its params
            return None
        changed = {**params, "requestState": asked.get("requestState")}
        if changed["requestState"] is None:
            del changed["requestState"]  # MR-07: without a state from the server, none is sent
        recorded = earlier.answer.result if earlier.answer is not None else {}
        if isinstance(params.get("inputResponses"), dict):
            keys = pair_questions(recorded.get("inputRequests") or {}, asked.get("inputRequests") or {}, self.ignoring)
            changed["inputResponses"] = {keys.get(key, key): value for key, value in params["inputResponses"].items()}
        return None if changed == params else {**part.value, "params": changed}

    def _with_live_cursor(self, part: Message, params: dict[str, Any]) -> Any:
        """Return a request for the next page, with the cursor of the live server."""
        live = self._cursors.get((part.method or "", params["cursor"]), params["cursor"])
        if live is None:
            return "the live server has no such page"
        return None if live == params["cursor"] else {**part.value, "params": {**params, "cursor": live}}

    # Receiving

    def receive(self, line: bytes) -> None:
        """Handle a line of the live server."""
        item = self.live.feed(Line(0.0, "<", line))
        if not isinstance(item, Message):  # pragma: no cover - a whole line is a message
            return
        for part in item.members or (item,):
            if part.shape == "request" and part.call is not None:
                self._handle_question(part.call)
            elif part.is_answer:
                self._handle_response(part)
            elif part.shape == "notification":
                self._handle_notification(part)
            elif part.shape == "noise":
                self.receive_noise(part.data)

    def receive_noise(self, line: bytes) -> None:
        """Handle a line of the live server that is not a message (FR-04)."""
        self.noise_count += 1
        if len(self.noise) < MAX_NOISE:
            self.noise.append(line)

    def receive_end(self) -> None:
        """Handle the end of the live server's output before we have ended ours."""
        self.was_cut_short = not self.is_done
        self.has_ended = True
        for expected in self.expected:
            if expected.state == "awaited":
                expected.state = "missed"

    def _handle_response(self, part: Message) -> None:
        if part.call is None:
            self._handle_notification(part)  # an error for an unreadable message
            return
        call = self._recorded_of.get(part.call)
        if call is None or part.call.answer is not part:
            return
        if (expected := self._answers.get(call)) is not None:
            expected.state = "came"
        for late in self._notifications.get((PROGRESS, call), ()):
            if late.state == "awaited":
                late.state = "off"  # PR-04: no progress after the response
        recorded = call.answer.result if call.answer is not None else UNSET
        cursor = recorded.get("nextCursor") if isinstance(recorded, dict) else None
        if isinstance(cursor, str):
            live = part.result
            self._cursors[call.method, cursor] = live.get("nextCursor") if isinstance(live, dict) else None

    def _handle_question(self, asked: Call) -> None:
        if asked.method == PING:
            self._reply(asked, {"result": {}})
            return
        params = asked.request.params
        questions = (each for each in self.expected if each.kind == "question" and each.state == "awaited")
        waiting = [each for each in questions if each.message.method == asked.method]
        equal = (each for each in waiting if not differences(each.message.params, params, self.ignoring, ("params",)))
        expected = next(equal, waiting[0] if waiting else None)
        if expected is None or expected.call is None:
            self.additional.append(asked)
            self._reply(asked, {"error": _NOT_RECORDED})
            return
        expected.state = "came"
        self._pair(expected.call, asked)
        recorded = expected.message.meta.get("progressToken")
        if isinstance(recorded, str | int) and "progressToken" in asked.request.meta:
            self._tokens[recorded] = asked.request.meta["progressToken"]

    def _reply(self, asked: Call, answer: dict[str, Any]) -> None:
        data = json.encode({"jsonrpc": "2.0", "id": asked.id, **answer})
        self.live.feed(Line(0.0, ">", data))
        self._replies.append(data + b"\n")

    def _handle_notification(self, part: Message) -> None:
        call = self._recorded_of.get(part.call) if part.call is not None else None
        group = (part.method or "", call)
        count = self._counts[group] = self._counts.get(group, 0) + 1
        expected = self._notifications.get(group, ())
        if count <= len(expected):
            expected[count - 1].state = "came"


def is_not_compared(call: Call) -> bool:
    """Whether the response is not compared: a cancelled request may have none, and a subscription ends with it."""
    if any(cancel.direction == call.direction for cancel in call.cancels):
        return True
    return call.method == LISTEN and call.answer is not None and call.answer.shape == "result"


def name_of(call: Call) -> str:
    """Return the name of a call: ``tools/call add (id 3)``."""
    params = call.request.params
    named = (
        next((params[key] for key in ("name", "uri") if isinstance(params.get(key), str)), "") if isinstance(params, dict) else ""
    )
    return f"{call.method}{' ' if named else ''}{named} (id {json.encode(call.id).decode()})"
