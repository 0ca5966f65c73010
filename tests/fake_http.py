"""An HTTP server that records every request of a client and responds from a table, for tests of the client over HTTP.

It is built on the server of aiohttp, and shares no code with ours:

    fake = FakeHttp({"tools/call": text("hello")})
    async with fake as url, connect(url) as client:
        await client.call_tool("greet")
    assert fake.methods == ["server/discover", "tools/call"]

The table maps JSON-RPC methods, and the HTTP verbs GET and DELETE, to what is sent: a result, a :class:`Fault`, an :class:`Http`
response, or a coroutine function that gets the :class:`Exchange` and sends what it wants, or returns one of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web

from fake_server import CACHEABLE, CAPABILITIES, PREFIX, Bare, Fault, text
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN

__all__ = ["SESSION", "Bare", "Exchange", "FakeHttp", "Fault", "Http", "legacy_http", "text"]

SESSION = "session-1"


class Http(NamedTuple):
    """An HTTP response that is not one of MCP."""

    status: int
    body: bytes | str | dict[str, Any] = b""
    kind: str = ""
    headers: Mapping[str, str] = {}


class Exchange:
    """One HTTP request, and the stream of its response."""

    def __init__(self, fake: FakeHttp, request: web.Request, message: Any) -> None:
        self.fake = fake
        self.verb = request.method
        self.headers = request.headers
        self.message = message
        self.method = message.get("method", "response") if isinstance(message, dict) else self.verb
        self.params: dict[str, Any] = message.get("params", {}) if isinstance(message, dict) else {}
        self.is_closed = asyncio.Event()  # set when the client closes the connection, or the exchange has ended
        self.stream: web.StreamResponse | None = None
        self._request = request

    async def event(
        self,
        message: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the name of the field
        retry: int | None = None,
        raw: bytes | None = None,
    ) -> None:
        """Send an event, after the headers of a stream. Without a message, it has empty data."""
        if self.stream is None:
            self.stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", **self.fake.headers_of(self)})
            await self.stream.prepare(self._request)
        lines = [] if id is None else [f"id: {id}"]
        if retry is not None:
            lines.append(f"retry: {retry}")
        lines.append("data: " + ("" if message is None else json.dumps(message)))
        await self.stream.write(raw if raw is not None else "\n".join([*lines, "", ""]).encode())

    async def result(self, result: Any, **more: Any) -> None:
        """Send the response as an event."""
        await self.event(self.fake.response_to(self, result), **more)

    async def progress(self, progress: float, **more: Any) -> None:
        token = self.params["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": progress}
        await self.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}, **more)

    def abort(self) -> None:
        """Close the connection without the end of the response."""
        assert self._request.transport is not None
        self._request.transport.abort()

    async def until_closed(self) -> None:
        await asyncio.Event().wait()  # aiohttp cancels the handler when the client closes the connection


class FakeHttp:
    """The server. ``session`` is the id of legacy sessions, or ``None`` for a server without them."""

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        speaks: str = LATEST_MODERN,
        capabilities: Mapping[str, Any] = CAPABILITIES,
        session: str | None = SESSION,
    ) -> None:
        self.answers = dict(answers or {})
        self.speaks = speaks
        self.is_modern = speaks == LATEST_MODERN
        self.capabilities = capabilities
        self.session = session
        self.seen: list[Exchange] = []
        self.url = ""
        self._port = 0
        self._runner: web.AppRunner | None = None
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> str:
        await self.start()
        return self.url

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, at the same port as before."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self._port}/mcp"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    # What was seen

    @property
    def methods(self) -> list[str]:
        """The JSON-RPC methods, and the verbs of requests without a message, in order."""
        return [each.method for each in self.seen]

    def of(self, method: str) -> list[Exchange]:
        return [each for each in self.seen if each.method == method]

    async def until(self, method: str, count: int = 1) -> Exchange:
        """Wait for the n-th request of a method or a verb."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.of(method)) >= count)
        return self.of(method)[count - 1]

    # Responses

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        exchange = Exchange(self, request, json.loads(body) if body else None)
        self.seen.append(exchange)
        async with self._changed:
            self._changed.notify_all()
        try:
            answer = self.answers.get(exchange.method, self._default(exchange))
            if callable(answer):
                answer = await answer(exchange)
            if exchange.stream is not None:
                return exchange.stream
            return self._response(exchange, answer)
        finally:
            exchange.is_closed.set()

    def _default(self, exchange: Exchange) -> Any:
        match exchange.method:
            case "server/discover" if self.is_modern:
                return {"supportedVersions": [self.speaks], "capabilities": self.capabilities}
            case "server/discover":
                return Http(400)
            case "initialize" if not self.is_modern:
                info = {"name": "fake", "version": "1"}
                return {"protocolVersion": self.speaks, "capabilities": self.capabilities, "serverInfo": info}
            case "GET":
                return Http(405)
            case "DELETE":
                return Http(200)
            case "tools/list":
                return {"tools": []}
            case _ if not isinstance(exchange.message, dict) or "id" not in exchange.message or exchange.method == "response":
                return Http(202)
            case _:
                return Fault(-32601, "unknown method")

    def headers_of(self, exchange: Exchange) -> dict[str, str]:
        return {"Mcp-Session-Id": self.session} if exchange.method == "initialize" and self.session else {}

    def _response(self, exchange: Exchange, answer: Any) -> web.Response:
        if isinstance(answer, Http):
            body, kind = answer.body, answer.kind
            if isinstance(body, dict):
                body, kind = json.dumps(body).encode(), kind or "application/json"
            headers = {**answer.headers, **({"Content-Type": kind} if kind else {})}
            return web.Response(status=answer.status, body=body.encode() if isinstance(body, str) else body, headers=headers)
        message = self.response_to(exchange, answer)
        return web.Response(
            body=json.dumps(message).encode(), headers={"Content-Type": "application/json", **self.headers_of(exchange)}
        )

    def response_to(self, exchange: Exchange, answer: Any) -> dict[str, Any]:
        envelope = {"jsonrpc": "2.0", "id": exchange.message["id"]}
        if isinstance(answer, Fault):
            data = {} if answer.data is None else {"data": answer.data}
            return {**envelope, "error": {"code": answer.code, "message": answer.message, **data}}
        if isinstance(answer, Bare):
            return {**envelope, "result": answer.result}
        needed: dict[str, Any] = {}
        if self.is_modern:
            needed = {"resultType": "complete", "_meta": {PREFIX + "serverInfo": {"name": "fake", "version": "1"}}}
            if exchange.method in CACHEABLE:
                needed |= {"ttlMs": 0, "cacheScope": "private"}
        return {**envelope, "result": {**needed, **answer}}


def legacy_http(answers: Mapping[str, Any] | None = None, *, revision: str = LATEST_LEGACY, **options: Any) -> FakeHttp:
    """Return a legacy server."""
    return FakeHttp(answers, speaks=revision, **options)


@asynccontextmanager
async def raw_server(handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> AsyncIterator[str]:
    """Listen with a function that gets the bytes, and give the URL."""

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handled, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
