"""Progress of a call: who hears of it, how often, and until when (section PR of the rules)."""

import asyncio
import json
import threading
from typing import Any

import pytest

import sessions
from inmemory import ALL, ERAS, LATEST_MODERN, NET, Client, connected, play, turn_until
from twopipes import Context, Server, ServerSettings
from twopipes._channels.memory import MemoryChannel, memory_pair
from twopipes._server import call_runner as runner_module
from twopipes._server import context as context_module
from twopipes.errors import InvalidParams

PROGRESS = "notifications/progress"


def working() -> Server:
    server = Server("s")

    @server.tool
    async def steps(values: list[float], ctx: Context) -> str:
        for value in values:
            await ctx.progress(value, 10, f"at {value}")
        return "done"

    @server.tool
    def steps_in_a_thread(values: list[float], ctx: Context) -> str:
        for value in values:
            ctx.progress(value, 10, f"at {value}")
        return "done"

    return server


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("tool", ["steps", "steps_in_a_thread"])
def test_progress_rises_and_ends_with_the_answer(tool, revision):
    """PR-02, PR-03, PR-04, PR-07, PR-08."""

    async def scenario(client: Client):
        first = client.start_tool(tool, values=[1, 2, 2, 1, 2.5, 9], meta={"progressToken": 7})
        second = client.start_tool(tool, values=[1], meta={"progressToken": "7"})
        await client.line_of(first)
        await client.line_of(second)
        await client.settle()
        notes = client.notes(PROGRESS)
        assert [note["progress"] for note in notes if note["progressToken"] == 7] == [1, 2, 2.5, 9]
        assert [note["progress"] for note in notes if note["progressToken"] == "7"] == [1]
        assert all(note["total"] == 10 and "_meta" not in note for note in notes)
        assert ("message" in notes[0]) is (revision != "2024-11-05")
        for token, request_id in ((7, first), ("7", second)):
            last = max(n for n, line in enumerate(client.lines) if line.get("params", {}).get("progressToken") == token)
            assert last < client.lines.index(client.answers_to(request_id)[0])

    play(working(), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_progress_is_sent_only_on_request(revision):
    """PR-02."""

    async def scenario(client: Client):
        await client.call("steps", values=[1, 2])
        await client.call("steps_in_a_thread", values=[1, 2], meta={"progressToken": True})
        await client.settle()
        assert client.notes(PROGRESS) == []

    play(working(), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_nothing_is_sent_after_the_response(revision):
    """PR-04, LG-06."""
    server = Server("s")
    kept: list[Context] = []
    go_on, told = threading.Event(), threading.Event()

    @server.tool
    async def keep(ctx: Context) -> str:
        kept.append(ctx)

        def late() -> None:
            go_on.wait()
            ctx.progress(3)
            told.set()

        threading.Thread(target=late, daemon=True).start()
        await ctx.progress(1)
        return "done"

    async def scenario(client: Client):
        await client.call("keep", meta={"progressToken": "t", sessions.LOG_LEVEL: "debug"})
        await kept[0].progress(2)
        if client.modern:
            await kept[0].log("error", "late")
        go_on.set()
        await asyncio.to_thread(told.wait)
        await client.settle()
        assert [note["progress"] for note in client.notes(PROGRESS)] == [1]
        assert client.notes("notifications/message") == []

    play(server, scenario, revision)


@pytest.mark.slow
@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("tool", ["chatter", "chatter_in_a_thread"])
def test_a_chatterbox_is_held_back_while_the_client_does_not_read(tool, revision, monkeypatch):
    """PR-02, LG-10: what is said waits in a bounded place, and the last word is kept."""
    monkeypatch.setattr(context_module, "BURST", 1_000_000)  # as fast as it can
    server = Server("s")
    said, count = [], 6_000
    finished = asyncio.Event()

    @server.tool
    async def chatter(ctx: Context) -> str:
        for number in range(count):
            said.append(number)
            await ctx.progress(number + 1, count, "x" * 200)
        return "done"

    @server.tool
    def chatter_in_a_thread(ctx: Context) -> str:
        for number in range(count):
            ctx.progress(number + 1, count, "x" * 200)
        ctx._loop.call_soon_threadsafe(finished.set)
        return "done"

    async def main():
        async with asyncio.timeout(NET), connected(server, revision, reads=False) as client:
            request_id = client.start_tool(tool, meta={"progressToken": 1})
            await turn_until(lambda: server._connections)
            (connection,) = server._connections
            await turn_until(lambda: connection.is_blocked)
            if tool == "chatter_in_a_thread":
                await finished.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            held = sum(len(message.line) for message in connection.session.outbox) + connection.channel.buffered
            assert held < 4_000_000
            assert len(said) < count
            client.listen()
            await client.line_of(request_id)
            values = [note["progress"] for note in client.notes(PROGRESS)]
            assert values == sorted(set(values))
            assert values[-1] == count

    asyncio.run(main())


@pytest.mark.parametrize("revision", ERAS)
def test_progress_that_is_faster_than_anybody_can_look_is_thinned_out_but_for_its_end(revision):
    """PR-02, PR-03."""
    server = Server("s")

    @server.tool
    async def hasty(ctx: Context) -> str:
        for number in range(1, 1_001):
            await ctx.progress(number, 1_000)
        return "done"

    async def main():
        async with asyncio.timeout(NET), connected(server, revision) as client:
            await client.line_of(client.start_tool("hasty", meta={"progressToken": 1}))
            values = [note["progress"] for note in client.notes(PROGRESS)]
            assert values[: context_module.BURST] == list(range(1, context_module.BURST + 1))
            assert values == sorted(set(values))
            assert len(values) < 1_000
            assert values[-1] == 1_000

    asyncio.run(main())


def test_a_report_that_had_to_wait_is_sent_when_its_time_has_come(monkeypatch):
    """PR-02: the newest of those that waited."""
    monkeypatch.setattr(context_module, "BURST", 1)
    server = Server("s")
    reported = asyncio.Event()

    @server.tool
    async def hasty(ctx: Context) -> str:
        for number in range(1, 4):
            await ctx.progress(number)
        await reported.wait()
        return "done"

    async def main():
        async with asyncio.timeout(NET), connected(server, "2026-07-28") as client:
            request_id = client.start_tool("hasty", meta={"progressToken": 1})
            await turn_until(lambda: len(client.notes(PROGRESS)) == 2)
            reported.set()
            await client.line_of(request_id)
            assert [note["progress"] for note in client.notes(PROGRESS)] == [1, 3]

    asyncio.run(main())


def watch(channel: MemoryChannel) -> list[list[Any]]:
    """What will have been written to a channel, write by write."""
    written: list[list[Any]] = []
    write = channel._sink.write

    def watched(data: bytes) -> None:
        written.append([json.loads(line) for line in data.splitlines()])
        write(data)

    channel._sink.write = watched  # type: ignore[method-assign]
    return written


def telling() -> Server:
    server = Server("s")

    @server.tool
    async def awaited(ctx: Context) -> str:
        await ctx.progress(1, 2)
        await ctx.progress(2, 2)
        return "done"

    @server.tool
    async def instant(ctx: Context) -> str:
        ctx.progress(1, 2)
        ctx.progress(2, 2)
        return "done"

    @server.tool
    def threaded(ctx: Context) -> str:
        ctx.progress(1, 2)
        ctx.progress(2, 2)
        return "done"

    @server.tool
    async def failing(ctx: Context) -> str:
        ctx.progress(2, 2)
        raise ValueError("no")

    @server.tool
    async def refusing(ctx: Context) -> str:
        ctx.progress(2, 2)
        raise InvalidParams("no")

    @server.tool
    async def cancelling(ctx: Context) -> str:
        ctx.progress(2, 2)
        raise asyncio.CancelledError

    @server.tool
    async def asking(ctx: Context) -> str:
        ctx.progress(2, 2)
        await ctx.list_roots()
        return "done"

    @server.tool
    async def quiet(ctx: Context) -> str:
        return "done"

    return server


async def writes_of(server: Server, revision: str, *tools: str, leave: bool = False) -> list[list[Any]]:
    """Calls tools, all at once, and returns what the server wrote."""
    async with asyncio.timeout(NET):
        ours, theirs = memory_pair()
        written = watch(theirs)
        serving = asyncio.create_task(server._serve_channel(theirs))
        client = Client(ours, revision, sessions.ABLE)
        client.listen()
        if not client.modern:
            client.send(sessions.initialize("opening", revision=revision, capabilities=sessions.ABLE))
            client.send(sessions.note("notifications/initialized"))
            await client.line_of("opening")
        calls = [client.start_tool(tool, meta={"progressToken": tool}) for tool in tools]
        if not leave:
            for request_id in calls:
                await client.line_of(request_id)
        await client.leave()
        await serving
        await client.close()
        return written


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("tool", ["awaited", "instant", "threaded", "failing", "refusing", "cancelling"])
def test_a_response_is_written_apart_from_the_last_progress_of_its_call(tool, revision):
    """PR-04: some clients handle a response before a notification that they read together with it."""
    written = asyncio.run(writes_of(telling(), revision, tool))
    (responded,) = [lines for lines in written if any(line.get("id") == 1 for line in lines)]
    told = [lines for lines in written if any(line.get("method") == PROGRESS for line in lines)]
    assert told[-1][-1]["params"]["progress"] == 2
    assert responded not in told


def test_questions_that_are_a_response_are_written_apart_from_progress():
    """PR-04, MR-01: on the stateless wire."""
    written = asyncio.run(writes_of(telling(), LATEST_MODERN, "asking"))
    (asked,) = [lines for lines in written if any(line.get("id") == 1 for line in lines)]
    assert asked[0]["result"]["resultType"] == "input_required"
    assert [line["method"] for lines in written for line in lines if "method" in line] == [PROGRESS]
    assert len(asked) == 1


def test_a_call_without_progress_does_not_wait_for_one_with_progress():
    """The response of an instant tool leaves in the very turn in which its request was read."""
    written = asyncio.run(writes_of(telling(), LATEST_MODERN, "instant", "quiet"))
    order = [line.get("id") for lines in written for line in lines if "id" in line]
    assert order == [2, 1]


@pytest.mark.parametrize("revision", ERAS)
def test_a_response_that_keeps_its_distance_is_sent_although_the_client_leaves(revision):
    """SD-07."""
    written = asyncio.run(writes_of(telling(), revision, "instant", "threaded", leave=True))
    assert {line["id"] for lines in written for line in lines if "id" in line} >= {1, 2}


def test_a_response_that_keeps_its_distance_is_sent_at_once_when_the_server_stops(monkeypatch):
    """SD-02: the handler is done, so its result is not lost."""
    monkeypatch.setattr(runner_module, "GAP", 1000)
    server = telling()
    server.settings = ServerSettings(drain=0)
    written = asyncio.run(writes_of(server, LATEST_MODERN, "instant", leave=True))
    assert written[-1][0]["result"]["content"][0]["text"] == "done"


def test_a_call_cancelled_in_the_gap_before_its_response_gets_no_response(monkeypatch):
    """CA-04."""
    monkeypatch.setattr(runner_module, "GAP", 1000)

    async def scenario(client: Client):
        request_id = client.start_tool("instant", meta={"progressToken": 1})
        await client.note(PROGRESS)
        client.cancel(request_id)
        await client.settle()
        assert client.answers_to(request_id) == []
        (connection,) = connections
        await turn_until(lambda: not connection._contexts)

    server = telling()
    connections = server._connections
    play(server, scenario)
