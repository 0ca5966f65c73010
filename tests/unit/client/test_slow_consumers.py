"""The events that wait for a slow callback or subscription are bounded; further ones are dropped and counted."""

import asyncio
import threading

import pytest

from fake_server import FORM, SILENCE, TAG, FakeServer, asks, legacy, scene, text
from twopipes import Change, blocking, connect
from twopipes._blocking import callbacks as blocking_callbacks
from twopipes.errors import RemoteProtocolError
from twopipes.settings import Limits
from twopipes.types import ClientOptions

NET = 30
FLOOD = 1_000
# Room for ten events that have nearly no size of their own, or for nine of a hundred bytes.
SMALL = Limits(max_backlog=11 * 1024)
TEN = (9, 10)


def log(asked):
    asked.notify("notifications/message", {"level": "info", "data": "x"})


def note(asked):
    asked.notify("notifications/own", {})


def stray(asked):
    asked.fake.write(b"?\n", asked.channel)


def report(asked):
    report.done += 1
    asked.progress(report.done)


report.done = 0


def flood(event):
    """Return a tool that sends FLOOD events before its response."""

    def run(asked):
        for _ in range(FLOOD):
            event(asked)
        asked.answer(text("done"))
        return SILENCE

    return run


EVENTS = {"on_log": log, "on_notification": note, "on_stray_output": stray, "on_progress": report}


def call_with(name, callback):
    """Return the options for connect() and call_tool()."""
    if name == "on_progress":
        return {}, {name: callback}
    if name == "on_notification":
        return {"options": ClientOptions(on_notification=callback)}, {}
    return {name: callback}, {}


@pytest.mark.parametrize("name", EVENTS)
@scene
async def test_an_async_callback_that_does_not_keep_up_runs_a_bounded_number_of_times_at_once(name):
    seen, go_on = [], asyncio.Event()

    async def slow(*event):
        seen.append(event)
        await go_on.wait()

    options, of_the_call = call_with(name, slow)
    async with connect(legacy({"tools/call": flood(EVENTS[name])}), limits=SMALL, **options) as client:
        await client.call_tool("x", **of_the_call)
        assert len(seen) in TEN
        assert client.dropped == {name: FLOOD - len(seen)}
        go_on.set()
        await client.ping()
        await client.call_tool("x", **of_the_call)  # those that finished have made room
        assert len(seen) > 10


@scene
async def test_a_plain_callback_gets_everything_because_nothing_waits_for_it():
    seen = []
    async with connect(legacy({"tools/call": flood(log)}), limits=SMALL, on_log=seen.append) as client:
        await client.call_tool("x")
        assert len(seen) == FLOOD
        assert client.dropped == {}


@scene
async def test_large_events_count_by_their_size_and_one_is_always_let_through():
    seen, go_on = [], asyncio.Event()

    async def slow(message):
        seen.append(len(message.data))
        await go_on.wait()

    def large(asked):
        for size in (100_000, 1):
            asked.notify("notifications/message", {"level": "info", "data": "x" * size})
        return text("done")

    async with connect(legacy({"tools/call": large}), limits=SMALL, on_log=slow) as client:
        await client.call_tool("x")
        assert client.dropped == {"on_log": 1}
        assert seen == [100_000]
        go_on.set()


@scene
async def test_a_callback_that_breaks_makes_room():
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)

    async def broken(_):
        raise RuntimeError

    def log_once(asked):
        log(asked)
        return text("done")

    async with connect(legacy({"tools/call": log_once}), limits=SMALL, on_log=broken) as client:
        for _ in range(50):
            await client.call_tool("x")
        assert client.dropped == {}


@pytest.mark.parametrize("era", ["legacy", "modern"])
@scene
async def test_changes_that_are_not_read_are_merged_and_beyond_a_bound_dropped(era):
    """Decision 8 also applies to the reader: equal changes count as one."""
    fake = legacy() if era == "legacy" else FakeServer()
    async with connect(fake, limits=SMALL) as client, client.subscribe(tools=True, resources=["x://a"]) as changes:
        await changes.ready()
        tag = {} if era == "legacy" else {"_meta": {TAG: fake.ids_of("subscriptions/listen")[0]}}
        for number in range(FLOOD):
            fake.notify("notifications/tools/list_changed", tag)
            fake.notify("notifications/resources/updated", {**tag, "uri": f"x://a/{number}"})
        await client.ping()
        assert changes.dropped == FLOOD - 9
        assert await anext(changes) == Change("tools")
        assert [(await anext(changes)).uri for _ in range(9)] == [f"x://a/{number}" for number in range(9)]
        assert not changes._changes
        fake.notify("notifications/resources/updated", {**tag, "uri": "x://a/later"})
        assert (await anext(changes)).uri == "x://a/later"
        assert changes.dropped == FLOOD - 9


@scene
async def test_a_result_with_too_many_questions_is_refused():
    questions = {str(number): ("elicitation/create", FORM) for number in range(11)}
    fake = FakeServer({"tools/call": asks(questions)})
    async with connect(fake, on_elicit=lambda _: None, limits=Limits(max_in_flight=10)) as client:
        with pytest.raises(RemoteProtocolError, match="tools/call with 11 questions; the limit is 10"):
            await client.call_tool("x")


# Without await


@pytest.mark.parametrize("name", EVENTS)
def test_a_blocking_callback_that_does_not_keep_up_has_a_bounded_queue(name, monkeypatch):
    # How long a call waits for the callbacks: a ping not at all while the test floods, the last one for all of them.
    monkeypatch.setattr(blocking_callbacks, "CALLBACK_WAIT", 0.01 if name != "on_progress" else NET)
    seen, called, go_on = [], threading.Event(), threading.Event()

    def slow(*event):
        seen.append(event)
        called.set()
        assert go_on.wait(NET)

    options, of_the_call = call_with(name, slow)
    with blocking.connect(legacy({"tools/call": flood(EVENTS[name])}), limits=SMALL, **options) as client:
        thread = threading.Thread(target=client.call_tool, args=("x",), kwargs=of_the_call)
        thread.start()
        assert called.wait(NET)
        while sum(client.dropped.values()) < FLOOD - 10:
            client.ping()  # until all has been read
        monkeypatch.setattr(blocking_callbacks, "CALLBACK_WAIT", NET)
        go_on.set()
        thread.join(NET)
        client.ping()
        assert len(seen) in TEN
        assert client.dropped == {name: FLOOD - len(seen)}


def test_progress_of_a_call_that_was_interrupted_makes_room():
    def interrupt(_):
        raise KeyboardInterrupt

    fake = legacy({"tools/call": [*[flood(report)] * 3, text("done")]})
    with blocking.connect(fake, limits=SMALL) as client:
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                client.call_tool("x", on_progress=interrupt)
        client.call_tool("x")
        assert not client._inner._supervisor.callbacks._waiting["on_progress"]


def test_a_call_that_is_answered_does_not_wait_for_every_report_of_progress(monkeypatch):
    """Each report may take the callback a second, and thousands may wait."""
    monkeypatch.setattr(blocking_callbacks, "CALLBACK_WAIT", -1.0)
    seen = []
    fake = legacy({"tools/call": flood(report)})
    with blocking.connect(fake, limits=SMALL) as client:

        def slow(params):
            seen.append(params)
            client.ping()  # takes its turn in the loop after the answer, which came in one piece with the reports

        assert client.call_tool("x", on_progress=slow).text == "done"
        assert len(seen) <= 1  # none, if the answer was here before the thread looked
        assert client.dropped == {"on_progress": FLOOD - len(seen)}


def test_what_waits_when_a_client_is_closed_is_dropped_after_a_moment(monkeypatch):
    monkeypatch.setattr(blocking_callbacks, "CALLBACK_WAIT", 0.01)
    seen, called, go_on = [], threading.Event(), threading.Event()

    def slow(message):
        seen.append(message)
        called.set()
        assert go_on.wait(NET)

    before = set(threading.enumerate())
    with blocking.connect(legacy({"tools/call": flood(log)}), limits=SMALL, on_log=slow) as client:
        client.call_tool("x")
        assert called.wait(NET)
    go_on.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(NET)
        assert not thread.is_alive()
    assert len(seen) == 1


def test_a_server_that_asks_and_cancels_does_not_start_a_thread_each_time(monkeypatch):
    monkeypatch.setattr(blocking_callbacks, "MAX_QUESTIONS", 3)
    asked, go_on = [], threading.Event()

    def on_elicit(_):
        asked.append(threading.get_ident())
        assert go_on.wait(NET)

    ids = iter(range(0, 1000, 10))

    def ask_and_cancel(call):
        first = next(ids)
        for number in range(first, first + 10):
            call.notify("notifications/cancelled", {"requestId": number - 10})
            call.fake.write({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": FORM}, call.channel)
        return text("done")

    with blocking.connect(legacy({"tools/call": ask_and_cancel}), on_elicit=on_elicit) as client:
        for _ in range(5):
            client.call_tool("x")
        assert len(asked) == 3
        go_on.set()
