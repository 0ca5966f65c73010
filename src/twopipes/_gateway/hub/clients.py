"""The client of a host as the servers of a hub see it: without what a hub cannot carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw, structs

from twopipes._gateway.front_call import ClientIdentity, FrontCall
from twopipes._gateway.translate import decode_members
from twopipes._protocol.revisions import META_CAPABILITIES
from twopipes._server.context import Context

# Extensions without methods of their own. A request of another one, such as one about a task, names no server.
_CARRIED: Final = frozenset({"io.modelcontextprotocol/ui"})


def carried_extensions(declared: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the extensions that work through a hub."""
    return {name: value for name, value in (declared or {}).items() if name in _CARRIED}


def client_of(context: Context) -> ClientIdentity:
    """Return the client that sent a request."""
    call = context.call
    capabilities = call.capabilities
    if capabilities.extensions:
        capabilities = structs.replace(capabilities, extensions=carried_extensions(capabilities.extensions) or None)
    return ClientIdentity(call.client_info, capabilities)


def carried_meta(call: FrontCall) -> Mapping[str, Any] | None:
    """Return what the request to a modern server contains about the client."""
    meta = call.client_meta
    if not meta or not call.call.capabilities.extensions:
        return meta
    declared = meta[META_CAPABILITIES]
    if isinstance(declared, Raw):  # it may have members that are unknown here
        extensions = carried_extensions(call.call.capabilities.extensions)
        return {**meta, META_CAPABILITIES: {**decode_members(declared), "extensions": extensions}}
    return {**meta, META_CAPABILITIES: client_of(call.context).capabilities}
