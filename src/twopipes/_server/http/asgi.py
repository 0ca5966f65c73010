"""The types of ASGI 3 that are used here, and a response that is known as a whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from msgspec import UNSET

from twopipes._http.refusal import Refusal
from twopipes._jsonrpc import ErrorObject, ErrorResponse, Request
from twopipes._wire import encode_line

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON: Final[Header] = (b"content-type", b"application/json")


async def respond(send: Send, status: int, body: bytes = b"", *headers: Header, more: Iterable[Header] = ()) -> None:
    """Send a whole response."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length, *more]})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, refusal: Refusal, *, request: Any = None, more: tuple[Header, ...] = ()) -> None:
    """Send a refusal, as a JSON-RPC error for clients that read the body."""
    request_id = request.id if isinstance(request, Request) else UNSET
    line = encode_line(ErrorResponse(request_id, ErrorObject(refusal.code, refusal.message)))
    await respond(send, refusal.status, line, JSON, more=(*refusal.headers, *more))
