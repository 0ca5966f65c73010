"""Judges of ids, the handshake, modern requests and error codes (sections JR, LC, VN, ER and others)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from twopipes import _codes as codes
from twopipes._protocol.methods import MethodRow
from twopipes._protocol.revisions import (
    LEGACY,
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_SERVER_INFO,
    META_VERSION,
    MODERN,
    RESERVED_CODES,
)
from twopipes._rules.table import RULES
from twopipes._trace.conversation import id_key
from twopipes._trace.judges.table import ConnectionState, has_extensions, is_modern_answer, is_modern_request, rule
from twopipes._trace.judges.values import Faults, Members, has_capability, is_json, members_of, row_of, shown, wrong_types
from twopipes._trace.message import OTHER_WAY, Message

_STANDARD_CODES = {
    *(codes.PARSE_ERROR, codes.INVALID_REQUEST, codes.METHOD_NOT_FOUND, codes.INVALID_PARAMS, codes.INTERNAL_ERROR),
    *(codes.CAPABILITY_MISSING, codes.UNSUPPORTED_REVISION),
}
_NEVER_MODERN = {codes.RESOURCE_NOT_FOUND, codes.URLS_REQUIRED}
_OF_OLD_IMPLEMENTATIONS = range(-32019, -31999)
_OF_THE_PROTOCOL = range(-32099, -32019)
# The digits of an id that is compared as a number.
_LONGEST_NUMBER = 19


# Ids


@rule("JR-04", "request")
def id_used_twice_in_a_session(message: Message, state: ConnectionState) -> Faults:
    if message.call is None or state.revision_of(message.call) not in LEGACY or message.method == "initialize":
        return
    if id_key(message.id) in state.ids[message.direction]:
        yield f"the id {shown(message.id)} was used before in this session"


@rule("JR-05", "request", by="client")
def id_of_an_open_request(message: Message, state: ConnectionState) -> Faults:
    call = state.open.get((">", *id_key(message.id))) if is_modern_request(message) and not state.has_gaps else None
    if call is not None and not any(cancel.index < message.index for cancel in call.cancels):
        yield f"the id {shown(message.id)} belongs to a request ({call.method}) that is still open"


@rule("JR-06", "result", "error")
def id_of_the_answer(message: Message, state: ConnectionState) -> Faults:
    call = message.call
    if message.id is None or message.id is UNSET:
        if message.shape == "result":
            yield "a result without an id"
    elif not state.is_certain or not isinstance(message.id, str | int):
        return
    elif call is None:
        other = _of_the_other_type(message.id)
        if (OTHER_WAY[message.direction], *id_key(other)) in state.open:
            yield f"a response to {shown(message.id)}, but the request has the id {shown(other)}: a different JSON type"
        else:
            yield f"a response to request {shown(message.id)}, which was not sent"
    elif call.answer is not message:
        yield f"a second response to request {shown(message.id)} ({call.method})"


def _of_the_other_type(value: str | int) -> str | int:
    if isinstance(value, int):
        return str(value)
    return int(value) if value.isascii() and value.isdigit() and len(value) < _LONGEST_NUMBER else value


# The handshake


@rule("LC-01", "request", by="client")
def handshake_first(message: Message, state: ConnectionState) -> Faults:
    if message.method == "initialize":
        if state.negotiated is not None and message.batch is None:
            yield "a second initialize in an open session"
    elif state.is_certain and state.handshake is None and not state.has_spoken_modern and not _is_of_the_new_era(message):
        yield f"{message.method} before initialize"


def _is_of_the_new_era(message: Message) -> bool:
    return META_VERSION in message.meta or message.method == "ping" or _is_new(message)


def _is_new(message: Message) -> bool:
    row = row_of(message.method, "client")
    return row is not None and row.span.since in MODERN


@rule("LC-02", "request", by="client", methods=("initialize",), needs_values=True)
def shape_of_the_handshake(message: Message, state: ConnectionState) -> Faults:
    return _introduction(members_of(message.raw_params), "clientInfo")


@rule("LC-03", "result", by="server", methods=("initialize",))
def shape_of_the_answer(message: Message, state: ConnectionState) -> Faults:
    return _introduction(members_of(message.raw_result), "serverInfo")


def _introduction(members: Members, who: str) -> Faults:
    yield from wrong_types(members, str, "protocolVersion")
    yield from wrong_types(members, dict, "capabilities")
    yield from _info(members, who)


def _info(members: Members, who: str) -> Faults:
    match members.get(who, UNSET):
        case {"name": str(), "version": str()}:
            pass
        case other:
            yield f"{who} must be an object with name and version, not {shown(other)}"


@rule("LC-04", "request", "notification", by="client")
def initialized(message: Message, state: ConnectionState) -> Faults:
    if not state.is_certain or state.handshake is None:
        return
    if message.method == "notifications/initialized":
        if state.negotiated is None and state.is_open(state.handshake):
            yield "notifications/initialized before initialize was answered"
    elif message.shape == "notification" or message.method in ("ping", "initialize") or is_modern_request(message):
        return
    elif state.negotiated is not None and not state.is_initialized:
        yield f"{message.method} before notifications/initialized"


@rule("LC-05", "request", by="client")
def impatient_client(message: Message, state: ConnectionState) -> Faults:
    if message.method in ("ping", "initialize") or not state.is_certain or is_modern_request(message):
        return
    if state.handshake is not None and state.is_open(state.handshake):
        yield f"{message.method} before initialize was answered"


@rule("LC-06", "request", by="server")
def impatient_server(message: Message, state: ConnectionState) -> Faults:
    if message.method != "ping" and state.is_certain and state.handshake is not None and not state.is_initialized:
        yield f"{message.method} before notifications/initialized"


@rule("LC-12", "notification", by="client", methods=("notifications/cancelled",))
def cancelled_handshake(message: Message, state: ConnectionState) -> Faults:
    if message.call is not None and message.call.method == "initialize":
        yield "cancels initialize"


@rule("LC-11", "request")
def within_what_was_agreed(message: Message, state: ConnectionState) -> Faults:
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
    is_client = message.sender == "client"
    declared = state.server_capabilities if is_client else state.client_capabilities
    if row.capability and declared is not None and not has_capability(declared, row.capability):
        yield f"{message.method}, and the {'server' if is_client else 'client'} did not declare {row.capability}"


def _row_in_session(message: Message, state: ConnectionState) -> MethodRow | None:
    """Return the protocol row of a request in a session that is known from its start."""
    if message.call is None or state.negotiated not in LEGACY or is_modern_request(message) or not state.is_certain:
        return None
    return row_of(message.method, message.sender)


# Modern requests and results


@rule("FR-09", "request", by="server")
def request_on_the_stateless_wire(message: Message, state: ConnectionState) -> Faults:
    if state.is_stateless:
        yield f"a request ({message.method}) from the server; in modern revisions it asks inside a result"


@rule("FR-10", "result", "error", by="client")
def response_on_the_stateless_wire(message: Message, state: ConnectionState) -> Faults:
    if state.is_stateless:
        yield "a response from the client; in modern revisions it sends none"


@rule("VN-01", "request", by="client", needs_values=True)
def metadata_of_requests(message: Message, state: ConnectionState) -> Faults:
    if META_VERSION in message.meta:
        yield from wrong_types(message.meta, str, META_VERSION)
        if isinstance(version := message.meta[META_VERSION], str) and version not in LEGACY:
            yield from wrong_types(message.meta, dict, META_CAPABILITIES)
    elif (_is_new(message) and state.handshake is None) or (state.is_stateless and message.method != "initialize"):
        yield f"{message.method} without {META_VERSION} in its _meta"


@rule("VN-03", "request", by="client", once=True)
def name_of_the_client(message: Message, state: ConnectionState) -> Faults:
    if not is_modern_request(message):
        return
    if META_CLIENT_INFO not in message.meta:
        yield f"requests without {META_CLIENT_INFO} in their _meta"
    elif not state.is_redacted:
        yield from _info(message.meta, META_CLIENT_INFO)


@rule("VN-02", "result", by="server", needs_values=True)
def refusal_without_metadata(message: Message, state: ConnectionState) -> Faults:
    if not is_modern_answer(message, state) or message.call is None:
        return
    has_type = isinstance(members_of(message.raw_result).get("resultType"), str)
    if has_type and not isinstance(message.call.request.meta.get(META_CAPABILITIES), dict):
        yield f"a result for a request without {META_CAPABILITIES}, which must be rejected with {codes.INVALID_PARAMS}"


@rule("VN-06", "result", by="server", methods=("server/discover",))
def shape_of_discovery(message: Message, state: ConnectionState) -> Faults:
    result = members_of(message.raw_result)
    versions = result.get("supportedVersions", UNSET)
    if versions is UNSET and "resultType" not in result:
        return  # the server does not know the method
    if not isinstance(versions, list) or not all(isinstance(version, str) for version in versions):
        yield f"supportedVersions must be an array of strings, not {shown(versions)}"
    yield from wrong_types(result, dict, "capabilities")


@rule("VN-08", "result", by="server", once=True)
def name_of_the_server(message: Message, state: ConnectionState) -> Faults:
    result = members_of(message.raw_result) if is_modern_answer(message, state) else {}
    if "resultType" not in result:
        return
    meta = result.get("_meta")
    if not isinstance(meta, dict) or META_SERVER_INFO not in meta:
        yield f"results without {META_SERVER_INFO} in their _meta"
    elif not state.is_redacted:
        yield from _info(meta, META_SERVER_INFO)


@rule("VN-09", "result", by="server")
def type_of_results(message: Message, state: ConnectionState) -> Faults:
    if not state.server_is_modern or not is_modern_answer(message, state) or message.call is None:
        return
    result = members_of(message.raw_result)
    yield from wrong_types(result, str, "resultType")
    kind = result.get("resultType")
    if isinstance(kind, str) and kind not in ("complete", "input_required") and not has_extensions(message.call):
        yield f"resultType {shown(kind)}, but the client declared no extension"


# The methods that modern revisions have removed, by the rule that says so.
_GONE = {
    "PI-04": ("ping",),
    "LG-09": ("logging/setLevel",),
    "RS-05": ("resources/subscribe", "resources/unsubscribe"),
}


def method_is_gone(message: Message, state: ConnectionState) -> Faults:
    if is_modern_request(message):
        yield f"{message.method} does not exist in {message.meta[META_VERSION]}"


for _rule, _methods in _GONE.items():
    rule(_rule, "request", by="client", methods=_methods)(method_is_gone)


@rule("VN-12", "result", by="server", methods=tuple(method for methods in _GONE.values() for method in methods))
def answer_to_a_method_that_is_gone(message: Message, state: ConnectionState) -> Faults:
    if state.server_is_modern and is_modern_answer(message, state):
        yield f"a result for {message.topic}, which does not exist in this revision"


@rule("PI-01", "error", methods=("ping",))
def refused_ping(message: Message, state: ConnectionState) -> Faults:
    call = message.call
    answered = state.handshake.answer if state.handshake is not None and state.negotiated in LEGACY else None
    if call is None or is_modern_request(call.request) or answered is None or answered.index > call.request.index:
        return
    yield "ping is answered with an error"


# Modern errors


@rule("ER-06", "error", by="server")
def reserved_codes(message: Message, state: ConnectionState) -> Faults:
    code = _modern_code(message, state)
    if code in _OF_THE_PROTOCOL and code not in _STANDARD_CODES:
        yield f"the code {code} is reserved, and is not defined"


@rule("ER-07", "error", by="server")
def codes_of_their_own(message: Message, state: ConnectionState) -> Faults:
    code = _modern_code(message, state)
    if code in _OF_OLD_IMPLEMENTATIONS:
        return  # only new implementations must avoid these, and their age is not visible
    if code in RESERVED_CODES and code not in _STANDARD_CODES | _NEVER_MODERN and code not in _OF_THE_PROTOCOL:
        yield f"the code {code} is in the range that is reserved for JSON-RPC"


@rule("ER-08", "error", by="server")
def codes_of_the_old_era(message: Message, state: ConnectionState) -> Faults:
    if (code := _modern_code(message, state)) in _NEVER_MODERN:
        yield f"the code {code} does not exist in this revision"


def _modern_code(message: Message, state: ConnectionState) -> Any:
    # The peer may be a legacy server, so it must have shown that it is modern.
    if not state.server_is_modern or not is_modern_answer(message, state):
        return None
    code = members_of(message.raw_error).get("code")
    return code if is_json(code, int) else None


@rule("ER-09", "error", by="server")
def refused_version(message: Message, state: ConnectionState) -> Faults:
    error = members_of(message.raw_error)
    call = message.call
    if error.get("code") != codes.UNSUPPORTED_REVISION or call is None or META_VERSION not in call.request.meta:
        return
    data: Any = error.get("data")
    match data:
        case {"supported": [*versions]} if all(isinstance(version, str) for version in versions):
            if data.get("requested") != call.request.meta[META_VERSION] and not state.is_redacted:
                requested = shown(data.get("requested", UNSET))
                yield f"{codes.UNSUPPORTED_REVISION} with data.requested {requested} instead of the requested version"
        case _:
            yield f"{codes.UNSUPPORTED_REVISION} without data.supported, an array of strings"


@rule("ER-10", "error", by="server")
def missing_capability(message: Message, state: ConnectionState) -> Faults:
    error = members_of(message.raw_error)
    if error.get("code") != codes.CAPABILITY_MISSING or message.call is None or not is_modern_request(message.call.request):
        return
    match error.get("data"):
        case {"requiredCapabilities": dict()}:
            pass
        case _:
            yield f"{codes.CAPABILITY_MISSING} without data.requiredCapabilities, an object"
