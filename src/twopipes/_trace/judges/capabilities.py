"""Judges of capabilities and metadata (sections CP and MT, and ST-06)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twopipes._codes import METHOD_NOT_FOUND
from twopipes._protocol.meta_keys import is_extension_name, meta_key_fault
from twopipes._protocol.revisions import CLIENT_CAPABILITIES, LEGACY, META_CAPABILITIES, META_VERSION, SERVER_CAPABILITIES
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


@rule("CP-01", "result", by="server")
def used_and_not_declared(message: Message, state: ConnectionState) -> Iterator[str]:
    """A feature that works is declared."""
    call = message.call
    if message.direction != "<" or call is None or state.server_capabilities is None or not state.is_certain:
        return
    row = row_of(call.method, "client")
    if row is None or row.capability is None or "." in row.capability:
        return
    if state.handshake is not None and not SERVER_CAPABILITIES[row.capability].has(state.negotiated or ""):
        return  # 2024-11-05 has completion/complete, but no capability for it
    if _gives_nothing(call.method, members_of(message.raw_result)):
        return  # an empty list uses nothing
    is_of_this_era = (state.negotiated is None) == is_modern_request(call.request)
    if is_of_this_era and not has_capability(state.server_capabilities, row.capability):
        yield f"{call.method} works, but the server did not declare {row.capability}"


_LISTED = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def _gives_nothing(method: str, result: dict[str, Any]) -> bool:
    """Return whether a result is an empty list or completion."""
    if method == "completion/complete":
        completion = result.get("completion")
        return isinstance(completion, dict) and not completion.get("values")
    return method in _LISTED and not result.get(_LISTED[method])


@rule("CP-03", "request", "result")
def shape_of_capabilities(message: Message, state: ConnectionState) -> Iterator[str]:
    """Capabilities are objects with boolean flags."""
    declared: Any = None
    known = CLIENT_CAPABILITIES if message.direction == ">" else SERVER_CAPABILITIES
    if message.shape == "request":
        if state.is_redacted or message.direction != ">":
            return
        is_handshake = message.method == "initialize"
        declared = members_of(message.raw_params).get("capabilities") if is_handshake else message.meta.get(META_CAPABILITIES)
    elif message.direction == "<" and message.call is not None and message.call.method in ("initialize", "server/discover"):
        declared = members_of(message.raw_result).get("capabilities")
    if not isinstance(declared, dict):
        return
    for name, value in declared.items():
        if name in known and not isinstance(value, dict):
            yield f"the capability {name} must be an object, not {shown(value)}"
        elif name in known:
            for flag in ("listChanged", "subscribe"):
                if f"{name}.{flag}" in known and not isinstance(value.get(flag, False), bool):
                    yield f"{name}.{flag} must be a boolean, not {shown(value[flag])}"


@rule("CP-07", "request", "result")
def names_of_extensions(message: Message, state: ConnectionState) -> Iterator[str]:
    """Extension names have a prefix."""
    if message.shape == "request":
        capabilities = message.meta.get(META_CAPABILITIES) if is_modern_request(message) and not state.is_redacted else None
    else:
        is_discovery = message.call is not None and message.call.method == "server/discover"
        capabilities = members_of(message.raw_result).get("capabilities") if is_discovery else None
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    if isinstance(extensions, dict):
        for name, value in extensions.items():
            if not is_extension_name(name) or not isinstance(value, dict):
                yield f"the extension {shown(name)} must have a prefix, and an object of settings"


@rule("ST-06", "error", by="server")
def declared_and_not_listed(message: Message, state: ConnectionState) -> Iterator[str]:
    """A declared list exists, even if it is empty."""
    call = message.call
    if call is None or state.handshake is not None or not is_modern_answer(message, state) or state.server_capabilities is None:
        return
    feature = call.method.partition("/")[0]
    if call.method not in ("tools/list", "prompts/list", "resources/list") or not has_capability(
        state.server_capabilities, feature
    ):
        return
    if members_of(message.raw_error).get("code") == METHOD_NOT_FOUND:
        yield f"{feature} is declared, but {call.method} does not exist"


@rule("MT-01", "request", "notification", "result")
def keys_of_metadata(message: Message, state: ConnectionState) -> Iterator[str]:
    """Keys of ``_meta`` follow a grammar."""
    call = message.call
    if message.shape == "result":
        meta = members_of(message.raw_result).get("_meta") if b'"_meta"' in message.line else None
        revision = state.revision_of(call) if call is not None else None
    else:
        meta = message.meta
        modern = message.meta.get(META_VERSION) if is_modern_request(message) else None
        revision = modern or (state.negotiated if state.negotiated in LEGACY else None)
    if revision is not None and isinstance(meta, dict):
        for key in meta:
            if meta_key_fault(key, revision) == "grammar":
                yield f"{shown(key)} is not a valid key of _meta"
