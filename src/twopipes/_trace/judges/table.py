"""The table of judges, and the state of a connection that they judge by.

A judge is a function that looks at one message. It knows the connection up to that message and nothing after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import UNSET, MsgspecError, Raw, Struct
from msgspec.json import Decoder, encode

from twopipes._protocol import revisions
from twopipes._protocol.revisions import LEGACY, META_LOG_LEVEL, META_PROGRESS_TOKEN, META_VERSION, MODERN
from twopipes._rules.rule import Level, Severity
from twopipes._trace.conversation import Call, RecordedConnection
from twopipes._trace.message import Direction, Message, Shape

__all__ = ["JUDGES", "ConnectionState", "Finding", "Judging", "rule"]

Side = Literal["client", "server"]
Judging = Callable[[Message, "ConnectionState"], Iterator[str]]


class Finding(Struct, frozen=True, eq=False, kw_only=True):
    """A rule that a recording shows to be broken.

    Attributes:
        rule: The id of the rule, such as ``FR-04``.
        level: The level of the rule in the revision of the connection: ``MUST``, ``SHOULD`` or ``MAY``. MUST NOT counts as MUST.
        severity: ``error`` for a MUST of the specification; ``warning`` for a SHOULD, and for a MUST that is our reading; ``note``
            for a MAY.
        what: What is wrong, in one line. It may quote text from the wire, so escape it before you print it.
        by: The side that broke the rule.
        at: Seconds since the start of the recording.
        index: The index of the entry in the recording.
        connection: The number of the connection in the recording.
        message: The message that breaks the rule.
    """

    rule: str
    level: Level
    severity: Severity
    what: str
    by: Side
    at: float
    index: int
    connection: int
    message: Message

    @property
    def is_binding(self) -> bool:
        """Whether it breaks a MUST of the specification."""
        return self.severity == "error"


class Judge(Struct, frozen=True):
    """A function that judges one rule, and the messages it looks at."""

    rule: str
    by: Side | None  # None: the sender of the message
    shapes: tuple[Shape, ...]
    methods: tuple[str, ...]  # of the message, or of the call that it answers; empty for all
    once: bool  # report at most one finding for each connection
    function: Judging


# The judges by the shape of the messages that they look at.
JUDGES: dict[str, list[Judge]] = {}


def rule(
    rule_id: str, *shapes: Shape, by: Side | None = None, methods: tuple[str, ...] = (), once: bool = False
) -> Callable[[Judging], Judging]:
    """Register a function as the judge of a rule. It yields one line for each fault.

    The table of rules decides in which revisions a fault counts, and how much (:class:`twopipes._rules.rule.Rule`).
    """

    def enter(function: Judging) -> Judging:
        judge = Judge(rule_id, by, shapes, methods, once, function)
        for shape in shapes:
            JUDGES.setdefault(shape, []).append(judge)
        return function

    return enter


class ConnectionState:
    """The state of a connection before the current message.

    A judge that needs the whole history checks :attr:`is_certain` first.
    """

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
        """Return the revision that a call is judged by, or ``None`` if it is not certain.

        A legacy server may read a request that names a modern version as a legacy request.
        """
        if call.direction == ">" and is_modern_request(call.request):
            version = call.request.meta[META_VERSION]
            return version if self.server_is_modern or self.handshake is None else None
        return self.negotiated if self.negotiated in LEGACY else None

    def is_open(self, call: Call) -> bool:
        """Return whether a call has no response yet."""
        return isinstance(call.id, str | int) and self.open.get((call.direction, type(call.id), call.id)) is call

    def certainly_read(self, message: Message) -> bool:
        """Return whether the receiver has read a message by now, because it answered a later one."""
        return self.has_read[message.direction] > message.index


# Bytes. Every implementation can be expected to read a line of this size.
_SURELY_READABLE = 4096

_decode_members = Decoder(dict[str, Any]).decode
# Several judges look at the same message in turn, so the last few decoded objects are cached.
_kept: list[tuple[Raw, dict[str, Any]]] = []
_KEPT = 3


def members_of(raw: Raw) -> dict[str, Any]:
    """Return the members of a JSON object, or an empty dict for any other value. Do not modify the returned dict."""
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
    """Return whether a request of the client names a modern revision."""
    return message.direction == ">" and message.meta.get(META_VERSION, UNSET) in MODERN


def is_modern_answer(message: Message, state: ConnectionState) -> bool:
    """Return whether a message answers a modern request and comes from a server that knows modern revisions."""
    call = message.call
    return call is not None and is_modern_request(call.request) and state.revision_of(call) in MODERN


def has_capability(declared: dict[str, Any], capability: str) -> bool:
    """Return whether a capability is declared. A dot separates a detail: ``resources.subscribe``."""
    found: Any = declared
    for name in capability.split("."):
        if not isinstance(found, dict) or found.get(name) is None or found.get(name) is False:
            return False
        found = found[name]
    return True


def row_of(method: str, side: Side) -> revisions.MethodRow | None:
    """Return the row of the protocol table for a request of one side."""
    return _ROWS.get((method, side))


_ROWS = {
    (row.method, side): row
    for row in revisions.REQUESTS
    for side in (("client", "server") if row.sender == "both" else (row.sender,))
}


def shown(value: Any) -> str:
    """Return a value as JSON for a message, shortened if necessary."""
    text = "nothing" if value is UNSET else encode(value).decode()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


_SHOWN = 40
