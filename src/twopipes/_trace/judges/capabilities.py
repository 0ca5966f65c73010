"""Judges of capabilities and metadata (sections CP and MT, and ST-06)."""

from __future__ import annotations

from typing import Any

from twopipes._codes import METHOD_NOT_FOUND
from twopipes._protocol.meta_keys import is_extension_name, meta_key_fault
from twopipes._protocol.revisions import CLIENT_CAPABILITIES, LEGACY, META_CAPABILITIES, META_VERSION, SERVER_CAPABILITIES
from twopipes._trace.judges.table import ConnectionState, is_modern_answer, is_modern_request, rule
from twopipes._trace.judges.values import Faults, Members, has_capability, members_of, row_of, shown
from twopipes._trace.message import Message

_LISTED = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@rule("CP-01", "result", by="server")
def used_and_not_declared(message: Message, state: ConnectionState) -> Faults:
    call = message.call
    if call is None or state.server_capabilities is None or not state.is_certain:
        return
    row = row_of(call.method, "client")
    if row is None or row.capability is None or "." in row.capability:
        return
    if state.handshake is not None and not SERVER_CAPABILITIES[row.capability].has(state.negotiated or ""):
        return  # the first revision has completion/complete, but no capability for it
    if _gives_nothing(call.method, members_of(message.raw_result)):
        return  # an empty list uses nothing
    is_of_this_era = (state.negotiated is None) == is_modern_request(call.request)
    if is_of_this_era and not has_capability(state.server_capabilities, row.capability):
        yield f"{call.method} works, but the server did not declare {row.capability}"


def _gives_nothing(method: str, result: Members) -> bool:
    """Return whether a result is an empty list or completion."""
    if method == "completion/complete":
        completion = result.get("completion")
        return isinstance(completion, dict) and not completion.get("values")
    return method in _LISTED and not result.get(_LISTED[method])


@rule("CP-03", "request", "result")
def shape_of_capabilities(message: Message, state: ConnectionState) -> Faults:
    known = CLIENT_CAPABILITIES if message.direction == ">" else SERVER_CAPABILITIES
    declared = _declared(message, state)
    for name, value in declared.items() if isinstance(declared, dict) else ():
        if name in known and not isinstance(value, dict):
            yield f"the capability {name} must be an object, not {shown(value)}"
        elif name in known:
            for flag in ("listChanged", "subscribe"):
                if f"{name}.{flag}" in known and not isinstance(value.get(flag, False), bool):
                    yield f"{name}.{flag} must be a boolean, not {shown(value[flag])}"


def _declared(message: Message, state: ConnectionState) -> Any:
    """Return the capabilities that a message declares: in a handshake, in a discovery, or in a modern request."""
    if message.shape == "result":
        declares = message.direction == "<" and message.topic in ("initialize", "server/discover")
        return members_of(message.raw_result).get("capabilities") if declares else None
    if state.is_redacted or message.direction != ">":
        return None
    is_handshake = message.method == "initialize"
    return members_of(message.raw_params).get("capabilities") if is_handshake else message.meta.get(META_CAPABILITIES)


@rule("CP-07", "request", "result")
def names_of_extensions(message: Message, state: ConnectionState) -> Faults:
    is_modern = is_modern_request(message) if message.shape == "request" else message.topic == "server/discover"
    capabilities = _declared(message, state) if is_modern else None
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    for name, value in extensions.items() if isinstance(extensions, dict) else ():
        if not is_extension_name(name) or not isinstance(value, dict):
            yield f"the extension {shown(name)} must have a prefix, and an object of settings"


@rule("ST-06", "error", by="server", methods=("tools/list", "prompts/list", "resources/list"))
def declared_and_not_listed(message: Message, state: ConnectionState) -> Faults:
    if state.handshake is not None or not is_modern_answer(message, state) or state.server_capabilities is None:
        return
    feature = message.topic.partition("/")[0]
    is_unknown = members_of(message.raw_error).get("code") == METHOD_NOT_FOUND
    if is_unknown and has_capability(state.server_capabilities, feature):
        yield f"{feature} is declared, but {message.topic} does not exist"


@rule("MT-01", "request", "notification", "result")
def keys_of_metadata(message: Message, state: ConnectionState) -> Faults:
    meta: Any = message.meta
    if message.shape == "result":
        meta = members_of(message.raw_result).get("_meta") if b'"_meta"' in message.line else None
        revision = state.revision_of(message.call) if message.call is not None else None
    elif is_modern_request(message):
        revision = message.meta[META_VERSION]
    else:
        revision = state.negotiated if state.negotiated in LEGACY else None
    for key in meta if isinstance(meta, dict) else ():
        if revision is not None and meta_key_fault(key, revision) == "grammar":
            yield f"{shown(key)} is not a valid key of _meta"
