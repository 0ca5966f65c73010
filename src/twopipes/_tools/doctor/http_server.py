"""An MCP server at a URL, as the doctor uses it: one request at a time, in one era."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from twopipes import _jsonrpc as jsonrpc
from twopipes._http.headers import METHOD, PROTOCOL_VERSION, SESSION_ID
from twopipes._jsonrpc import ErrorResponse, Notification, Request
from twopipes._protocol.revisions import is_modern
from twopipes._tools.doctor.http_client import HttpClient, OnMessage
from twopipes._tools.doctor.http_observations import HttpReply
from twopipes._tools.doctor.stdout_reader import ReceivedResponse, StdoutReader

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
_ERROR: Final = 400


class HttpServer:
    """Sends messages to an endpoint. A legacy session is kept until :meth:`end`."""

    def __init__(self, client: HttpClient, url: str, revision: str) -> None:
        self.url = url
        self.messages = StdoutReader()
        self.reply: HttpReply | None = None  # of HTTP, to the last message
        self._client = client
        self._revision = revision
        self._session = ""
        self._is_open = False
        self._last_id = 0
        self._began = asyncio.get_running_loop().time()

    @property
    def elapsed(self) -> float:
        """Seconds since it was created."""
        return asyncio.get_running_loop().time() - self._began

    def agree(self, revision: str) -> None:
        """Continue with the revision and the session of the response to ``initialize``."""
        self._revision = revision
        self._is_open = True
        self._session = self._client.session

    async def request(self, method: str, params: Any, *, seconds: float) -> ReceivedResponse | None:
        """Send a request and return its response, or ``None`` if there is none."""
        self._last_id += 1
        self.messages.expect(self._last_id, method, self.elapsed)
        await self._post(method, jsonrpc.encode(Request(self._last_id, method, params)), seconds)
        return self.messages.response

    async def listen(self, params: Any, *, seconds: float) -> HttpReply:
        """Open a modern subscription, and close it after its first event."""
        self._last_id += 1
        line = jsonrpc.encode(Request(self._last_id, "subscriptions/listen", params))
        return await self._post("subscriptions/listen", line, seconds, on_message=lambda *_: True)

    async def notify(self, method: str, *, seconds: float) -> HttpReply:
        """Send a notification."""
        return await self._post(method, jsonrpc.encode(Notification(method)), seconds)

    async def open_stream(self, *, seconds: float) -> HttpReply:
        """Open the stream of a legacy session, and close it after its first event."""
        headers = {"Accept": EVENTS, **self._headers("")}
        return await self._client.send("GET stream", "GET", self.url, headers=headers, seconds=seconds, on_message=lambda *_: True)

    async def end(self, *, seconds: float) -> None:
        """End the session, if there is one."""
        if self._session:
            await self._client.send("end of session", "DELETE", self.url, headers=self._headers(""), seconds=seconds)

    async def _post(self, method: str, line: bytes, seconds: float, on_message: OnMessage | None = None) -> HttpReply:
        headers = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}", **self._headers(method)}
        self.reply = await self._client.send(
            method,
            "POST",
            self.url,
            headers=headers,
            body=line.rstrip(b"\n"),
            seconds=seconds,
            on_message=on_message or self._take,
        )
        return self.reply

    def _take(self, status: int, data: bytes) -> bool:
        line = b" ".join(data.splitlines()) + b"\n"
        # HT-45: a server that could not read the request sends an id of its own, or none. The exchange shows which request it was.
        message = jsonrpc.decode(line) if status >= _ERROR else None
        if isinstance(message, ErrorResponse):
            line = jsonrpc.encode(structs.replace(message, id=self._last_id))
        self.messages.feed(line, self.elapsed)
        return self.messages.response is not None

    def _headers(self, method: str) -> Mapping[str, str]:
        headers = {}
        if is_modern(self._revision):
            headers = {PROTOCOL_VERSION: self._revision, METHOD: method}
        elif self._is_open:
            headers = {PROTOCOL_VERSION: self._revision, SESSION_ID: self._session}
        return {name: value for name, value in headers.items() if value}
