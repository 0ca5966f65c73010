"""Progress of a call: who hears of it, how often, and until when (section PR of the rules)."""

import asyncio
import threading

import pytest

import sessions
from twopipes import Context, Server
from twopipes.server import context as context_module
from unit.server.inmemory import ALL, ERAS, NET, Client, connected, play, turn_until

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
def test_nobody_hears_of_progress_who_did_not_ask_for_it(revision):
    """PR-02."""

    async def scenario(client: Client):
        await client.call("steps", values=[1, 2])
        await client.call("steps_in_a_thread", values=[1, 2], meta={"progressToken": True})
        await client.settle()
        assert client.notes(PROGRESS) == []

    play(working(), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_nothing_is_told_after_the_answer(revision):
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
            await turn_until(lambda: connection.is_full)
            if tool == "chatter_in_a_thread":
                await finished.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            held = sum(map(len, connection.session._out)) + connection.channel.buffered
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
