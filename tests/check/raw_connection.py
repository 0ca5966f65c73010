"""A hand-written client in this process, for faults that no library has. It sends only what a test sends."""

import asyncio
import json
from contextlib import suppress
from typing import Any, Self

from twopipes._channels.memory import memory_pair
from twopipes._tools.check.client_run import Launcher

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


class RawConnection:
    """One connection, as an async context."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._ids = 0
        self._rest = b""

    async def __aenter__(self) -> Self:
        self._channel, theirs = memory_pair()
        self._serving = asyncio.create_task(self._launcher.serve(channel=theirs))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()
        self._serving.cancel()
        with suppress(asyncio.CancelledError):
            await self._serving

    def send(self, method: str, params: dict[str, Any] | None = None, **members: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, **members, **({} if params is None else {"params": params})}
        self._channel.write(json.dumps(message).encode() + b"\n")

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the response; ``None`` if the server has closed the connection."""
        self._ids += 1
        self.send(method, params, id=self._ids)
        while True:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                message = json.loads(line)
                if message.get("id") == self._ids and "method" not in message:
                    return message
            data = await self._channel.read()
            if not data:
                return None
            self._rest += data

    async def initialize(self) -> None:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}
        await self.request("initialize", params)
        self.send("notifications/initialized")
