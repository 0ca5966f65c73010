"""A server that exits is restarted: which calls are resent, which calls wait, and when the client gives up (SD-04, SD-05)."""

import asyncio

import pytest

from processes import misbehaving as they
from processes.children import end
from processes.client_stage import AT_ONCE, FIRM, NET, PATIENT, SOON, staged
from processes.launching import EXAMPLES, KILLED, python
from twopipes._client.connect import connect
from twopipes._client.targets import MemoryTarget
from twopipes._server.app import Server
from twopipes._session.subscriptions import Change
from twopipes.errors import ClientClosed, ConnectionLost, RequestTimedOut, ServerExited
from twopipes.settings import RestartPolicy, Timeouts

ALWAYS = RestartPolicy(when="always", first_delay=0.0)
# The first restart would come long after the end of the test.
IN_AN_HOUR = RestartPolicy(first_delay=3600.0, max_delay=3600.0)


def calls(stage):
    """Return the ids of the tool calls that each process received."""
    return [[message["id"] for message in life if message["method"] == "tools/call"] for life in stage.lives]


# Resent calls


@staged
async def test_a_read_only_call_is_sent_again_to_the_new_process(stage):
    """SD-05."""
    why = []
    async with stage.connect(they.CRASHES_ONCE, restart=AT_ONCE, on_restart=why.append) as client:
        await client.list_tools()
        first = client.pid
        assert (await client.call_tool("look")).text == "life 2"
        assert client.pid != first
        assert client.restarts == 1
        assert [len(life) for life in calls(stage)] == [1, 1]
        assert len({request_id for life in calls(stage) for request_id in life}) == 2  # a new request with a new id
        assert stage.methods(2) == ["server/discover", "tools/call"]
    (error,) = why
    assert isinstance(error, ServerExited)
    assert (error.exit_code, error.stderr) == (7, ("the disk is on fire",))


@staged
async def test_a_call_that_must_not_be_repeated_fails_and_the_next_one_works(stage):
    async with stage.connect(they.CRASHES_ONCE, restart=AT_ONCE) as client:
        await client.list_tools()
        with pytest.raises(ServerExited) as caught:
            await client.call_tool("pay")
        assert (caught.value.retryable, caught.value.exit_code, caught.value.method) == (False, 7, "tools/call")
        assert (await client.call_tool("pay")).text == "life 2"
        assert [len(life) for life in calls(stage)] == [1, 1]


@staged
async def test_a_call_of_an_unlisted_tool_is_not_resent(stage):
    """TL-08: a call that is not known to be safe is not resent."""
    async with stage.connect(they.CRASHES_ONCE, restart=AT_ONCE) as client:
        with pytest.raises(ServerExited) as caught:
            await client.call_tool("look")
        assert caught.value.retryable is False


@staged
async def test_resend_all_resends_every_call(stage):
    async with stage.connect(they.CRASHES_ONCE, restart=RestartPolicy(first_delay=0.0, resend="all")) as client:
        assert (await client.call_tool("pay")).text == "life 2"


@staged
async def test_resend_none_resends_nothing(stage):
    async with stage.connect(they.CRASHES_ONCE, restart=RestartPolicy(first_delay=0.0, resend="none")) as client:
        await client.list_tools()
        with pytest.raises(ServerExited):
            await client.call_tool("look")
        assert (await client.call_tool("look")).text == "life 2"


@staged
async def test_lists_are_sent_again(stage):
    program = they.CRASHES_ONCE.replace("serve(", "STATE['ttl'] = 60_000\n    serve(").replace(
        "def crash",
        "if LIFE == 1:\n        handle(receive(), 'modern', {}, ())\n        receive()\n        os._exit(7)\n    def crash",
    )
    async with stage.connect(program, restart=AT_ONCE) as client:
        assert [tool.name for tool in await client.list_tools()] == ["echo", "life", "look", "pay"]
        assert [life[-1]["method"] for life in stage.lives] == ["tools/list"] * 2


@staged
async def test_a_call_that_crashes_every_process_is_given_up(stage):
    """A call is sent three times at most, whatever the policy allows."""
    async with stage.connect(they.CRASHES_MID_CALL, restart=RestartPolicy(first_delay=0.0, max_restarts=None)) as client:
        await client.list_tools()
        with pytest.raises(ServerExited) as caught:
            await client.call_tool("look")
        assert caught.value.retryable is True
        assert sum(map(len, calls(stage))) == 3
        await client.list_tools(fresh=True)  # the server has been restarted


@staged
async def test_a_hundred_calls_survive_one_crash(stage):
    async with stage.connect(they.CRASHES_ONCE, restart=AT_ONCE) as client:
        await client.list_tools()
        results = await asyncio.gather(*(client.call_tool("look") for _ in range(100)))
        assert {result.text for result in results} == {"life 2"}
        assert client.restarts == 1
        assert len(calls(stage)[1]) == 100


@staged
async def test_the_cache_is_dropped_with_the_process(stage):
    program = they.CRASHES_ONCE.replace("serve(", "STATE['ttl'] = 3_600_000\n    serve(")
    async with stage.connect(program, restart=AT_ONCE) as client:
        await client.list_tools()
        await client.list_tools()
        assert stage.methods(1).count("tools/list") == 1
        assert (await client.call_tool("look")).text == "life 2"
        await client.list_tools()
        assert stage.methods(2) == ["server/discover", "tools/call", "tools/list"]


@staged
async def test_a_server_that_crashes_while_idle_is_restarted_before_the_next_call(stage):
    async with stage.connect(they.POLITE, restart=AT_ONCE) as client:
        end(client.pid)
        await stage.until(lambda: len(stage.lives) == 2 and stage.lives[1])
        assert (await client.call_tool("life")).text == "life 2"


# Waiting calls


@staged
async def test_calls_during_a_restart_wait_for_it(stage):
    async with stage.connect(they.CRASHES_AND_WAITS, restart=AT_ONCE) as client:
        await client.list_tools()
        first = asyncio.ensure_future(client.call_tool("look"))
        await stage.until(lambda: len(stage.lives) == 2)
        later = [asyncio.ensure_future(client.call_tool("pay")) for _ in range(5)]
        await asyncio.sleep(SOON)
        assert not any(task.done() for task in (first, *later))
        stage.open_the_gate()
        assert {result.text for result in await asyncio.gather(first, *later)} == {"life 2"}


@pytest.mark.parametrize(
    ("timeouts", "limit"), [(Timeouts(request=SOON, total=NET), "idle"), (Timeouts(request=NET, total=SOON), "total")]
)
@staged
async def test_the_deadlines_of_a_call_hold_during_a_restart(stage, timeouts, limit):
    async with stage.connect(they.CRASHES_ONCE, restart=IN_AN_HOUR) as client:
        with pytest.raises(ServerExited):
            await client.call_tool("pay")
        with pytest.raises(RequestTimedOut, match="because the server was restarting") as caught:
            await client.call_tool("look", timeouts=timeouts)
        assert (caught.value.limit, caught.value.request_id, caught.value.method) == (limit, None, "tools/call")


@staged
async def test_a_call_can_be_cancelled_during_a_restart(stage):
    async with stage.connect(they.CRASHES_ONCE, restart=IN_AN_HOUR) as client:
        with pytest.raises(ServerExited):
            await client.call_tool("pay")
        waiting = asyncio.ensure_future(client.call_tool("look"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


@staged
async def test_closing_during_a_restart_starts_nothing_and_ends_every_caller(stage):
    async with stage.connect(they.CRASHES_ONCE, restart=IN_AN_HOUR) as client:
        with pytest.raises(ServerExited):
            await client.call_tool("pay")
        waiting = asyncio.ensure_future(client.call_tool("look"))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await client.call_tool("look")
    assert len(stage.lives) == 1


@staged
async def test_closing_during_the_opening_of_a_new_process_leaves_no_process(stage):
    async with stage.connect(they.CRASHES_AND_WAITS, restart=AT_ONCE, shutdown=FIRM) as client:
        await client.list_tools()
        waiting = asyncio.ensure_future(client.call_tool("look"))
        await stage.until(lambda: len(stage.lives) == 2)
        await client.close()
        assert stage.left() == []
        with pytest.raises(ClientClosed):
            await waiting


@staged
async def test_the_exit_of_a_closed_server_is_not_a_crash(stage):
    restarted = []
    async with stage.connect(they.POLITE, restart=AT_ONCE, on_restart=restarted.append) as client:
        await client.list_tools()
    assert restarted == []
    assert len(stage.lives) == 1


# Giving up


@staged
async def test_an_open_breaker_is_reported(stage):
    policy = RestartPolicy(first_delay=0.0, max_restarts=2, max_delay=SOON)
    async with stage.connect(they.NEVER_COMES_BACK, restart=policy) as client:
        await client.list_tools()
        with pytest.raises(ServerExited) as caught:
            await client.call_tool("look")
        error = caught.value
        assert "crashed 3 times" in error.given_up
        assert "allows 2 restarts" in error.given_up
        assert error.stderr == ("no disk",)
        assert error.given_up in str(error)
        started = len(stage.lives)
        with pytest.raises(ServerExited, match="not restarted"):
            await client.call_tool("look")
        assert len(stage.lives) == started  # no process was launched for that


@staged
async def test_a_lost_call_gets_the_decision_of_the_breaker_with_its_own_id(stage):
    """SD-04, SD-05: one decision for each loss; the caller does not wait for a restart that will not come."""
    restarted = []
    async with stage.connect(they.CRASHES_ONCE, restart=RestartPolicy(max_restarts=0), on_restart=restarted.append) as client:
        await client.list_tools()
        with pytest.raises(ServerExited) as caught:
            await client.call_tool("look")
        assert "allows 0 restarts" in caught.value.given_up
        assert (caught.value.method, caught.value.request_id) == ("tools/call", calls(stage)[0][0])
        assert caught.value.retryable is True
    assert restarted == []
    assert len(stage.lives) == 1


@staged
async def test_a_server_that_exits_at_every_opening_is_given_up(stage):
    policy = RestartPolicy(first_delay=0.0, max_restarts=3, max_delay=SOON)
    async with stage.connect(they.DIES_AFTER_OPENING, restart=policy) as client:
        await client.list_tools()
        with pytest.raises(ServerExited) as caught:
            await client.call_tool("look")
        assert caught.value.exit_code == 5
        with pytest.raises(ServerExited, match="not restarted"):
            await asyncio.gather(*(client.list_tools(fresh=True) for _ in range(10)))
        assert len(stage.lives) == 4


@staged
async def test_a_subscription_ends_with_an_error_when_the_server_is_given_up(stage):
    policy = RestartPolicy(first_delay=0.0, max_restarts=1, max_delay=SOON)
    async with stage.connect(they.NEVER_COMES_BACK, restart=policy) as client, client.subscribe(tools=True) as changes:
        await changes.ready()
        with pytest.raises(ServerExited):
            await client.call_tool("pay")
        with pytest.raises(ServerExited, match="not restarted"):
            await anext(changes)


@staged
async def test_a_given_up_server_may_be_tried_again_when_the_window_has_passed(stage):
    async with stage.connect(they.CRASHES_ONCE, restart=RestartPolicy(max_restarts=0)) as client:
        await client.list_tools()
        with pytest.raises(ServerExited, match="not restarted"):
            await client.call_tool("look")
        client._supervisor._crashes.healthy()  # as the passing of time does
        assert (await client.call_tool("look")).text == "life 2"


@staged
async def test_a_client_that_is_closed_after_it_gave_up_raises_client_closed(stage):
    async with stage.connect(they.CRASHES_ONCE) as client:
        with pytest.raises(ServerExited):
            await client.call_tool("pay")
        await client.close()
        with pytest.raises(ClientClosed):
            await client.list_tools()
        assert client.closed.ended_by == "already gone"


@staged
async def test_a_server_that_closed_its_output_is_ended_before_the_next_starts(stage):
    program = they.CLOSES_STDOUT.replace("os.close(1)", "os.close(1) if LIFE == 1 else answer(message)")
    async with stage.connect(program, restart=AT_ONCE) as client:
        await client.list_tools()
        assert (await client.call_tool("look")).text == "life 2"
        assert len(stage.left()) == 1


@staged
async def test_an_error_in_on_restart_has_no_effect(stage):
    def broken(error):
        raise ZeroDivisionError

    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    async with stage.connect(they.CRASHES_ONCE, restart=AT_ONCE, on_restart=broken) as client:
        await client.list_tools()
        assert (await client.call_tool("look")).text == "life 2"
    assert [type(error) for error in reported] == [ZeroDivisionError]


class BreaksAfter(MemoryTarget):
    """A target that raises an unexpected error."""

    def __init__(self, openings):
        super().__init__(Server("short-lived"))
        self.openings = openings

    async def open(self, on_stderr):
        if not self.openings:
            raise ZeroDivisionError
        self.openings -= 1
        self.endpoint = await super().open(on_stderr)
        return self.endpoint


@staged
async def test_an_error_in_a_target_is_raised(stage):
    with pytest.raises(ZeroDivisionError):
        await connect(BreaksAfter(0))


@staged
async def test_an_error_in_a_target_during_a_restart_is_raised(stage):
    target = BreaksAfter(1)
    async with connect(target, restart=AT_ONCE) as client:
        target.endpoint.serving.cancel()
        with pytest.raises(ZeroDivisionError):
            await client.ping()


# Subscriptions


@staged
async def test_a_subscription_is_renewed_and_reports_everything_as_changed_once(stage):
    """SU-16: changes may have been missed meanwhile."""
    async with stage.connect(they.CRASHES_ONCE, restart=AT_ONCE) as client:
        async with client.subscribe(tools=True, resources=["file:///a"]) as changes:
            await changes.ready()
            await client.list_tools()
            assert (await client.call_tool("look")).text == "life 2"
            assert {await anext(changes), await anext(changes)} == {Change("tools"), Change("resource", "file:///a")}
            waiting = asyncio.ensure_future(anext(changes))
            await client.call_tool("life")
            assert not waiting.done()
            waiting.cancel()
        await client.call_tool("life")
    listens = [[m["params"]["notifications"] for m in life if m["method"] == "subscriptions/listen"] for life in stage.lives]
    assert listens == [[{"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]}]] * 2
    assert "notifications/cancelled" in stage.methods(2)


@staged
async def test_subscriptions_survive_a_fresh_process_that_exits_at_once(stage):
    program = they.CRASHES_ONCE.replace(
        "def crash",
        "if LIFE == 2:\n        handle(receive(), 'modern', {}, ())\n        os._exit(1)\n    def crash",
    )
    policy = RestartPolicy(first_delay=0.0, max_delay=SOON)
    async with stage.connect(program, restart=policy) as client, client.subscribe(tools=True) as changes:
        await changes.ready()
        await client.list_tools()
        assert (await client.call_tool("look")).text == "life 3"
        assert await anext(changes) == Change("tools")
        assert "subscriptions/listen" in stage.methods(3)


@staged
async def test_a_subscription_created_during_a_restart_starts_with_it(stage):
    async with stage.connect(they.CRASHES_AND_WAITS, restart=AT_ONCE) as client:
        with pytest.raises(ServerExited):
            await client.call_tool("pay")
        async with client.subscribe(tools=True) as changes:
            await stage.until(lambda: len(stage.lives) == 2)
            stage.open_the_gate()
            assert (await changes.ready()).tools_list_changed is True
            assert stage.methods(2) == ["server/discover", "subscriptions/listen"]


# Questions


@staged
async def test_answers_are_sent_to_the_fresh_process(stage):
    """The user is not asked twice because of a crash; the state of the server came with the question (MR-07)."""
    asked = []

    def answer(question):
        asked.append(question.message)
        return {"name": "Ada"}

    async with stage.connect(they.ASKS_AND_CRASHES_ONCE, restart=AT_ONCE, on_elicit=answer) as client:
        await client.list_tools()
        assert (await client.call_tool("ask")).text == "life 2: Ada, state 1"
        assert asked == ["Who?"]
        assert [len(life) for life in calls(stage)] == [2, 1]


# Sessions


@staged
async def test_a_legacy_session_is_not_restarted_by_default(stage):
    """SD-06: the state of the session is lost, and only the caller knows what that means."""
    async with stage.connect(they.CRASHES_ONCE_IN_A_SESSION, restart=RestartPolicy()) as client:
        await client.list_tools()
        with pytest.raises(ServerExited) as caught:
            await client.call_tool("look")
        assert caught.value.exit_code == 7
        with pytest.raises(ServerExited):
            await client.call_tool("look")
    assert len(stage.lives) == 1


@staged
async def test_a_restarted_session_gets_its_log_level_and_its_subscriptions_back(stage):
    """SD-06."""
    async with (
        stage.connect(they.CRASHES_ONCE_IN_A_SESSION, restart=ALWAYS) as client,
        client.subscribe(tools=True, resources=["file:///a"]) as changes,
    ):
        await changes.ready()
        await client.set_log_level("warning")
        await client.list_tools()
        assert (await client.call_tool("look")).text == "life 2"
        assert {await anext(changes), await anext(changes)} == {Change("tools"), Change("resource", "file:///a")}
        await client.ping()
        fresh = stage.methods(2)
        assert fresh[:2] == ["initialize", "notifications/initialized"]  # DE-07: and no probe before
        assert sorted(fresh[2:]) == ["logging/setLevel", "ping", "resources/subscribe", "tools/call"]
        assert fresh.index("logging/setLevel") < fresh.index("tools/call")


# Sockets


def test_a_client_of_a_socket_finds_the_server_that_took_its_place(stage, listening, tmp_path):
    """SD-04: also if the server is restarted by another program."""
    place = ["--unix", tmp_path / "server.sock"]
    policy = RestartPolicy(first_delay=0.0, max_delay=SOON, max_restarts=None)

    def serve():
        return listening(python("-m", "twopipes", "run", EXAMPLES / "everything.py", *place))

    async def body():
        child, address = await asyncio.to_thread(serve)
        async with connect(address, timeouts=PATIENT, restart=policy) as client:
            await client.list_tools()
            assert client.pid is None
            child.kill()
            await asyncio.to_thread(child.ended, KILLED)
            lost = asyncio.ensure_future(client.list_tools(fresh=True))
            await asyncio.sleep(SOON)
            assert not lost.done()
            child, _ = await asyncio.to_thread(serve)
            assert await lost
            assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
            assert client.restarts >= 1
        await asyncio.to_thread(child.stop)

    stage.run(body())


def test_a_call_that_is_lost_with_a_socket_raises_connection_lost(stage, listening, tmp_path):
    async def body():
        place = ["--unix", tmp_path / "server.sock"]
        child, address = await asyncio.to_thread(listening, python("-m", "twopipes", "run", EXAMPLES / "everything.py", *place))
        async with connect(address, timeouts=PATIENT, restart=IN_AN_HOUR) as client:
            waiting = asyncio.ensure_future(client.call_tool("block", {"seconds": 1000.0}))
            await client.list_tools()
            child.kill()
            with pytest.raises(ConnectionLost, match="tools/call"):
                await waiting
        await asyncio.to_thread(child.ended, KILLED)

    stage.run(body())
