"""A tap between raw sockets: the tests play both the client and the server, byte by byte."""

import asyncio
import contextlib
import json

from twopipes._tools.tap.http_proxy import HttpTap, Upstream
from twopipes._tools.tap.http_recording import HttpRecording

# Seconds. The limit of every wait; only a hang reaches it.
NET = 20


class Recorded:
    """Keeps what a recording contains."""

    def __init__(self):
        self.entries = []

    def line(self, kind, data, *, connection=0):
        self.entries.append((connection, kind, data))

    def event(self, name, *, connection=0, stream=None, reason=None):
        self.entries.append((connection, name, stream or reason))

    @property
    def lines(self):
        return [(connection, kind, data) for connection, kind, data in self.entries if kind in "<>"]

    @property
    def notes(self):
        return [text for _, name, text in self.entries if name == "note"]


class Stage:
    """A running tap."""

    def __init__(self, port, recorded, accepted):
        self.port = port
        self.recorded = recorded
        self._accepted = accepted
        self._open = []

    async def client(self, data=b""):
        """Connect to the tap and send bytes."""
        return self._keep(Wire(*await asyncio.open_connection("127.0.0.1", self.port)), data)

    async def server(self):
        """Return the next connection that the tap opens to the server."""
        async with asyncio.timeout(NET):
            return self._keep(await self._accepted.get())

    def _keep(self, wire, data=b""):
        self._open.append(wire)
        if data:
            wire.send(data)
        return wire

    def close(self):
        for wire in self._open:
            wire.close()


class Wire:
    """One end of a socket."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.seen = b""

    def send(self, data):
        self.writer.write(data)

    async def until(self, end):
        """Read up to and including some bytes."""
        async with asyncio.timeout(NET):
            return await self.reader.readuntil(end)

    async def request(self):
        """Read a whole request with a Content-Length: its head, and its body."""
        head = (await self.until(b"\r\n\r\n")).decode()
        size = next((int(line.partition(":")[2]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0)
        async with asyncio.timeout(NET):
            return head, await self.reader.readexactly(size)

    async def rest(self):
        async with asyncio.timeout(NET):
            return await self.reader.read()

    def close(self):
        self.writer.close()


def post(message, *headers, host="127.0.0.1"):
    """Return the bytes of a POST."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    lines = ["POST /mcp HTTP/1.1", f"Host: {host}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def respond(body, *headers, status="200 OK", kind="application/json"):
    """Return the bytes of a response with a length."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def run(play, tls=None):
    """Run a test with a tap between it and itself; the server may have TLS."""

    async def main():
        accepted = asyncio.Queue()
        server = await asyncio.start_server(lambda *streams: accepted.put_nowait(Wire(*streams)), "127.0.0.1", 0, ssl=tls)
        address = server.sockets[0].getsockname()[1]
        recorded = Recorded()
        upstream = Upstream.parse(f"https://127.0.0.1:{address}/mcp" if tls else f"http://localhost:{address}/mcp")
        tap = HttpTap(upstream, HttpRecording(recorded, upstream.path))
        stage = Stage(await tap.start("127.0.0.1", 0), recorded, accepted)
        try:
            await play(stage)
        finally:
            stage.close()
            await tap.close()
            server.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NET):
                    await server.wait_closed()

    asyncio.run(main())
