"""Generate load over HTTP/1.1 from raw sockets: ``http_load.py JOB``, where the job is JSON; prints the result as JSON.

A library would cost more CPU than the servers. Every connection sends one request at a time and reads its response to the end.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
TEXT = "x" * 100


def post(port: int, message: dict[str, Any], headers: dict[str, str]) -> bytes:
    """Return the bytes of a request."""
    body = json.dumps(message, separators=(",", ":")).encode()
    given = {
        "Host": f"127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(body)),
        **headers,
    }
    return b"POST /mcp HTTP/1.1\r\n" + b"".join(f"{name}: {value}\r\n".encode() for name, value in given.items()) + b"\r\n" + body


def modern(port: int, request_id: int, method: str, params: dict[str, Any], name: str | None = None) -> bytes:
    """Return a request of the modern era."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": META}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    return post(port, message, headers | ({"Mcp-Name": name} if name else {}))


class Caller(asyncio.Protocol):
    """One connection: sends the request again and again until the time is over."""

    def __init__(self, request: bytes, until: float, latencies: list[float], failures: list[str]) -> None:
        self.request = request
        self.until = until
        self.latencies = latencies
        self.failures = failures
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.received = b""
        self.started = 0.0

    def connection_made(self, transport: Any) -> None:
        """Send the first request."""
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self.started = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Send the next request when the response is complete."""
        self.received += data
        head, separator, body = self.received.partition(b"\r\n\r\n")
        if not separator or not is_complete(head, body):
            return
        now = time.perf_counter()
        self.latencies.append(now - self.started)
        if not head.startswith(b"HTTP/1.1 200") or b'"isError":true' in body or TEXT.encode() not in body:
            self.failures.append(self.received.decode("utf-8", "replace")[:500])
            now = self.until
        self.received = b""
        if now >= self.until:
            self.transport.close()
        else:
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        if self.received:
            self.failures.append(f"the connection was lost: {error}")
        if not self.done.done():
            self.done.set_result(None)


def is_complete(head: bytes, body: bytes) -> bool:
    """Return whether this is the whole body of a response."""
    lowered = head.lower()
    if (at := lowered.find(b"content-length:")) >= 0:
        end = lowered.find(b"\r\n", at)
        return len(body) >= int(lowered[at + 15 : end if end >= 0 else None])
    return body.endswith(b"0\r\n\r\n")


async def load(port: int, in_flight: int, seconds: float, request: bytes) -> dict[str, Any]:
    """Keep requests in flight for some time."""
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    failures: list[str] = []
    started = time.perf_counter()
    made = [
        (await loop.create_connection(lambda: Caller(request, started + seconds, latencies, failures), "127.0.0.1", port))[1]
        for _ in range(in_flight)
    ]
    await asyncio.gather(*(caller.done for caller in made))
    took = time.perf_counter() - started
    latencies.sort()
    count = len(latencies)
    return {
        "requests": count,
        "seconds": took,
        "per_second": count / took,
        "p50": latencies[count // 2] if count else None,
        "p99": latencies[min(count - 1, count * 99 // 100)] if count else None,
        "failures": failures[:3],
    }


async def opened(port: int, request: bytes, wanted: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    """Send a request on a new connection and read until the response has some text."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    received = b""
    while wanted not in received:
        data = await asyncio.wait_for(reader.read(65536), 30)
        if not data:
            raise ConnectionError(received.decode("utf-8", "replace")[:500])
        received += data
    return reader, writer, received


async def hold(port: int, count: int) -> None:
    """Open listens, report, and hold them until stdin ends."""
    request = modern(port, 1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    held = [await opened(port, request, b"subscriptions/acknowledged") for _ in range(count)]
    print(json.dumps({"open": len(held)}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for _, writer, _ in held:
        writer.transport.abort()


def main() -> None:
    """Run one job."""
    job = json.loads(sys.argv[1])
    port = job["port"]
    if "hold" in job:
        asyncio.run(hold(port, job["hold"]))
        return
    call = modern(port, 7, "tools/call", {"name": "echo", "arguments": {"text": TEXT}}, "echo")
    print(json.dumps(asyncio.run(load(port, job["in_flight"], job["seconds"], call))))


if __name__ == "__main__":
    main()
