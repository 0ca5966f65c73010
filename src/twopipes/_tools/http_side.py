"""One HTTP/1.1 connection: events of h11 over a pair of asyncio streams."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import h11

# Bytes per read, and bytes that may wait for a slow reader.
READ_SIZE = 64 * 1024
# Bytes of the start line and the headers. Servers accept less.
_MAX_HEAD = 256 * 1024


class HttpSide:
    """The connection to a client (``h11.SERVER``) or to the server (``h11.CLIENT``)."""

    def __init__(self, role: type[h11.CLIENT | h11.SERVER], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=_MAX_HEAD)
        self._reader = reader
        self._writer = writer

    async def receive(self) -> list[Any]:
        """Return every event that has arrived; wait for one if there is none. The last is ``ConnectionClosed`` at the end."""
        while not (events := self._events()):
            self.http.receive_data(await self._reader.read(READ_SIZE))
        return events

    async def send(self, events: Sequence[Any]) -> None:
        """Write events, and wait while the peer does not read."""
        for event in events:
            self._writer.write(self.http.send(event) or b"")
            await self._writer.drain()

    async def wait_for_eof(self) -> None:
        """Return at EOF. What arrives before it is the start of the next request, and is kept."""
        while data := await self._reader.read(READ_SIZE):
            self.http.receive_data(data)
            if len(self.http.trailing_data[0]) > _MAX_HEAD:
                await asyncio.get_running_loop().create_future()  # pipelined requests wait in the socket
        self.http.receive_data(b"")

    async def wait_for_anything(self) -> None:
        """Return when the peer closes an idle connection, or sends something unexpected."""
        await self._reader.read(1)

    def write_eof(self) -> bool:
        """Close the direction to the peer. Return false where that is impossible, as with TLS."""
        with suppress(OSError, RuntimeError):
            if self._writer.can_write_eof():
                self._writer.write_eof()
                return True
        return False

    def close(self) -> None:
        """Close the connection without waiting for the peer."""
        self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until what was written is sent, for a short time."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()

    def _events(self) -> list[Any]:
        events: list[Any] = []
        while not events or not isinstance(events[-1], h11.EndOfMessage | h11.ConnectionClosed):
            event = self.http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                break
            events.append(event)
        return events
