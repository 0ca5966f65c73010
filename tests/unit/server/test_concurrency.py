"""Many calls at once: how many work, and who waits for whom."""

import asyncio
import json
import threading

import pytest

import sessions
from inmemory import ERAS, NET, Client, connected, play, turn_until
from twopipes import Context, Server, ServerSettings


@pytest.mark.parametrize("revision", ERAS)
def test_a_function_that_blocks_does_not_delay_others(revision):
    server = Server("s")
    go_on = threading.Event()

    @server.tool
    def block() -> str:
        go_on.wait(NET)
        return "done"

    @server.tool
    def quick() -> str:
        return "quick"

    async def scenario(client: Client):
        blocked = [client.start_tool("block") for _ in range(10)]
        assert await client.text("quick") == "quick"
        await client.settle()
        assert all(client.answers_to(request_id) == [] for request_id in blocked)
        go_on.set()
        for request_id in blocked:
            await client.line_of(request_id)

    play(server, scenario, revision)


@pytest.mark.slow
def test_a_handler_that_never_waits_is_answered_in_one_write_with_its_neighbours():
    """However the tasks are started, what one read brought leaves in one write, and a thousand of them need no deep stack."""
    server = Server("s")

    @server.tool
    async def number(which: int) -> int:
        return which

    async def scenario(client: Client):
        await client.settle()
        (connection,) = server._connections
        written = []
        connection.channel.write = lambda data, write=connection.channel.write: (written.append(data), write(data))
        calls = [client.start_tool("number", which=which) for which in range(2000)]
        for which, request_id in enumerate(calls):
            assert (await client.line_of(request_id))["result"]["structuredContent"] == {"result": which}
        assert len(written) < len(calls) / 10
        assert connection._contexts == {}

    play(server, scenario)


def test_the_number_of_running_handlers_is_limited():
    server = Server("s", settings=ServerSettings(max_running=3))
    running, most = 0, 0
    go_on = asyncio.Event()

    @server.tool
    async def work() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await go_on.wait()
        finally:
            running -= 1
        return "done"

    async def scenario(client: Client):
        calls = [client.start_tool("work") for _ in range(10)]
        await client.result("server/discover")  # control messages do not wait
        assert running == 3
        client.cancel(calls[9])  # still in the queue
        client.cancel(calls[0])
        go_on.set()
        for request_id in calls[1:9]:
            await client.line_of(request_id)
        await client.settle()
        assert client.answers_to(calls[9]) == client.answers_to(calls[0]) == []
        assert most == 3

    play(server, scenario)


@pytest.mark.parametrize("revision", ERAS)
def test_who_waits_for_the_client_takes_no_place_and_only_one_is_given_away(revision):
    server = Server("s", settings=ServerSettings(max_running=2))
    go_on = asyncio.Event()
    running = 0

    @server.tool
    async def ask(ctx: Context) -> str:
        await asyncio.gather(*(ctx.list_roots() for _ in range(8)))
        return "asked"

    @server.tool
    async def work() -> str:
        nonlocal running
        running += 1
        await go_on.wait()
        return "worked"

    async def scenario(client: Client):
        client.answer = lambda *_: None
        for _ in range(5):
            client.start_tool("ask")
        calls = [client.start_tool("work") for _ in range(5)]
        await turn_until(lambda: running == 2)
        for _ in range(5):
            await client.settle()
        assert running == 2
        go_on.set()
        for request_id in calls:
            await client.line_of(request_id)

    play(server, scenario, revision)


def test_changes_from_threads_and_calls_at_once_do_not_disturb_each_other():
    """TL-17."""
    server = Server("s")
    server.add_tool(lambda: None, name="x")

    @server.tool
    def churn(prefix: str) -> str:
        for number in range(50):
            server.add_tool(lambda: None, name=f"{prefix}-{number}")
        for number in range(50):
            server.remove_tool(f"{prefix}-{number}")
        return "done"

    async def scenario(client: Client):
        calls = [client.start_tool("churn", prefix=f"n{number}") for number in range(8)]
        lists = [client.start("tools/list") for _ in range(100)]
        for request_id in calls + lists:
            assert "result" in await client.line_of(request_id)
        assert await client.names("tools/list", "tools") == ["x", "churn"]

    play(server, scenario)


def test_equal_requests_in_one_read_are_answered_each():
    """FR-14: many requests in one write, blank lines and carriage returns between them (FR-15)."""
    server = Server("s")
    server.add_tool(lambda: None, name="x")

    async def main():
        async with connected(server) as client:
            data = b"\r\n\n".join(json.dumps(sessions.modern(number, "tools/list")).encode() for number in range(100, 200))
            client.channel.write(data + b"\n")
            for number in range(100, 200):
                await client.line_of(number)

    asyncio.run(main())
