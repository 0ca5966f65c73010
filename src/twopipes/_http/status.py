"""Which HTTP status an error response has."""

from __future__ import annotations

from typing import Final

import msgspec

from twopipes._codes import (
    CAPABILITY_MISSING,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_REVISION,
)

OK: Final = 200
# Requests that the session refuses before a handler starts. An error of a handler is a response like any other: 200.
_REFUSED: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    CAPABILITY_MISSING: 400,
    UNSUPPORTED_REVISION: 400,
}


class _Error(msgspec.Struct):
    code: int = 0


class _Response(msgspec.Struct):
    error: _Error | None = None


_decode = msgspec.json.Decoder(_Response).decode


def status_of_refusal(line: bytes) -> int:
    """Return the status for a response of the modern era that the session sends without starting a handler."""
    error = _decode(line).error
    return OK if error is None else status_of_code(error.code)


def status_of_code(code: int) -> int:
    """Return the status for a request that is refused with this JSON-RPC error code."""
    return _REFUSED.get(code, OK)
