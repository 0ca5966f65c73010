"""Saying a recorded client's part to a live server: what may be sent now, what has to be waited for, what goes where.

No I/O and no clock: lines of the live server go in, lines for it come out, and whoever carries them decides how long to wait::

    replay = Replay(conversation, conversation.connections[0])
    while not replay.is_done:
        send(replay.due())
        replay.receive(next_line)  # or replay.give_up() when it does not come
    report = compare(replay)  # of twopipes._tools.replay.compare

A message is due when all that the recorded server had said before it has come: answers and questions always, notifications for as
long as the live server shows that it sends them too. What the live server makes up for itself (the ids of its questions,
``requestState``, cursors) takes the place of what the recorded one made up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import UNSET, Struct, json

from twopipes._trace.conversation import Call, Conversation, RecordedConnection
from twopipes._trace.format import Event, Line
from twopipes._trace.matching import Ignoring, differences, pair_questions
from twopipes._trace.message import Message

__all__ = ["Expected", "Replay"]

PING = "ping"
PROGRESS = "notifications/progress"
LISTEN = "subscriptions/listen"
# What a server gets for a question that the recorded one did not ask. It must not wait for ever.
_NO_ANSWER = {"code": -32603, "message": "the recording that is being replayed has no answer to this"}
# Lines of noise that are kept; the rest is counted.
MOST_NOISE = 100

_Group = tuple[str, Call | None]


class Expected(Struct, eq=False, kw_only=True):
    """Something that the recorded server said, and that the live one is waited for to say.

    Attributes:
        message: As it was recorded.
        kind: What it is.
        call: The request that it answers, is, or belongs to.
        state: ``awaited``; ``came``; ``missed``, when nobody waits for it any more; ``off``, when there is no reason to.
        waited: Seconds that the recorded client waited for it, since it last said something.
    """

    message: Message
    kind: Literal["answer", "question", "notification"]
    call: Call | None
    state: Literal["awaited", "came", "missed", "off"] = "awaited"
    waited: float = 0.0

    def describe(self) -> str:
        """It, in words: ``the answer to tools/call add (id 3)``."""
        if self.kind == "answer" and self.call is not None:
            return f"the answer to {name_of(self.call)}"
        if self.kind == "question":
            return f"the server's question {self.message.method}"
        if self.message.method is None:
            return "an error without an id"
        of = f" of {name_of(self.call)}" if self.call is not None else ""
        return f"{self.message.method}{of}"


class Replay:
    """One connection of a recording, said again.

    Args:
        recorded: The conversation.
        connection: Which part of it.
        ignore: Names and paths of members that do not count; see :class:`~twopipes._trace.matching.Ignoring`.

    Attributes:
        live: What was said this time.
        partners: The live call for each recorded one.
        not_sent: The recorded messages that could not be said again, and why.
        additional: Questions of the live server that the recorded one did not ask.
        noise: Lines of the live server that are no messages, the first of them.
        noise_count: How many there were.
        has_ended: Whether the live server has ended.
        was_cut_short: It ended while something was to be said or waited for.
    """

    def __init__(self, recorded: Conversation, connection: RecordedConnection, *, ignore: Sequence[str] = ()) -> None:
        self.recorded = recorded
        self.connection = connection
        self.ignoring = Ignoring(ignore, blanked=recorded.header.redacted)
        self.ignored = tuple(ignore)
        self.live = Conversation()
        self.partners: dict[Call, Call] = {}
        self.not_sent: dict[Message, str] = {}
        self.additional: list[Call] = []
        self.noise: list[bytes] = []
        self.noise_count = 0
        self.has_ended = False
        self.was_cut_short = False
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
        """Sorts what was recorded into what is to be said and what is to be waited for."""
        spoke_at = 0.0
        for item in self.recorded.items:
            if isinstance(item, Event) and item.name == "eof" and item.stream == ">" and item.connection == self.connection.number:
                # What came after the end of the client's part comes when we end ours, if at all; nobody waits for it before.
                if self.lines:
                    break
                continue
            if not isinstance(item, Message) or item.connection is not self.connection:
                continue
            if item.direction == ">":
                spoke_at = item.at
                if item.is_whole:
                    self.lines.append(item)
                else:
                    self.not_sent[item] = "the recorded client did not finish the line"
                continue
            for part in item.members or (item,):
                expected = self._expectation(part)
                if expected is not None:
                    expected.waited = item.at - spoke_at
                    self.expected.append(expected)

    def _expectation(self, part: Message) -> Expected | None:
        call = part.call
        if part.is_answer:
            if call is None:
                return self._one_more("", None, part)  # to something that could not be read (JR-17)
            if call.answer is not part or call.direction == "<" or is_left_alone(call):
                return None
            return self._answers.setdefault(call, Expected(message=part, kind="answer", call=call))
        if part.shape == "request":
            # Whether a server asks if we are alive depends on the time that it takes.
            return None if part.method == PING else Expected(message=part, kind="question", call=call)
        return self._one_more(part.method or "", call, part) if part.shape == "notification" else None

    def _one_more(self, method: str, call: Call | None, part: Message) -> Expected:
        group = self._notifications.setdefault((method, call), [])
        group.append(Expected(message=part, kind="notification", call=call))
        return group[-1]

    # What is due

    def due(self) -> list[bytes]:
        """The lines to be sent now, with their newlines; they count as sent."""
        found, self._replies = self._replies, []
        while not self.has_ended and self._next < len(self.lines) and not any(self._blocking()):
            line = self.lines[self._next]
            self._next += 1
            data = self._prepared(line)
            if data is not None:
                found.append(data + b"\n")
                self._note_sent(line, data)
        return found

    @property
    def waiting_for(self) -> list[Expected]:
        """What has to come before the next message is due or, where none is left, before all is said."""
        return list(self._blocking())

    @property
    def is_done(self) -> bool:
        """Whether nothing is to be said any more, and nothing is waited for."""
        return self.has_ended or (self._next == len(self.lines) and not self._replies and not any(self._blocking()))

    @property
    def sent(self) -> int:
        """How many of the recorded lines were dealt with."""
        return self._next

    def give_up(self) -> None:
        """What is waited for does not come in time: goes on without it."""
        for expected in self.waiting_for:
            expected.state = "missed"
            if expected.kind == "notification":
                # One wait for each kind of notification is enough to learn that this server does not send as many.
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

    # What is sent

    def _note_sent(self, line: Message, data: bytes) -> None:
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
        """A line as it is sent, or ``None`` if it makes no sense any more."""
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
            changed = self._readdressed(part)
        elif part.shape == "request" and part.call is not None:
            params = part.params
            if part.call.is_retry:
                changed = self._answered_again(part, params, part.call)
            elif isinstance(params, dict) and isinstance(params.get("cursor"), str):
                changed = self._turned_page(part, params)
        elif part.method == PROGRESS and isinstance(params := part.params, dict):
            token = params.get("progressToken")
            if isinstance(token, str | int) and token in self._tokens:
                changed = {**part.value, "params": {**params, "progressToken": self._tokens[token]}}
        if isinstance(changed, str):
            self.not_sent[part] = changed
            self._expect_nothing_of(part.call)
            return None
        return part.data if changed is None else json.encode(changed)

    def _readdressed(self, part: Message) -> Any:
        """An answer to a question of the server's: it goes to the live id."""
        if part.call is None or part.call.method == PING:
            return "it answers no question of the live server"
        live = self.partners.get(part.call)
        if live is None:
            return f"the live server did not ask {part.call.method}"
        return None if _same_id(live.id, part.id) else {**part.value, "id": live.id}

    def _answered_again(self, part: Message, params: Any, call: Call) -> Any:
        """A further round of a call: with the state and the questions' keys of the live server (MR-05, MR-07)."""
        earlier = call.rounds[call.rounds.index(call) - 1]
        live = self.partners.get(earlier)
        asked = live.answer.result if live is not None and live.answer is not None else UNSET
        if not isinstance(asked, dict) or asked.get("resultType") != "input_required":
            return "the live server did not ask for input"
        if not isinstance(params, dict):  # pragma: no cover - a retry is known by its params
            return None
        changed = {**params, "requestState": asked.get("requestState")}
        if changed["requestState"] is None:
            del changed["requestState"]  # MR-07: where none was given, none is sent
        recorded = earlier.answer.result if earlier.answer is not None else {}
        if isinstance(params.get("inputResponses"), dict):
            keys = pair_questions(recorded.get("inputRequests") or {}, asked.get("inputRequests") or {}, self.ignoring)
            changed["inputResponses"] = {keys.get(key, key): value for key, value in params["inputResponses"].items()}
        return None if changed == params else {**part.value, "params": changed}

    def _turned_page(self, part: Message, params: dict[str, Any]) -> Any:
        """A request for the next page: with the cursor of the live server."""
        live = self._cursors.get((part.method or "", params["cursor"]), params["cursor"])
        if live is None:
            return "the live server has no such page"
        return None if live == params["cursor"] else {**part.value, "params": {**params, "cursor": live}}

    def _expect_nothing_of(self, call: Call | None) -> None:
        for expected in self.expected:
            if call is not None and expected.call is call and expected.state == "awaited":
                expected.state = "off"

    # What comes

    def receive(self, line: bytes) -> None:
        """Takes a line of the live server."""
        item = self.live.feed(Line(0.0, "<", line))
        if not isinstance(item, Message):  # pragma: no cover - a whole line is a message
            return
        for part in item.members or (item,):
            if part.shape == "request" and part.call is not None:
                self._take_question(part.call)
            elif part.is_answer:
                self._take_answer(part)
            elif part.shape == "notification":
                self._take_notification(part)
            elif part.shape == "noise":
                self.receive_noise(part.data)

    def receive_noise(self, line: bytes) -> None:
        """Takes what the live server said and what is no message (FR-04)."""
        self.noise_count += 1
        if len(self.noise) < MOST_NOISE:
            self.noise.append(line)

    def receive_end(self) -> None:
        """Takes the end of what the live server says, before we have ended our part."""
        self.was_cut_short = not self.is_done
        self.has_ended = True
        for expected in self.expected:
            if expected.state == "awaited":
                expected.state = "missed"

    def _take_answer(self, part: Message) -> None:
        if part.call is None:
            self._take_notification(part)  # to something that could not be read
            return
        call = self._recorded_of.get(part.call)
        if call is None or part.call.answer is not part:
            return
        if (expected := self._answers.get(call)) is not None:
            expected.state = "came"
        for late in self._notifications.get((PROGRESS, call), ()):
            if late.state == "awaited":
                late.state = "off"  # PR-04: after the answer there is no progress any more
        recorded = call.answer.result if call.answer is not None else UNSET
        cursor = recorded.get("nextCursor") if isinstance(recorded, dict) else None
        if isinstance(cursor, str):
            live = part.result
            self._cursors[call.method, cursor] = live.get("nextCursor") if isinstance(live, dict) else None

    def _take_question(self, asked: Call) -> None:
        if asked.method == PING:
            self._reply(asked, {"result": {}})
            return
        params = asked.request.params
        waiting = [each for each in self._open_questions() if each.message.method == asked.method]
        equal = (each for each in waiting if not differences(each.message.params, params, self.ignoring, ("params",)))
        expected = next(equal, waiting[0] if waiting else None)
        if expected is None or expected.call is None:
            self.additional.append(asked)
            self._reply(asked, {"error": _NO_ANSWER})
            return
        expected.state = "came"
        self._pair(expected.call, asked)
        recorded = expected.message.meta.get("progressToken")
        if isinstance(recorded, str | int) and "progressToken" in asked.request.meta:
            self._tokens[recorded] = asked.request.meta["progressToken"]

    def _open_questions(self) -> Iterator[Expected]:
        return (each for each in self.expected if each.kind == "question" and each.state == "awaited")

    def _reply(self, asked: Call, answer: dict[str, Any]) -> None:
        data = json.encode({"jsonrpc": "2.0", "id": asked.id, **answer})
        self.live.feed(Line(0.0, ">", data))
        self._replies.append(data + b"\n")

    def _take_notification(self, part: Message) -> None:
        call = self._recorded_of.get(part.call) if part.call is not None else None
        group = (part.method or "", call)
        count = self._counts[group] = self._counts.get(group, 0) + 1
        expected = self._notifications.get(group, ())
        if count <= len(expected):
            expected[count - 1].state = "came"


def is_left_alone(call: Call) -> bool:
    """Whether nobody compares the answer: of a request that was given up it may come or not; of a subscription it is the end."""
    if any(cancel.direction == call.direction for cancel in call.cancels):
        return True
    return call.method == LISTEN and call.answer is not None and call.answer.shape == "result"


def name_of(call: Call) -> str:
    """A call on one line: ``tools/call add (id 3)``."""
    params = call.request.params
    named = (
        next((params[key] for key in ("name", "uri") if isinstance(params.get(key), str)), "") if isinstance(params, dict) else ""
    )
    return f"{call.method}{' ' if named else ''}{named} (id {json.encode(call.id).decode()})"


def _same_id(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)  # JR-06
