"""Judges of ids, the handshake, modern requests and error codes (sections JR, LC, VN, ER and others)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from twopipes._codes import CAPABILITY_MISSING, UNSUPPORTED_REVISION
from twopipes._protocol.revisions import (
    LEGACY,
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_SERVER_INFO,
    META_VERSION,
    MODERN,
    RESERVED_CODES,
    MethodRow,
)
from twopipes._rules.table import RULES
from twopipes._trace.judges.table import (
    ConnectionState,
    has_capability,
    is_modern_answer,
    is_modern_request,
    members_of,
    row_of,
    rule,
    shown,
)
from twopipes._trace.message import Message

_STANDARD_CODES = {-32700, -32600, -32601, -32602, -32603, -32021, -32022}
_NEVER_MODERN = {-32002, -32042}
_OF_OLD_IMPLEMENTATIONS = range(-32019, -31999)
_OF_THE_PROTOCOL = range(-32099, -32019)


# Ids


@rule("JR-04", "request")
def id_used_twice_in_a_session(message: Message, state: ConnectionState) -> Iterator[str]:
    """In a session an id is used once, even after its response."""
    call = message.call
    if call is None or state.revision_of(call) not in LEGACY or message.method == "initialize":
        return
    if isinstance(message.id, str | int) and (type(message.id), message.id) in state.ids[message.direction]:
        yield f"the id {shown(message.id)} was used before in this session"


@rule("JR-05", "request", by="client")
def id_of_an_open_request(message: Message, state: ConnectionState) -> Iterator[str]:
    """In modern revisions an id may be reused after its response."""
    if not is_modern_request(message) or state.has_gaps or not isinstance(message.id, str | int):
        return
    call = state.open.get((">", type(message.id), message.id))
    if call is not None and not any(cancel.index < message.index for cancel in call.cancels):
        yield f"the id {shown(message.id)} belongs to a request ({call.method}) that is still open"


@rule("JR-06", "result", "error")
def id_of_the_answer(message: Message, state: ConnectionState) -> Iterator[str]:
    """A response has the id of its request, and there is only one."""
    if message.id is None or message.id is UNSET:
        if message.shape == "result":
            yield "a result without an id"
        return
    if not state.is_certain or not isinstance(message.id, str | int):
        return
    call = message.call
    if call is None:
        asked = ">" if message.direction == "<" else "<"
        other = _of_the_other_type(message.id)
        if (asked, type(other), other) in state.open:
            yield f"a response to {shown(message.id)}, but the request has the id {shown(other)}: a different JSON type"
        else:
            yield f"a response to request {shown(message.id)}, which was not sent"
    elif call.answer is not message:
        yield f"a second response to request {shown(message.id)} ({call.method})"


def _of_the_other_type(value: Any) -> Any:
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < _LONGEST_NUMBER else value
    return str(value)  # of an integer


_LONGEST_NUMBER = 19

# The handshake


@rule("LC-01", "request", by="client")
def handshake_first(message: Message, state: ConnectionState) -> Iterator[str]:
    """A session starts with ``initialize``, once."""
    if message.direction != ">":
        return
    if message.method == "initialize":
        if state.negotiated is not None and message.batch is None:
            yield "a second initialize in an open session"
        return
    if state.is_certain and state.handshake is None and not state.has_spoken_modern and not _is_of_the_new_era(message):
        yield f"{message.method} before initialize"


def _is_of_the_new_era(message: Message) -> bool:
    row = row_of(message.method or "", "client")
    return META_VERSION in message.meta or message.method == "ping" or (row is not None and row.span.since in MODERN)


@rule("LC-02", "request", by="client", methods=("initialize",))
def shape_of_the_handshake(message: Message, state: ConnectionState) -> Iterator[str]:
    """Version, capabilities, and who it is."""
    if message.direction == ">" and not state.is_redacted:
        yield from _introduction(members_of(message.raw_params), "clientInfo")


@rule("LC-03", "result", by="server", methods=("initialize",))
def shape_of_the_answer(message: Message, state: ConnectionState) -> Iterator[str]:
    """The result of ``initialize`` has the required members."""
    if message.direction == "<":
        yield from _introduction(members_of(message.raw_result), "serverInfo")


def _introduction(members: dict[str, Any], who: str) -> Iterator[str]:
    if not isinstance(members.get("protocolVersion"), str):
        yield f"protocolVersion must be a string, not {shown(members.get('protocolVersion', UNSET))}"
    if not isinstance(members.get("capabilities"), dict):
        yield f"capabilities must be an object, not {shown(members.get('capabilities', UNSET))}"
    if not _is_introduced(members.get(who)):
        yield f"{who} must be an object with name and version, not {shown(members.get(who, UNSET))}"


def _is_introduced(info: Any) -> bool:
    return isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str)


@rule("LC-04", "request", "notification", by="client")
def initialized(message: Message, state: ConnectionState) -> Iterator[str]:
    """``notifications/initialized`` comes after the result and before any request."""
    if message.direction != ">" or not state.is_certain or state.handshake is None:
        return
    if message.method == "notifications/initialized":
        if state.negotiated is None and state.is_open(state.handshake):
            yield "notifications/initialized before initialize was answered"
        return
    if message.shape == "notification" or message.method in ("ping", "initialize") or is_modern_request(message):
        return
    if state.negotiated is not None and not state.is_initialized:
        yield f"{message.method} before notifications/initialized"


@rule("LC-05", "request", by="client")
def impatient_client(message: Message, state: ConnectionState) -> Iterator[str]:
    """No requests before the result of ``initialize``."""
    if message.direction != ">" or message.method in ("ping", "initialize") or not state.is_certain:
        return
    handshake = state.handshake
    if handshake is not None and state.is_open(handshake) and not is_modern_request(message):
        yield f"{message.method} before initialize was answered"


@rule("LC-06", "request", by="server")
def impatient_server(message: Message, state: ConnectionState) -> Iterator[str]:
    """No requests of the server before ``notifications/initialized``."""
    is_early = state.is_certain and state.handshake is not None and not state.is_initialized
    if message.direction == "<" and message.method != "ping" and is_early:
        yield f"{message.method} before notifications/initialized"


@rule("LC-12", "notification", by="client", methods=("notifications/cancelled",))
def cancelled_handshake(message: Message, state: ConnectionState) -> Iterator[str]:
    """``initialize`` is not cancelled."""
    if message.direction == ">" and message.call is not None and message.call.method == "initialize":
        yield "cancels initialize"


@rule("LC-11", "request")
def within_what_was_agreed(message: Message, state: ConnectionState) -> Iterator[str]:
    """In a session each side requests what the revision has and the other side declared."""
    row = _row_in_session(message, state)
    if row is None:
        return
    revision = state.negotiated or ""
    if not row.span.has(revision):
        if row.method != "server/discover":
            yield f"{message.method} does not exist in {revision}"
        return
    if RULES["LC-11"].level_in(revision) != "MUST":
        return  # hosts of the older revisions have always requested everything, declared or not
    declared = state.server_capabilities if message.direction == ">" else state.client_capabilities
    if row.capability and declared is not None and not has_capability(declared, row.capability):
        other = "server" if message.direction == ">" else "client"
        yield f"{message.method}, and the {other} did not declare {row.capability}"


def _row_in_session(message: Message, state: ConnectionState) -> MethodRow | None:
    """Return the protocol row of a request in a session that is known from its start."""
    if message.call is None or state.negotiated not in LEGACY or is_modern_request(message) or not state.is_certain:
        return None
    return row_of(message.method or "", "client" if message.direction == ">" else "server")


# Modern requests and results


@rule("FR-09", "request", by="server")
def request_on_the_stateless_wire(message: Message, state: ConnectionState) -> Iterator[str]:
    """A modern server asks inside results."""
    if message.direction == "<" and state.is_stateless:
        yield f"a request ({message.method}) from the server; in modern revisions it asks inside a result"


@rule("FR-10", "result", "error", by="client")
def response_on_the_stateless_wire(message: Message, state: ConnectionState) -> Iterator[str]:
    """A modern client has nothing to respond to."""
    if message.direction == ">" and state.is_stateless:
        yield "a response from the client; in modern revisions it sends none"


@rule("VN-01", "request", by="client")
def metadata_of_requests(message: Message, state: ConnectionState) -> Iterator[str]:
    """Each modern request is self-contained."""
    if message.direction != ">" or state.is_redacted:
        return
    if META_VERSION in message.meta:
        version = message.meta[META_VERSION]
        if not isinstance(version, str):
            yield f"{META_VERSION} must be a string, not {shown(version)}"
        elif version not in LEGACY and not isinstance(message.meta.get(META_CAPABILITIES), dict):
            yield f"{META_CAPABILITIES} must be an object, not {shown(message.meta.get(META_CAPABILITIES, UNSET))}"
        return
    row = row_of(message.method or "", "client")
    is_new = row is not None and row.span.since in MODERN and state.handshake is None
    if is_new or (state.is_stateless and message.method != "initialize"):
        yield f"{message.method} without {META_VERSION} in its _meta"


@rule("VN-03", "request", by="client", once=True)
def name_of_the_client(message: Message, state: ConnectionState) -> Iterator[str]:
    """Every request has ``clientInfo``. Reported once."""
    if not is_modern_request(message):
        return
    if META_CLIENT_INFO not in message.meta:
        yield f"requests without {META_CLIENT_INFO} in their _meta"
    elif not state.is_redacted and not _is_introduced(message.meta[META_CLIENT_INFO]):
        yield f"{META_CLIENT_INFO} must be an object with name and version, not {shown(message.meta[META_CLIENT_INFO])}"


@rule("VN-02", "result", by="server")
def refusal_without_metadata(message: Message, state: ConnectionState) -> Iterator[str]:
    """Values of an earlier request are not used."""
    if message.direction != "<" or not is_modern_answer(message, state) or message.call is None:
        return
    has_type = isinstance(members_of(message.raw_result).get("resultType"), str)
    if has_type and not state.is_redacted and not isinstance(message.call.request.meta.get(META_CAPABILITIES), dict):
        yield f"a result for a request without {META_CAPABILITIES}, which must be rejected with -32602"


@rule("VN-06", "result", by="server", methods=("server/discover",))
def shape_of_discovery(message: Message, state: ConnectionState) -> Iterator[str]:
    """Discovery has what a client needs to choose a version."""
    result = members_of(message.raw_result)
    if "supportedVersions" not in result and "resultType" not in result:
        return  # the server does not know the method
    versions = result.get("supportedVersions")
    if not isinstance(versions, list) or not all(isinstance(version, str) for version in versions):
        yield f"supportedVersions must be an array of strings, not {shown(result.get('supportedVersions', UNSET))}"
    if not isinstance(result.get("capabilities"), dict):
        yield f"capabilities must be an object, not {shown(result.get('capabilities', UNSET))}"


@rule("VN-08", "result", by="server", once=True)
def name_of_the_server(message: Message, state: ConnectionState) -> Iterator[str]:
    """Every result has ``serverInfo``. Reported once."""
    if message.direction != "<" or not is_modern_answer(message, state):
        return
    result = members_of(message.raw_result)
    meta = result.get("_meta")
    if "resultType" not in result:
        return
    if not isinstance(meta, dict) or META_SERVER_INFO not in meta:
        yield f"results without {META_SERVER_INFO} in their _meta"
    elif not state.is_redacted and not _is_introduced(meta[META_SERVER_INFO]):
        yield f"{META_SERVER_INFO} must be an object with name and version, not {shown(meta[META_SERVER_INFO])}"


@rule("VN-09", "result", by="server")
def type_of_results(message: Message, state: ConnectionState) -> Iterator[str]:
    """Every result has a type that the client knows."""
    if message.direction != "<" or not state.server_is_modern or not is_modern_answer(message, state) or message.call is None:
        return
    kind = members_of(message.raw_result).get("resultType", UNSET)
    capabilities = message.call.request.meta.get(META_CAPABILITIES)
    has_extensions = isinstance(capabilities, dict) and bool(capabilities.get("extensions"))
    if not isinstance(kind, str):
        yield f"resultType must be a string, not {shown(kind)}"
    elif kind not in ("complete", "input_required") and not has_extensions:
        yield f"resultType {shown(kind)}, but the client declared no extension"


_GONE = {
    "ping": "PI-04",
    "logging/setLevel": "LG-09",
    "resources/subscribe": "RS-05",
    "resources/unsubscribe": "RS-05",
}


def _gone(message: Message, rule_id: str) -> Iterator[str]:
    if is_modern_request(message) and _GONE.get(message.method or "") == rule_id:
        yield f"{message.method} does not exist in {message.meta[META_VERSION]}"


@rule("PI-04", "request", by="client", methods=("ping",))
def ping_is_gone(message: Message, state: ConnectionState) -> Iterator[str]:
    """Modern revisions have no ping."""
    yield from _gone(message, "PI-04")


@rule("LG-09", "request", by="client", methods=("logging/setLevel",))
def set_level_is_gone(message: Message, state: ConnectionState) -> Iterator[str]:
    """In modern revisions each request has its own log level."""
    yield from _gone(message, "LG-09")


@rule("RS-05", "request", by="client", methods=("resources/subscribe", "resources/unsubscribe"))
def subscribe_is_gone(message: Message, state: ConnectionState) -> Iterator[str]:
    """In modern revisions clients listen instead."""
    yield from _gone(message, "RS-05")


@rule("VN-12", "result", by="server", methods=tuple(_GONE))
def answer_to_what_is_gone(message: Message, state: ConnectionState) -> Iterator[str]:
    """Removed methods are rejected with -32601."""
    if message.direction == "<" and state.server_is_modern and is_modern_answer(message, state) and message.call is not None:
        yield f"a result for {message.call.method}, which does not exist in this revision"


@rule("PI-01", "error", methods=("ping",))
def refused_ping(message: Message, state: ConnectionState) -> Iterator[str]:
    """In a session both sides answer ping."""
    call = message.call
    answered = state.handshake.answer if state.handshake is not None and state.negotiated in LEGACY else None
    if call is None or is_modern_request(call.request) or answered is None or answered.index > call.request.index:
        return
    yield "ping is answered with an error"


# Modern errors


@rule("ER-06", "error", by="server")
def reserved_codes(message: Message, state: ConnectionState) -> Iterator[str]:
    """Reserved codes have a defined meaning."""
    code = _modern_code(message, state)
    if code is not None and code in _OF_THE_PROTOCOL and code not in _STANDARD_CODES:
        yield f"the code {code} is reserved, and is not defined"


@rule("ER-07", "error", by="server")
def codes_of_their_own(message: Message, state: ConnectionState) -> Iterator[str]:
    """Custom codes are outside the reserved range."""
    code = _modern_code(message, state)
    if code is None or code not in RESERVED_CODES or code in _STANDARD_CODES | _NEVER_MODERN or code in _OF_THE_PROTOCOL:
        return
    if code in _OF_OLD_IMPLEMENTATIONS:
        return  # only new implementations must avoid these, and their age is not visible
    yield f"the code {code} is in the range that is reserved for JSON-RPC"


@rule("ER-08", "error", by="server")
def codes_of_the_old_era(message: Message, state: ConnectionState) -> Iterator[str]:
    """In modern revisions, resource not found is -32602, and URLs are requested in a result."""
    code = _modern_code(message, state)
    if code in _NEVER_MODERN:
        yield f"the code {code} does not exist in this revision"


def _modern_code(message: Message, state: ConnectionState) -> int | None:
    # The peer may be a legacy server, so it must have shown that it is modern.
    if message.direction != "<" or not state.server_is_modern or not is_modern_answer(message, state):
        return None
    code = members_of(message.raw_error).get("code")
    return code if isinstance(code, int) and not isinstance(code, bool) else None


@rule("ER-09", "error", by="server")
def refused_version(message: Message, state: ConnectionState) -> Iterator[str]:
    """-32022 names the supported versions and the requested one."""
    error = members_of(message.raw_error)
    call = message.call
    if error.get("code") != UNSUPPORTED_REVISION or call is None or META_VERSION not in call.request.meta:
        return
    data = error.get("data")
    supported = data.get("supported") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(supported, list) or not all(isinstance(item, str) for item in supported):
        yield "-32022 without data.supported, an array of strings"
    elif data.get("requested") != call.request.meta[META_VERSION] and not state.is_redacted:
        yield f"-32022 with data.requested {shown(data.get('requested', UNSET))} instead of the requested version"


@rule("ER-10", "error", by="server")
def missing_capability(message: Message, state: ConnectionState) -> Iterator[str]:
    """-32021 names the required capabilities."""
    error = members_of(message.raw_error)
    if error.get("code") != CAPABILITY_MISSING or message.call is None or not is_modern_request(message.call.request):
        return
    data = error.get("data")
    if not isinstance(data, dict) or not isinstance(data.get("requiredCapabilities"), dict):
        yield "-32021 without data.requiredCapabilities, an object"
