"""The fake server over HTTP: requests become lines of its connections, and its lines become responses."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from twopipes._channels.base import Channel
from twopipes._http.headers import SESSION_ID
from twopipes._http.status import status_of_code
from twopipes._protocol.revisions import META_SUBSCRIPTION_ID, META_VERSION
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.http.listener import HttpReply, HttpRequest, listening
from twopipes._tools.check.messages import decoded, id_key, members, parts_of
from twopipes._wire import encode_line
from twopipes.errors import ChannelClosed

# Messages that are kept for a client without a stream of GET.
_KEPT = 100
_NO_SESSION = encode_line({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Bad Request: no session"}})


class _Open:
    """A request of the client without a response."""

    def __init__(self, message: dict[str, Any], reply: HttpReply, headers: dict[str, str]) -> None:
        self.id = message.get("id")
        self.token = members(members(message.get("params")).get("_meta")).get("progressToken")
        self.reply = reply
        self.headers = headers


class FrontChannel(Channel):
    """One connection of the client: a legacy session, or all its modern requests."""

    def __init__(self, front: HttpFront, session_id: str = "") -> None:
        self.front = front
        self.session_id = session_id
        self.get: HttpReply | None = None
        self.open: list[_Open] = []
        self._kept: deque[bytes] = deque(maxlen=_KEPT)
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._rest = b""
        self._is_over = False

    def feed(self, body: bytes) -> None:
        """Take the body of a request as a line."""
        self._incoming.put_nowait(body.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")

    def end(self) -> None:
        """End the connection, as at the end of a session."""
        self._incoming.put_nowait(b"")

    def attach(self, reply: HttpReply) -> None:
        """Use a stream of GET."""
        self.get = reply
        reply.stream()
        while self._kept:
            self.front.send_event(reply, self._kept.popleft())

    async def read(self) -> bytes:
        """Return the next line."""
        if self._is_over:
            return b""
        line = await self._incoming.get()
        self._is_over = not line
        return line

    def write(self, data: bytes) -> None:
        """Send each whole line on the stream that it belongs to."""
        if self._is_over:
            raise ChannelClosed(f"{self.description} is closed")
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._send(line, decoded(line))

    def _send(self, line: bytes, message: Any) -> None:
        first = next(iter(parts_of(message)), {})
        found = self._belongs_to(first)
        if found is None and "method" in first:
            if self.get is None:
                self._kept.append(line)
            else:
                self.front.send_event(self.get, line)
        elif found is not None and "method" in first:
            found.reply.stream(found.headers)
            self.front.send_event(found.reply, line)
        elif found is not None:
            self.open.remove(found)
            self.front.respond(found.reply, line, first, found.headers, is_modern=not self.session_id)

    def _belongs_to(self, message: dict[str, Any]) -> _Open | None:
        params = members(message.get("params"))
        if "method" not in message:
            found = [each for each in self.open if id_key(each.id) == id_key(message.get("id"))]
        elif (listen := members(params.get("_meta")).get(META_SUBSCRIPTION_ID)) is not None:
            found = [each for each in self.open if id_key(each.id) == id_key(listen)]
        elif message["method"] == "notifications/progress":
            found = [each for each in self.open if each.token == params.get("progressToken")]
        elif "id" in message or message["method"] == "notifications/message" or self.get is None:
            found = self.open
        else:
            found = []
        return found[-1] if found else None

    async def drain(self) -> None:
        """Return at once."""

    async def flush(self) -> None:
        """Return at once."""

    async def close_write(self) -> None:
        """End all streams."""
        await self.close()

    async def close(self) -> None:
        """End all streams, and the connection."""
        self._is_over = True
        self.end()
        for reply in [each.reply for each in self.open] + ([self.get] if self.get is not None else []):
            reply.abort()

    @property
    def buffered(self) -> int:
        """Always 0."""
        return 0

    @property
    def description(self) -> str:
        """A name for messages."""
        return "the fake server over HTTP"


class HttpFront:
    """Serves a fake server over HTTP. Each legacy session is a connection of it, and so are all modern requests together."""

    def __init__(self, fake: FakeServer) -> None:
        self._fake = fake
        self._side = fake.http
        self._sessions: dict[str, FrontChannel] = {}
        self._modern: FrontChannel | None = None
        self._serving: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Serve while the block runs. Yields the URL."""
        async with listening(self._handle) as url:
            try:
                yield url
            finally:
                for channel in [*self._sessions.values(), *([self._modern] if self._modern is not None else [])]:
                    channel.end()
                await asyncio.gather(*self._serving, return_exceptions=True)

    def send_event(self, reply: HttpReply, line: bytes) -> None:
        """Send a message as an event, in the form that the scenario wants."""
        if self._side.write_event is None:
            reply.event(line)
        else:
            reply.raw(self._side.write_event(line))

    def respond(self, reply: HttpReply, line: bytes, message: dict[str, Any], headers: dict[str, str], *, is_modern: bool) -> None:
        """Send the response to a request."""
        code = members(message.get("error")).get("code")
        status = status_of_code(code) if is_modern and isinstance(code, int) else 200
        if self._side.streams and code is None:
            reply.stream(headers)
        if reply.is_started:
            self.send_event(reply, line)
            reply.end()
        else:
            reply.json(line, status, headers)

    def _connect(self, session_id: str = "") -> FrontChannel:
        channel = FrontChannel(self, session_id)
        self._serving.append(asyncio.create_task(self._fake.serve(channel)))
        return channel

    async def _handle(self, request: HttpRequest, reply: HttpReply) -> None:
        side = self._side
        reply.spelled = side.spelled
        request.reply = reply
        side.requests.append(request)
        self._fake.wake()
        if side.intercept is not None and await side.intercept(request, reply):
            return
        match request.method:
            case "POST":
                await self._post(request, reply)
            case "GET" if (channel := self._sessions.get(request.header(SESSION_ID) or "")) is not None:
                channel.attach(reply)
                await reply.is_gone.wait()
                channel.get = None if channel.get is reply else channel.get
            case "DELETE" if (channel := self._sessions.pop(request.header(SESSION_ID) or "", None)) is not None:
                channel.end()
                reply.empty(204)
            case _:
                reply.empty(405)

    async def _post(self, request: HttpRequest, reply: HttpReply) -> None:
        message = request.message
        channel, headers = self._channel_of(request, message)
        if channel is None:
            status = 400 if request.header(SESSION_ID) is None else 404
            reply.json(_NO_SESSION, status)
            return
        if isinstance(message, dict) and "id" in message and "method" in message:
            opened = _Open(message, reply, headers)
            channel.open.append(opened)
            channel.feed(request.body)
            await _first_of(reply.is_done, reply.is_gone)
            if opened in channel.open:
                channel.open.remove(opened)
            self._fake.wake()
        else:
            channel.feed(request.body)
            reply.empty(202)

    def _channel_of(self, request: HttpRequest, message: Any) -> tuple[FrontChannel | None, dict[str, str]]:
        """Return the connection of a request, and the headers of the response."""
        session_id = request.header(SESSION_ID)
        if session_id is not None:
            return self._sessions.get(session_id), {}
        if members(message).get("method") == "initialize" and self._fake.healthy.legacy:
            session_id = secrets.token_urlsafe(24)
            self._sessions[session_id] = self._connect(session_id)
            return self._sessions[session_id], {"Mcp-Session-Id": session_id}
        is_modern = META_VERSION in members(members(members(message).get("params")).get("_meta"))
        if not self._fake.healthy.modern or (self._fake.healthy.legacy and not is_modern):
            return None, {}
        self._modern = self._modern or self._connect()
        return self._modern, {}


async def _first_of(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(each.wait()) for each in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
