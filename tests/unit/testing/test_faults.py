"""A wire on which things go wrong: over memory here; over pipes in tests/processes/test_testing_child.py."""

import asyncio

import pytest

from fake_server import FakeServer, scene, text
from inmemory import turn_until
from twopipes import McpError, RequestTimedOut, RestartPolicy, Timeouts
from twopipes._channels.memory import memory_pair
from twopipes.errors import ChannelBroken, ChannelClosed, ConnectionLost, LocalProtocolError, RemoteProtocolError
from twopipes.testing import ExpectationFailed, delay, drop, duplicate, garble, kill, pair, truncate
from twopipes.testing.faults import FaultPlan, WireReader
from twopipes.testing.faulty_channel import FaultyChannel
from twopipes.testing.wire_log import WireLog
from unit.testing.sums import sums

CALL = {"a": 1, "b": 2}
SHORT = Timeouts(request=0.1)


# Which line is hit


def struck(lines, *faults):
    """Which of some lines are hit, by their numbers from 0, over one connection."""
    plan, reader = FaultPlan(faults), WireReader()
    return [number for number, (way, line) in enumerate(lines) if plan.strike(reader.read(way, line), connection=0)]


CONVERSATION = [
    (">", b'{"id":1,"method":"tools/call","params":{"name":"a"}}'),
    (">", b'{"id":"1","method":"tools/list"}'),
    ("<", b'{"id":"1","result":{}}'),
    ("<", b'{"id":1,"result":{}}'),
    ("<", b'{"id":1,"method":"roots/list"}'),
    (">", b'{"id":1,"result":{}}'),
    ("<", b"noise"),
    ("<", b"[1]"),
    (">", b'{"id":2,"method":"tools/call","params":{"name":"b"}}'),
    ("<", b'{"id":2,"result":{}}'),
    ("<", b'{"method":"notifications/progress"}'),
]


@pytest.mark.parametrize(
    ("fault", "hit"),
    [
        (drop(">"), [0]),
        (drop("<"), [2]),
        (drop(">", nth=3), [5]),
        (drop("<", nth=3, times=2), [4, 6]),
        (drop(">", times=None), [0, 1, 5, 8]),
        (drop(">", method="tools/call", times=None), [0, 8]),
        (drop("<", method="tools/call", times=None), [3, 9]),
        (drop("<", method="tools/list"), [2]),
        (drop(">", method="roots/list"), [5]),
        (drop("<", method="tools/call", nth=2), [9]),
        (drop("<", method="notifications/progress"), [10]),
        (drop(">", when=lambda message: message.get("params", {}).get("name") == "b"), [8]),
        (drop("<", when=lambda message: message == [1]), [7]),
        (drop("<", when=lambda _: True, times=None), [2, 3, 4, 7, 9, 10]),
        (drop("<", method="resources/read"), []),
    ],
    ids=lambda value: None if isinstance(value, list) else f"{value} {value.nth} {value.times}",
)
def test_a_fault_hits_what_it_is_meant_for(fault, hit):
    assert struck(CONVERSATION, fault) == hit


@pytest.mark.parametrize(
    ("fault", "crossing"),
    [
        (drop(">"), []),
        (delay(">", 1), [b"12345678\n"]),
        (garble(">"), [b"1234\xff678\n"]),
        (garble(">", b"else"), [b"else\n"]),
        (garble(">", bytes.swapcase), [b"12345678\n"]),
        (truncate(">"), [b"1234\n"]),
        (truncate(">", 2), [b"12\n"]),
        (truncate(">", 0), [b"\n"]),
        (truncate(">", newline=False), [b"1234"]),
        (duplicate(">"), [b"12345678\n"] * 2),
        (duplicate(">", 3), [b"12345678\n"] * 3),
        (kill(">"), []),
    ],
)
def test_each_fault_changes_a_line(fault, crossing):
    assert fault.altered(b"12345678\n") == crossing


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: drop("client"), "'>' to the server or '<' to the client, got 'client'"),
        (lambda: drop(">", nth=0), "nth and times must be 1 or more"),
        (lambda: drop(">", times=0), "nth and times must be 1 or more"),
        (lambda: delay(">", -1), "negative"),
        (lambda: truncate(">", -1), "negative"),
        (lambda: pair(sums(), faults=["drop"]), "a fault must be made by drop"),
    ],
)
def test_an_invalid_fault_is_refused(make, words):
    with pytest.raises(LocalProtocolError, match=words):
        make()


# What the two sides see


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (drop(">", method="tools/call"), RequestTimedOut),
        (drop("<", method="tools/call"), RequestTimedOut),
        # If the id can still be read, the caller does not have to wait.
        (garble(">", method="tools/call"), McpError),
        (garble("<", method="tools/call"), RemoteProtocolError),
        (garble("<", b"?", method="tools/call"), RequestTimedOut),
        (truncate(">", method="tools/call"), McpError),
        (truncate("<", method="tools/call"), RemoteProtocolError),
        (truncate("<", 5, method="tools/call"), RequestTimedOut),
    ],
    ids=str,
)
@scene
async def test_a_call_that_is_lost_ends_and_the_next_one_works(fault, error, era):
    async with pair(sums(), era=era, faults=[fault]) as talk:
        with pytest.raises(error):
            await talk.client.call_tool("add", CALL, timeouts=SHORT if error is RequestTimedOut else None)
        assert (await talk.client.call_tool("add", CALL)).structured == {"result": 3}
        talk.expect_faults_struck()
    assert f"\n= {fault}\n" in talk.transcript()
    assert talk.struck[0].fault is fault


@scene
async def test_an_answer_that_comes_twice_is_taken_once():
    async with pair(sums(), faults=[duplicate("<", method="tools/call")]) as talk:
        assert (await talk.client.call_tool("add", CALL)).structured == {"result": 3}
        assert (await talk.client.call_tool("add", CALL)).structured == {"result": 3}
    assert len(talk.calls[1].further_answers) == 1


@scene
async def test_a_request_that_comes_twice_is_answered_once():
    fake = FakeServer({"tools/call": text("hello")})
    async with pair(fake, faults=[duplicate(">", 3, method="tools/call")]) as talk:
        await talk.client.call_tool("x")
    assert fake.methods.count("tools/call") == 3
    assert sum(line.kind == ">" for line in talk.lines) == 2  # the client said it once


@scene
async def test_a_delayed_answer_arrives_and_others_overtake_it():
    async with pair(sums(), faults=[delay("<", 0.05, method="tools/call")]) as talk:
        late = asyncio.create_task(talk.client.call_tool("add", {"a": 1, "b": 1}))
        early = asyncio.create_task(talk.client.call_tool("add", {"a": 2, "b": 2}))
        await asyncio.wait([late, early], return_when=asyncio.FIRST_COMPLETED)
        assert early.done()
        assert (await late).structured == {"result": 2}


@pytest.mark.parametrize("way", [">", "<"])
@scene
async def test_a_server_that_is_killed_is_opened_again_and_the_count_goes_on(way):
    """SD-04, SD-05: the fault hits once, and the call that is sent again gets through."""
    async with pair(sums(), faults=[kill(way, method="tools/call")], restart=RestartPolicy(first_delay=0)) as talk:
        await talk.client.list_tools()
        assert (await talk.client.call_tool("add", CALL)).structured == {"result": 3}
        assert talk.client.restarts == 1
    assert [strike.connection for strike in talk.struck] == [0]
    assert {line.connection for line in talk.lines} == {0, 1}
    assert f"= kill {way} tools/call\n" in talk.transcript()


@scene
async def test_a_legacy_session_that_is_killed_is_lost():
    async with pair(sums(), era="legacy", faults=[kill(">", method="tools/call")]) as talk:
        with pytest.raises(ConnectionLost):
            await talk.client.call_tool("add", CALL)
    with pytest.raises(ExpectationFailed, match="had already exited"):
        talk.expect_ended_by_eof()


def test_faults_may_come_later_and_without_await():
    with pair(sums()) as talk:
        talk.client.call_tool("add", CALL)
        talk.inject(drop("<"))
        with pytest.raises(RequestTimedOut):
            talk.client.call_tool("add", CALL, timeouts=SHORT)
        talk.client.call_tool("add", CALL)
    assert [strike.fault.what for strike in talk.struck] == ["drop"]


def test_a_fault_that_affects_no_line_is_reported():
    with pair(sums(), faults=[drop("<", method="resources/read"), delay("<", 0)]) as talk:
        pass
    with pytest.raises(ExpectationFailed, match="these faults affected no line: drop < resources/read"):
        talk.expect_faults_struck()


def test_a_fault_keeps_no_count_of_its_own():
    fault = drop("<", method="tools/call")
    for _ in range(2):
        with pair(sums(), faults=[fault]) as talk:
            with pytest.raises(RequestTimedOut):
                talk.client.call_tool("add", CALL, timeouts=SHORT)
            talk.client.call_tool("add", CALL)


@scene
async def test_several_faults_act_on_one_line_in_their_order():
    async with pair(sums(), faults=[garble(">", b"what?", method="tools/call"), duplicate(">", method="tools/call")]) as talk:
        call = asyncio.create_task(talk.client.call_tool("add", CALL))
        # The server answers each.
        await turn_until(lambda: sum(message.shape == "error" for message in talk.messages) == 2)
        call.cancel()
        await asyncio.wait([call])


def test_a_function_that_misses_a_key_means_no():
    with pair(sums(), faults=[drop("<", when=lambda message: message["result"]["structuredContent"]["result"] == 4)]) as talk:
        talk.client.call_tool("add", CALL)
        with pytest.raises(RequestTimedOut):
            talk.client.call_tool("add", {"a": 2, "b": 2}, timeouts=SHORT)
    assert len(talk.struck) == 1


def broken(_):
    raise ZeroDivisionError("in the test")


@pytest.mark.parametrize("fault", [drop("<", when=broken), garble("<", broken)], ids=["when", "into"])
def test_an_error_of_a_test_function_is_raised_in_the_test(fault):
    with pytest.raises(ZeroDivisionError, match="in the test"), pair(sums(), faults=[fault]) as talk:
        assert talk.client.call_tool("add", CALL).structured == {"result": 3}
    with pytest.raises(KeyError) as caught, pair(sums(), faults=[fault]):
        raise KeyError("of the test")
    assert caught.value.__notes__ == ["a function of a fault failed: ZeroDivisionError('in the test')"]


# The channel itself


def faulty(*faults):
    here, there = memory_pair()
    killed = []
    log = WireLog()
    return FaultyChannel(here, FaultPlan(faults), log, connection=0, kill=lambda: killed.append(1)), there, killed


@scene
async def test_lines_cross_whole_however_they_are_cut():
    channel, there, _ = faulty()
    async with channel, there:
        for piece in (b"on", b"e\ntw", b"o\n", b"thr", b"ee"):
            channel.write(piece)
        assert await there.read() == b"one\ntwo\n"
        await channel.close_write()
        assert await there.read() == b"three"
        assert await there.read() == b""
        for piece in (b"fo", b"ur\nfive"):
            there.write(piece)
        assert await channel.read() == b"four\n"
        await there.close_write()
        assert await channel.read() == b"five"
        assert await channel.read() == b""
        assert await channel.read() == b""


@scene
async def test_a_cancelled_read_loses_nothing():
    channel, there, _ = faulty()
    async with channel, there:
        reading = asyncio.create_task(channel.read())
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        there.write(b"one\n")
        await asyncio.sleep(0)
        assert await channel.read() == b"one\n"


@scene
async def test_close_wakes_the_reader_and_nothing_works_after_it():
    channel, there, _ = faulty()
    reading = asyncio.create_task(channel.read())
    await asyncio.sleep(0)
    with pytest.raises(LocalProtocolError, match="one reader at a time"):
        await channel.read()
    await channel.close()
    with pytest.raises(ChannelClosed):
        await reading
    with pytest.raises(ChannelClosed):
        await channel.read()
    with pytest.raises(ChannelClosed):
        channel.write(b"x\n")
    await channel.close()
    await there.close()


@scene
async def test_what_is_held_goes_before_the_end():
    channel, there, _ = faulty(delay(">", 3600), delay("<", 3600))
    async with channel, there:
        channel.write(b"one\ntwo\n")
        assert await there.read() == b"two\n"
        await channel.close_write()
        assert await there.read() == b"one\n"
        there.write(b"three\nfour\n")
        assert await channel.read() == b"four\n"
        await there.close_write()
        assert await channel.read() == b"three\n"
        assert await channel.read() == b""


@scene
async def test_what_is_held_when_the_channel_is_closed_is_forgotten():
    channel, there, _ = faulty(delay(">", 3600), delay("<", 3600))
    channel.write(b"one\n")
    there.write(b"two\nthree\n")
    assert await channel.read() == b"three\n"
    await channel.close()
    assert await there.read() == b""
    await there.close()


@scene
async def test_a_delayed_line_wakes_the_reader():
    channel, there, _ = faulty(delay("<", 0.001))
    async with channel, there:
        there.write(b"one\n")
        assert await channel.read() == b"one\n"


@scene
async def test_a_killed_server_neither_reads_nor_writes():
    channel, there, killed = faulty(kill("<", nth=2))
    async with channel, there:
        there.write(b"one\ntwo\nthree\n")
        assert await channel.read() == b"one\n"
        assert await channel.read() == b""
        assert killed == [1]
        with pytest.raises(ChannelBroken, match="a fault has killed the server"):
            channel.write(b"four\n")
        await channel.close_write()
        assert await there.read() == b""


@scene
async def test_a_kill_wakes_the_reader():
    channel, there, killed = faulty(kill(">"))
    async with channel, there:
        reading = asyncio.create_task(channel.read())
        await asyncio.sleep(0)
        channel.write(b"one\ntwo\n")
        assert await reading == b""
        assert killed == [1]


@scene
async def test_a_broken_wire_stays_broken():
    channel, there, _ = faulty()
    await there.abort()
    for _ in range(2):
        with pytest.raises(ChannelBroken):
            await channel.read()
    assert channel.description == "memory, first end"
    assert channel.buffered == 0
    await channel.close()
