"""A minimal HTTP/1.1 server on the loopback address, which shows every header of a request and sends what it is given.

Each connection serves one request and is closed, so that the end of a connection always belongs to one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from msgspec import json as msgspec_json

from twopipes._http.sse import encode_event
from twopipes._tools.check.http.wire import JSON, STREAM, quoted
from twopipes._tools.check.messages import decoded

_MAX_HEAD = 256 * 1024
_MAX_BODY = 64 * 1024 * 1024
# Seconds for a request to arrive, and for a client to take a part of the response.
_PATIENCE = 30.0
_REASONS = {each.value: each.phrase for each in HTTPStatus}
_SOME_ERRORS = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, TimeoutError)


class HttpRequest:
    """A request as it arrived."""

    def __init__(self, head: bytes, body: bytes, at: float) -> None:
        self.head = head.split(b"\r\n")[:-2]
        self.method, self.target = self.head[0].decode("latin-1").split()[:2]
        pairs = [line.decode("latin-1").partition(":") for line in self.head[1:]]
        self.headers = [(name.strip(), value.strip()) for name, _, value in pairs]
        self.body = body
        self.at = at
        self.reply: HttpReply | None = None  # set by the handler

    @property
    def was_left(self) -> bool:
        """Whether the client closed the connection before the response had ended."""
        return self.reply is not None and self.reply.is_gone.is_set() and not self.reply.is_ended

    @property
    def path(self) -> str:
        """The path without the query."""
        return urlsplit(self.target).path

    @property
    def message(self) -> Any:
        """The decoded body; ``None`` if it is not JSON."""
        return decoded(self.body)

    def header(self, name: str) -> str | None:
        """Return a header, whatever its case; ``None`` if the request does not have it."""
        return next((value for each, value in self.headers if each.lower() == name.lower()), None)

    @property
    def sent(self) -> Sequence[bytes]:
        """Empty: the request of a client has no request."""
        return ()

    @property
    def received(self) -> Sequence[bytes]:
        """The lines of the request, to quote them."""
        return quoted(self.head, [self.body[:2000]] if self.body else [])


class HttpReply:
    """The response to one request. It is sent at once (:meth:`json`, :meth:`empty`), or as a stream of events."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.is_started = False
        self.is_done = asyncio.Event()  # whether the response has ended
        self.is_gone = asyncio.Event()  # whether the client has closed the connection
        self.spelled: Callable[[str], str] = str  # how the names of headers are written
        self.indents = False  # whether JSON is written over several lines

    @property
    def is_ended(self) -> bool:
        """Whether the response has ended."""
        return self.is_done.is_set()

    def empty(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        """Send a response without a body."""
        self.whole(status, headers or {}, b"")

    def json(self, line: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send one message as the whole response."""
        if self.indents:
            line = msgspec_json.format(line, indent=2)
        self.whole(status, {"Content-Type": JSON, **(headers or {})}, line)

    def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a response of a known length."""
        self._start(status, {**headers, "Content-Length": str(len(body))})
        self._write(body)
        self.is_done.set()

    def stream(self, headers: Mapping[str, str] | None = None, *, status: int = 200) -> None:
        """Begin a stream of events, unless it has begun."""
        if not self.is_started:
            given = {"Content-Type": STREAM, "Cache-Control": "no-cache", "X-Accel-Buffering": "no", **(headers or {})}
            self._start(status, {**given, "Transfer-Encoding": "chunked"})

    def event(self, data: bytes, *, event_id: str | None = None, retry: int | None = None) -> None:
        """Send one event."""
        self.raw(encode_event(data, id=event_id, retry=retry))

    def raw(self, data: bytes) -> None:
        """Send bytes of a stream unchanged."""
        if data and not self.is_ended:
            self._write(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """End a stream."""
        if not self.is_ended:
            self._write(b"0\r\n\r\n")
            self.is_done.set()

    def abort(self) -> None:
        """Close the connection, whatever was sent."""
        self.is_done.set()
        self._writer.close()

    def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.is_started = True
        named = [(self.spelled(name), value) for name, value in headers.items()]
        lines = [
            f"HTTP/1.1 {status} {_REASONS.get(status, '')}",
            *(f"{name}: {value}" for name, value in named),
            "Connection: close",
        ]
        self._write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def _write(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)


Handle = Callable[[HttpRequest, HttpReply], Coroutine[Any, Any, None]]


@asynccontextmanager
async def listening(handle: Handle, *, path: str = "/mcp") -> AsyncIterator[str]:
    """Serve requests on a free port while the block runs. Yields the URL."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(*_SOME_ERRORS):
            await _serve(reader, writer, handle, loop)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = loop.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _task: writer.close())  # also of a task that is cancelled before it has started

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=_MAX_HEAD)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: Handle, loop: asyncio.AbstractEventLoop
) -> None:
    async with asyncio.timeout(_PATIENCE):
        request = await _received(reader, writer, loop.time())
    reply = HttpReply(writer)

    async def watch() -> None:
        with suppress(OSError):
            while await reader.read(_MAX_HEAD):
                pass  # the next request of this connection would not be served
        reply.is_gone.set()

    watching = asyncio.create_task(watch())
    try:
        await handle(request, reply)
        async with asyncio.timeout(_PATIENCE):
            await writer.drain()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _received(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, at: float) -> HttpRequest:
    head = await reader.readuntil(b"\r\n\r\n")
    request = HttpRequest(head, b"", at)
    if (request.header("Expect") or "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if (request.header("Transfer-Encoding") or "").lower() == "chunked":
        request.body = await _chunked(reader)
    elif length := int(request.header("Content-Length") or "0"):
        request.body = await reader.readexactly(min(length, _MAX_BODY))
    return request


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).partition(b";")[0].strip(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
        if len(body) > _MAX_BODY:
            raise ValueError("the body is too long")
    await reader.readline()
    return bytes(body)
