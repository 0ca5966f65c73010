"""The data of the HTML page: rows in the order in which they happened, and the calls they belong to."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field, json

from twopipes._protocol.revisions import META_CLIENT_INFO, META_SERVER_INFO
from twopipes._trace.conversation import Call, Conversation, Item, RecordedConnection, read_conversation
from twopipes._trace.findings import judge
from twopipes._trace.format import Damage, Header, Line
from twopipes._trace.message import Message
from twopipes._trace.reader import Trace
from twopipes._trace.summary import is_failure, summary_of
from twopipes._trace.wording import ERAS, event_text

Kind = Literal["request", "response", "notification", "error", "stderr", "event", "noise"]
_KINDS: dict[str, Kind] = {"request": "request", "notification": "notification", "result": "response", "error": "error"}


class PageRow(Struct, omit_defaults=True, kw_only=True):
    """One row of the page. Its content is in one of ``text``, ``base64`` and ``part``, and only there."""

    at: float
    kind: Kind
    from_: str | UnsetType = field(name="from", default=UNSET)  # > or <
    side: str | UnsetType = UNSET  # of an event: client or server
    method: str | UnsetType = UNSET  # of a response: the method of its request
    about: str | UnsetType = UNSET  # of a notification: the method of the call it belongs to
    id: str | UnsetType = UNSET  # as JSON, to keep 7 and "7" apart
    summary: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET  # of a line that is not UTF-8
    part: tuple[int, int, int] | UnsetType = UNSET  # of a member of a batch: number of the batch, start, end
    call: int | UnsetType = UNSET
    connection: int | UnsetType = UNSET
    failed: bool = False  # a result with isError
    open: bool = False  # the line has no newline
    damage: bool = False  # a damaged line of the file


class PageCall(Struct, kw_only=True):
    """A request and everything that belongs to it, as row numbers; ``rounds`` are numbers of calls."""

    request: int
    answer: int | None
    took: float | None
    state: str
    until: int | None  # the row where a call without a response stops waiting
    others: list[int]
    rounds: list[int] | None


class PageFinding(Struct, kw_only=True):
    """A broken rule and its row."""

    row: int | None
    rule: str
    text: str
    mild: bool  # the rule is a SHOULD


class PageData(Struct, kw_only=True):
    """Everything that the page shows."""

    name: str
    end: float
    facts: list[str]
    about: list[tuple[str, str]]
    connections: list[dict[str, Any]]
    rows: list[PageRow]
    calls: list[PageCall]
    findings: list[PageFinding]
    batches: list[str]


def page_data(trace: Trace) -> PageData:
    """Read a recording. Unfinished and damaged lines are included and marked."""
    conversation = read_conversation(trace, trace.header)
    pages = _Rows(conversation)
    return PageData(
        # A file name may contain any characters, even lone surrogates.
        name="".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in trace.path.name),
        end=conversation.last_at,
        facts=_facts(conversation),
        about=_about(conversation),
        connections=[
            {"name": name, "about": _about_connection(connection)}
            for name, connection in zip(_connection_names(conversation), conversation.connections, strict=True)
        ],
        rows=pages.rows,
        calls=[pages.call(call) for call in conversation.calls],
        findings=[
            PageFinding(
                row=pages.number_of.get(id(finding.message)), rule=finding.rule, text=finding.what, mild=not finding.is_binding
            )
            for finding in judge(conversation)
        ],
        batches=pages.batches,
    )


class _Rows:
    """The rows of a conversation, and the row number of each message."""

    def __init__(self, conversation: Conversation) -> None:
        self.rows: list[PageRow] = []
        self.batches: list[str] = []
        self.number_of: dict[int, int] = {}  # by the identity of messages and events, which the conversation keeps alive
        self._numbers = {id(connection): number for number, connection in enumerate(conversation.connections)}
        self._connections = conversation.connections
        at = 0.0
        for item in conversation.items:
            if not isinstance(item, Damage):
                at = item.at
            if isinstance(item, Message) and item.members:
                self._add_batch(item)
            else:
                self.number_of[id(item)] = len(self.rows)
                self.rows.append(self._row(item, at))

    def call(self, call: Call) -> PageCall:
        """Return a call with row numbers."""
        exit_ = call.connection.exit
        others = [*call.progress, *call.cancels, *call.notifications, *call.further_answers]
        return PageCall(
            request=self.number_of[id(call.request)],
            answer=None if call.answer is None else self.number_of[id(call.answer)],
            took=call.latency,
            state=call.state,
            until=None if not call.is_hanging else self.number_of[id(exit_)] if exit_ is not None else len(self.rows) - 1,
            others=sorted({self.number_of[id(message)] for message in others}),
            rounds=[each.number for each in call.rounds] or None,
        )

    def _row(self, item: Item, at: float) -> PageRow:
        if isinstance(item, Message):
            row = _message_row(item)
            row.connection = self._numbers[id(item.connection)]
        elif isinstance(item, Damage):
            # It has no time: use the time of the entry before it.
            row = PageRow(at=at, kind="noise", damage=True, summary=f"line {item.number} of the file: {item.reason}")
        elif isinstance(item, Line):
            row = PageRow(at=at, kind="stderr", open=not item.is_whole)
            row.connection = self._number_at(item.connection, at)
        else:
            row = PageRow(at=at, kind="event", summary=event_text(item), side="client" if item.stream == ">" else "server")
            row.connection = self._number_at(item.connection, at)
            return row
        try:
            row.text = item.data.decode()
        except UnicodeDecodeError:
            row.base64 = b64encode(item.data).decode()
        return row

    def _add_batch(self, batch: Message) -> None:
        """Add a row for each member of a batch. The page contains their text once, as one line."""
        # JavaScript counts in UTF-16 code units.
        text = batch.data.decode(errors="backslashreplace")
        self.number_of[id(batch)] = len(self.rows)
        start = 0
        for member in batch.members:
            part = member.data.decode(errors="backslashreplace")
            start = text.index(part, start)
            row = _message_row(member)
            row.part = (len(self.batches), _units(text[:start]), _units(text[: start + len(part)]))
            row.connection = self._numbers[id(member.connection)]
            start += len(part)
            self.number_of[id(member)] = len(self.rows)
            self.rows.append(row)
        self.batches.append(text)

    def _number_at(self, number: int, at: float) -> int | UnsetType:
        """Return the connection of that number at that time. A restarted server has several."""
        found: int | UnsetType = UNSET
        for place, connection in enumerate(self._connections):
            if connection.number == number and (found is UNSET or connection.began <= at):
                found = place
        return found


def _message_row(message: Message) -> PageRow:
    row = PageRow(at=message.at, kind=_KINDS.get(message.shape, "noise"), from_=message.direction, open=not message.is_whole)
    call = message.call
    if message.method is not None:
        row.method = message.method
    elif message.is_answer and call is not None:
        row.method = call.method
    if call is not None:
        row.call = call.number
        row.about = call.method
    request_id = message.id if message.id is not UNSET or call is None else call.id
    if request_id is not UNSET:
        row.id = json.encode(request_id).decode()
    summary = summary_of(message)
    if summary:
        row.summary = summary
    row.failed = message.shape == "result" and is_failure(message)
    return row


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


# Texts


def _facts(conversation: Conversation) -> list[str]:
    """Return the facts at the top of the page."""
    eras = dict.fromkeys(f"{each.revision}, {ERAS[each.era]}" for each in conversation.connections if each.era)
    command = " ".join(conversation.header.argv) or conversation.header.target
    return [*(eras or ["no revision negotiated"]), *filter(None, [command]), f"{conversation.last_at:.1f} s"]


def _about(conversation: Conversation) -> list[tuple[str, str]]:
    header: Header = conversation.header
    facts = {
        "Command": " ".join(header.argv),
        "Target": header.target,
        "Folder": header.cwd,
        "Started": header.started,
        "Duration": f"{conversation.last_at:.3f} s",
        "Recorded by": " ".join(filter(None, [header.recorder, header.recorder_version])),
        "Platform": header.platform,
        "Environment": ", ".join(header.environment),
        "Redacted": ", ".join(header.redacted),
    }
    return [(name, value) for name, value in facts.items() if value]


def _about_connection(connection: RecordedConnection) -> list[tuple[str, str]]:
    client, server = _names(connection)
    ended = connection.exit
    facts = {
        "Client": client,
        "Server": server,
        "Era": ERAS[connection.era] if connection.era else "unknown",
        "Revision": ", ".join(dict.fromkeys(filter(None, [connection.negotiated, *connection.revisions]))),
        "Process": "" if connection.pid is None else str(connection.pid),
        "End": "" if ended is None else f"{event_text(ended)} at {ended.at:.3f} s",
    }
    return [(name, value) for name, value in facts.items() if value]


def _connection_names(conversation: Conversation) -> Iterable[str]:
    """Yield the names of the connections. Restarts under the same number are counted."""
    seen: dict[int, int] = {}
    for connection in conversation.connections:
        seen[connection.number] = start = seen.get(connection.number, 0) + 1
        yield f"connection {connection.number}" + (f", start {start}" if start > 1 else "")


def _names(connection: RecordedConnection) -> tuple[str, str]:
    """Return the names of client and server, if the recording shows them."""
    client = server = ""
    for call in connection.calls[:5]:  # the first calls of the client contain the names
        if call.direction == "<":
            continue
        params = call.request.params
        result = call.answer.result if call.answer is not None else UNSET
        named = _member(params, "clientInfo") or call.request.meta.get(META_CLIENT_INFO)
        client = client or _name(named)
        server = server or _name(_member(result, "serverInfo") or _member(_member(result, "_meta"), META_SERVER_INFO))
    return client, server


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _name(value: Any) -> str:
    words = [_member(value, "name"), _member(value, "version")]
    return " ".join(word for word in words if isinstance(word, str))
