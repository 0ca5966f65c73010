"""Convert between exceptions and error objects, by revision (section ER of the rules)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from msgspec import json as msgspec_json

from twopipes import _codes, errors
from twopipes._jsonrpc import ErrorObject
from twopipes._protocol.revisions import ERROR_CODES, RESERVED_CODES, is_modern
from twopipes.errors import FormRejected, McpError


def error_object(error: BaseException, revision: str) -> ErrorObject:
    """Return the error object for a response. Only an McpError or a FormRejected reveals its message."""
    if isinstance(error, FormRejected):
        # MR-14: a modern client sends its response in the params of this request.
        return ErrorObject(_codes.INVALID_PARAMS if is_modern(revision) else _codes.INTERNAL_ERROR, error.summary)
    if not isinstance(error, McpError):
        # Other exceptions may contain paths, secrets or code, which must not reach the peer.
        return ErrorObject(_codes.INTERNAL_ERROR, "Internal error")
    code, data = _code_and_data(error, revision)
    return ErrorObject(code, str(error.message).encode("utf-8", "replace").decode(), UNSET if data is None else _sendable(data))


def _code_and_data(error: McpError, revision: str) -> tuple[int, Any]:
    code, data = error.code, error.data
    if isinstance(error, errors.NotFound) and error.kind == "resource":
        data = {"uri": error.name} if data is None else data
        if code in {_codes.INVALID_PARAMS, _codes.RESOURCE_NOT_FOUND}:
            # ER-12, ER-13
            return (_codes.INVALID_PARAMS if is_modern(revision) else _codes.RESOURCE_NOT_FOUND), data
    if isinstance(error, errors.UserRefused) and is_modern(revision):
        return _codes.INTERNAL_ERROR, data  # SA-10: modern revisions have no such error.
    if code in _REPLACEMENTS:
        # ER-06, ER-08, ER-11: send a protocol code only in revisions that have it, and only with its data. A client could take it
        # for a sign of the other era (CON-17).
        replacement, members = _REPLACEMENTS[code]
        has_data = all(isinstance(data, dict) and isinstance(data.get(name), kind) for name, kind in members.items())
        return (code if has_data and ERROR_CODES[code].has(revision) else replacement), data
    if is_modern(revision) and code in RESERVED_CODES and code not in ERROR_CODES:
        return _codes.INTERNAL_ERROR, data  # ER-07: this range is reserved.
    return code, data


_REPLACEMENTS: dict[int, tuple[int, dict[str, type[Any]]]] = {
    _codes.RESOURCE_NOT_FOUND: (_codes.INVALID_PARAMS, {}),
    _codes.URLS_REQUIRED: (_codes.INVALID_REQUEST, {"elicitations": list}),  # ER-11
    _codes.HEADER_MISMATCH: (_codes.INTERNAL_ERROR, {}),
    _codes.CAPABILITY_MISSING: (_codes.INVALID_REQUEST, {"requiredCapabilities": dict}),  # ER-10
    _codes.UNSUPPORTED_REVISION: (_codes.INVALID_PARAMS, {"supported": list, "requested": str}),  # ER-09
}
"""Codes that some revisions do not have: their replacements there, and the members that their data must have."""


def _sendable(data: Any) -> Any:
    try:
        msgspec_json.encode(data)
    except (TypeError, ValueError, RecursionError):
        # Send the error without its data rather than leave the peer waiting.
        return UNSET
    return data


def read(error: ErrorObject, revision: str, *, method: str) -> McpError:
    """Return the exception for an error response to ``method``."""
    code, message = error.code, error.message
    data: Any = None if error.data is UNSET else error.data
    found: McpError
    match code, data:
        case _codes.RESOURCE_NOT_FOUND, _:
            # ER-14: still accepted in revisions that no longer have it.
            uri = data.get("uri", "") if isinstance(data, dict) else ""
            return errors.NotFound("resource", str(uri), message=message, code=code, data=data)
        case _codes.INVALID_PARAMS, {"uri": str(uri)} if method == "resources/read":
            return errors.NotFound("resource", uri, message=message, code=code, data=data)  # ER-13
        case _codes.CAPABILITY_MISSING, {"requiredCapabilities": dict(required)}:
            found = errors.CapabilityMissing(required, message=message)
        case _codes.UNSUPPORTED_REVISION, {"supported": list(supported)} if all(isinstance(each, str) for each in supported):
            found = errors.UnsupportedRevision(str(data.get("requested", "")), supported, message=message)
        case _codes.URLS_REQUIRED, {"elicitations": list(asked)} if all(isinstance(each, dict) for each in asked) and ERROR_CODES[
            code
        ].has(revision):
            found = errors.UrlsRequired(asked, message=message)
        case _codes.USER_REFUSED, _ if method == "sampling/createMessage":
            found = errors.UserRefused(message)  # ER-15
        case _:
            found = _BY_CODE.get(code, McpError)(message, code=code)  # ER-07: other codes have no meaning here.
    found.data = data
    return found


_BY_CODE: dict[int, type[McpError]] = {
    _codes.INVALID_REQUEST: errors.InvalidRequest,
    _codes.METHOD_NOT_FOUND: errors.MethodNotFound,
    _codes.INVALID_PARAMS: errors.InvalidParams,
    _codes.INTERNAL_ERROR: errors.InternalError,
    _codes.HEADER_MISMATCH: errors.HeaderMismatch,
}
