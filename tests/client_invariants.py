"""Invariants of our client, whatever a server sends and does not read, and however slow the client's callbacks are.

Bytes are read as a list of steps of a legacy server: it sends requests, notifications and lines that are not messages, responds to
calls or not, stops and starts reading. While it does not read, the client must stop reading, too. All calls end when it exits.
"""

import asyncio
import contextlib
import io
import json
from typing import Any

from twopipes import Client, Limits, Timeouts, TwopipesError, connect
from twopipes._channels.base import READ_SIZE
from twopipes._channels.memory import MemoryChannel, memory_pair

# Seconds. A limit for a hang, not an assertion.
LIMIT = 30
MAX_STEPS = 200
CAPACITY = 2048
HIGH_WATER = 4096
# Bytes that the client may read from a server that does not read: a few reads, until its own writes have filled the pipe.
MAX_TAKEN = 4 * READ_SIZE
MANY = 100
TIGHT = Limits(max_unsent=16 * 1024, max_backlog=64 * 1024)
PATIENT = Timeouts(connect=LIMIT, probe=LIMIT, request=LIMIT, total=LIMIT, shutdown=LIMIT)
INFO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "logging": {}, "resources": {"subscribe": True}},
    "serverInfo": {"name": "fuzz", "version": "1"},
}


class HostileServer:
    """The server's end of a connection."""

    def __init__(self, channel: MemoryChannel) -> None:
        self.channel = channel
        self.calls: list[Any] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.requests = 0
        self.requested = 0

    @property
    def taken(self) -> int:
        """The bytes of requests that the client has read since this server stopped reading."""
        return self.requested - self.channel.buffered

    async def read(self) -> None:
        rest = b""
        while data := await self.channel.read():
            *lines, rest = (rest + data).split(b"\n")
            for line in map(json.loads, lines):
                if line.get("method") == "initialize":
                    self.respond(line["id"], INFO)
                elif line.get("method") == "tools/call":
                    self.calls.append(line["id"])
            await self.may_read.wait()

    def send(self, message: Any) -> int:
        line = json.dumps(message).encode() + b"\n"
        self.channel.write(line)
        return len(line)

    def respond(self, request_id: Any, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": request_id, "result": result})

    def request(self, method: str, params: Any) -> None:
        self.requests += 1
        size = self.send({"jsonrpc": "2.0", "id": f"server-{self.requests}", "method": method, "params": params})
        if not self.may_read.is_set():
            self.requested += size

    def notify(self, method: str, params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def step(self, kind: int, value: int) -> None:
        times = MANY if value & 128 else 1
        if kind == 0:
            for _ in range(times):
                self.request("ping", {})
        elif kind == 1:
            for _ in range(times):
                self.request(("elicitation/create", "roots/list", "no/such")[value % 3], {"message": "?", "requestedSchema": {}})
        elif kind == 2:
            for _ in range(times):
                self.notify("notifications/message", {"level": "info", "data": "x" * value})
        elif kind == 3:
            for number in range(times):
                self.notify("notifications/resources/updated", {"uri": f"x:{value}/{number}"})
        elif kind == 4:
            self.channel.write(bytes([value]) * times + b"\n")
        elif kind == 5 and self.calls:
            self.respond(self.calls.pop(value % len(self.calls)), {"content": []})
        elif kind == 6:
            (self.may_read.clear if value & 1 else self.may_read.set)()
            self.requested = 0
        for _ in range(value % 5):
            await asyncio.sleep(0)


async def play(data: bytes) -> None:
    """Play the steps, close the connection, and check that every call ended and that the client held little meanwhile."""
    ours, theirs = memory_pair(capacity=CAPACITY, high_water=HIGH_WATER, low_water=CAPACITY)
    server = HostileServer(theirs)
    reading = asyncio.create_task(server.read())
    blocked = asyncio.Event()

    async def slow(_params: Any) -> None:
        await blocked.wait()

    async with asyncio.timeout(LIMIT):
        client: Client = await connect(
            ours, era="legacy", timeouts=PATIENT, limits=TIGHT, on_log=slow, on_elicit=lambda _question: None
        )
        calls = []
        for position in range(0, min(len(data), 2 * MAX_STEPS) - 1, 2):
            if data[position] % 8 == 7:
                calls.append(asyncio.create_task(client.call_tool("any")))
            else:
                await server.step(data[position] % 8, data[position + 1])
            assert server.taken < MAX_TAKEN, f"the client read {server.taken} bytes of requests while its server did not read"
        await theirs.close()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        blocked.set()
        await client.close()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    foreign = [outcome for outcome in ended if isinstance(outcome, BaseException) and not isinstance(outcome, TwopipesError)]
    assert not foreign, f"calls ended with {foreign}"


def check_steps(data: bytes) -> None:
    """Check every invariant on the steps that these bytes name."""
    with contextlib.redirect_stderr(io.StringIO()) as reported:
        asyncio.run(play(data))
    assert "exception was never retrieved" not in reported.getvalue(), reported.getvalue()
