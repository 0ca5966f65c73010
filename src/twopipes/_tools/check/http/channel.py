"""A conversation over HTTP, for probes that know only lines: each line that is written becomes a POST, each message a line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from twopipes._channels.base import Channel
from twopipes._http.headers import (
    METHOD,
    PROTOCOL_VERSION,
    SESSION_ID,
    InvalidAnnotation,
    ParamHeader,
    encode_value,
    param_headers,
    request_headers,
)
from twopipes._protocol.revisions import META_VERSION, MODERN
from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.http.wire import JSON, STREAM, HttpAddress, HttpExchange, on_one_line
from twopipes._tools.check.messages import ProbeTimeouts, ReceivedLine, Response, decoded, id_key, members, parts_of
from twopipes._wire import encode_line
from twopipes.errors import ChannelBroken, ChannelClosed

# Lines that have arrived and are not read. Beyond it, streams are not read either.
_QUEUED = 1000
# How often a stream is resumed.
_RESUMED = 20
_ERROR = 400
# The first revision with the header MCP-Protocol-Version.
_WITH_VERSION = "2025-06-18"


class HttpChannel(Channel):
    """Lines over HTTP, as a correct client of either era sends them.

    Attributes:
        session_id: The id of the legacy session; empty without one.
        version: The version that was negotiated, or that the last modern request named.
        failures: By key of the id, the exchange of a request that got no message at all.
    """

    def __init__(
        self,
        address: HttpAddress,
        *,
        timeouts: ProbeTimeouts,
        headers: Mapping[str, str] | None = None,
        known_tools: dict[str, tuple[ParamHeader, ...]] | None = None,
    ) -> None:
        self.address = address
        self.timeouts = timeouts
        self.session_id = ""
        self.version = ""
        self.failures: dict[Any, HttpExchange] = {}
        self.get_stream: HttpExchange | None = None  # that of GET, if the server has one
        self.on_failure: Callable[[], object] = lambda: None
        self._given = dict(headers or {})
        self._rest = b""
        # The headers of the tools that were listed, also in other conversations.
        self._param_headers = {} if known_tools is None else known_tools
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue(_QUEUED)
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._open: dict[Any, HttpExchange] = {}  # by key of the id, the requests without a response
        self._tasks: set[asyncio.Task[None]] = set()
        self._input_ended = self._is_over = self._is_closed = False
        self._sending = self._run(self._send_all())

    @property
    def is_modern(self) -> bool:
        """Whether the conversation is one of a modern revision."""
        return self.version in MODERN

    @property
    def buffered(self) -> int:
        """Always 0: lines that wait to be sent are few."""
        return 0

    @property
    def description(self) -> str:
        """The URL."""
        return self.address.url

    # Headers

    def headers_for(self, message: Any) -> dict[str, str]:
        """Return the headers that a correct client sends with a message."""
        found = {**self._given, "Content-Type": JSON, "Accept": f"{JSON}, {STREAM}", **self.context}
        if self.is_modern and isinstance(message, dict) and isinstance(method := message.get("method"), str):
            params = members(message.get("params"))
            version = members(params.get("_meta")).get(META_VERSION)
            name = str(params.get("name"))
            headers = self._param_headers.get(name, ()) if method == "tools/call" else ()
            found |= request_headers(method, params, version if isinstance(version, str) else self.version, headers)
            found[METHOD] = encode_value(method)  # some probes send methods that no header can contain
        return found

    @property
    def context(self) -> dict[str, str]:
        """The headers of every request after the first one."""
        found = {SESSION_ID: self.session_id} if self.session_id else {}
        if self.version >= _WITH_VERSION:
            found[PROTOCOL_VERSION] = self.version
        return found

    @property
    def get_headers(self) -> dict[str, str]:
        """The headers of a GET, or of a DELETE."""
        return {**self._given, "Accept": STREAM, **self.context}

    # For probes of HTTP

    def exchange(self, method: str, headers: Mapping[str, str | None], body: bytes = b"") -> HttpExchange:
        """Return an exchange that is not sent yet. A header that is ``None`` is left out."""
        return HttpExchange(self.address, method, {name: value for name, value in headers.items() if value is not None}, body)

    async def ask(
        self,
        message: Any,
        headers: Mapping[str, str | None] | None = None,
        *,
        method: str = "POST",
        within: float | None = None,
    ) -> HttpExchange:
        """Send a message, or bytes, with headers that differ from the correct ones, and return the whole exchange.

        It is not part of the conversation that is judged. A response that does not end in time is cut off.
        """
        body = bytes(message) if isinstance(message, bytes) else encode_line(message)[:-1] if message is not None else b""
        correct = self.headers_for(message) if method == "POST" else self.get_headers
        exchange = self.exchange(method, {**correct, **_folded(correct, headers or {})}, body)
        limit = self.timeouts.response if within is None else within
        try:
            await exchange.send(within=limit)
            with suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await exchange.read_all()
        finally:
            exchange.close()
        return exchange

    # The channel

    async def read(self) -> bytes:
        """Return the next line."""
        if self._is_over:
            return b""
        line = await self._incoming.get()
        self._is_over = not line
        return line

    def write(self, data: bytes) -> None:
        """Send each whole line as a POST, in order."""
        if self._input_ended or self._is_closed:
            raise ChannelClosed(f"{self.description} is closed")
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._outgoing.put_nowait(line)

    async def drain(self) -> None:
        """Return at once: see :attr:`buffered`."""

    async def flush(self) -> None:
        """Wait until every line was sent."""
        await self._outgoing.join()

    async def close_write(self) -> None:
        """Send what was written, then end the session and the conversation."""
        self._input_ended = True
        await self.flush()
        await self._end_session()
        self._deliver_end()

    async def close(self) -> None:
        """Close all connections, and end the session."""
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._end_session()
        self._deliver_end()

    # Internals

    def _run(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _deliver_end(self) -> None:
        while self._incoming.full():
            self._incoming.get_nowait()
        self._incoming.put_nowait(b"")

    async def _send_all(self) -> None:
        while True:
            line = await self._outgoing.get()
            try:
                if line.strip():
                    await self._send(line)
            finally:
                self._outgoing.task_done()

    async def _send(self, line: bytes) -> None:
        message = decoded(line)
        self._note_version(message)
        if self.is_modern and self._close_cancelled(message):
            return
        requests = [id_key(part["id"]) for part in parts_of(message) if "id" in part and "method" in part]
        exchange = self.exchange("POST", self.headers_for(message), line)
        for key in requests:
            self._open[key] = exchange
        following = self._run(self._follow(exchange, message, requests))
        await exchange.is_sent.wait()
        method = message.get("method") if isinstance(message, dict) else None
        if not requests or method == "initialize":
            # The next message depends on it: on the id of the session, or on the order in which a server sees messages.
            await asyncio.wait([following], timeout=self.timeouts.response)
        if method == "notifications/initialized" and not self.is_modern:
            await self._listen()

    def _note_version(self, message: Any) -> None:
        meta = members(members(members(message).get("params")).get("_meta"))
        if meta.get(META_VERSION) in MODERN:
            self.version = meta[META_VERSION]

    def _close_cancelled(self, message: Any) -> bool:
        """Close the stream of a request that a notification cancels (HT-21). Return whether the message is such a one."""
        if members(message).get("method") != "notifications/cancelled" or "id" in message:
            return False
        exchange = self._open.pop(id_key(members(message.get("params")).get("requestId")), None)
        if exchange is not None:
            exchange.close()
        return True

    async def _follow(self, exchange: HttpExchange, message: Any, requests: list[Any]) -> None:
        try:
            await exchange.send(within=self.timeouts.start)
            if await exchange.read_head() and members(message).get("method") == "initialize":
                self.session_id = exchange.header("Mcp-Session-Id") or self.session_id
            await self._deliver(exchange)
            for _ in range(_RESUMED):
                if self.is_modern or not (last := exchange.last_event_id) or not self._unanswered(requests, exchange):
                    break
                exchange = await self._resume(exchange, last)
        except ChannelBroken:
            pass  # it has no status
        finally:
            exchange.close()
        for key in requests:
            if self._open.pop(key, None) is not None:
                self.failures[key] = exchange
        self.on_failure()

    def _unanswered(self, requests: list[Any], exchange: HttpExchange) -> bool:
        return any(self._open.get(key) is not None for key in requests) and not exchange.response

    async def _deliver(self, exchange: HttpExchange) -> None:
        """Deliver the messages of a response, a stream as it arrives."""
        while exchange.status and (more := await exchange.read_more()) is not None:
            for event in more:
                await self._take(on_one_line(event.data))
        if not exchange.is_stream:
            for payload in exchange.payloads:
                await self._take(payload)

    async def _take(self, payload: bytes) -> None:
        message = decoded(payload)
        for part in parts_of(message):
            if "method" not in part:
                self._open.pop(id_key(part.get("id")), None)
                self._learn(members(part.get("result")))
        if message is not None:  # a page of a proxy is not a message
            await self._incoming.put(payload + b"\n")

    def _learn(self, result: dict[str, Any]) -> None:
        """Keep what later headers depend on: the negotiated version, and the schemas of tools."""
        if not self.version and isinstance(agreed := result.get("protocolVersion"), str):
            self.version = agreed
        if isinstance(tools := result.get("tools"), list):
            for tool in parts_of(tools):
                with suppress(InvalidAnnotation):
                    self._param_headers[str(tool.get("name"))] = param_headers(tool.get("inputSchema"))

    async def _resume(self, exchange: HttpExchange, last: str) -> HttpExchange:
        exchange.close()
        await asyncio.sleep(min((exchange.retry or 0) / 1000, self.timeouts.response))
        again = self.exchange("GET", {**self.get_headers, "Last-Event-ID": last})
        await again.send(within=self.timeouts.start)
        await again.read_head()
        again.retry = exchange.retry
        await self._deliver(again)
        return again

    async def _listen(self) -> None:
        """Open the stream of GET, if the server has one."""
        exchange = self.exchange("GET", self.get_headers)
        ready = asyncio.Event()

        async def follow() -> None:
            try:
                with suppress(ChannelBroken):
                    await exchange.send(within=self.timeouts.start)
                    await exchange.read_head()
                    if exchange.is_stream:
                        self.get_stream = exchange
                        ready.set()
                        await self._deliver(exchange)
            finally:
                ready.set()
                exchange.close()

        self._run(follow())
        with suppress(TimeoutError):
            async with asyncio.timeout(self.timeouts.step):
                await ready.wait()

    async def _end_session(self) -> None:
        if not self.session_id:
            return
        exchange = self.exchange("DELETE", self.get_headers)
        self.session_id = ""
        with suppress(ChannelBroken, TimeoutError):
            async with asyncio.timeout(self.timeouts.step):
                await exchange.send(within=self.timeouts.step)
                await exchange.read_all()
        exchange.close()


def _folded(correct: Mapping[str, str], headers: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return headers that replace those of the same name in another case."""
    names = {name.lower(): name for name in correct}
    dropped: dict[str, str | None] = {names[name.lower()]: None for name in headers if name.lower() in names}
    return {**dropped, **headers}


class HttpConversation(LiveConversation):
    """A conversation over HTTP. A request whose exchange failed is not waited for."""

    def __init__(self, channel: HttpChannel, **options: Any) -> None:
        super().__init__(channel, **options)
        self.http = channel
        channel.on_failure = self.wake

    async def awaited(self, request_id: Any, within: float | None = None) -> Response | None:
        """Wait as the base class does, or until the exchange of the request has failed.

        A status of an error without a message is the response of the server, too: an error without a code.
        """
        key = id_key(request_id)
        limit = self.timeouts.response if within is None else within
        await self.until(lambda: self.response(request_id) or self.http.failures.get(key), limit)
        failed = self.http.failures.get(key)
        if failed is None or failed.status < _ERROR:
            return self.response(request_id)
        nothing = ReceivedLine(number=-1, at=self.age, raw=b"", message=None)
        error = {"code": None, "message": f"only the HTTP status {failed.status}"}
        return Response(message={"id": request_id, "error": error}, sent=failed.sent, received_line=nothing)
