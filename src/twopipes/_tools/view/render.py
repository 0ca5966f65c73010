"""Shows a recorded conversation in the terminal: one line per entry, and a rail from each request to its response.

The output is lines made of pieces, each a text and a style. The texts may contain control characters of the wire. The caller must
escape them before writing to a terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from textwrap import wrap
from typing import Any

from msgspec import Struct, json

from twopipes._trace.conversation import Call, Conversation, Item
from twopipes._trace.format import Damage, Event, Line
from twopipes._trace.judges.table import Finding
from twopipes._trace.message import Message
from twopipes._trace.summary import is_failure, summary_of
from twopipes._trace.units import columns, cut, duration, size_of
from twopipes._trace.wording import (
    ERAS,
    Piece,
    Rendered,
    arrow,
    command_of,
    event_text,
    json_pieces,
    message_pieces,
    moment,
    shown_id,
)

# Further open calls are shown without a rail.
_MAX_RAILS = 6
_RAIL_STYLES = ("cyan", "magenta", "blue", "green", "yellow", "red")
_SLOW = 1.0  # seconds
_LONG = 10 * 1024  # bytes; the size of longer lines is shown
_MAX_LISTED = 5  # calls without a response in the summary
_LONGEST_LINE = 200  # columns, if the width of the terminal is unknown


class Choice(Struct, frozen=True, kw_only=True):
    """Which part of a conversation to show; by default everything."""

    methods: tuple[str, ...] = ()  # patterns such as tools/* for the methods of calls and notifications
    ids: tuple[str, ...] = ()  # as JSON or bare: 3 matches 3 and "3", "3" matches only the string
    errors: bool = False  # only errors, failed tools, calls without a response, and broken rules
    slow: float | None = None  # only calls that took at least this many seconds

    @property
    def is_everything(self) -> bool:
        """Whether nothing is filtered."""
        return not (self.methods or self.ids or self.by_outcome)

    @property
    def by_outcome(self) -> bool:
        """Whether the choice depends on the response."""
        return self.errors or self.slow is not None

    def has_method(self, method: str | None) -> bool:
        """Whether the method matches."""
        return not self.methods or any(fnmatchcase(method or "", pattern) for pattern in self.methods)

    def has_id(self, request_id: Any) -> bool:
        """Whether the id matches."""
        if not self.ids:
            return True
        return bool({shown_id(request_id), request_id if isinstance(request_id, str) else ""} & set(self.ids))


class _Rails:
    """The column of each open call."""

    def __init__(self) -> None:
        self.calls: list[Call | None] = []

    def of(self, call: Call) -> int | None:
        return self.calls.index(call) if call in self.calls else None

    def open(self, call: Call) -> int | None:
        if None in self.calls:
            place = self.calls.index(None)
            self.calls[place] = call
            return place
        if len(self.calls) >= _MAX_RAILS:
            return None
        self.calls.append(call)
        return len(self.calls) - 1

    def close(self, call: Call) -> None:
        if call in self.calls:
            self.calls[self.calls.index(call)] = None
        while self.calls and self.calls[-1] is None:
            self.calls.pop()

    def drawn(self, own: int | None = None, joint: str = "│") -> Rendered:
        """Draw the rails of one line, with the joint at the rail of its call."""
        drawn = [
            Piece(joint if place == own else "│" if call is not None else " ", _RAIL_STYLES[place])
            for place, call in enumerate(self.calls)
        ]
        return drawn or [Piece(joint if own is None and joint == "╶" else " ", "yellow")]


class Renderer:
    """Turns the items of a conversation into lines, at most ``width`` columns long, or with whole messages.

    ``escape`` makes control characters visible, so that the width of a text is known.
    """

    def __init__(
        self,
        conversation: Conversation,
        choice: Choice | None = None,
        *,
        width: int | None = None,
        is_full: bool = False,
        escape: Callable[[str], str] = str,
    ) -> None:
        self._conversation = conversation
        self._choice = choice if choice is not None else Choice()
        self._width = width
        self._is_full = is_full
        self._escape = escape
        self._rails = _Rails()
        self._faulty: set[Call] = set()
        self._findings: list[Finding] = []
        self._shown: set[Call] = set()

    def header(self) -> Iterator[Rendered]:
        """Yield the lines about the recording."""
        header = self._conversation.header
        yield [Piece(command_of(header), "bold")]
        recorder = f"recorded by {header.recorder} {header.recorder_version}".rstrip() if header.recorder else ""
        facts = [recorder, header.platform, moment(header.started)]
        if header.redacted:
            facts.append(f"redacted: {', '.join(header.redacted)}")
        if line := " · ".join(fact for fact in facts if fact):
            yield [Piece(line, "dim")]
        for connection in self._conversation.connections:
            if (era := connection.era) is not None and connection.revision is not None:
                several = f"connection {connection.number}: " if len(self._conversation.connections) > 1 else ""
                yield [Piece(f"{several}{connection.revision}, {ERAS[era]}", "dim")]
        yield []

    def know(self, findings: Iterable[Finding]) -> None:
        """Add findings before their messages are shown, so that whole calls can be selected by them."""
        self._faulty.update(call.first_round for finding in findings if (call := finding.message.call) is not None)

    def show(self, item: Item, findings: Sequence[Finding] = ()) -> Iterator[Rendered]:
        """Yield the lines for the next item."""
        self._findings += findings
        self.know(findings)
        match item:
            case Message():
                yield from self._message(item, findings)
            case Line():
                if self._choice.is_everything:
                    text = item.text if item.is_whole else f"{item.text} (no newline)"
                    yield self._row(item.at, item.connection, Piece("!", "yellow"), [Piece(text.rstrip("\r"), "yellow")])
            case Event():
                if self._choice.is_everything or (self._choice.errors and item.name == "lost"):
                    yield self._row(
                        item.at, item.connection, Piece("=", "dim"), [Piece(event_text(item), _EVENT_STYLES.get(item.name, "blue"))]
                    )
                self._close_rails(item)
            case Damage():
                if self._choice.is_everything or self._choice.errors:
                    yield [Piece(f"line {item.number} of the file cannot be read: {item.reason}", "bold red")]

    def summary(self) -> Iterator[Rendered]:
        """Yield the summary at the end."""
        if self._choice.by_outcome:
            for call in self._conversation.calls:
                if call.first_round is call and call not in self._shown and self._is_wanted(call):
                    yield from self._whole_call(call)
        yield []
        calls = self._conversation.calls
        errors = sum(call.state == "error" for call in calls)
        failures = sum(call.method == "tools/call" and call.answer is not None and is_failure(call.answer) for call in calls)
        hanging = self._conversation.hanging
        counts = [Piece(_count(len(calls), "request"))]
        for number, word, style in (
            (errors, "error", "red"),
            (failures, "failed tool call", "red"),
            (len(hanging), "without a response", "bold yellow"),
            (len(self._findings), "broken rule", "bold red"),
        ):
            if number:
                counts += [Piece(", "), Piece(_count(number, word) if not word.startswith("with") else f"{number} {word}", style)]
        counts.append(Piece(f" in {duration(self._conversation.last_at)}", "dim"))
        yield counts
        answered = [call for call in calls if call.latency is not None and not call.is_listen]
        if answered:
            slowest = max(answered, key=lambda call: call.latency or 0.0)
            yield self._about("slowest", slowest, Piece(duration(slowest.latency or 0.0), _latency_style(slowest.latency)))
        for call in hanging[:_MAX_LISTED]:
            waited = (call.connection.ended or self._conversation.last_at) - call.request.at
            closer = _closed_by(call)
            why = f"{closer} disconnected after" if closer is not None else "waiting for"
            yield self._about("no response", call, Piece(f"{why} {duration(waited)}", "yellow"))
        if len(hanging) > _MAX_LISTED:
            yield [Piece(f"{'':<{_TITLE}}  and {len(hanging) - _MAX_LISTED} more", "dim")]
        yield from self._rules()

    def _about(self, title: str, call: Call, what: Piece) -> Rendered:
        summary = summary_of(call.request)
        words = [Piece(f"{title:<{_TITLE}}  ", "dim"), Piece(call.method, "bold"), Piece(f" {summary}" if summary else "")]
        return self._fit(words, [Piece("  "), what, Piece(f"  at {call.request.at:.3f}, id {shown_id(call.id)}", "dim")])

    def _rules(self) -> Iterator[Rendered]:
        count = Counter(finding.rule for finding in self._findings)
        shown: set[str] = set()
        for finding in sorted(self._findings, key=lambda finding: not finding.is_binding):
            if finding.rule not in shown:
                shown.add(finding.rule)
                times = f"{count[finding.rule]} times, first " if count[finding.rule] > 1 else ""
                start = [Piece(f"{finding.rule:<{_TITLE}}  ", _finding_style(finding))]
                yield from self._wrapped(start, f"{finding.by}: {finding.what} ({times}at {finding.at:.3f})")

    # Filtering

    def _is_wanted(self, call: Call) -> bool:
        rounds = call.rounds or [call]
        choice = self._choice
        if not choice.has_method(call.method) or not any(choice.has_id(each.id) for each in rounds):
            return False
        if choice.slow is not None and not any(_took(each, self._conversation) >= choice.slow for each in rounds):
            return False
        return not choice.errors or call.first_round in self._faulty or any(map(self._went_wrong, rounds))

    def _went_wrong(self, call: Call) -> bool:
        if call.answer is not None:
            return call.answer.shape == "error" or is_failure(call.answer)
        return call.is_hanging and (self._conversation.is_finished or call.state == "lost")

    def _is_wanted_alone(self, message: Message, findings: Sequence[Finding]) -> bool:
        """Whether to show a message that does not belong to a call."""
        choice = self._choice
        if choice.is_everything:
            return True
        if choice.ids or choice.slow is not None or not choice.has_method(message.method):
            return False
        return bool(choice.methods) and message.method is not None if not choice.errors else bool(findings)

    # Lines

    def _message(self, message: Message, findings: Sequence[Finding]) -> Iterator[Rendered]:
        if message.shape == "batch":
            if self._choice.is_everything:
                many = _count(len(message.members), "message")
                yield self._row(
                    message.at, message.connection.number, arrow(message), [Piece("batch ", "bold"), Piece(f"of {many}")]
                )
            yield from self._finding_lines([finding for finding in findings if finding.message is message])
            for member in message.members:
                yield from self._message(member, [finding for finding in findings if finding.message is member])
            return
        call = message.call
        if call is None:
            if self._is_wanted_alone(message, findings):
                yield from self._line(message, findings, None, " ")
            return
        if not self._choice.by_outcome or self._conversation.is_finished:
            if self._is_wanted(call):
                self._shown.add(call.first_round)
                yield from self._on_its_rail(message, call, findings)
        elif call.first_round in self._shown:
            yield from self._line(message, findings, None, " ")
        elif (message.is_answer or findings) and self._is_wanted(call):
            yield from self._whole_call(call)

    def _whole_call(self, call: Call) -> Iterator[Rendered]:
        """Show a call that matches only now that its outcome is known."""
        self._shown.add(call.first_round)
        for each in call.rounds or [call]:
            messages = [each.request, *each.progress, *each.cancels, *each.notifications, *each.further_answers]
            messages += [each.answer] if each.answer is not None else []
            for message in sorted(messages, key=lambda message: message.index):
                yield from self._line(message, [finding for finding in self._findings if finding.message is message], None, " ")

    def _on_its_rail(self, message: Message, call: Call, findings: Sequence[Finding]) -> Iterator[Rendered]:
        first = call.first_round
        own = self._rails.of(first)
        joint = "├"
        if message is call.request:
            if call is first:
                # A call to which nothing else belongs needs no rail.
                is_alone = call.answer is None and not (call.progress or call.cancels or call.notifications)
                joint = "╶" if is_alone and self._conversation.is_finished else "┌"
                own = self._rails.open(call) if joint == "┌" else None
        elif self._is_last(message, call):
            joint = "└"
        yield from self._line(message, findings, own, joint, ends=first if joint == "└" else None)

    def _is_last(self, message: Message, call: Call) -> bool:
        is_finished = self._conversation.is_finished
        if message is call.answer:
            return not call.asks_back or (is_finished and (not call.rounds or call.rounds[-1] is call))
        if message.method == "notifications/cancelled" and call.answer is None:
            return not is_finished or message is call.cancels[-1]
        if not is_finished or call.answer is not None or call.cancels:
            return False
        others = (*call.progress, *call.notifications)
        return bool(others) and message is max(others, key=lambda each: each.index)

    def _close_rails(self, event: Event) -> None:
        """Close the rails of a connection that has ended."""
        if event.name == "exit" or (event.name == "eof" and event.stream == "<"):
            for call in list(self._rails.calls):
                if call is not None and call.connection.number == event.connection:
                    self._rails.close(call)

    def _line(
        self, message: Message, findings: Sequence[Finding], own: int | None, joint: str, ends: Call | None = None
    ) -> Iterator[Rendered]:
        end: Rendered = []
        if message.size >= _LONG:
            end += [Piece("  "), Piece(size_of(message.size), "dim")]
        call = message.call
        if call is not None and message is call.answer and call.latency is not None:
            end += [Piece("  "), Piece(duration(call.latency), _latency_style(call.latency))]
            if call.is_retry and call.rounds[-1] is call and not call.asks_back:
                took = message.at - call.first_round.request.at
                end += [Piece(f"  ({duration(took)} in {len(call.rounds)} rounds)", "dim")]
        elif call is not None and message is call.request and self._conversation.is_finished and call.is_hanging:
            closer = _closed_by(call)
            end += [Piece("  no response" + (f": {closer} disconnected" if closer is not None else ""), "bold yellow")]
        yield self._row(message.at, message.connection.number, arrow(message), message_pieces(message), end, own=own, joint=joint)
        if ends is not None:
            self._rails.close(ends)
        if self._is_full:
            yield from self._whole(message)
        yield from self._finding_lines(findings)

    def _finding_lines(self, findings: Sequence[Finding]) -> Iterator[Rendered]:
        for finding in findings:
            mark = "✗" if finding.is_binding else "!"
            style = _finding_style(finding)
            yield from self._wrapped(
                [*self._under(), Piece(f"{mark} {finding.rule} ", style)], finding.what, style.removeprefix("bold ")
            )

    def _wrapped(self, start: Rendered, text: str, style: str = "") -> Iterator[Rendered]:
        """Wrap a sentence, with the same rails before each line."""
        indent = sum(columns(piece.text) for piece in start)
        room = max(_MIN_WIDTH, (self._width or _LONGEST_LINE) - indent)
        lines = wrap(self._escape(text), room, break_on_hyphens=False) or [""]
        yield [*start, Piece(lines[0], style)]
        rails = [*start[:-1], Piece(" " * columns(start[-1].text))] if len(start) > 1 else [Piece(" " * indent)]
        for line in lines[1:]:
            yield [*rails, Piece(line, style)]

    def _whole(self, message: Message) -> Iterator[Rendered]:
        try:
            text = json.format(message.line, indent=2).decode()
        except (ValueError, RecursionError):
            text = message.text
        for line in text.splitlines():
            yield [*self._under(), *json_pieces(line)]

    def _under(self) -> Rendered:
        return [Piece(" " * _TIME), *self._rails.drawn(), Piece("   ")]

    def _row(
        self,
        at: float,
        connection: int,
        arrow: Piece,
        words: Rendered,
        end: Rendered | None = None,
        *,
        own: int | None = None,
        joint: str = " ",
    ) -> Rendered:
        rails = self._rails.drawn(own, joint)
        start = [Piece(f"{at:{_TIME - 1}.3f} ", "dim"), *rails]
        if len(self._conversation.connections) > 1:
            start.append(Piece(f"{connection}:", "dim"))
        return self._fit([*start, arrow, Piece(" "), *words], end or [])

    def _fit(self, words: Rendered, end: Rendered | None = None) -> Rendered:
        """Cut a line to the width, and align its end to the right."""
        end = end or []
        width = self._width
        room = (width if width is not None else _LONGEST_LINE) - sum(columns(piece.text) for piece in end)
        used = 0
        fitting: Rendered = []
        for raw in words:
            piece = Piece(self._escape(raw.text.replace("\t", "    ")), raw.style)  # the width of a tab depends on its position
            needed = columns(piece.text)
            if used + needed > room:
                fitting.append(Piece(cut(piece.text, room - used), piece.style))
                used = room
                break
            fitting.append(piece)
            used += needed
        if end and width is not None and used < room:
            fitting.append(Piece(" " * (room - used)))
        return fitting + end


_TIME = 10  # columns
_MIN_WIDTH = 20  # columns for a sentence
_TITLE = 11  # columns
_EVENT_STYLES = {"lost": "bold red", "exit": "bold blue"}


def _closed_by(call: Call) -> str | None:
    """Return which side ended the connection before the response; ``None`` if neither did."""
    if call.state != "lost":
        return None
    return "the client" if call.connection.ended_streams[:1] == [">"] else "the server"


def _took(call: Call, conversation: Conversation) -> float:
    if call.latency is not None:
        return call.latency
    return conversation.last_at - call.request.at if call.is_hanging else 0.0


def _finding_style(finding: Finding) -> str:
    return "bold red" if finding.is_binding else "bold yellow"


def _latency_style(latency: float | None) -> str:
    return "yellow" if (latency or 0.0) >= _SLOW else "dim"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
