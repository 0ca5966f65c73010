"""A client over HTTP in the legacy era: sessions, the stream of GET, and streams that are resumed."""

import asyncio
from contextlib import suppress

import pytest

from fake_http import SESSION, Fault, Http, legacy_http, text
from fake_server import scene
from twopipes import RestartPolicy, Timeouts, connect
from twopipes._protocol.revisions import LATEST_LEGACY, LEGACY
from twopipes.errors import ClientClosed, ConnectionLost, HttpError, OpeningFailed, RemoteProtocolError, RequestTimedOut

pytestmark = pytest.mark.slow  # real sockets

SOON = RestartPolicy(first_delay=0.0, jitter=0.0)
HTTP_REVISIONS = [each for each in LEGACY if each >= "2025-03-26"]


def refusal(code=-32600, request_id="server-error"):
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": "Bad Request: Missing session ID"}}


# The opening


@pytest.mark.parametrize(
    "probe",
    [
        Http(400),
        Http(400, "Bad Request", "text/plain"),
        Http(400, refusal()),
        Http(400, refusal(-32000, None)),
        Http(400, {"detail": "no session"}),
        Http(404),
        Http(405),
        Http(406),
        Http(422, {"detail": []}),
        Http(500, "Internal Server Error", "text/plain"),
        Http(200, refusal(-32601, 1)),
        Http(202),
    ],
)
@scene
async def test_a_probe_that_is_refused_is_followed_by_the_handshake(probe):
    """HT-46."""
    fake = legacy_http({"server/discover": probe})
    async with fake as url, connect(url) as client:
        assert (client.era, client.revision) == ("legacy", LATEST_LEGACY)
    assert fake.methods == ["server/discover", "initialize", "notifications/initialized", "GET", "DELETE"]


@pytest.mark.parametrize("revision", HTTP_REVISIONS)
@scene
async def test_every_request_after_the_handshake_names_the_session_and_the_revision(revision):
    """HT-24, HT-38, HT-43, HT-50, HT-51."""
    fake = legacy_http({"tools/call": text("hi")}, revision=revision)
    async with fake as url, connect(url, era="legacy") as client:
        await client.call_tool("greet")
    assert fake.methods == ["initialize", "notifications/initialized", "GET", "tools/call", "DELETE"]
    opening, *others = fake.seen
    assert "Mcp-Session-Id" not in opening.headers
    for each in others:
        assert each.headers["Mcp-Session-Id"] == SESSION
        assert each.headers["MCP-Protocol-Version"] == revision
        assert "Mcp-Method" not in each.headers
    assert fake.of("GET")[0].headers["Accept"] == "text/event-stream"


@scene
async def test_the_session_id_is_kept_secret(caplog, tmp_path):
    """HT-39: not in logs, errors or recordings, and never sent to another server."""
    other = legacy_http()
    recording = tmp_path / "recording.jsonl"
    async with other as elsewhere:
        moved = Http(307, headers={"Location": f"{elsewhere}/mcp"})
        with caplog.at_level("DEBUG"):
            async with legacy_http({"tools/call": moved}) as url, connect(url, era="legacy", trace=recording) as client:
                with pytest.raises(HttpError) as caught:
                    await client.call_tool("greet")
    assert other.seen == []
    assert caught.value.status == 307
    for shown in (str(caught.value), repr(caught.value), repr(client), caplog.text, recording.read_text()):
        assert SESSION not in shown


@scene
async def test_a_server_without_sessions_gets_no_delete():
    fake = legacy_http({"tools/call": text("hi")}, session=None)
    async with fake as url, connect(url, era="legacy") as client:
        await client.call_tool("greet")
    assert fake.methods == ["initialize", "notifications/initialized", "GET", "tools/call"]
    assert not any("Mcp-Session-Id" in each.headers for each in fake.seen)


@scene
async def test_requests_wait_until_the_server_knows_that_the_session_is_open():
    """LC-04."""
    release = asyncio.Event()

    async def initialized(exchange):
        await release.wait()
        return Http(202)

    fake = legacy_http({"notifications/initialized": initialized})
    async with fake as url:
        opening = asyncio.ensure_future(connect(url, era="legacy"))
        await fake.until("notifications/initialized")
        assert not opening.done()
        release.set()
        await (await opening).close()


@scene
async def test_the_handshake_may_be_answered_by_a_stream():
    async def initialize(exchange):
        await exchange.event(id="1")
        await exchange.result(exchange.fake._default(exchange), id="2")

    async with legacy_http({"initialize": initialize}) as url, connect(url, era="legacy") as client:
        assert client.era == "legacy"


@scene
async def test_a_modern_client_does_not_fall_back():
    fake = legacy_http()
    async with fake as url:
        with pytest.raises(OpeningFailed, match="this looks like a legacy server"):
            await connect(url, era="modern")
    assert fake.methods == ["server/discover"]


@scene
async def test_an_invalid_session_id_is_not_used():
    fake = legacy_http(session="ä b")
    async with fake as url:
        with pytest.raises(RemoteProtocolError, match="the id of the session"):
            await connect(url, era="legacy")


@scene
async def test_a_handshake_that_is_refused():
    async with legacy_http({"initialize": Http(400, refusal())}) as url:
        with pytest.raises(OpeningFailed, match="Missing session ID"):
            await connect(url)
    async with legacy_http({"initialize": Http(404)}) as url:
        with pytest.raises(HttpError, match="there is no MCP server at"):
            await connect(url)


# The stream of GET


@scene
async def test_the_stream_of_get_brings_notifications_and_requests():
    async def stream(exchange):
        if len(fake.of("GET")) > 1:
            return Http(405)
        await exchange.event({"jsonrpc": "2.0", "id": "q1", "method": "ping"}, id="1")
        params = {"level": "info", "data": "hello"}
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        return await exchange.until_closed()

    logged = asyncio.Event()
    fake = legacy_http({"GET": stream})
    async with fake as url, connect(url, era="legacy", on_log=lambda _: logged.set()):
        await logged.wait()
        response = await fake.until("response")
    assert response.message == {"jsonrpc": "2.0", "id": "q1", "result": {}}
    assert response.headers["Mcp-Session-Id"] == SESSION


@scene
async def test_the_stream_of_get_is_resumed_after_the_last_event():
    """HT-34, HT-35."""

    async def stream(exchange):
        if "Last-Event-ID" not in exchange.headers:
            await exchange.event(id="a-7", retry=1)
            return None
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hello"}})
        return await exchange.until_closed()

    logged = asyncio.Event()
    fake = legacy_http({"GET": stream})
    async with fake as url, connect(url, era="legacy", on_log=lambda _: logged.set()):
        await logged.wait()
    assert [each.headers.get("Last-Event-ID") for each in fake.of("GET")] == [None, "a-7"]


@scene
async def test_a_get_that_is_refused_for_a_while_is_tried_again():
    async def stream(exchange):
        if len(fake.of("GET")) == 1:
            return Http(503)
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hello"}})
        return await exchange.until_closed()

    logged = asyncio.Event()
    fake = legacy_http({"GET": stream})
    async with fake as url, connect(url, era="legacy", on_log=lambda _: logged.set()):
        await logged.wait()
    assert len(fake.of("GET")) == 2


@scene
async def test_a_get_of_a_session_that_the_server_forgot_opens_another_one():
    async def stream(exchange):
        if exchange.headers["Mcp-Session-Id"] == SESSION:
            await forget.wait()
            return Http(404)
        return Http(405)

    forget = asyncio.Event()
    fake = legacy_http({"GET": stream})
    async with fake as url, connect(url, era="legacy", restart=SOON):
        fake.session = "session-2"
        forget.set()
        await fake.until("GET", 2)
    assert len(fake.of("initialize")) == 2


# Requests of the server


@scene
async def test_a_request_on_the_stream_of_a_call_is_answered_by_a_post():
    async def call(exchange):
        question = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}}
        await exchange.event({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": question})
        answer = await fake.until("response")
        await exchange.result(text(answer.message["result"]["action"]))

    fake = legacy_http({"tools/call": call})
    async with fake as url, connect(url, era="legacy", on_elicit=lambda _: {}) as client:
        assert (await client.call_tool("work")).text == "accept"


@pytest.mark.parametrize("answer", [Http(400), Http(500), Http(202)])
@scene
async def test_a_response_that_the_server_does_not_take_is_logged(answer, caplog):
    async def call(exchange):
        await exchange.event({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        await fake.until("response")
        await exchange.result(text("done"))

    fake = legacy_http({"tools/call": call, "response": answer})
    async with fake as url, connect(url, era="legacy") as client:
        assert (await client.call_tool("work")).text == "done"
        await client.list_tools()  # waits for the response
    assert ("a message was not delivered" in caplog.text) == (answer.status != 202)


@scene
async def test_a_notification_to_a_session_that_the_server_forgot_opens_another_one():
    async def changed(exchange):
        return Http(404 if exchange.headers["Mcp-Session-Id"] == SESSION else 202)

    fake = legacy_http({"notifications/roots/list_changed": changed})
    async with fake as url, connect(url, era="legacy", restart=SOON, roots=["file:///a"]) as client:
        fake.session = "session-2"
        client.set_roots(["file:///b"])
        await fake.until("initialize", 2)


# Cancellation


@scene
async def test_a_cancelled_call_is_announced():
    """HT-23."""

    async def call(exchange):
        await exchange.progress(1)
        await exchange.until_closed()

    fake = legacy_http({"tools/call": call})
    async with fake as url, connect(url, era="legacy") as client:
        calling = asyncio.create_task(client.call_tool("work"))
        exchange = await fake.until("tools/call")
        calling.cancel()
        cancelled = await fake.until("notifications/cancelled")
        assert cancelled.params["requestId"] == exchange.message["id"]
        with suppress(asyncio.CancelledError):
            await calling


# Resumption


@pytest.mark.parametrize("is_aborted", [True, False])
@scene
async def test_a_stream_that_is_lost_before_its_response_is_resumed(is_aborted):
    """HT-35."""

    received = asyncio.Event()

    async def call(exchange):
        await exchange.event(id="c-0", retry=1)
        await exchange.progress(1, id="c-1")
        if is_aborted:
            await received.wait()  # an abort drops what a loop has not sent yet
            exchange.abort()

    async def resume(exchange):
        if exchange.headers.get("Last-Event-ID") == "c-1":
            await exchange.event(fake.response_to(fake.of("tools/call")[0], text("done")), id="c-2")
            return None
        return Http(405)

    fake = legacy_http({"tools/call": call, "GET": resume})
    async with fake as url, connect(url, era="legacy") as client:
        assert (await client.call_tool("work", on_progress=lambda _: received.set())).text == "done"
    resumed = [each for each in fake.of("GET") if "Last-Event-ID" in each.headers]
    assert len(resumed) == 1
    assert resumed[0].headers["Mcp-Session-Id"] == SESSION
    assert len(fake.of("tools/call")) == 1


@scene
async def test_a_stream_that_cannot_be_resumed_ends_its_call():
    async def call(exchange):
        await exchange.event(id="c-0", retry=1)

    async with legacy_http({"tools/call": call}) as url, connect(url, era="legacy") as client:
        with pytest.raises(ConnectionLost, match="its stream cannot be resumed: HTTP 405"):
            await client.call_tool("work")
        await client.list_tools()


@scene
async def test_a_stream_of_a_session_that_the_server_forgot_is_not_resumed():
    async def call(exchange):
        fake.session = "session-2"
        await exchange.event(id="c-0", retry=1)

    async def resume(exchange):
        return Http(404 if "Last-Event-ID" in exchange.headers else 405)

    fake = legacy_http({"tools/call": call, "GET": resume})
    async with fake as url, connect(url, era="legacy", restart=SOON) as client:
        with pytest.raises(ConnectionLost, match="the server ended the session"):
            await client.call_tool("work")
        await client.list_tools()
    assert len(fake.of("tools/call")) == 1
    assert len(fake.of("initialize")) == 2


@scene
async def test_a_stream_is_resumed_when_the_server_is_back():
    async def call(exchange):
        await exchange.event(id="c-0", retry=1)

    async def resume(exchange):
        if "Last-Event-ID" not in exchange.headers:
            return Http(405)
        if len(fake.of("GET")) == 2:
            exchange.abort()
            return await exchange.until_closed()
        return await exchange.event(fake.response_to(fake.of("tools/call")[0], text("done")))

    fake = legacy_http({"tools/call": call, "GET": resume})
    async with fake as url, connect(url, era="legacy") as client:
        assert (await client.call_tool("work")).text == "done"
    assert len(fake.of("GET")) == 3


@scene
async def test_a_call_that_times_out_is_not_resumed_any_more():
    async def call(exchange):
        await exchange.event(id="c-0", retry=60_000)

    fake = legacy_http({"tools/call": call})
    async with fake as url, connect(url, era="legacy") as client:
        with pytest.raises(RequestTimedOut):
            await client.call_tool("work", timeouts=Timeouts(request=0.1))
        await fake.until("notifications/cancelled")
    assert not any("Last-Event-ID" in each.headers for each in fake.of("GET"))


# Sessions that end


@scene
async def test_a_session_that_the_server_forgot_is_opened_again():
    """HT-42."""

    async def call(exchange):
        return text("done") if exchange.headers["Mcp-Session-Id"] == "session-2" else Http(404, refusal(-32001))

    fake = legacy_http({"tools/call": call})
    async with fake as url, connect(url, era="legacy", restart=SOON) as client:
        fake.session = "session-2"
        assert (await client.call_tool("work")).text == "done"
    openings = fake.of("initialize")
    assert len(openings) == 2
    assert "Mcp-Session-Id" not in openings[1].headers
    assert [each.headers["Mcp-Session-Id"] for each in fake.of("DELETE")] == ["session-2"]


@scene
async def test_a_call_that_was_running_in_a_lost_session_is_not_repeated():
    async def call(exchange):
        if exchange.params["name"] == "slow":
            await exchange.progress(1)
            await exchange.until_closed()
        return text("done") if exchange.headers["Mcp-Session-Id"] == "session-2" else Http(404)

    fake = legacy_http({"tools/call": call})
    async with fake as url, connect(url, era="legacy", restart=SOON) as client:
        slow = asyncio.create_task(client.call_tool("slow"))
        await fake.until("tools/call")
        fake.session = "session-2"
        assert (await client.call_tool("fast")).text == "done"
        with pytest.raises(ConnectionLost, match="the server ended the session"):
            await slow
    assert [each.params["name"] for each in fake.of("tools/call")].count("slow") == 1


@scene
async def test_a_server_that_forgets_every_session_is_not_tried_for_ever():
    fake = legacy_http({"tools/call": Http(404)})
    async with fake as url, connect(url, era="legacy", restart=SOON) as client:
        with pytest.raises(ConnectionLost, match="the server ended the session"):
            await client.call_tool("work")
    assert len(fake.of("tools/call")) == 3


@scene
async def test_a_policy_without_restarts_opens_no_other_session():
    fake = legacy_http({"tools/call": Http(404)})
    async with fake as url, connect(url, era="legacy", restart=RestartPolicy(when="never")) as client:
        with pytest.raises(ConnectionLost):
            await client.call_tool("work")
    assert len(fake.of("initialize")) == 1


@scene
async def test_a_server_that_is_away_does_not_end_the_session():
    fake = legacy_http({"tools/call": text("done")})
    async with fake as url, connect(url, era="legacy") as client:
        await fake.stop()
        with pytest.raises(HttpError, match="nothing listens there"):
            await client.call_tool("work")
        await fake.start()
        assert (await client.call_tool("work")).text == "done"
    assert len(fake.of("initialize")) == 1


@pytest.mark.parametrize("answer", [Http(405), Http(404), Http(500)])
@scene
async def test_a_delete_may_fail(answer):
    """HT-44."""
    async with legacy_http({"DELETE": answer}) as url, connect(url, era="legacy") as client:
        assert client.era == "legacy"


@scene
async def test_a_delete_that_gets_no_response_does_not_hold_the_client():
    async def wait(exchange):
        await exchange.until_closed()

    async with legacy_http({"DELETE": wait}) as url, connect(url, era="legacy", timeouts=Timeouts(shutdown=0.05)):
        pass


@scene
async def test_closing_ends_calls_in_flight():
    async def call(exchange):
        await exchange.until_closed()

    fake = legacy_http({"tools/call": call})
    async with fake as url:
        async with connect(url, era="legacy") as client:
            calling = asyncio.create_task(client.call_tool("work"))
            await fake.until("tools/call")
        with pytest.raises(ClientClosed):
            await calling


# Subscriptions


@scene
async def test_subscriptions_are_renewed_in_a_new_session():
    async def call(exchange):
        return text("done") if exchange.headers["Mcp-Session-Id"] == "session-2" else Http(404)

    fake = legacy_http({"tools/call": call, "resources/subscribe": {}, "resources/unsubscribe": {}})
    async with (
        fake as url,
        connect(url, era="legacy", restart=SOON) as client,
        client.subscribe(resources=["file:///a"]) as changes,
    ):
        await changes.ready()
        fake.session = "session-2"
        await client.call_tool("work")
        assert (await anext(changes)).uri == "file:///a"
    assert [each.headers["Mcp-Session-Id"] for each in fake.of("resources/subscribe")] == [SESSION, "session-2"]


@scene
async def test_an_error_response_keeps_the_session():
    async with legacy_http({"tools/call": Fault(-32602, "no such tool")}) as url, connect(url, era="legacy") as client:
        with pytest.raises(Exception, match="no such tool"):
            await client.call_tool("work")
        await client.list_tools()
