"""What is left to do when a connection ends, and what the next one knows of it (section SD of the rules)."""

import asyncio
import threading

import pytest

import sessions
from inmemory import ERAS, LATEST_LEGACY, LATEST_MODERN, Client, connected, play
from twopipes import Context, Server, ServerSettings
from twopipes._channels.memory import memory_pair


@pytest.mark.parametrize("revision", ERAS)
def test_what_is_in_flight_at_the_end_is_answered(revision):
    """SD-02, SD-07."""
    server = Server("s")
    go_on = asyncio.Event()

    @server.tool
    async def late() -> str:
        await go_on.wait()
        return "late"

    async def scenario(client: Client):
        calls = [client.start_tool("late") for _ in range(5)]
        await client.settle()
        await client.leave()
        await asyncio.sleep(0)
        go_on.set()
        for request_id in calls:
            assert (await client.line_of(request_id))["result"]["content"][0]["text"] == "late"

    play(server, scenario, revision)


def test_a_handler_that_takes_too_long_at_the_end_is_cancelled():
    """SD-02."""
    server = Server("s", settings=ServerSettings(drain=0.01))
    cancelled = []

    @server.tool
    async def never(ctx: Context) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(bool(ctx.cancelled))
        return "?"

    async def scenario(client: Client):
        request_id = client.start_tool("never")
        await client.settle()
        await client.leave()
        assert (await client.line_of(request_id))["error"]["code"] == -32603

    play(server, scenario)
    assert cancelled == [True]


def test_listens_are_ended_properly_when_the_server_ends():
    """SU-13, SU-14: the notification first, then the result."""
    server = Server("s")
    server.add_tool(lambda: None, name="x")

    async def main():
        ours, theirs = memory_pair()
        client = Client(ours, LATEST_MODERN, {})
        client.listen()
        serving = asyncio.create_task(server.serve(channel=theirs))
        for request_id in (7, "7"):
            client.start("subscriptions/listen", request_id=request_id, notifications={"toolsListChanged": True})
        await client.until(lambda: len(client.notes("notifications/subscriptions/acknowledged")) == 2)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        await client.until(lambda: client.over)
        for request_id in (7, "7"):
            (result,) = client.answers_to(request_id)
            assert result["result"]["_meta"][sessions.TAG] == request_id
        assert [note["requestId"] for note in client.notes("notifications/cancelled")] == [7, "7"]
        await client.close()

    asyncio.run(main())


def test_a_new_connection_knows_nothing_of_the_old_one():
    """SU-16."""
    server = Server("s")
    server.add_tool(lambda: None, name="x")

    async def main():
        async with connected(server) as one:
            one.start("subscriptions/listen", notifications={"toolsListChanged": True})
            await one.note("notifications/subscriptions/acknowledged")
        async with connected(server) as two:
            server.add_tool(lambda: None, name="y")
            await two.settle()
            assert two.notes("notifications/tools/list_changed") == []

    asyncio.run(main())


def test_a_server_may_be_changed_after_its_loop_is_gone():
    server = Server("s")
    server.add_tool(lambda: None, name="x")
    contexts: list[Context] = []

    @server.tool
    async def keep(ctx: Context) -> str:
        contexts.append(ctx)
        return "kept"

    async def scenario(client: Client):
        await client.call("keep", meta={"progressToken": 1})

    play(server, scenario, LATEST_LEGACY)
    server.add_tool(lambda: None, name="y")
    thread = threading.Thread(target=lambda: contexts[0].progress(1))
    thread.start()
    thread.join()
