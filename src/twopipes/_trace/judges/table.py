"""The table of judges, and the state of a connection that they judge by.

A judge is a function that looks at one message. It knows the connection up to that message and nothing after it, and yields one
line for each fault. What its rule demands, in which revisions and how strictly, is in :mod:`twopipes._rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct

from twopipes._codes import CAPABILITY_MISSING, UNSUPPORTED_REVISION
from twopipes._protocol.revisions import LEGACY, META_CAPABILITIES, META_LOG_LEVEL, META_PROGRESS_TOKEN, META_VERSION, MODERN
from twopipes._rules.rule import Level, Severity
from twopipes._trace.conversation import Call, RecordedConnection, id_key
from twopipes._trace.judges.values import Faults, Members, members_of, objects_in
from twopipes._trace.message import Direction, Message, Shape, Side

Judging = Callable[[Message, "ConnectionState"], Faults]


class Finding(Struct, frozen=True, eq=False, kw_only=True):
    """A rule that a recording shows to be broken."""

    rule: str  # its id, such as ``FR-04``
    level: Level  # of the rule in the revision of the connection; MUST NOT counts as MUST
    severity: Severity  # error: a MUST of the specification; warning: a SHOULD, or a MUST that is our reading; note: a MAY
    what: str  # what is wrong, in one line; it may quote text from the wire, so escape it before you print it
    by: Side  # the side that broke the rule
    at: float  # seconds since the start of the recording
    index: int  # of the entry in the recording
    connection: int  # the number of the connection in the recording
    message: Message

    @property
    def is_binding(self) -> bool:
        """Whether it breaks a MUST of the specification."""
        return self.severity == "error"


class Judge(Struct, frozen=True, kw_only=True):
    """A function that judges one rule, and the messages it looks at."""

    rule: str
    function: Judging
    by: Side | None  # the sender; None: either side
    methods: tuple[str, ...]  # of the message, or of the call that it answers; empty for all
    once: bool  # report at most one finding for each connection
    needs_values: bool  # a recording with redacted values is not judged

    def looks_at(self, message: Message) -> bool:
        """Whether the judge looks at messages of this sender and this method."""
        return self.by in {None, message.sender} and (not self.methods or message.topic in self.methods)


# The judges by the shape of the messages that they look at.
JUDGES: dict[str, list[Judge]] = {}


def rule(
    rule_id: str,
    *shapes: Shape,
    by: Side | None = None,
    methods: tuple[str, ...] = (),
    once: bool = False,
    needs_values: bool = False,
) -> Callable[[Judging], Judging]:
    """Register a function as the judge of a rule."""

    def enter(function: Judging) -> Judging:
        judge = Judge(rule=rule_id, function=function, by=by, methods=methods, once=once, needs_values=needs_values)
        for shape in shapes:
            JUDGES.setdefault(shape, []).append(judge)
        return function

    return enter


class ConnectionState:
    """The state of a connection before the current message.

    A judge that needs the whole history checks :attr:`is_certain` first.
    """

    def __init__(self, connection: RecordedConnection, *, is_redacted: bool, has_gaps: bool) -> None:
        self.connection = connection
        self.is_redacted = is_redacted
        self.has_gaps = has_gaps
        self.negotiated: str | None = None
        self.handshake: Call | None = None
        self.is_initialized = False
        self.has_spoken_modern = False
        self.server_is_modern = False
        self.client_capabilities: Members | None = None
        self.server_capabilities: Members | None = None
        self.ids: dict[Direction, set[tuple[Any, ...]]] = {">": set(), "<": set()}
        # Calls without a response: by id, by progress token, by number for open listens and for those that requested log messages.
        self.open: dict[tuple[Any, ...], Call] = {}
        self.tokens: dict[tuple[Any, ...], Call] = {}
        self.listens: dict[int, Call] = {}
        self.loggers: dict[int, Call] = {}
        # For each direction, the index of the last message that its receiver has certainly read, because it was answered.
        self.has_read: dict[Direction, int] = {">": -1, "<": -1}
        self.may_be_unreadable: dict[Direction, bool] = {">": False, "<": False}
        self.partial: dict[Direction, list[bytes]] = {">": [], "<": []}  # lines that may form one message together
        self.output_schemas: set[str] = set()
        self.progress: dict[int, float] = {}  # the last value of each call
        self.reported: set[str] = set()

    @property
    def is_certain(self) -> bool:
        """Whether the recording has the whole connection from its start."""
        return self.connection.has_start and not self.has_gaps

    @property
    def is_stateless(self) -> bool:
        """Whether the connection certainly is modern: there are modern requests and no handshake."""
        return self.is_certain and self.has_spoken_modern and self.handshake is None

    def note(self, message: Message) -> None:
        """Update the state with a message, after the judges have seen it."""
        self._note_readability(message)
        if message.shape != "noise":
            self.partial[message.direction].clear()
        if message.shape == "request" and message.call is not None:
            self._note_request(message.call)
        elif message.is_answer and message.call is not None:
            self._note_answer(message, message.call)
        elif message.method == "notifications/initialized":
            self.is_initialized = True
        elif message.method == "notifications/tools/list_changed":
            self.output_schemas.clear()

    def _note_readability(self, message: Message) -> None:
        # A receiver with limits may reject a valid line: a long one, or one with characters outside ASCII.
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
        self.has_spoken_modern |= is_modern_request(request)
        self.ids[call.direction].add(id_key(request.id))
        self.open[call.direction, *id_key(request.id)] = call
        if META_PROGRESS_TOKEN in request.meta:
            self.tokens[call.direction, *id_key(request.meta[META_PROGRESS_TOKEN])] = call
        if call.is_listen:
            self.listens[call.number] = call
        if META_LOG_LEVEL in request.meta:
            self.loggers[call.number] = call

    def _note_answer(self, message: Message, call: Call) -> None:
        self.has_read[call.direction] = max(self.has_read[call.direction], call.request.index)
        self.listens.pop(call.number, None)
        self.loggers.pop(call.number, None)
        for waiting, value in ((self.open, call.id), (self.tokens, call.request.meta.get(META_PROGRESS_TOKEN))):
            key = (call.direction, *id_key(value))
            if waiting.get(key) is call:
                del waiting[key]
        if message.direction == "<" and message.shape == "result":
            self._note_result(members_of(message.raw_result), call, is_first=call.answer is message)
        elif message.direction == "<" and is_modern_request(call.request):
            code = members_of(message.raw_error).get("code")
            self.server_is_modern |= code in (CAPABILITY_MISSING, UNSUPPORTED_REVISION)

    def _note_result(self, result: Members, call: Call, *, is_first: bool) -> None:
        """Note what a result of the server shows."""
        capabilities = result.get("capabilities")
        if call.method == "initialize":
            if isinstance(result.get("protocolVersion"), str) and is_first:
                self.negotiated = result["protocolVersion"]
                self.server_capabilities = capabilities if isinstance(capabilities, dict) else None
        elif call.method == "server/discover" and isinstance(result.get("supportedVersions"), list):
            self.server_is_modern = True
            if self.handshake is None and isinstance(capabilities, dict):
                self.server_capabilities = capabilities
        elif isinstance(result.get("resultType"), str):
            self.server_is_modern = True
        if call.method == "tools/list":
            self.output_schemas.update(
                tool["name"]
                for tool in objects_in(result, "tools")
                if isinstance(tool.get("name"), str) and isinstance(tool.get("outputSchema"), dict)
            )

    def revision_of(self, call: Call) -> str | None:
        """Return the revision that a call is judged by, or ``None`` if it is not certain.

        A legacy server may read a request that names a modern version as a legacy request.
        """
        if is_modern_request(call.request):
            return call.request.meta[META_VERSION] if self.server_is_modern or self.handshake is None else None
        return self.negotiated if self.negotiated in LEGACY else None

    def is_open(self, call: Call) -> bool:
        """Whether a call has no response yet."""
        return self.open.get((call.direction, *id_key(call.id))) is call

    def certainly_read(self, message: Message) -> bool:
        """Whether the receiver has read a message by now, because it answered a later one."""
        return self.has_read[message.direction] > message.index


# Bytes. Every implementation can be expected to read a line of this size.
_SURELY_READABLE = 4096


def is_modern_request(message: Message) -> bool:
    """Whether a request of the client names a modern revision."""
    return message.direction == ">" and message.meta.get(META_VERSION, UNSET) in MODERN


def is_modern_answer(message: Message, state: ConnectionState) -> bool:
    """Whether a message answers a modern request and comes from a server that knows modern revisions."""
    call = message.call
    return call is not None and is_modern_request(call.request) and state.revision_of(call) in MODERN


def has_extensions(call: Call) -> bool:
    """Whether the client of a call declared extensions, which may have their own types of results and content."""
    capabilities = call.request.meta.get(META_CAPABILITIES)
    return isinstance(capabilities, dict) and bool(capabilities.get("extensions"))
