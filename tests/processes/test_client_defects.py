"""Defects of other clients, by their numbers in our list of defects: each is a test that passes here."""

import asyncio
import threading

import pytest

from processes import misbehaving as they
from processes.children import KILLED
from processes.client_stage import AT_ONCE, IMPATIENT, NET, SOON, staged
from systems import on_posix
from twopipes._client.era_cache import EraCache
from twopipes._session.subscriptions import Change
from twopipes.errors import RemoteProtocolError, ServerExited, TwopipesError
from twopipes.settings import Timeouts
from twopipes.types import ClientOptions

MIB = 1024 * 1024


# 1: one byte that is not UTF-8 hangs the client for ever


@staged
async def test_a_line_that_is_not_utf_8_is_reported_and_the_next_one_is_read(stage):
    async with stage.connect(they.INVALID_UTF8) as client:
        assert (await client.call_tool("beside")).text == "life 1"
        assert client.stray_count == 1
        assert "UTF-8" in client.stray[0].what


@staged
async def test_a_response_that_is_not_utf_8_fails_only_its_own_call(stage):
    async with stage.connect(they.INVALID_UTF8) as client:
        with pytest.raises(RemoteProtocolError, match="UTF-8"):
            await client.call_tool("inside")
        assert (await client.call_tool("life")).text == "life 1"


# 4: a long line costs the square of its length


@pytest.mark.parametrize("size", [4 * MIB, 16 * MIB])
@staged
async def test_a_long_answer_arrives_whole(stage, size):
    async with stage.connect(they.HUGE_LINE) as client:
        text = (await client.call_tool("huge", {"size": size})).text
        assert len(text) == size
        assert text.count("x") == size


@staged
async def test_a_long_question_arrives_whole(stage):
    async with stage.connect(they.POLITE) as client:
        text = "é€😀" * (MIB // 4)
        assert (await client.call_tool("echo", {"text": text})).text == text


# 6: unread stderr blocks the server


@staged
async def test_a_flood_on_stderr_does_not_block_the_server(stage):
    """FR-07, FR-08: and it is not treated as an error."""
    async with stage.connect(they.FLOODS_STDERR) as client:
        for _ in range(2):
            assert (await client.call_tool("flood")).text == "life 1"
        assert client.stderr[-1] == "63: all is well"
        assert len(client.stderr) < 10_000  # of half a million


@staged
async def test_every_line_on_stderr_reaches_on_stderr(stage):
    lines = []
    async with stage.connect(they.CRASHES_MID_CALL, on_stderr=lambda line: lines.append(line.text)) as client:
        with pytest.raises(ServerExited):
            await client.call_tool("look")
    assert lines == ["the disk is on fire"]


@staged
async def test_a_flood_on_stderr_does_not_pile_up_in_front_of_a_slow_callback(stage):
    called, go_on = 0, asyncio.Event()

    async def slow(_):
        nonlocal called
        called += 1
        await go_on.wait()

    async with stage.connect(they.FLOODS_STDERR, on_stderr=slow) as client:
        await client.call_tool("flood")
        await stage.until(lambda: client.stderr[-1:] == ["63: all is well"])
        assert called < 10_000  # of a quarter of a million
        assert called + client.dropped["on_stderr"] <= 64 * 4000
        assert client.dropped["on_stderr"] > 200_000
        go_on.set()


# 12: the error does not say why the child exited


@pytest.mark.parametrize(
    ("program", "tool", "reported"),
    [
        (they.EXITS_AT_ONCE, None, ["exit code 3", "starting", "nothing works here"]),
        (they.CRASHES_MID_CALL, "look", ["exit code 7", "serving", "tools/call", "the disk is on fire"]),
        (they.KILLED_BY_SIGNAL, "look", ["SIGSEGV", "serving", "tools/call"]),
        (they.CLOSES_STDOUT, "look", ["closed its output", "serving", "tools/call"]),
        (they.DIES_IN_A_LINE, "half", ["exit code 4", "serving", "tools/call"]),
        (they.NOISY.replace("answer(message)", "sys.exit('no disk')"), "noisy", ["exit code 1", "no disk", "working..."]),
    ],
    ids=["exits", "crashes", "is killed", "closes its output", "dies in a line", "is noisy"],
)
@staged
async def test_the_error_says_how_the_server_ended_and_what_it_wrote(stage, program, tool, reported):
    with pytest.raises(ServerExited) as caught:
        async with stage.connect(program) as client:
            await client.call_tool(tool)
    for part in (*reported, "server.py"):
        assert part in str(caught.value)
    assert "-32000" not in str(caught.value)


# 13: after a crash the child is not restarted, and calls and subscriptions are lost


@staged
async def test_a_crash_is_recovered_without_the_caller_noticing(stage):
    async with stage.connect(they.CRASHES_ONCE, restart=AT_ONCE) as client, client.subscribe(tools=True) as changes:
        await changes.ready()
        await client.list_tools()
        assert (await client.call_tool("look")).text == "life 2"
        assert await anext(changes) == Change("tools")
        assert client.restarts == 1
        assert [methods.count("subscriptions/listen") for methods in map(stage.methods, (1, 2))] == [1, 1]


# 14: a silent legacy server costs the whole probe timeout, every time


@staged
async def test_a_silent_server_is_waited_for_once(stage):
    """DE-04, DE-07: the second client starts with the handshake and does not wait for the probe."""
    async with stage.connect(they.SILENT_LEGACY, timeouts=Timeouts(probe=SOON, connect=NET)) as client:
        assert client.era == "legacy"
        assert (await client.call_tool("life")).text == "life 1"
    async with stage.connect(they.SILENT_LEGACY) as client:  # with a probe timeout that never ends
        assert (await client.call_tool("life")).text == "life 2"
    opening = ["initialize", "notifications/initialized", "tools/call"]
    assert [stage.methods(1), stage.methods(2)] == [["server/discover", *opening], opening]


@staged
async def test_a_client_with_a_chosen_era_does_not_probe(stage):
    async with stage.connect(they.SILENT_LEGACY, era="legacy") as client:
        assert client.revision == "2025-11-25"
    assert stage.methods() == ["initialize", "notifications/initialized"]


@staged
async def test_a_wrong_record_is_not_kept(stage):
    """DE-07: the server was replaced by one without a handshake."""
    async with stage.connect(they.LEGACY) as client:
        assert client.era == "legacy"
    async with stage.connect(they.POLITE) as client:
        assert client.era == "modern"
    async with stage.connect(they.POLITE) as client:
        assert client.era == "modern"
    assert [stage.methods(life + 1)[0] for life in range(4)] == [
        "server/discover",
        "initialize",
        "server/discover",
        "server/discover",
    ]
    assert len(stage.lives) == 4


# Frequent complaints of users: tasks, threads, exception groups, leftovers


@staged
async def test_a_client_may_be_opened_and_closed_in_different_tasks(stage):
    async def opened():
        return await stage.connect(they.POLITE)

    client = await asyncio.create_task(opened())
    assert (await asyncio.create_task(client.call_tool("life"))).text == "life 1"
    await asyncio.create_task(client.close())
    assert client.closed.ended_by == "eof"


@staged
async def test_a_client_may_be_used_and_closed_in_another_thread(stage):
    client = await stage.connect(they.POLITE)

    async def elsewhere():
        assert [tool.name for tool in await client.list_tools()] == ["echo", "life"]
        assert (await client.call_tool("life")).text == "life 1"
        await client.close()

    await asyncio.to_thread(asyncio.run, elsewhere())
    assert client.closed.ended_by == "eof"


@staged
async def test_a_client_may_live_in_a_thread_that_is_not_the_main_one(stage):
    async def elsewhere():
        async with stage.connect(they.CRASHES_ONCE, restart=AT_ONCE) as client:
            await client.list_tools()
            assert (await client.call_tool("look")).text == "life 2"

    await asyncio.to_thread(asyncio.run, elsewhere())


@staged
async def test_a_call_in_another_thread_is_cancelled_like_any_other(stage):
    async with stage.connect(they.ANSWERS_LATE) as client:

        async def elsewhere():
            call = asyncio.ensure_future(client.call_tool("late"))
            await stage.until(lambda: "tools/call" in stage.methods())
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

        await asyncio.to_thread(asyncio.run, elsewhere())
        assert (await client.call_tool("life")).text == "in time"
        assert "notifications/cancelled" in stage.methods()


@staged
async def test_closing_twice_at_once_closes_once(stage):
    client = await stage.connect(they.POLITE)
    await asyncio.gather(*(client.close() for _ in range(5)))
    await client.close()
    assert client.closed.ended_by == "eof"
    assert len(stage.lives) == 1


@staged
async def test_an_error_in_the_block_is_raised_unchanged(stage):
    """Neither an exception group nor a cancelled scope replaces it."""
    with pytest.raises(ZeroDivisionError):
        async with stage.connect(they.POLITE):
            raise ZeroDivisionError
    with pytest.raises(ServerExited):
        async with stage.connect(they.CRASHES_MID_CALL) as client, asyncio.timeout(NET):
            await client.call_tool("look")


@staged
async def test_a_cancelled_call_is_cancelled_by_its_id_and_the_client_continues(stage):
    """CA-01."""
    async with stage.connect(they.ANSWERS_LATE) as client:
        call = asyncio.ensure_future(client.call_tool("late"))
        await stage.until(lambda: "tools/call" in stage.methods())
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.call_tool("life")).text == "in time"
        sent = next(message for message in stage.received if message["method"] == "tools/call")
        taken_back = next(message for message in stage.received if message["method"] == "notifications/cancelled")
        assert taken_back["params"]["requestId"] == sent["id"]
        assert type(taken_back["params"]["requestId"]) is type(sent["id"])


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13])
@staged
async def test_a_cancelled_opening_leaves_no_process(stage, turns):
    """After any number of iterations of the loop."""
    opening = asyncio.ensure_future(_opened(stage.connect(they.SILENT)))
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert stage.left() == []


@staged
async def test_an_opening_cancelled_while_the_server_is_silent_leaves_no_process(stage):
    opening = asyncio.ensure_future(_opened(stage.connect(they.SILENT)))
    await stage.until(lambda: stage.received)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert stage.left() == []


class SlowMemory(EraCache):
    """An era cache on a slow disk."""

    def __init__(self, path):
        super().__init__(path)
        self.called, self.done = threading.Event(), threading.Event()

    def remember(self, identity, record):
        self.called.set()
        self.done.wait(NET)


@staged
async def test_an_opening_cancelled_while_the_record_is_written_leaves_no_process(stage):
    memory = SlowMemory(stage.folder / "verdicts.json")
    opening = asyncio.ensure_future(_opened(stage.connect(they.POLITE, options=ClientOptions(era_cache=memory))))
    await asyncio.to_thread(memory.called.wait, NET)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    memory.done.set()
    assert stage.left() == []


@staged
async def test_a_timeout_around_the_opening_leaves_no_process(stage):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SOON):
            await stage.connect(they.STUBBORN.replace("serve()", ""), shutdown=IMPATIENT)
    assert stage.left() == []


@staged
async def test_a_cancelled_close_continues(stage):
    client = await stage.connect(they.STUBBORN, shutdown=IMPATIENT)
    closing = asyncio.ensure_future(client.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await client.close()
    assert client.closed.exit == KILLED


@staged
async def test_open_calls_end_when_the_client_is_closed(stage):
    client = await stage.connect(they.NEVER_ANSWERS)
    calls = [asyncio.ensure_future(client.call_tool("never")) for _ in range(3)]
    await stage.until(lambda: "tools/call" in stage.methods())
    await client.close()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome).__name__ for outcome in outcomes} == {"ClientClosed"}
    with pytest.raises(TwopipesError, match="closed"):
        await client.list_tools()


@pytest.mark.parametrize(
    "program",
    [they.POLITE, they.IGNORES_EOF, they.STUBBORN, pytest.param(they.FORKS_A_GRANDCHILD, marks=on_posix("there is no fork"))],
    ids=["polite", "ignores eof", "stubborn", "grandchild"],
)
def test_a_loop_that_ends_without_a_close_leaves_no_process(stage, program):
    async def forgetful():
        client = await stage.connect(program, shutdown=IMPATIENT)
        await client.list_tools()

    asyncio.run(forgetful())
    assert stage.left() == []


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13])
def test_a_loop_that_ends_during_a_close_leaves_no_process(stage, turns):
    async def hasty():
        client = await stage.connect(they.STUBBORN, shutdown=IMPATIENT)
        closing = asyncio.ensure_future(client.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not closing.done()

    asyncio.run(hasty())
    assert stage.left() == []


def test_a_loop_that_ends_finishes_a_close_in_progress(stage):
    """Its plan waits for a minute."""
    program = they.STUBBORN.replace("while True", "note(started=0)\n    while True")

    async def hasty():
        client = await stage.connect(program)
        closing = asyncio.ensure_future(client.close())
        await stage.until(lambda: 0 in stage.pids)  # it has seen the end of its input and ignores it
        assert not closing.done()

    asyncio.run(hasty())
    assert stage.left() == []


def test_a_loop_that_ends_during_an_opening_leaves_no_process(stage):
    async def hasty():
        opening = asyncio.ensure_future(_opened(stage.connect(they.SILENT)))
        await stage.until(lambda: stage.received)
        assert not opening.done()

    asyncio.run(hasty())
    assert stage.left() == []


def test_a_client_of_a_closed_loop_raises_client_closed(stage):
    async def forgetful():
        return await stage.connect(they.POLITE)

    client = asyncio.run(forgetful())

    async def later():
        with pytest.raises(TwopipesError, match="closed"):
            await client.list_tools()
        await client.close()

    asyncio.run(later())


async def _opened(connecting):
    return await connecting
