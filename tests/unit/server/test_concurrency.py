"""Many calls at once: progress, cancellation, limits, slow readers, ends (sections PR, CA and SD of the rules)."""

import asyncio
import gc
import json
import random
import threading
from typing import Any

import pytest

import sessions
from twopipes import Context, Server, ServerSettings
from twopipes.channels.memory import memory_pair
from twopipes.server import context as context_module
from unit.server.inmemory import ALL, ERAS, LATEST_LEGACY, LATEST_MODERN, NET, Client, connected, play, turn_until

PROGRESS = "notifications/progress"


# Progress


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


# Cancellation


@pytest.mark.parametrize("revision", ALL)
def test_a_cancelled_coroutine_stops_and_says_nothing_more(revision):
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


@pytest.mark.parametrize("revision", ERAS)
def test_a_thousand_calls_cancelled_at_any_time_get_one_answer_or_none(revision):
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
        await asyncio.sleep(0)  # one that waits for nothing needs no task
        return "done"

    async def scenario(client: Client):
        await client.settle()
        (connection,) = server._connections
        connection._new_task = connection.loop.create_task  # in the next turn of the loop, whatever the version of Python
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


# Limits


@pytest.mark.parametrize("revision", ERAS)
def test_a_function_that_blocks_delays_nobody(revision):
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


def test_so_many_handlers_work_at_once_and_no_more():
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


# Slow and broken readers


def responses(size: int) -> Server:
    server = Server("s", settings=ServerSettings(max_running=20))

    @server.tool
    async def big(letter: str) -> str:
        await asyncio.sleep(0)
        return letter * size

    return server


@pytest.mark.parametrize("revision", ERAS)
def test_large_answers_at_once_do_not_mix(revision):
    """FR-01, FR-13."""

    async def scenario(client: Client):
        calls = {client.start_tool("big", letter=chr(97 + number % 26)): chr(97 + number % 26) for number in range(100)}
        for request_id, letter in calls.items():
            line = await client.line_of(request_id)
            assert line["result"]["content"][0]["text"] == letter * 200 * 1024

    play(responses(200 * 1024), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_a_client_that_floods_and_never_reads_is_not_read_either(revision):
    """What is held is bounded by the running handlers, and once it reads, nothing is lost."""
    server = responses(4 * 1024)

    async def main():
        async with asyncio.timeout(NET), connected(server, revision, reads=False) as client:
            calls = [client.start_tool("big", letter="x") for _ in range(6000)]
            await asyncio.sleep(0)
            (connection,) = server._connections
            await turn_until(lambda: connection.is_full)
            for _ in range(200):
                await asyncio.sleep(0)
            held = sum(map(len, connection.session._out)) + connection.channel.buffered
            assert held < 3_000_000
            assert len(connection._contexts) + len(connection._queue) < 4000
            assert client.channel.buffered > 0
            client.listen()
            for request_id in calls:
                await client.line_of(request_id)

    asyncio.run(main())


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


def test_a_client_that_stops_reading_for_good_can_still_leave():
    """SD-02: what it left unread is dropped when the time is up."""
    server = Server("s", settings=ServerSettings(drain=0.05, max_running=20))

    @server.tool
    async def big() -> str:
        return "x" * 2_000_000

    async def main():
        ours, theirs = memory_pair()
        client = Client(ours, LATEST_MODERN, {})
        serving = asyncio.create_task(server.serve_channel(theirs))
        for _ in range(30):
            client.start_tool("big")
        await turn_until(lambda: server._connections)
        (connection,) = server._connections
        await turn_until(lambda: connection.is_full)
        await client.channel.close()
        await serving

    asyncio.run(main())


@pytest.mark.parametrize("revision", ERAS)
def test_an_answer_that_nobody_can_read_any_more_ends_the_connection(revision, capsys):
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
            await turn_until(lambda: connection.is_full)
            client.listen()
            for request_id in calls:
                await client.line_of(request_id)

    asyncio.run(main())


# Ends


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


def test_equal_requests_in_one_read_are_answered_each():
    """FR-14: many requests in one write, blank lines and carriage returns between them (FR-15)."""
    server = working()

    async def main():
        async with connected(server) as client:
            data = b"\r\n\n".join(json.dumps(sessions.modern(number, "tools/list")).encode() for number in range(100, 200))
            client.channel.write(data + b"\n")
            for number in range(100, 200):
                await client.line_of(number)

    asyncio.run(main())
