"""HTTP as a stream of lines, so that a transcript for a channel can be played over HTTP.

Each line that is written becomes a POST, and each message of a response becomes a line to read. It is built on aiohttp alone.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

import aiohttp

from twopipes._http.headers import request_headers
from twopipes._protocol.revisions import META_VERSION

BOTH = "application/json, text/event-stream"


class HttpLines:
    """A client of one URL. The revision of a session is that of its handshake."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), connector=aiohttp.TCPConnector(limit=0))
        self._session: dict[str, str] = {}
        self._received: asyncio.Queue[bytes] = asyncio.Queue()
        self._exchanges: dict[Any, asyncio.Task[None]] = {}
        self._sending: list[asyncio.Task[None]] = []  # what drain() waits for
        self._others: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end_exchanges()
        await self._http.close()

    def write(self, data: bytes) -> None:
        """Send one line."""
        message = json.loads(data)
        meta = message.get("params", {}).get("_meta", {}) if isinstance(message, dict) else {}
        is_request = isinstance(message, dict) and "id" in message and "method" in message
        is_session = bool(self._session) or (is_request and message["method"] == "initialize")
        if is_request:
            headers = self._session if is_session else request_headers(message["method"], message["params"], meta[META_VERSION])
            task = asyncio.create_task(self._exchange(data, headers))
            self._exchanges[json.dumps(message["id"])] = task
        elif not is_session:
            # On the stateless wire, closing the stream is how a request is cancelled.
            assert message["method"] == "notifications/cancelled"
            cancelled = self._exchanges.pop(json.dumps(message.get("params", {}).get("requestId")), None)
            if cancelled is not None:
                cancelled.cancel()
        else:
            self._sending.append(asyncio.create_task(self._notice(data, message)))

    async def drain(self) -> None:
        """Wait until notifications and responses have arrived. Requests may stay open."""
        while self._sending:
            await self._sending.pop(0)

    async def read(self) -> bytes:
        """Return the next line, or nothing after the end."""
        return await self._received.get()

    async def close_write(self) -> None:
        """End all exchanges and the session."""
        await self._end_exchanges()
        if "Mcp-Session-Id" in self._session:
            async with self._http.delete(self._url, headers=self._session) as response:
                assert response.status in {200, 204}
        self._received.put_nowait(b"")

    async def _end_exchanges(self) -> None:
        tasks = [*self._exchanges.values(), *self._others, *self._sending]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._exchanges.clear()
        self._others.clear()

    async def _exchange(self, body: bytes, headers: dict[str, str]) -> None:
        sent = {"Content-Type": "application/json", "Accept": BOTH, **headers}
        async with self._http.post(self._url, data=body, headers=sent) as response:
            if "Mcp-Session-Id" in response.headers:
                self._session = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"]}
            await self._take(response)

    async def _notice(self, body: bytes, message: Any) -> None:
        sent = {"Content-Type": "application/json", "Accept": BOTH, **self._session}
        async with self._http.post(self._url, data=body, headers=sent) as response:
            assert (response.status, await response.read()) == (202, b"")
        if isinstance(message, dict) and message.get("method") == "notifications/initialized":
            is_open = asyncio.Event()
            self._others.add(asyncio.create_task(self._stream(is_open)))
            await is_open.wait()

    async def _stream(self, is_open: asyncio.Event) -> None:
        async with self._http.get(self._url, headers={"Accept": "text/event-stream", **self._session}) as response:
            assert response.status == 200
            is_open.set()
            await self._take(response)

    async def _take(self, response: aiohttp.ClientResponse) -> None:
        if response.content_type == "application/json":
            self._received.put_nowait((await response.read()).strip() + b"\n")
            return
        assert response.content_type == "text/event-stream", (response.status, await response.text())
        async for line in response.content:
            if line.startswith(b"data:") and line.strip() != b"data:":
                self._received.put_nowait(line.removeprefix(b"data:").strip() + b"\n")
