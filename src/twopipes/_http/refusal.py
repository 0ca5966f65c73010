"""A request that is refused before the protocol sees it."""

from __future__ import annotations

from msgspec import Struct


class Refusal(Struct, frozen=True):
    """Why a request is refused, and the HTTP status and headers of the response.

    Attributes:
        status: The HTTP status.
        message: What happened and what to do next. It is sent to the client, so it contains no secret.
        headers: Further headers of the response, with names in lower case as ASGI wants them.
    """

    status: int
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
