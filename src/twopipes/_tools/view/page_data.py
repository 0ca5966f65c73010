"""What the HTML page of a recording is drawn from: rows in the order in which they happened, and the calls they belong to."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field, json

from twopipes._protocol.revisions import META_CLIENT_INFO, META_SERVER_INFO
from twopipes._trace.conversation import Call, Conversation, Item, RecordedConnection, read_conversation
from twopipes._trace.findings import judge
from twopipes._trace.format import Damage, Event, Header, Line
from twopipes._trace.message import Message
from twopipes._trace.reader import Trace
from twopipes._trace.summary import is_failure, summary_of

__all__ = ["PageCall", "PageData", "PageFinding", "PageRow", "page_data"]

Kind = Literal["request", "response", "notification", "error", "stderr", "event", "noise"]
_KINDS: dict[str, Kind] = {"request": "request", "notification": "notification", "result": "response", "error": "error"}


class PageRow(Struct, omit_defaults=True, kw_only=True):
    """One row of the page. What was said stands in one of ``text``, ``base64`` and ``part``, and nowhere else in the page."""

    at: float
    kind: Kind
    from_: str | UnsetType = field(name="from", default=UNSET)  # > or <
    side: str | UnsetType = UNSET  # of an event: whose line it stands on
    method: str | UnsetType = UNSET  # of an answer: that of its request
    about: str | UnsetType = UNSET  # of a notification: the method of the call it belongs to
    id: str | UnsetType = UNSET  # as JSON, because 7 and "7" are two
    summary: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET  # of a line that is no UTF-8
    part: tuple[int, int, int] | UnsetType = UNSET  # of a batch: which, from where, to where
    call: int | UnsetType = UNSET
    connection: int | UnsetType = UNSET
    failed: bool = False  # a result that tells of a failure
    open: bool = False  # the line never got its end
    damage: bool = False  # of the file, not of the wire


class PageCall(Struct, kw_only=True):
    """A request with all that belongs to it, as numbers of rows; ``rounds`` are numbers of calls."""

    request: int
    answer: int | None
    took: float | None
    state: str
    until: int | None  # where a call without an answer stops waiting
    others: list[int]
    rounds: list[int] | None


class PageFinding(Struct, kw_only=True):
    """A broken rule, and where."""

    row: int | None
    rule: str
    text: str
    mild: bool  # it should be otherwise, but need not


class PageData(Struct, kw_only=True):
    """All that the page shows."""

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
    """Reads a recording as far as it goes; what is torn or damaged is shown as such."""
    conversation = read_conversation(trace, trace.header)
    pages = _Rows(conversation)
    return PageData(
        # A name of a file can be anything, half a character too.
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
    """The rows of a conversation, and which one each message has become."""

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
            self._add(item, at)

    def call(self, call: Call) -> PageCall:
        """A call, told in numbers of rows."""
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

    def _add(self, item: Item, at: float) -> None:
        if isinstance(item, Message) and item.members:
            self._add_batch(item)
            return
        self.number_of[id(item)] = len(self.rows)
        self.rows.append(self._row(item, at))

    def _row(self, item: Item, at: float) -> PageRow:
        if isinstance(item, Message):
            row = _message_row(item)
            row.connection = self._numbers[id(item.connection)]
        elif isinstance(item, Damage):
            # It has no time of its own: it stands after what was written before it.
            row = PageRow(at=at, kind="noise", damage=True, summary=f"line {item.number} of the file: {item.reason}")
        elif isinstance(item, Line):
            row = PageRow(at=at, kind="stderr", open=not item.is_whole)
            row.connection = self._number_at(item.connection, at)
        else:
            row = PageRow(at=at, kind="event", summary=_event(item), side="client" if item.stream == ">" else "server")
            row.connection = self._number_at(item.connection, at)
            return row
        _put(row, item.data)
        return row

    def _add_batch(self, batch: Message) -> None:
        """Gives each member of a batch a row; their text stands in the page once, as the line that it was."""
        # As the page counts: in units of 16 bits.
        text = batch.data.decode(errors="backslashreplace")
        self.number_of[id(batch)] = len(self.rows)
        start = 0
        for member in batch.members:
            said = member.data.decode(errors="backslashreplace")
            start = text.index(said, start)
            row = _message_row(member)
            row.part = (len(self.batches), _units(text[:start]), _units(text[: start + len(said)]))
            row.connection = self._numbers[id(member.connection)]
            start += len(said)
            self.number_of[id(member)] = len(self.rows)
            self.rows.append(row)
        self.batches.append(text)

    def _number_at(self, number: int, at: float) -> int | UnsetType:
        """Which connection of that number it was at that time: a server that was started again has had several."""
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


def _put(row: PageRow, data: bytes) -> None:
    try:
        row.text = data.decode()
    except UnicodeDecodeError:
        row.base64 = b64encode(data).decode()


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


# In words


def _event(event: Event) -> str:
    match event.name:
        case "spawn":
            return "started" if event.pid is None else f"started as process {event.pid}"
        case "eof":
            ends = {">": "the client's side ends", "<": "the server's side ends", "!": "stderr ends"}.get(event.stream or "", "end")
            return ends + f": {event.reason}" * bool(event.reason)
        case "signal":
            return f"{event.signal or 'a signal'} passed on to the server"
        case "exit":
            return f"ended by {event.signal}" if event.signal else f"exit code {event.code}" if event.code is not None else "exit"
        case "lost":
            lacks = [f"{event.lines} lines"] * bool(event.lines) + [f"{event.size} bytes"] * bool(event.size)
            reason = f": {event.reason}" * bool(event.reason)
            return f"the recording lacks {' and '.join(lacks) or 'something'} from here{reason}"
        case "note":
            return event.reason or "a note without words"


_ERAS = {"legacy": "with a handshake", "modern": "stateless", "both": "with a handshake, and stateless"}


def _facts(conversation: Conversation) -> list[str]:
    """The line at the head of the page."""
    header = conversation.header
    found: list[str] = []
    connections = conversation.connections
    eras = dict.fromkeys(f"{connection.revision}, {_ERAS[connection.era]}" for connection in connections if connection.era)
    found.extend(eras or ["no revision was agreed on"])
    command = " ".join(header.argv) or header.target
    if command:
        found.append(command)
    found.append(f"{conversation.last_at:.1f} s")
    return found


def _about(conversation: Conversation) -> list[tuple[str, str]]:
    header: Header = conversation.header
    recorder = " ".join(filter(None, [header.recorder, header.recorder_version]))
    facts = {
        "Command": " ".join(header.argv),
        "Target": header.target,
        "Folder": header.cwd,
        "Started": header.started,
        "Lasted": f"{conversation.last_at:.3f} s",
        "Recorded by": recorder,
        "Platform": header.platform,
        "Environment": ", ".join(header.environment),
        "Blanked": ", ".join(header.redacted),
    }
    return [(name, value) for name, value in facts.items() if value]


def _about_connection(connection: RecordedConnection) -> list[tuple[str, str]]:
    client, server = _names(connection)
    ended = connection.exit
    facts = {
        "Client": client,
        "Server": server,
        "Era": _ERAS[connection.era] if connection.era else "not known",
        "Revision": ", ".join(dict.fromkeys(filter(None, [connection.negotiated, *connection.revisions]))),
        "Process": "" if connection.pid is None else str(connection.pid),
        "End": "" if ended is None else f"{_event(ended)} at {ended.at:.3f} s",
    }
    return [(name, value) for name, value in facts.items() if value]


def _connection_names(conversation: Conversation) -> Iterable[str]:
    """By their numbers; a server that was started again under the same number is counted."""
    seen: dict[int, int] = {}
    for connection in conversation.connections:
        seen[connection.number] = start = seen.get(connection.number, 0) + 1
        yield f"connection {connection.number}" + (f", start {start}" if start > 1 else "")


def _names(connection: RecordedConnection) -> tuple[str, str]:
    """How the two sides call themselves, as far as they said so."""
    client = server = ""
    for call in _introductions(connection):
        params = call.request.params
        result = call.answer.result if call.answer is not None else UNSET
        named = _member(params, "clientInfo") or call.request.meta.get(META_CLIENT_INFO)
        client = client or _name(named)
        server = server or _name(_member(result, "serverInfo") or _member(_member(result, "_meta"), META_SERVER_INFO))
    return client, server


def _introductions(connection: RecordedConnection) -> Iterable[Call]:
    """The first few calls; who has not said a name by then does not."""
    return [call for call in connection.calls[:5] if call.direction == ">"]


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _name(value: Any) -> str:
    words = [_member(value, "name"), _member(value, "version")]
    return " ".join(word for word in words if isinstance(word, str))
