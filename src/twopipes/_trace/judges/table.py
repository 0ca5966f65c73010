"""The table of judges, and what they may know: the conversation up to the message that they look at, and nothing after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import UNSET, MsgspecError, Raw, Struct
from msgspec.json import Decoder

from twopipes._protocol import revisions
from twopipes._protocol.revisions import LEGACY, META_LOG_LEVEL, META_PROGRESS_TOKEN, META_VERSION, MODERN
from twopipes._trace.conversation import Call, RecordedConnection
from twopipes._trace.message import Direction, Message, Shape

__all__ = ["JUDGES", "Finding", "Judging", "Level", "Seen", "rule"]

Level = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"]
Side = Literal["client", "server"]
Judging = Callable[[Message, "Seen"], Iterator[str]]

_OTHER_WAY: dict[Direction, Direction] = {">": "<", "<": ">"}


class Finding(Struct, frozen=True, eq=False, kw_only=True):
    """A rule that a recording shows to be broken.

    Attributes:
        rule: Its id, such as ``FR-04``.
        level: How binding it is; ``MAY`` where it is our reading that nobody needs to do it.
        what: What is wrong, in one line. It may quote the wire, so it is shown like anything from there: with care.
        by: Who broke it.
        at: When, in seconds since the start of the recording.
        index: Of the entry of the recording.
        connection: Of the trace.
        message: What broke it.
    """

    rule: str
    level: Level
    what: str
    by: Side
    at: float
    index: int
    connection: int
    message: Message

    @property
    def is_binding(self) -> bool:
        """Whether it breaks a MUST."""
        return self.level.startswith("MUST")


class Judge(Struct, frozen=True):
    """One row of the table."""

    rule: str
    level: Level
    by: Side | None  # None: whoever sent the message
    shapes: tuple[Shape, ...]
    methods: tuple[str, ...]  # of the message or of the call that it answers; empty for all
    once: bool  # one finding for each connection is enough
    function: Judging


# By the shape of the messages that they look at.
JUDGES: dict[str, list[Judge]] = {}


def rule(
    rule_id: str, level: Level, *shapes: Shape, by: Side | None = None, methods: tuple[str, ...] = (), once: bool = False
) -> Callable[[Judging], Judging]:
    """Enters a function into the table. It yields a line for each thing that is wrong."""

    def enter(function: Judging) -> Judging:
        judge = Judge(rule_id, level, by, shapes, methods, once, function)
        for shape in shapes:
            JUDGES.setdefault(shape, []).append(judge)
        return function

    return enter


class Seen:
    """What a connection has shown so far. A judge that needs all of it asks :attr:`is_certain` first."""

    def __init__(self, connection: RecordedConnection, *, is_redacted: bool) -> None:
        self.connection = connection
        self.is_redacted = is_redacted
        self.has_gaps = False
        self.negotiated: str | None = None
        self.handshake: Call | None = None
        self.is_initialized = False
        self.has_spoken_modern = False
        self.server_is_modern = False
        self.client_capabilities: dict[str, Any] | None = None
        self.server_capabilities: dict[str, Any] | None = None
        self.ids: dict[Direction, set[tuple[type, Any]]] = {">": set(), "<": set()}
        # What waits for an answer: by the id, by the token of its progress; and what listens or wants to hear logs.
        self.open: dict[tuple[Any, ...], Call] = {}
        self.tokens: dict[tuple[Any, ...], Call] = {}
        self.listens: dict[int, Call] = {}
        self.loggers: dict[int, Call] = {}
        # The last line of each direction that its receiver is known to have read, because it answered one that is as late.
        self.has_read: dict[Direction, int] = {">": -1, "<": -1}
        self.may_be_unreadable: dict[Direction, bool] = {">": False, "<": False}
        self.begun: dict[Direction, list[bytes]] = {">": [], "<": []}  # lines that may be a message together
        self.output_schemas: set[str] = set()
        self.progress: dict[int, float] = {}  # the last value of each call
        self.reported: set[str] = set()

    @property
    def is_certain(self) -> bool:
        """Whether the recording has the connection from its start, and nothing is missing from it."""
        return self.connection.has_start and not self.has_gaps

    @property
    def is_stateless(self) -> bool:
        """Whether this certainly is the stateless wire: modern requests, and never a handshake."""
        return self.is_certain and self.has_spoken_modern and self.handshake is None

    def note(self, message: Message) -> None:
        """Takes a message in, after the judges have seen it."""
        self._note_readability(message)
        if message.shape != "noise":
            self.begun[message.direction].clear()
        if message.shape == "request" and message.call is not None:
            self._note_request(message.call)
        elif message.is_answer and message.call is not None:
            self._note_answer(message, message.call)
        elif message.method == "notifications/initialized":
            self.is_initialized = True
        elif message.method == "notifications/tools/list_changed":
            self.output_schemas.clear()

    def _note_readability(self, message: Message) -> None:
        # A reader of its own limits may refuse what is perfectly good: a long line, or characters outside of ASCII.
        plain = message.fault is None and message.batch is None and message.shape not in ("batch", "noise", "blank")
        if not plain or message.size > _SURELY_READABLE or not message.data.isascii() or not message.is_whole:
            self.may_be_unreadable[message.direction] = True

    def _note_request(self, call: Call) -> None:
        request = call.request
        if call.method == "initialize" and call.direction == ">":
            self.handshake = call
            self.is_initialized = False
            self.ids[">"].clear()
            capabilities = members_of(request.raw_params).get("capabilities")
            self.client_capabilities = capabilities if isinstance(capabilities, dict) and not self.is_redacted else None
        if call.direction == ">" and is_modern_request(request):
            self.has_spoken_modern = True
        if isinstance(request.id, str | int):
            self.ids[call.direction].add((type(request.id), request.id))
            self.open[call.direction, type(request.id), request.id] = call
        token = request.meta.get(META_PROGRESS_TOKEN)
        if isinstance(token, str | int):
            self.tokens[call.direction, type(token), token] = call
        if call.is_listen:
            self.listens[call.number] = call
        if META_LOG_LEVEL in request.meta:
            self.loggers[call.number] = call

    def _note_answer(self, message: Message, call: Call) -> None:
        asked = call.direction
        self.has_read[asked] = max(self.has_read[asked], call.request.index)
        self.listens.pop(call.number, None)
        self.loggers.pop(call.number, None)
        for waiting in (self.open, self.tokens):
            key = call.request.id if waiting is self.open else call.request.meta.get(META_PROGRESS_TOKEN)
            if isinstance(key, str | int) and waiting.get((asked, type(key), key)) is call:
                del waiting[asked, type(key), key]
        if message.direction != "<":
            return
        if message.shape == "error":
            code = members_of(message.raw_error).get("code")
            if code in (-32021, -32022) and is_modern_request(call.request):
                self.server_is_modern = True
            return
        result = members_of(message.raw_result)
        if call.method == "initialize":
            version = result.get("protocolVersion")
            if isinstance(version, str) and call.answer is message:
                self.negotiated = version
                capabilities = result.get("capabilities")
                self.server_capabilities = capabilities if isinstance(capabilities, dict) else None
        elif call.method == "server/discover" and isinstance(result.get("supportedVersions"), list):
            self.server_is_modern = True
            capabilities = result.get("capabilities")
            if self.handshake is None and isinstance(capabilities, dict):
                self.server_capabilities = capabilities
        elif isinstance(result.get("resultType"), str):
            self.server_is_modern = True
        if call.method == "tools/list" and isinstance(result.get("tools"), list):
            self.output_schemas.update(
                tool["name"]
                for tool in result["tools"]
                if isinstance(tool, dict) and isinstance(tool.get("name"), str) and isinstance(tool.get("outputSchema"), dict)
            )

    def revision_of(self, call: Call) -> str | None:
        """The revision by which a call is to be judged; ``None`` where that is not certain.

        A request that names a modern version may have been read as a legacy one by a server that does not know better.
        """
        if call.direction == ">" and is_modern_request(call.request):
            version = call.request.meta[META_VERSION]
            return version if self.server_is_modern or self.handshake is None else None
        return self.negotiated if self.negotiated in LEGACY else None

    def is_open(self, call: Call) -> bool:
        """Whether a call had no answer yet."""
        return isinstance(call.id, str | int) and self.open.get((call.direction, type(call.id), call.id)) is call

    def certainly_read(self, message: Message) -> bool:
        """Whether the receiver of a message has read it by now: it has answered something that was sent later."""
        return self.has_read[message.direction] > message.index


# What every implementation can be expected to read.
_SURELY_READABLE = 4096

_decode_members = Decoder(dict[str, Any]).decode
# Many judges look at one message, one after the other: what was decoded last is kept until the next.
_kept: list[tuple[Raw, dict[str, Any]]] = []
_KEPT = 3


def members_of(raw: Raw) -> dict[str, Any]:
    """The members of a JSON object; none where it is something else. They are to be looked at, not to be changed."""
    for known, members in _kept:
        if known is raw:
            return members
    try:
        members = _decode_members(raw)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        members = {}
    _kept.insert(0, (raw, members))
    del _kept[_KEPT:]
    return members


def is_modern_request(message: Message) -> bool:
    """Whether a request of the client names a modern revision as its own."""
    return message.direction == ">" and message.meta.get(META_VERSION, UNSET) in MODERN


def is_modern_answer(message: Message, seen: Seen) -> bool:
    """Whether it answers a request that names a modern revision, to a server that knows what that is."""
    call = message.call
    return call is not None and is_modern_request(call.request) and seen.revision_of(call) in MODERN


def has_capability(declared: dict[str, Any], capability: str) -> bool:
    """Whether something was declared, with a dot before a detail: ``resources.subscribe``."""
    found: Any = declared
    for name in capability.split("."):
        if not isinstance(found, dict) or found.get(name) is None or found.get(name) is False:
            return False
        found = found[name]
    return True


def row_of(method: str, side: Side) -> revisions.MethodRow | None:
    """What the protocol knows about a request of one side."""
    return _ROWS.get((method, side))


_ROWS = {
    (row.method, side): row
    for row in revisions.REQUESTS
    for side in (("client", "server") if row.sender == "both" else (row.sender,))
}


def shown(value: Any) -> str:
    """A value in a sentence, cut to a length that fits."""
    text = _encode(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


_SHOWN = 40


def _encode(value: Any) -> str:
    from msgspec.json import encode  # noqa: PLC0415 - needed for a fault alone

    if value is UNSET:
        return "nothing"
    return encode(value).decode()
