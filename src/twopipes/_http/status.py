"""Which HTTP status an error response has."""

from __future__ import annotations

from typing import Final

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


def status_of_code(code: int) -> int:
    """Return the status for a request that is refused with this JSON-RPC error code."""
    return _REFUSED.get(code, OK)
