"""The end of a connection, from either side, and what comes after it (section SD of the rules).

The servers here live in this process; children that will not leave are in ``tests/processes``.
"""

import asyncio

import pytest

from fake_server import FORM, SILENCE, FakeServer, asks, legacy, scene, text
from twopipes import RestartPolicy, ServerExited, connect
from twopipes._protocol.types import SubscriptionFilter
from twopipes.errors import ClientClosed, ConnectionLost

AT_ONCE = RestartPolicy(first_delay=0.0)
TOOLS = {"tools": [{"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]}


async def die(asked):
    await asked.fake.hang_up()
    return SILENCE


def said(life):
    return [line["method"] for line in life if "method" in line]


@pytest.mark.parametrize("make", [FakeServer, legacy])
@scene
async def test_a_client_sends_nothing_when_it_closes(make):
    """SD-01: there is no shutdown message; the client only closes the input."""
    fake = make()
    async with connect(fake) as client:
        await client.list_tools()
    await fake.gone.wait()
    assert fake.methods[-1] == "tools/list"
    assert client.closed is not None


@pytest.mark.parametrize("make", [FakeServer, legacy])
@scene
async def test_open_calls_end_when_the_client_is_closed(make):
    """SD-01, ER-16: at once, with an error of this side."""
    fake = make({"tools/call": SILENCE})
    client = await connect(fake)
    calls = [asyncio.ensure_future(client.call_tool("x")) for _ in range(3)]
    await fake.until("tools/call", 3)
    await asyncio.gather(client.close(), client.close())
    assert {type(error) for error in await asyncio.gather(*calls, return_exceptions=True)} == {ClientClosed}


@pytest.mark.parametrize("make", [FakeServer, legacy])
@scene
async def test_open_calls_end_when_the_server_exits(make):
    """SD-03: waiting calls end with an error, and everything before the end was read."""
    fake = make({"tools/call": [SILENCE, text("last words")]})
    async with connect(fake, restart=RestartPolicy(when="never")) as client:
        waits = asyncio.ensure_future(client.call_tool("x"))
        await fake.until("tools/call")
        received = asyncio.ensure_future(client.call_tool("x"))
        await fake.until("tools/call", 2)
        await fake.hang_up()
        assert (await received).text == "last words"
        with pytest.raises(ConnectionLost):
            await waits
        with pytest.raises(ConnectionLost):
            await client.call_tool("x")
    assert len(fake.lives) == 1


@scene
async def test_a_modern_server_that_exits_once_is_restarted():
    """SD-04, VN-01: on_restart gets the reason, and the fresh process is probed like the first."""
    fake, reported = FakeServer(), []
    async with connect(fake, restart=AT_ONCE, on_restart=reported.append) as client:
        await client.list_tools()
        await fake.hang_up()
        await fake.until("server/discover", 2)
        assert (await client.call_tool("x")).text == "done"
        assert client.restarts == len(reported) == 1
    assert [said(life) for life in fake.lives] == [["server/discover", "tools/list"], ["server/discover", "tools/call"]]


@scene
async def test_a_server_that_always_exits_is_given_up():
    """SD-04: after max_restarts, and the error says so."""
    fake = FakeServer({"tools/list": die})
    async with connect(fake, restart=RestartPolicy(first_delay=0.0, max_restarts=2, resend="none")) as client:
        for _ in range(3):
            with pytest.raises(ConnectionLost):
                await client.list_tools()
        with pytest.raises(ConnectionLost) as failed:
            await client.list_tools()
        assert failed.value.__notes__
    assert len(fake.lives) == 3


@scene
async def test_a_lost_call_is_resent_if_that_is_safe():
    """SD-05, MR-08: a tool that is declared read-only; the fresh process gets a new request."""
    fake = FakeServer({"tools/list": TOOLS, "tools/call": [die, text("seen")]})
    async with connect(fake, restart=AT_ONCE) as client:
        await client.list_tools()
        assert (await client.call_tool("look", {"at": "it"})).text == "seen"
    first, second = fake.of("tools/call")
    assert first["arguments"] == second["arguments"]
    assert [said(life)[-1] for life in fake.lives] == ["tools/call"] * 2


@scene
async def test_a_lost_call_that_may_have_done_something_is_an_error_and_never_silence():
    """SD-05, TL-08: its outcome is unknown, and the caller decides."""
    fake = FakeServer({"tools/list": TOOLS, "tools/call": die})
    async with connect(fake, restart=AT_ONCE) as client:
        await client.list_tools()
        with pytest.raises(ConnectionLost) as lost:
            await client.call_tool("write")
        assert not lost.value.retryable
        await client.list_tools()
    assert len(fake.of("tools/call")) == 1


@scene
async def test_questions_survive_the_process_that_asked_them():
    """SD-05, ST-03: the retry with its state goes to the fresh process."""
    fake = FakeServer({"tools/list": TOOLS, "tools/call": [asks({"k": ("elicitation/create", FORM)}, "s"), text("done")]})

    async def answer(_question):
        await fake.hang_up()
        await fake.until("server/discover", 2)
        return {"name": "Anna"}

    async with connect(fake, restart=AT_ONCE, on_elicit=answer) as client:
        assert (await client.call_tool("x")).text == "done"
    assert fake.lives[1][-1]["params"]["requestState"] == "s"


@scene
async def test_a_session_ends_with_its_process():
    """SD-06: by default it is not restarted; if it is, a new handshake comes first."""
    fake = legacy()
    async with connect(fake) as client:
        await fake.hang_up()
        with pytest.raises(ConnectionLost):
            await client.list_tools()
    assert len(fake.lives) == 1
    fake = legacy()
    async with connect(fake, restart=RestartPolicy(when="always", first_delay=0.0)) as client:
        await fake.hang_up()
        await client.list_tools()
    assert said(fake.lives[1]) == ["server/discover", "initialize", "notifications/initialized", "tools/list"]


@scene
async def test_a_live_modern_connection_is_not_demoted_by_a_restart():
    """DE-07, SD-04: a fresh process is asked anew, and stays modern."""
    fake = FakeServer(speaks=["2026-07-28", "2025-11-25"])
    async with connect(fake, restart=AT_ONCE) as client:
        await fake.hang_up()
        await client.list_tools()
        assert client.era == "modern"
    assert "initialize" not in fake.methods


@scene
async def test_a_request_on_an_ended_connection_fails_with_the_cause_of_its_end():
    """A connection may end after a caller got it and before the caller uses it."""
    async with connect(FakeServer(), restart=RestartPolicy(when="never")) as client:
        connection = client._supervisor.connection
        connection.end(lambda lost: ServerExited(["server"], phase="serving", method=lost.method))
        for use in (lambda: connection.send("tools/list", None), lambda: connection.listen(SubscriptionFilter(), None)):
            with pytest.raises(ServerExited) as caught:
                use()
            assert caught.value.argv == ("server",)
