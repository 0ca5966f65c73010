"""Calls that are cancelled, at any time and by anybody (section CA of the rules)."""

import asyncio
import gc
import json
import random
import threading
from typing import Any

import pytest

import sessions
from inmemory import ALL, ERAS, NET, Client, play
from twopipes import CancelToken, Context, Server, ServerSettings
from twopipes._session.ledger import Call

PROGRESS = "notifications/progress"


@pytest.mark.parametrize("revision", ALL)
def test_a_cancelled_coroutine_stops_and_sends_nothing_more(revision):
    """CA-03, CA-04, CA-05, CA-13."""
    server = Server("s")
    stopped = asyncio.Event()

    @server.tool
    async def slow(ctx: Context) -> str:
        try:
            for step in range(1, 1_000_000):
                await ctx.progress(step)
                await asyncio.sleep(0)
        finally:
            assert ctx.cancelled
            await ctx.progress(2_000_000)
            ctx.log("emergency", "late")
            stopped.set()
        return "never"

    async def scenario(client: Client):
        request_id = client.start_tool("slow", meta={"progressToken": "t", sessions.LOG_LEVEL: "debug"})
        await client.note(PROGRESS)
        client.send(sessions.cancelled(str(request_id)), sessions.cancelled(999), sessions.note("notifications/cancelled"))
        client.send(sessions.note("notifications/cancelled", requestId={}))
        await client.settle()
        assert not stopped.is_set()
        client.cancel(request_id)
        await stopped.wait()
        await client.settle()
        count = len(client.lines)
        await client.settle()
        assert client.answers_to(request_id) == []
        assert len(client.lines) == count + 1
        assert client.notes(PROGRESS)[-1]["progress"] < 2_000_000
        client.cancel(request_id)  # finished long ago
        await client.settle()

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_a_cancelled_function_that_blocks_can_see_it(revision):
    """CA-03, CA-04."""
    server = Server("s")
    started, stopped = asyncio.Event(), asyncio.Event()

    @server.tool
    def block(ctx: Context) -> str:
        assert not ctx.cancelled
        ctx._loop.call_soon_threadsafe(started.set)
        assert ctx.cancelled.wait(NET)
        ctx.progress(1)
        ctx._loop.call_soon_threadsafe(stopped.set)
        return "cancelled"

    async def scenario(client: Client):
        request_id = client.start_tool("block", meta={"progressToken": "t"})
        await started.wait()
        client.cancel(request_id)
        await stopped.wait()
        await client.settle()
        await client.settle()
        assert client.answers_to(request_id) == []
        assert client.notes(PROGRESS) == []

    play(server, scenario, revision)


@pytest.mark.slow
@pytest.mark.parametrize("revision", ERAS)
def test_a_thousand_calls_cancelled_at_any_time_get_at_most_one_response(revision):
    """CA-07."""
    server = Server("s", settings=ServerSettings(max_running=50, max_threads=4))
    chance = random.Random(7)

    @server.tool
    async def wander(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    @server.tool
    def block(turns: int) -> int:
        return turns

    async def scenario(client: Client):
        open_calls: list[int] = []
        sent = []
        for _ in range(1000):
            sent.append(client.start_tool(chance.choice(["wander", "block"]), turns=chance.randrange(20)))
            open_calls.append(sent[-1])
            if chance.random() < 0.7:
                client.cancel(open_calls.pop(chance.randrange(len(open_calls))))
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        for request_id in open_calls:
            await client.line_of(request_id)
        await client.settle()
        counts = [len(client.answers_to(request_id)) for request_id in sent]
        assert set(counts) <= {0, 1}
        assert sum(counts) >= len(open_calls)
        (connection,) = server._connections
        assert connection._contexts == {}

    play(server, scenario, revision)


def test_a_call_that_is_cancelled_before_its_first_step_gives_its_place_back():
    """CA-03: a task that never began has no end of its own."""
    server = Server("s", settings=ServerSettings(max_running=1))
    begun = []

    @server.tool
    async def begin() -> str:
        begun.append(1)
        return "done"

    async def scenario(client: Client):
        await client.settle()
        (connection,) = server._connections
        for number in range(5):
            lines = [json.dumps(line).encode() + b"\n" for line in (modern_call(number), sessions.cancelled(f"early-{number}"))]
            for line in lines:  # two reads within one turn of the loop
                connection._handle(connection.session.receive(line, now=0.0))
        await client.settle()
        assert begun == []
        assert connection._contexts == {}
        assert await client.text("begin") == "done"

    def modern_call(number: int) -> Any:
        return sessions.modern(f"early-{number}", "tools/call", name="begin")

    play(server, scenario)


@pytest.mark.parametrize("revision", ERAS)
def test_a_handler_that_cancels_itself_is_answered(revision):
    """The client did not cancel, so it waits."""
    server = Server("s")

    @server.tool
    async def give_up() -> str:
        raise asyncio.CancelledError

    @server.tool
    def give_up_in_a_thread() -> str:
        raise asyncio.CancelledError

    async def scenario(client: Client):
        for tool in ("give_up", "give_up_in_a_thread"):
            line = await client.request("tools/call", name=tool)
            assert line["error"]["code"] == -32603

    play(server, scenario, revision)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["wait", "block"])
def test_calls_that_are_cancelled_while_they_wait_for_a_place_or_a_thread_are_forgotten(tool):
    """CA-03: nothing of a cancelled call stays, however many are sent and cancelled while everything is busy."""
    server = Server("s", settings=ServerSettings(max_running=4, max_threads=1))
    begun, release, released = asyncio.Event(), threading.Event(), asyncio.Event()

    def calls() -> list[Call]:
        gc.collect()
        return [each for each in gc.get_objects() if type(each) is Call and each.method == "tools/call"]

    @server.tool
    async def wait(text: str, ctx: Context) -> str:
        begun.set()
        await released.wait()
        return text

    @server.tool
    def block(text: str, ctx: Context) -> str:
        ctx._loop.call_soon_threadsafe(begun.set)
        release.wait(NET)
        return text

    async def scenario(client: Client):
        earlier = calls()  # of other tests in this process; the list keeps them, so that their number cannot fall
        places = 4 if tool == "wait" else 1  # a cancelled function that blocks gives its place back, and not its thread
        first = [client.start_tool(tool, text="first") for _ in range(places)]
        await begun.wait()
        await client.settle()
        for _ in range(100):
            request_id = client.start_tool(tool, text="x" * 1000)
            await client.settle()  # so that it waits when it is cancelled, and has not only been read
            client.cancel(request_id)
        await client.settle()
        await client.settle()
        assert len(calls()) - len(earlier) <= places
        released.set()
        release.set()
        for request_id in first:
            assert (await client.line_of(request_id))["result"]["content"][0]["text"] == "first"

    play(server, scenario)


def test_a_token_that_is_set_before_the_first_wait_does_not_wait():
    token = CancelToken()
    assert not token
    assert not token.wait(0)
    token.set()
    assert token
    assert token.wait(NET)
    late = CancelToken()
    late.set()
    assert late.wait(NET)
