"""Clients that read late, or never, or not any more (section SD of the rules)."""

import asyncio
import gc

import pytest

from inmemory import ERAS, LATEST_MODERN, NET, Client, connected, play, turn_until
from twopipes import Server, ServerSettings
from twopipes._channels.memory import memory_pair


def responses(size: int) -> Server:
    server = Server("s", settings=ServerSettings(max_running=20))

    @server.tool
    async def big(letter: str) -> str:
        await asyncio.sleep(0)
        return letter * size

    return server


@pytest.mark.slow
@pytest.mark.parametrize("revision", ERAS)
def test_large_answers_at_once_do_not_mix(revision):
    """FR-01, FR-13."""

    async def scenario(client: Client):
        calls = {client.start_tool("big", letter=chr(97 + number % 26)): chr(97 + number % 26) for number in range(100)}
        for request_id, letter in calls.items():
            line = await client.line_of(request_id)
            assert line["result"]["content"][0]["text"] == letter * 200 * 1024

    play(responses(200 * 1024), scenario, revision)


@pytest.mark.slow
@pytest.mark.parametrize("revision", ERAS)
def test_a_client_that_floods_and_never_reads_is_not_read_either(revision):
    """What is held is bounded by the running handlers, and once it reads, nothing is lost."""
    server = responses(4 * 1024)

    async def main():
        async with asyncio.timeout(NET), connected(server, revision, reads=False) as client:
            calls = [client.start_tool("big", letter="x") for _ in range(6000)]
            await asyncio.sleep(0)
            (connection,) = server._connections
            await turn_until(lambda: connection.is_blocked)
            for _ in range(200):
                await asyncio.sleep(0)
            held = sum(len(message.line) for message in connection.session.outbox) + connection.channel.buffered
            assert held < 3_000_000
            assert len(connection._contexts) + len(connection._queue) < 4000
            assert client.channel.buffered > 0
            client.listen()
            for request_id in calls:
                await client.line_of(request_id)

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("revision", ERAS)
def test_a_client_that_is_gone_ends_its_connection_quietly(revision, capsys):
    """SD-07."""
    server = responses(300 * 1024)

    async def main():
        async with asyncio.timeout(NET), connected(server, revision) as client:
            await client.settle()
            for _ in range(50):
                client.start_tool("big", letter="x")
            await client.channel.abort()
        assert not server._connections

    asyncio.run(main())
    gc.collect()
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_a_client_that_stops_reading_for_good_can_still_leave():
    """SD-02: what it left unread is dropped when the time is up."""
    server = Server("s", settings=ServerSettings(drain=0.05, max_running=20))

    @server.tool
    async def big() -> str:
        return "x" * 2_000_000

    async def main():
        ours, theirs = memory_pair()
        client = Client(ours, LATEST_MODERN, {})
        serving = asyncio.create_task(server._serve_channel(theirs))
        for _ in range(30):
            client.start_tool("big")
        await turn_until(lambda: server._connections)
        (connection,) = server._connections
        await turn_until(lambda: connection.is_blocked)
        await client.channel.close()
        await serving

    asyncio.run(main())


@pytest.mark.parametrize("revision", ERAS)
def test_a_response_that_cannot_be_read_ends_the_connection(revision, capsys):
    """SD-07."""
    server = Server("s")
    go_on, begun = asyncio.Event(), asyncio.Event()

    @server.tool
    async def late() -> str:
        begun.set()
        await go_on.wait()
        return "late"

    async def main():
        async with asyncio.timeout(NET), connected(server, revision) as client:
            for _ in range(3):
                client.start_tool("late")
            await begun.wait()
            await client.channel.close()
            go_on.set()
        assert not server._connections

    asyncio.run(main())
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("revision", ERAS)
def test_a_client_that_has_left_may_still_read_everything(revision):
    """SD-07: however slowly."""
    server = responses(300 * 1024)

    async def main():
        async with asyncio.timeout(NET), connected(server, revision, reads=False) as client:
            calls = [client.start_tool("big", letter="x") for _ in range(10)]
            await client.leave()
            await asyncio.sleep(0)
            (connection,) = server._connections
            await turn_until(lambda: connection.is_blocked)
            client.listen()
            for request_id in calls:
                await client.line_of(request_id)

    asyncio.run(main())
