"""A server that does not read cannot make the client hold more and more; two ends that say much at once do not block each other.

Each server here drives its end of the channel itself, because what matters is when it reads and when it does not.
"""

import asyncio
import json

import pytest

from fake_server import scene
from twopipes import Server, connect
from twopipes._server.context import Context
from twopipes.errors import ConnectionLost
from twopipes.settings import Timeouts

pytestmark = pytest.mark.slow  # they send megabytes

MIB = 1024 * 1024
PING = b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n'
PONG = b'{"jsonrpc":"2.0","id":7,"result":{}}\n'
PATIENT = Timeouts(connect=30, request=30, total=30)


class Legacy:
    """The handshake of a legacy server, and then whatever ``talk`` does with the channel."""

    def __init__(self, talk):
        self.talk = talk

    async def serve(self, *, channel):
        begun = b""
        while b"notifications/initialized" not in begun or not begun.endswith(b"\n"):
            data = await channel.read()
            if not data:
                return
            begun += data
            if b'"initialize"' in data:
                request = json.loads(data)
                result = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"},
                }
                channel.write(line(id=request["id"], result=result))
        await self.talk(channel)


def line(**message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def done(request_id, text="done"):
    return line(id=request_id, result={"content": [{"type": "text", "text": text}]})


async def lines_of(channel):
    rest = b""
    while data := await channel.read():
        *whole, rest = (rest + data).split(b"\n")
        for each in whole:
            yield json.loads(each)


@scene
async def test_a_server_that_pings_and_never_reads_is_not_read_any_further_and_is_given_up_in_time():
    written = 0
    flood = 64 * MIB

    async def talk(channel):
        nonlocal written
        piece = PING * (64 * 1024 // len(PING))
        while written < flood:
            channel.write(piece)
            await channel.drain()
            written += len(piece)

    client = await connect(Legacy(talk), era="legacy", timeouts=Timeouts(request=0.2))
    with pytest.raises(ConnectionLost, match=r"has read nothing for 0.2 s, while \d,\d\d\d,\d\d\d bytes of responses"):
        await client.call_tool("x", timeouts=PATIENT)
    await client.close()

    assert written < 4 * MIB  # the size of both buffers and the limit, not of the flood


@scene
async def test_close_ends_a_client_whose_server_never_reads():
    async def talk(channel):
        channel.write(PING * (8 * MIB // len(PING)))
        await channel.flush()

    client = await connect(Legacy(talk), era="legacy", timeouts=PATIENT)
    connection = client._supervisor.connection
    while not connection._must_wait():
        await asyncio.sleep(0)
    await client.close()

    assert client.closed is not None


@scene
async def test_a_request_times_out_while_the_server_never_reads():
    async def talk(channel):
        channel.write(PING * (8 * MIB // len(PING)))
        await channel.flush()

    async with connect(Legacy(talk), era="legacy", timeouts=PATIENT) as client:
        with pytest.raises(TimeoutError):
            await client.call_tool("x", timeouts=Timeouts(request=0.2))


@pytest.mark.slow
@scene
async def test_a_server_that_reads_late_gets_every_response():
    """PI-01: each ping is answered, however late the answer is read."""
    count = 30_000

    async def talk(channel):
        channel.write(PING * count)
        answered = 0
        async for message in lines_of(channel):
            if message.get("method") == "tools/call":
                call = message["id"]
            else:
                answered += 1
            if answered == count:
                channel.write(done(call, str(answered)))

    async with connect(Legacy(talk), era="legacy", timeouts=PATIENT) as client:
        assert (await client.call_tool("x")).text == str(count)


@pytest.mark.slow
@scene
async def test_large_calls_reach_a_server_that_reads_the_next_one_when_its_answer_is_taken():
    """Our own requests never stop the reading; otherwise both sides would wait for ever."""

    async def talk(channel):
        async for message in lines_of(channel):
            channel.write(done(message["id"], "y" * MIB))
            await channel.flush()

    async with connect(Legacy(talk), era="legacy", timeouts=PATIENT) as client:
        results = await asyncio.gather(*(client.call_tool("x", {"text": "x" * MIB}) for _ in range(16)))
        assert [len(result.text) for result in results] == [MIB] * 16


@scene
async def test_both_ends_of_ours_ask_and_answer_much_at_once():
    server = Server("asks")

    @server.tool()
    async def ask(ctx: Context, text: str) -> str:
        name = await ctx.elicit("z" * len(text), {"type": "object", "properties": {"name": {"type": "string"}}})
        return str(len(str(name)) >= len(text))

    text = "x" * 64 * 1024
    async with connect(server, era="legacy", timeouts=PATIENT, on_elicit=lambda _: {"name": text}) as client:
        results = await asyncio.gather(*(client.call_tool("ask", {"text": text}) for _ in range(64)))
        assert {result.text for result in results} == {"True"}
