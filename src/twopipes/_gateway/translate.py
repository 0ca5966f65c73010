"""Translation between the revision of the host and that of the server behind the gateway.

Where both speak the same revision, results pass as they are. Otherwise only the envelope changes, such as ``resultType``, and all
other members pass as raw JSON, unknown ones included. A result is rewritten from types only if the revision of the host cannot
express it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Final, NamedTuple

from msgspec import DecodeError, Raw, structs
from msgspec import json as msgspec_json
from msgspec.json import Decoder

from twopipes._gateway.envelope import META, to_legacy, to_modern
from twopipes._gateway.extensions import with_valid_extensions
from twopipes._http.headers import NAME_MEMBERS
from twopipes._protocol.base import RawResult
from twopipes._protocol.dialect import Dialect, dialect
from twopipes._protocol.methods import RESULTS
from twopipes._protocol.revisions import (
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROGRESS_TOKEN,
    META_SERVER_INFO,
    META_VERSION,
)
from twopipes._protocol.types import CacheableResult, Implementation, Result, ServerCapabilities
from twopipes._session.events import ClientOpened
from twopipes._session.ledger import Call
from twopipes._version import __version__
from twopipes.errors import ClientClosed, InternalError, InvalidParams, McpError, RemoteProtocolError, RequestId, TwopipesError

decode_members: Final[Callable[[Raw | bytes], dict[str, Any]]] = Decoder(dict[str, Raw]).decode
"""Decode one level of an object; its members stay raw."""
_OBJECT: Final = ord("{")
# The keys of _meta that each side of the gateway writes itself.
_OWN_KEYS: Final = (META_PROGRESS_TOKEN, META_VERSION, META_CAPABILITIES, META_CLIENT_INFO, META_LOG_LEVEL)
# Members of params that only a modern server understands.
_MODERN_PARAMS: Final = ("inputResponses", "requestState")
# The capabilities that the types know.
_known_capabilities: Final = frozenset(field.encode_name for field in structs.fields(ServerCapabilities))
GATEWAY: Final = Implementation("twopipes", __version__)
"""The client, to a server, if the host does not name its own."""


class Passed(NamedTuple):
    """The params of a request for the server behind the gateway, and what that server learns about the client."""

    params: dict[str, Any]
    client_meta: Mapping[str, Any]


def request(call: Call, source: Dialect) -> Passed:
    """Translate the params of a host's call for a server that speaks ``source``.

    Raises:
        InvalidParams: They are nested too deeply.
    """
    try:
        params: dict[str, Any] = {} if call.raw_params is None else decode_members(call.raw_params)
    except (DecodeError, RecursionError) as error:
        raise InvalidParams(f"the params of {call.method} cannot be decoded: {_why(error)}") from None
    name = NAME_MEMBERS.get(call.method)
    if name in params:
        # A header may repeat it, and it decides whether the call is safe to repeat. The other params may be invalid.
        value = getattr(call.params, name, None)
        params[name] = value if isinstance(value, str) else msgspec_json.decode(params[name])
    meta = _object(params.pop(META, None))
    own = {key: meta.pop(key) for key in _OWN_KEYS if key in meta}
    if meta:
        params[META] = meta
    if not source.modern:
        for name in _MODERN_PARAMS if call.dialect.modern else ():
            params.pop(name, None)
        return Passed(params, {})
    if not call.dialect.modern:
        return Passed(params, source.client_meta(call.client_info or GATEWAY, with_valid_extensions(call.capabilities)))
    about = own.get(META_CLIENT_INFO, GATEWAY)  # VN-03
    return Passed(params, {META_VERSION: source.revision, META_CAPABILITIES: own[META_CAPABILITIES], META_CLIENT_INFO: about})


def result(method: str, raw: Raw, source: Dialect, target: Dialect, *, server: Implementation | None) -> Result:
    """Translate a result of a server that speaks ``source`` for a host that speaks ``target``.

    Raises:
        RemoteProtocolError: The result is invalid, so it cannot be translated.
    """
    if source.revision == target.revision:
        return RawResult(raw)
    if method in RESULTS:
        typed = _without_envelope(source.read_result(method, raw))
        fitted = target.fit(typed)
        if fitted is not typed:
            return _rewritten(method, fitted, raw, target, server=server)
    try:
        members = decode_members(raw)
    except (DecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"the result of {method} cannot be decoded: {_why(error)}") from None
    if target.modern:
        to_modern(method, members, source, server=target.fit(server) if server is not None else None)
    elif source.modern:
        to_legacy(method, members)
    return RawResult(Raw(msgspec_json.encode(members)))


def introduction(typed: Result, call: Call, opened: ClientOpened) -> Result:
    """Add the members of the server's own introduction that the types do not know, such as new capabilities.

    A legacy host gets the extensions, too: its revision does not have them, but hosts and servers use them there.
    """
    spoken = dialect(opened.revision)
    theirs = decode_members(opened.raw) if opened.raw is not None and spoken.modern == call.dialect.modern else None
    extensions = None if call.dialect.modern else opened.capabilities.extensions
    if theirs is None and extensions is None:
        return typed
    finished = call.dialect.finish(call.method, typed, server_info=opened.server_info)
    ours = decode_members(msgspec_json.encode(finished))
    declared: dict[str, Any] = _object(ours["capabilities"])
    if extensions is not None:
        declared["extensions"] = extensions
    if theirs is None:
        return RawResult(Raw(msgspec_json.encode({**ours, "capabilities": declared})))
    capabilities = {**_object(theirs.get("capabilities")), **declared}
    for dropped in _known_capabilities - declared.keys():
        capabilities.pop(dropped, None)
    if spoken is call.dialect:
        ours = {name: ours[name] for name in ("protocolVersion", "supportedVersions") if name in ours}  # what the gateway speaks
    return RawResult(Raw(msgspec_json.encode({**theirs, **ours, "capabilities": capabilities})))


def _rewritten(method: str, fitted: Result, raw: Raw, target: Dialect, *, server: Implementation | None) -> Result:
    """Return a result that was adapted to the host's revision, with its envelope, and with unknown members of its first level."""
    known = {field.encode_name for field in structs.fields(RESULTS[method])}
    unknown = {name: value for name, value in decode_members(raw).items() if name not in known}
    written = decode_members(msgspec_json.encode(target.finish(method, fitted, server_info=server)))
    return RawResult(Raw(msgspec_json.encode({**unknown, **written})))


def progress(raw: Raw, token: RequestId, target: Dialect) -> dict[str, Any]:
    """Translate the params of a progress report: the token becomes that of the host."""
    params: dict[str, Any] = decode_members(raw)
    params["progressToken"] = token
    if target.revision == "2024-11-05":
        params.pop("message", None)
    return params


def failure(error: TwopipesError, call: Call, option_names: Mapping[str, str]) -> McpError:
    """Return the error for a host whose call failed without a response of the server: it exited, for example."""
    if isinstance(error, McpError):
        return error
    if isinstance(error, ClientClosed):
        return InternalError(f"the gateway ended before the server answered {call.method}")
    error = copy(error)
    if getattr(error, "request_id", None) is not None:
        setattr(error, "request_id", call.id)  # noqa: B010 - several classes have it; the host knows only its own id
    return InternalError(error.describe(option_names))


def _object(raw: Raw | None) -> dict[str, Any]:
    """Decode one level of an object; anything else counts as empty."""
    if raw is None or memoryview(raw)[0] != _OBJECT:
        return {}
    return decode_members(raw)


def _why(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _without_envelope(typed: Result) -> Result:
    """Remove the members that translation handles, so that they do not make a result look inexpressible."""
    changes: dict[str, Any] = {}
    if typed.result_type is not None:
        changes["result_type"] = None
    if isinstance(typed, CacheableResult) and (typed.ttl_ms is not None or typed.cache_scope is not None):
        changes |= {"ttl_ms": None, "cache_scope": None}
    if typed.meta is not None and META_SERVER_INFO in typed.meta:
        changes["meta"] = {key: value for key, value in typed.meta.items() if key != META_SERVER_INFO} or None
    return structs.replace(typed, **changes) if changes else typed
