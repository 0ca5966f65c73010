"""The life of a call: progress, logs, cancellation, time (sections PI, CA, TO, PR and LG of the rules)."""

import asyncio

import pytest

from fake_server import PREFIX, SILENCE, FakeServer, acknowledge, legacy, scene, text
from twopipes import RequestTimedOut, Timeouts, connect
from twopipes._protocol.revisions import ALL, LATEST_LEGACY, LATEST_MODERN
from twopipes.errors import LocalProtocolError

ERAS = [LATEST_LEGACY, LATEST_MODERN]
SHORT = Timeouts(request=0.05)


async def cancel(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# Cancellation


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_a_cancelled_call_is_cancelled_on_the_wire(revision):
    """CA-01, CA-08, CA-12: by the notification, with the id as it was sent."""
    fake = FakeServer({"tools/call": SILENCE}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        call = asyncio.ensure_future(client.call_tool("slow"))
        await fake.until("tools/call")
        await cancel(call)
        await fake.until("notifications/cancelled")
    assert fake.cancelled == fake.ids_of("tools/call")
    assert [type(each) for each in fake.cancelled] == [type(each) for each in fake.ids_of("tools/call")]


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_nothing_that_is_over_is_cancelled(revision):
    """CA-02: neither a request that was answered nor one that was never sent."""
    fake = FakeServer(speaks=revision)
    async with connect(fake, revision=revision) as client:
        call = asyncio.ensure_future(client.call_tool("x"))
        await call
        call.cancel()
        never = asyncio.ensure_future(client.call_tool("x"))
        never.cancel()
        with pytest.raises(asyncio.CancelledError):
            await never
        await client.ping()
    assert fake.cancelled == []


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_an_answer_that_comes_after_the_cancel_is_ignored(revision):
    """CA-06, CA-07, JR-19."""
    asked = []
    fake = FakeServer({"tools/call": [lambda question: asked.append(question) or SILENCE, text("second")]}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        call = asyncio.ensure_future(client.call_tool("x"))
        await fake.until("tools/call")
        await cancel(call)
        asked[0].progress(1)
        asked[0].answer(text("late"))
        assert (await client.call_tool("x")).text == "second"
        assert client.stray_count == 0


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_cancelling_at_any_moment_is_harmless(revision):
    """CA-07: each call ends once, with its own result or as cancelled, and only what was sent is ever cancelled (CA-08)."""

    async def later(asked):
        for _ in range(asked.params["arguments"]["number"] % 5):
            await asyncio.sleep(0)
        return text(str(asked.params["arguments"]["number"]))

    fake = FakeServer({"tools/call": later}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        calls = [asyncio.ensure_future(client.call_tool("x", {"number": number})) for number in range(200)]
        for number, call in enumerate(calls):
            if number % 3 == 0:
                await asyncio.sleep(0)
            if number % 2:
                call.cancel()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        await client.ping()
    for number, end in enumerate(ends):
        assert isinstance(end, asyncio.CancelledError) or end.text == str(number)
    assert set(fake.cancelled) <= set(fake.ids_of("tools/call"))
    assert len(set(fake.cancelled)) == len(fake.cancelled)


@scene
async def test_a_server_of_the_stateless_wire_cannot_cancel_a_call():
    """CA-10: it may only end a listen; the client keeps waiting."""

    def answer(asked):
        asked.notify("notifications/cancelled", {"requestId": asked.id, "reason": "tired"})
        return text("after all")

    async with connect(FakeServer({"tools/call": answer})) as client:
        assert (await client.call_tool("x")).text == "after all"


@scene
async def test_a_legacy_server_takes_its_own_question_back():
    """CA-02, CA-03, CA-05, CA-13: the callback is stopped, no response is sent, and the id is compared with its type."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def think(_question):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    fake = legacy()
    async with connect(fake, on_elicit=think) as client:
        form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        fake.write({"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": form})
        await begun.wait()
        fake.notify("notifications/cancelled", {"requestId": "5"})
        await client.ping()
        assert not stopped.is_set()
        fake.notify("notifications/cancelled", {"requestId": 5})
        await stopped.wait()
        await client.ping()
    assert not [line for line in fake.lines if "method" not in line]


# Time


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_a_call_without_a_response_ends_and_is_cancelled_at_the_server(revision):
    """TO-01, TO-02, CA-01: the limit is that of the call, and the session goes on."""
    fake = FakeServer({"tools/call": [SILENCE, text("hello")]}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        with pytest.raises(RequestTimedOut) as late:
            await client.call_tool("x", timeouts=SHORT)
        assert (late.value.limit, late.value.method) == ("idle", "tools/call")
        assert (await client.call_tool("x")).text == "hello"
    assert fake.cancelled == [late.value.request_id] == fake.ids_of("tools/call")[:1]


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_progress_for_ever_does_not_keep_a_call_alive_for_ever(revision):
    """TO-03: a ceiling applies, however lively the progress."""

    async def lively(asked):
        progress = 0
        while asked.id not in asked.fake.cancelled:
            progress += 1
            asked.progress(progress)
            await asyncio.sleep(0.01)
        return SILENCE

    fake = FakeServer({"tools/call": lively}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        with pytest.raises(RequestTimedOut) as late:
            await client.call_tool("x", timeouts=Timeouts(request=20, total=0.1))
        await fake.until("notifications/cancelled")
        assert late.value.limit == "total"


@scene
async def test_an_idle_listen_is_not_given_up():
    """TO-04: only the wait for its acknowledgement has a limit."""
    asked = []
    fake = FakeServer({"subscriptions/listen": lambda question: asked.append(question) or SILENCE})
    async with connect(fake) as client, client.subscribe(tools=True) as changes:
        await fake.until("subscriptions/listen")
        deadlines = client._supervisor.connection.session.next_deadline
        assert deadlines() is not None
        acknowledge(asked[0])
        await changes.ready()
        assert deadlines() is None
        assert fake.cancelled == []


@scene
async def test_a_listen_that_is_never_acknowledged_is_given_up():
    """TO-04, TO-02."""
    fake = FakeServer({"subscriptions/listen": SILENCE})
    async with connect(fake, timeouts=SHORT) as client:
        with pytest.raises(RequestTimedOut):
            await client.subscribe(tools=True).ready()
        await fake.until("notifications/cancelled")
    assert fake.cancelled == fake.ids_of("subscriptions/listen")


# Ping


@scene
async def test_a_ping_that_is_not_answered_is_reported():
    """PI-03: the caller gets an error and decides; nothing hangs."""
    fake = legacy({"ping": [SILENCE, {}]})
    async with connect(fake) as client:
        with pytest.raises(RequestTimedOut):
            await client.ping(timeouts=SHORT)
        await client.ping()


@scene
async def test_a_ping_on_the_stateless_wire_is_a_discovery():
    """PI-04, LG-09, RS-05: removed methods are never sent, not even with request(); a discovery replaces the ping."""
    fake = FakeServer()
    async with connect(fake) as client:
        await client.ping()
        await client.set_log_level("debug")
        for method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "initialize"):
            with pytest.raises(LocalProtocolError, match="does not exist in revision 2026-07-28"):
                await client.request(method)
    assert fake.methods == ["server/discover"] * 2


@scene
async def test_a_ping_is_answered_during_a_call():
    """PI-01, PI-02."""

    async def slow(asked):
        assert (await asked.fake.ask("ping"))["result"] == {}
        return text("done")

    async with connect(legacy({"tools/call": slow})) as client:
        assert (await client.call_tool("x")).text == "done"


# Progress


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_progress_reaches_the_caller_that_asked_for_it(revision):
    """PR-01, PR-03, PR-08: tokens are distinct; reports with an unknown token are ignored."""

    def answer(asked):
        number = asked.params["arguments"]["number"]
        asked.progress(number + 0.5, total=100, message="so far")
        asked.notify("notifications/progress", {"progressToken": "unknown", "progress": 1})
        return text("done")

    fake = FakeServer({"tools/call": answer}, speaks=revision)
    seen = {number: [] for number in range(5)}
    async with connect(fake, revision=revision) as client:
        await asyncio.gather(*(client.call_tool("x", {"number": number}, on_progress=seen[number].append) for number in seen))
    tokens = [params["_meta"]["progressToken"] for params in fake.of("tools/call")]
    assert len(set(tokens)) == 5
    assert {type(token) for token in tokens} <= {str, int}
    for number, reports in seen.items():
        assert [(report.progress, report.total) for report in reports] == [(number + 0.5, 100)]
    assert "notifications/progress" not in fake.methods  # PR-05


# Logs


@scene
async def test_the_level_of_a_session_is_set_once():
    """LG-03, SD-06."""
    fake, received = legacy(), []
    async with connect(fake, on_log=received.append) as client:
        await client.set_log_level("warning")
        fake.notify("notifications/message", {"level": "error", "data": {"a": 1}, "logger": "db"})
        await client.ping()
        assert [(each.level, each.data, each.logger) for each in received] == [("error", {"a": 1}, "db")]
        await client.call_tool("x")
    assert fake.of("logging/setLevel")[0]["level"] == "warning"
    assert PREFIX + "logLevel" not in fake.of("tools/call")[0]["_meta"]


@scene
async def test_on_the_stateless_wire_each_call_carries_its_log_level():
    """LG-05, LG-06, LG-09: nothing unless asked; by the call, or by the client for all later calls."""

    def answer(asked):
        if PREFIX + "logLevel" in asked.params["_meta"]:
            asked.notify("notifications/message", {"level": "alert", "data": "fire"})
        return text("done")

    fake, received = FakeServer({"tools/call": answer}), []
    async with connect(fake, on_log=received.append) as client:
        await client.call_tool("x")
        await client.call_tool("x", log_level="error")
        await client.call_tool("x")
        await client.set_log_level("debug")
        await client.call_tool("x")
    levels = [params["_meta"].get(PREFIX + "logLevel") for params in fake.of("tools/call")]
    assert levels == [None, "error", None, "debug"]
    assert [each.data for each in received] == ["fire", "fire"]
    assert "logging/setLevel" not in fake.methods
