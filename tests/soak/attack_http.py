"""Attack a server over HTTP with many kinds of clients at once: honest ones get exactly one response, and nothing is left behind.

Clients that send half a request, garbage, or too much, that do not read, that leave at a random moment in both eras, beside honest
ones. After each round the server has as many tasks and descriptors as before, and its log has no traceback.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

from attacking import Attack, main

sys.path.insert(0, str(Path(__file__).parents[1]))
from http_server import call_tool, initialize, legacy_request, listen, request_bytes

# Seconds. A limit for a server that hangs, not an assertion.
NET = 60.0
CLIENTS = 250
# KiB that the server may grow after the first round, altogether.
GROWTH = 60_000
URI = "test://changing"
RESULT = b'"id":1,"result":'

SERVER = """
import asyncio
from twopipes import Context, Server
from twopipes.http import HttpOptions

server = Server("attacked", version="1.0")


@server.resource("test://changing")
async def changing() -> str:
    return "x"


@server.tool
async def echo(text: str, ctx: Context) -> str:
    await ctx.progress(1, 2, text)
    server.notify_resource_updated("test://changing")
    return text


@server.tool
async def wait() -> str:
    await asyncio.Event().wait()
    return "never"


@server.tool
async def big(size: int) -> str:
    return "x" * size


@server.tool
async def flood(ctx: Context) -> str:
    for number in range(10**9):
        await ctx.log("info", "x" * 5000)
    return "never"


@server.tool
async def tasks() -> int:
    return len(asyncio.all_tasks())


options = HttpOptions(
    read_timeout=1.0, write_timeout=1.0, keep_alive=0.2, session_idle=1.0,
    max_body=100_000, max_requests=25, max_streams=10, max_sessions=20,
)
server.run(http="127.0.0.1:0", http_options=options)
"""


class Target:
    """The server process."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port
        self.log: list[str] = []

    async def connect(self, *, buffer: int | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection, with a small buffer for a client that does not read."""
        sock = socket.socket()
        sock.setblocking(False)
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return await asyncio.open_connection(sock=sock, limit=4096 if buffer else 2**20)

    async def ask(self, message: dict) -> tuple[int, bytes]:
        """Send one request honestly and return the status and the body."""
        reader, writer = await self.connect()
        try:
            writer.write(request_bytes(**{**message, "headers": {**message["headers"], "Connection": "close"}}))
            received = await asyncio.wait_for(reader.read(-1), NET)
        finally:
            writer.close()
        head, _, body = received.partition(b"\r\n\r\n")
        return int(head.split(maxsplit=2)[1]) if head else 0, body

    async def count_tasks(self) -> int:
        status, body = await self.ask(call_tool("tasks"))
        found = re.search(rb'"text":"(\d+)"', body)
        return int(found[1]) if status == 200 and found else 10**6

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])


@asynccontextmanager
async def serving() -> AsyncIterator[Target]:
    """Start the server, and end it by SIGTERM."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    first = (await asyncio.wait_for(process.stderr.readline(), NET)).decode()
    target = Target(process, int(re.search(r"http://127\.0\.0\.1:(\d+)/", first)[1]))

    async def keep_log() -> None:
        async for line in process.stderr:
            target.log.append(line.decode())

    logging = asyncio.create_task(keep_log())
    try:
        yield target
        process.terminate()
        await asyncio.wait_for(process.wait(), NET)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await logging


# Clients


async def honest(target: Target, run: Attack, random: Random) -> None:
    """Call a tool and expect one response, the right one, or a refusal because there are too many requests."""
    text = f"text {random.randrange(10**9)}"
    message = call_tool("echo", text=text)
    status, body = await target.ask(message)
    run.counts[f"honest calls with {status}"] += 1
    if status == 200:
        run.check(body.count(RESULT) == 1 and text.encode() in body, "an honest call", f"one response with {text!r}", body[:300])
    else:
        run.check(status == 503 and b'"error"' in body, "an honest call", "200 or 503", (status, body[:300]))


async def honest_legacy(target: Target, run: Attack, random: Random) -> None:
    """Open a session, call a tool, and end the session, or not."""
    reader, writer = await target.connect()
    try:
        writer.write(request_bytes(**initialize()))
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), NET)
        found = re.search(rb"mcp-session-id: (\S+)", head)
        run.counts[f"sessions with {head.split()[1].decode()}"] += 1
        if found is None:
            return
        text = f"text {random.randrange(10**9)}"
        params = {"name": "echo", "arguments": {"text": text}}
        session = {"Mcp-Session-Id": found[1].decode(), "MCP-Protocol-Version": "2025-11-25"}
        status, body = await target.ask(legacy_request("tools/call", params, headers=session))
        run.counts[f"legacy calls with {status}"] += 1
        # 404: it was ended to make room for another one.
        is_right = (status == 200 and body.count(RESULT) == 1 and text.encode() in body) or status in {404, 503}
        run.check(is_right, "a legacy call", f"one response with {text!r}, 404 or 503", (status, body[:300]))
        if random.random() < 0.5:
            await target.ask({"method": "DELETE", "headers": session})
    finally:
        writer.close()


def any_message(random: Random) -> dict:
    """Return a request of any kind, some with an endless response."""
    return random.choice(
        [
            call_tool("echo", text="x"),
            call_tool("wait"),
            call_tool("big", size=random.choice([10, 100_000, 5_000_000])),
            call_tool("flood"),
            listen(resourceSubscriptions=[URI]),
            initialize(),
            legacy_request("tools/list", headers={"Mcp-Session-Id": "invented"}),
            {"method": "GET", "headers": {"Accept": "text/event-stream", "Mcp-Session-Id": "invented"}},
        ]
    )


async def leaves(target: Target, run: Attack, random: Random) -> None:
    """Send a whole request, read a little or nothing, and leave, with or without a goodbye."""
    reader, writer = await target.connect(buffer=random.choice([None, 2048]))
    with suppress(ConnectionError, TimeoutError):
        writer.write(request_bytes(**any_message(random)))
        if random.random() < 0.3:
            writer.write_eof()
        async with asyncio.timeout(random.random() * 2):
            await reader.read(random.choice([1, 1000, 10**6]))
            await asyncio.sleep(random.random() * 2)
    close(writer, random)
    run.counts["clients that left"] += 1


async def breaks_off(target: Target, run: Attack, random: Random) -> None:
    """Send a part of a request, byte by byte at times, and leave or wait for the end."""
    reader, writer = await target.connect()
    data = request_bytes(**any_message(random))
    data = data[: random.randrange(len(data))]
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(random.random() * 3):
            while data:
                size = random.choice([1, 7, len(data)])
                writer.write(data[:size])
                data = data[size:]
                await asyncio.sleep(random.random() * 0.1)
            await reader.read(-1)
    close(writer, random)
    run.counts["half requests"] += 1


async def garbles(target: Target, run: Attack, random: Random) -> None:
    """Change some bytes of a request, or send garbage or too much, and read what comes."""
    reader, writer = await target.connect()
    data = bytearray(request_bytes(**any_message(random)))
    match random.randrange(3):
        case 0:
            for _ in range(random.randrange(1, 20)):
                data[random.randrange(len(data))] = random.randrange(256)
        case 1:
            data = bytearray(random.randbytes(random.randrange(1, 5000)))
        case _:
            at = random.randrange(len(data))
            data[at:at] = b"x" * random.choice([10, 100_000, 1_000_000])
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(random.random() * 3):
            writer.write(bytes(data))
            await writer.drain()
            await reader.read(-1)
    close(writer, random)
    run.counts["garbled requests"] += 1


def close(writer: asyncio.StreamWriter, random: Random) -> None:
    if random.random() < 0.5:
        sock = writer.get_extra_info("socket")
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


KINDS: list[Callable[[Target, Attack, Random], Awaitable[None]]] = [honest, honest_legacy, leaves, breaks_off, garbles]


async def until_calm(target: Target, tasks: int, descriptors: int) -> tuple[int, int]:
    """Wait until the server has at most so many tasks and descriptors; return how many it has."""
    found = (0, 0)
    for _ in range(100):
        found = (await target.count_tasks(), target.descriptors())
        if found[0] <= tasks and found[1] <= descriptors:
            break
        await asyncio.sleep(0.1)
    return found


async def attack(run: Attack) -> None:
    """Run rounds of many clients at once."""
    async with serving() as target:
        await target.ask(call_tool("echo", text="warm"))
        tasks, descriptors = await target.count_tasks(), target.descriptors()
        resident = 0
        for number in run.rounds():
            clients = [run.random.choice(KINDS)(target, run, Random(run.random.random())) for _ in range(CLIENTS)]
            for ended in await asyncio.gather(*clients, return_exceptions=True):
                run.check(ended is None, "a client", "to end", repr(ended))
            left = await until_calm(target, tasks, descriptors)
            run.check(left[0] <= tasks, f"tasks after round {number}", f"at most {tasks}", left[0])
            run.check(left[1] <= descriptors, f"descriptors after round {number}", f"at most {descriptors}", left[1])
            resident = resident or target.resident()
            run.check(target.resident() - resident < GROWTH, "memory", f"less than {GROWTH} KiB more", target.resident() - resident)
            run.check(target.process.returncode is None, "the server", "a running process", target.process.returncode)
            if target.process.returncode is not None:
                break
    run.check(target.process.returncode in {0, -15, 143}, "the end", "exit code 0", target.process.returncode)
    noise = [line for line in target.log if "Traceback" in line or "Task " in line or "never retrieved" in line]
    run.check(not noise, "the log", "no traceback", json.dumps(target.log[-40:]))


if __name__ == "__main__":
    raise SystemExit(main(attack, __doc__ or ""))
