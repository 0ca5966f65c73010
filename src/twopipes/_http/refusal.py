"""A request that is refused before the protocol sees it."""

from __future__ import annotations

from msgspec import Struct

from twopipes._codes import INVALID_REQUEST


class Refusal(Struct, frozen=True):
    """Why a request is refused, and the HTTP status and headers of the response.

    Attributes:
        status: The HTTP status.
        message: What happened and what to do next. It is sent to the client, so it contains no secret.
        headers: Further headers of the response, with names in lower case as ASGI wants them.
        code: The code of the JSON-RPC error in the body.
    """

    status: int
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    code: int = INVALID_REQUEST
