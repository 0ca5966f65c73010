"""The types of ASGI 3 that are used here, a response that is known as a whole, and waits that are bounded."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, MutableMapping
from typing import Any, Final, TypeVar

from msgspec import UNSET

from twopipes._http.refusal import Refusal
from twopipes._jsonrpc import ErrorObject, ErrorResponse, Request
from twopipes._wire import encode_line

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

T = TypeVar("T")

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


async def within(seconds: float, coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine for at most ``seconds``. One that does not have to wait costs no timer, and few have to.

    Raises:
        TimeoutError: It took longer, and was cancelled.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    async with asyncio.timeout(seconds):
        return await _rest(coroutine, awaited)


@types.coroutine
def _rest(coroutine: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """Continue a coroutine that waits for something."""
    try:
        while True:
            try:
                value = yield awaited
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(value)
    except StopIteration as done:
        result: T = done.value
        return result
