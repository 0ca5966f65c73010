"""A client over HTTP in the modern era: each request is an exchange of its own."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from contextlib import suppress

import pytest

from fake_http import FakeHttp, Fault, Http, raw_server, text
from fake_server import TAG, asks, scene
from twopipes import Limits, RestartPolicy, Timeouts, blocking, connect
from twopipes._protocol.revisions import LATEST_MODERN
from twopipes._protocol.types import ElicitResult
from twopipes.errors import (
    ConnectionLost,
    HeaderMismatch,
    HttpError,
    LocalProtocolError,
    McpError,
    OpeningFailed,
    RemoteProtocolError,
    RequestTimedOut,
)

pytestmark = pytest.mark.slow  # real sockets

SOON = RestartPolicy(first_delay=0.0, jitter=0.0, factor=1.0)


def tool(name, properties=None):
    return {"name": name, "inputSchema": {"type": "object", "properties": properties or {}}}


# Headers


@scene
async def test_a_request_repeats_its_revision_its_method_and_its_target():
    """HT-06, HT-07, HT-09, HT-50, HT-51, HT-59, HT-60."""
    fake = FakeHttp({"tools/call": text("hi"), "resources/read": {"contents": []}, "prompts/get": {"messages": []}})
    async with fake as url, connect(url) as client:
        await client.call_tool("greet")
        await client.read_resource("file:///é")
        await client.get_prompt(" padded ")
        await client.list_tools()
    assert [(each.verb, each.headers["Mcp-Method"], each.headers.get("Mcp-Name")) for each in fake.seen] == [
        ("POST", "server/discover", None),
        ("POST", "tools/call", "greet"),
        ("POST", "resources/read", "=?base64?ZmlsZTovLy/DqQ==?="),
        ("POST", "prompts/get", "=?base64?IHBhZGRlZCA=?="),
        ("POST", "tools/list", None),
    ]
    for each in fake.seen:
        assert each.headers["MCP-Protocol-Version"] == LATEST_MODERN
        assert each.headers["Content-Type"] == "application/json"
        assert each.headers["Accept"] == "application/json, text/event-stream"
        assert "Mcp-Session-Id" not in each.headers
        assert "Cookie" not in each.headers


@scene
async def test_the_users_headers_go_with_each_request():
    fake = FakeHttp({"tools/call": text("hi")})
    async with fake as url, connect(url, headers={"X-Tenant": "blue"}) as client:
        await client.call_tool("greet")
    assert [each.headers["X-Tenant"] for each in fake.seen] == ["blue", "blue"]


REGION = {
    "region": {"type": "string", "x-mcp-header": "Region"},
    "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
}


@scene
async def test_arguments_are_repeated_in_the_headers_that_the_schema_names():
    # HT-61, HT-68, HT-69
    fake = FakeHttp({"tools/list": {"tools": [tool("sql", REGION)]}, "tools/call": text("done")})
    async with fake as url, connect(url) as client:
        await client.list_tools()
        await client.call_tool("sql", {"region": "Zürich", "deep": {"n": 42}})
        await client.call_tool("sql", {"region": None})
        await client.request("tools/call", {"name": "sql", "arguments": {"region": "eu"}})
    first, second, third = fake.of("tools/call")
    assert (first.headers["Mcp-Param-Region"], first.headers["Mcp-Param-N"]) == ("=?base64?WsO8cmljaA==?=", "42")
    assert not [name for name in second.headers if name.startswith("Mcp-Param")]
    assert third.headers["Mcp-Param-Region"] == "eu"


@scene
async def test_a_tool_with_an_invalid_annotation_is_left_out_with_a_warning(caplog):
    # HT-70, HT-71
    bad = {"x": {"type": "number", "x-mcp-header": "X"}}
    fake = FakeHttp({"tools/list": {"tools": [tool("good"), tool("bad", bad)]}})
    async with fake as url, connect(url) as client:
        with caplog.at_level(logging.WARNING, logger="twopipes.client"):
            assert [each.name for each in await client.list_tools()] == ["good"]
    assert "'bad' is left out" in caplog.text
    assert "number" in caplog.text


@scene
async def test_tools_are_listed_again_after_a_header_mismatch():
    # HT-72
    async def call(exchange):
        return text("done") if "Mcp-Param-Region" in exchange.headers else mismatch(exchange)

    fake = FakeHttp({"tools/list": {"tools": [tool("sql", REGION)]}, "tools/call": call})
    async with fake as url, connect(url) as client:
        assert (await client.call_tool("sql", {"region": "eu"})).text == "done"
    assert fake.methods == ["server/discover", "tools/call", "tools/list", "tools/call"]


def mismatch(exchange):
    return Http(400, {"jsonrpc": "2.0", "id": exchange.message["id"], "error": {"code": -32020, "message": "Header mismatch"}})


@scene
async def test_a_header_mismatch_is_retried_once():
    async def call(exchange):
        return mismatch(exchange)

    fake = FakeHttp({"tools/call": call})
    async with fake as url, connect(url) as client:
        with pytest.raises(HeaderMismatch):
            await client.call_tool("sql")
    assert fake.methods == ["server/discover", "tools/call", "tools/list", "tools/call"]


# Responses


@scene
async def test_a_response_may_be_a_stream_with_notifications():
    """HT-13."""

    async def call(exchange):
        await exchange.event(raw=b": keep-alive\r\n\r\n")
        await exchange.progress(1)
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hello"}})
        await exchange.result(text("done"))

    seen = []
    async with FakeHttp({"tools/call": call}) as url, connect(url, on_log=lambda log: seen.append(log.data)) as client:
        result = await client.call_tool("work", on_progress=lambda each: seen.append(each.progress))
        assert result.text == "done"
        assert sorted(seen, key=str) == [1, "hello"]


@scene
async def test_calls_run_at_the_same_time():
    both = asyncio.Barrier(2)

    async def call(exchange):
        await both.wait()
        return text(exchange.params["name"])

    async with FakeHttp({"tools/call": call}) as url, connect(url) as client:
        results = await asyncio.gather(client.call_tool("a"), client.call_tool("b"))
    assert [each.text for each in results] == ["a", "b"]


@scene
async def test_a_question_is_answered_by_a_second_request():
    # HT-08: no response is sent
    async def call(exchange):
        if "inputResponses" in exchange.params:
            return text(exchange.params["inputResponses"]["q"]["action"])
        params = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}}
        return asks({"q": ("elicitation/create", params)}, state="sealed")

    fake = FakeHttp({"tools/call": call})
    async with fake as url, connect(url, on_elicit=lambda _: ElicitResult("decline")) as client:
        assert (await client.call_tool("work")).text == "decline"
    first, second = fake.of("tools/call")
    assert second.params["requestState"] == "sealed"
    assert first.message["id"] != second.message["id"]
    assert second.headers["Mcp-Name"] == "work"


@scene
async def test_a_stream_that_stays_open_after_the_response_does_not_delay_it():
    async def call(exchange):
        await exchange.result(text("done"))
        await exchange.until_closed()

    fake = FakeHttp({"tools/call": call})
    async with fake as url, connect(url) as client:
        assert (await client.call_tool("work")).text == "done"
        await fake.of("tools/call")[0].is_closed.wait()  # the client does not keep it for ever


@scene
async def test_notifications_after_the_response_are_taken_too():
    async def call(exchange):
        await exchange.result(text("done"))
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "late"}})

    logged = asyncio.Event()
    async with FakeHttp({"tools/call": call}) as url, connect(url, on_log=lambda _: logged.set()) as client:
        assert (await client.call_tool("work")).text == "done"
        await logged.wait()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Http(202), "accepted tools/call with HTTP 202"),
        (Http(200, {"jsonrpc": "2.0", "id": 99, "result": {}}), "the response to tools/call has another id"),
        (Http(200, b"{", "application/json"), "the response to tools/call is not JSON"),
        (Http(200, b'{"\xff":1}', "application/json"), "the response to tools/call is not UTF-8"),
        (Http(200, b"[]", "application/json"), "the response to tools/call is not an object"),
        (Http(200, b"x" * 70_000, "application/json"), "the response to tools/call is over the limit of 65,536 bytes"),
    ],
)
@scene
async def test_an_invalid_response_fails_its_request_only(answer, message):
    fake = FakeHttp({"tools/call": answer})
    async with fake as url, connect(url, limits=Limits(max_line=65_536)) as client:
        with pytest.raises(RemoteProtocolError, match=message):
            await client.call_tool("work")
        await client.list_tools()


@scene
async def test_an_event_over_the_limit_fails_its_request_only():
    async def call(exchange):
        await exchange.result(text("x" * 70_000))

    async with FakeHttp({"tools/call": call}) as url, connect(url, limits=Limits(max_line=65_536)) as client:
        with pytest.raises(RemoteProtocolError, match="too long"):
            await client.call_tool("work")
        await client.list_tools()


@scene
async def test_an_error_without_an_id_belongs_to_the_request_of_its_exchange():
    answer = Http(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no such thing"}})
    async with FakeHttp({"tools/call": answer}) as url, connect(url) as client:
        with pytest.raises(McpError, match="no such thing"):
            await client.call_tool("work")


@pytest.mark.parametrize(
    ("answer", "reason", "retryable"),
    [
        (Http(401, headers={"WWW-Authenticate": 'Bearer realm="x"'}), "unauthorized", False),
        (Http(403), "forbidden", False),
        (Http(404), "not found", False),
        (Http(500), "status", False),
        (Http(503, "busy", "text/plain"), "status", True),
        (Http(200, "<html>", "text/html"), "HTML", False),
        (Http(200, "hi", "text/plain"), "content type", False),
        (Http(302, headers={"Location": "/elsewhere"}), "redirect", False),
        (Http(307, headers={"Location": "http://127.0.0.2:1/mcp"}), "redirect", False),
    ],
)
@scene
async def test_a_response_that_is_not_one_of_mcp(answer, reason, retryable):
    fake = FakeHttp({"tools/call": answer})
    async with fake as url, connect(url) as client:
        with pytest.raises(HttpError) as caught:
            await client.call_tool("work")
        await client.list_tools()
    error = caught.value
    assert (error.reason, error.retryable, error.method) == (reason, retryable, "tools/call")
    assert (error.status, error.url) == (answer.status, url)
    assert len(fake.of("tools/call")) == 1


@scene
async def test_a_redirect_within_the_origin_is_followed():
    async def moved(exchange):
        return Http(307, headers={"Location": "/mcp/"}) if exchange._request.path == "/mcp" else text("done")

    fake = FakeHttp({"tools/call": moved})
    async with fake as url, connect(url) as client:
        assert (await client.call_tool("work")).text == "done"
        assert (await client.call_tool("work")).text == "done"
    assert [each._request.path for each in fake.of("tools/call")] == ["/mcp", "/mcp/", "/mcp/"]


@scene
async def test_endless_redirects_end():
    async with FakeHttp({"tools/call": Http(307, headers={"Location": "/mcp"})}) as url, connect(url) as client:
        with pytest.raises(HttpError, match="too many redirects"):
            await client.call_tool("work")


# Cancellation and timeouts


@pytest.mark.parametrize("has_headers", [True, False])
@scene
async def test_a_cancelled_call_closes_its_stream_and_sends_nothing(has_headers):
    """HT-21."""

    async def call(exchange):
        if has_headers:
            await exchange.progress(1)
        await exchange.until_closed()

    fake = FakeHttp({"tools/call": call})
    async with fake as url, connect(url) as client:
        calling = asyncio.create_task(client.call_tool("work"))
        exchange = await fake.until("tools/call")
        calling.cancel()
        await exchange.is_closed.wait()
        with suppress(asyncio.CancelledError):
            await calling
    assert fake.methods == ["server/discover", "tools/call"]


@scene
async def test_a_call_that_times_out_closes_its_stream():
    async def call(exchange):
        await exchange.until_closed()

    fake = FakeHttp({"tools/call": call})
    async with fake as url, connect(url) as client:
        with pytest.raises(RequestTimedOut):
            await client.call_tool("work", timeouts=Timeouts(request=0.05))
        await fake.of("tools/call")[0].is_closed.wait()


@scene
async def test_closing_the_client_closes_every_stream():
    async def call(exchange):
        await exchange.progress(1)
        await exchange.until_closed()

    fake = FakeHttp({"tools/call": call})
    async with fake as url:
        async with connect(url) as client:
            calling = asyncio.create_task(client.call_tool("work"))
            exchange = await fake.until("tools/call")
        await exchange.is_closed.wait()
        with pytest.raises(Exception, match="closed before the response"):
            await calling


# Lost connections


@scene
async def test_a_server_that_is_away_for_a_while_is_used_again():
    fake = FakeHttp({"tools/call": text("done")})
    async with fake as url, connect(url) as client:
        await fake.stop()
        with pytest.raises(HttpError, match="nothing listens there") as caught:
            await client.call_tool("work")
        assert (caught.value.reason, caught.value.retryable) == ("refused", True)
        await fake.start()
        assert (await client.call_tool("work")).text == "done"


@scene
async def test_a_lost_exchange_is_repeated_if_that_is_safe():
    async def lost(exchange):
        if len(fake.of(exchange.method)) == 1:
            exchange.abort()
            await exchange.until_closed()
        return {"tools": [tool("found")]} if exchange.method == "tools/list" else text("done")

    fake = FakeHttp({"tools/list": lost, "tools/call": lost})
    async with fake as url, connect(url) as client:
        assert [each.name for each in await client.list_tools()] == ["found"]
        with pytest.raises(ConnectionLost) as caught:
            await client.call_tool("work")
        assert not caught.value.retryable
    first, second = fake.of("tools/list")
    assert first.message["id"] != second.message["id"]
    assert len(fake.of("tools/call")) == 1


@scene
async def test_a_stream_that_ends_without_a_response_is_not_resumed():
    async def call(exchange):
        await exchange.event(id="1")

    fake = FakeHttp({"tools/call": call})
    async with fake as url, connect(url) as client:
        with pytest.raises(ConnectionLost, match="the stream ended without it"):
            await client.call_tool("work")
    assert "GET" not in fake.methods


# Subscriptions


def listening(exchange, method="notifications/subscriptions/acknowledged", **params):
    meta = {"_meta": {TAG: exchange.message["id"]}}
    return {"jsonrpc": "2.0", "method": method, "params": {**params, **meta}}


@scene
async def test_a_lost_subscription_is_opened_again_and_reports_everything_as_changed():
    async def listen(exchange):
        await exchange.event(listening(exchange, notifications={"toolsListChanged": True}))
        if len(fake.of("subscriptions/listen")) == 1:
            await drop.wait()
            exchange.abort()
        await exchange.until_closed()

    drop = asyncio.Event()
    fake = FakeHttp({"subscriptions/listen": listen})
    async with fake as url, connect(url, restart=SOON) as client, client.subscribe(tools=True) as changes:
        await changes.ready()
        drop.set()
        assert (await anext(changes)).kind == "tools"
    assert len(fake.of("subscriptions/listen")) == 2


@scene
async def test_a_subscription_is_tried_again_until_the_server_is_back():
    async def listen(exchange):
        count = len(fake.of("subscriptions/listen"))
        if count in {2, 3}:
            return Http(503) if count == 2 else Fault(-32603, "the bus is lost")
        await exchange.event(listening(exchange, notifications={"toolsListChanged": True}))
        if count == 1:
            await exchange.result(Fault(-32603, "the bus is lost"))
            return None
        return await exchange.until_closed()

    fake = FakeHttp({"subscriptions/listen": listen})
    async with fake as url, connect(url, restart=SOON) as client, client.subscribe(tools=True) as changes:
        assert (await anext(changes)).kind == "tools"
    assert len(fake.of("subscriptions/listen")) == 4


@scene
async def test_a_subscription_that_the_server_ends_or_refuses_is_not_opened_again():
    async def listen(exchange):
        if len(fake.of("subscriptions/listen")) == 1:
            return Fault(-32603, "too many subscriptions")
        await exchange.event(listening(exchange, notifications={"toolsListChanged": True}))
        await exchange.result({})
        return None

    fake = FakeHttp({"subscriptions/listen": listen})
    async with fake as url, connect(url, restart=SOON) as client:
        with pytest.raises(McpError, match="too many"):
            await client.subscribe(tools=True).ready()
        assert [change async for change in client.subscribe(tools=True)] == []
    assert len(fake.of("subscriptions/listen")) == 2


@scene
async def test_a_policy_without_restarts_does_not_open_subscriptions_again():
    async def listen(exchange):
        await exchange.event(listening(exchange, notifications={"toolsListChanged": True}))
        exchange.abort()
        await exchange.until_closed()

    async with FakeHttp({"subscriptions/listen": listen}) as url, connect(url, restart=RestartPolicy(when="never")) as client:
        with pytest.raises(ConnectionLost):
            await anext(client.subscribe(tools=True))


@scene
async def test_closing_a_subscription_closes_its_stream():
    async def listen(exchange):
        await exchange.event(listening(exchange, notifications={"toolsListChanged": True}))
        await exchange.until_closed()

    fake = FakeHttp({"subscriptions/listen": listen})
    async with fake as url, connect(url) as client:
        async with client.subscribe(tools=True) as changes:
            await changes.ready()
        await fake.of("subscriptions/listen")[0].is_closed.wait()
    assert fake.methods == ["server/discover", "subscriptions/listen"]


# The opening


@scene
async def test_a_modern_error_with_status_400_is_no_reason_to_fall_back():
    """HT-45."""
    error = {"code": -32022, "message": "no", "data": {"supported": ["2099-01-01"], "requested": LATEST_MODERN}}
    fake = FakeHttp({"server/discover": Http(400, {"jsonrpc": "2.0", "id": None, "error": error})})
    async with fake as url:
        with pytest.raises(OpeningFailed, match="2099-01-01"):
            await connect(url)
    assert fake.methods == ["server/discover"]


@scene
async def test_refused_headers_end_the_opening():
    """HT-45."""
    fake = FakeHttp(
        {"server/discover": Http(400, {"jsonrpc": "2.0", "error": {"code": -32020, "message": "Missing header Mcp-Method"}})}
    )
    async with fake as url:
        with pytest.raises(OpeningFailed, match="Missing header Mcp-Method; does a proxy change headers"):
            await connect(url)
    assert fake.methods == ["server/discover"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Http(401), "unauthorized"),
        (Http(403), "forbidden"),
        (Http(503), "status"),
        (Http(200, "<html>", "text/html"), "HTML"),
    ],
)
@scene
async def test_a_refusal_that_is_not_about_the_era_ends_the_opening(answer, reason):
    fake = FakeHttp({"server/discover": answer})
    async with fake as url:
        with pytest.raises(HttpError) as caught:
            await connect(url)
    assert caught.value.reason == reason
    assert caught.value.method is None
    assert fake.methods == ["server/discover"]


@scene
async def test_a_url_without_a_server():
    fake = FakeHttp({"server/discover": Http(404), "initialize": Http(404, "<html>", "text/html")})
    async with fake as url:
        with pytest.raises(HttpError, match="check the path, which often is /mcp") as caught:
            await connect(url)
        assert caught.value.status == 404
    with pytest.raises(HttpError) as caught:
        await connect(url)
    assert caught.value.reason == "refused"


@scene
async def test_a_name_that_does_not_exist():
    with pytest.raises(HttpError, match="the name of the host is unknown") as caught:
        await connect("http://no-such-host.invalid/mcp")
    assert caught.value.reason == "dns"


@scene
async def test_tls_to_a_server_without_it():
    async with FakeHttp() as url:
        with pytest.raises(HttpError, match="TLS failed") as caught:
            await connect(url.replace("http:", "https:"))
    assert caught.value.reason == "tls"


@pytest.mark.parametrize("data", [b"220 mail.example.org ESMTP\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"])
@scene
async def test_a_server_of_another_protocol(data):
    async def speak(reader, writer):
        writer.write(data)
        with suppress(ConnectionError):
            await writer.drain()

    async with raw_server(speak) as url:
        with pytest.raises(HttpError) as caught:
            await connect(url)
    assert caught.value.reason == "not HTTP"


@scene
async def test_a_silent_server_ends_the_opening_in_time():
    async def wait(reader, writer):
        await reader.read()

    async with raw_server(wait) as url:
        with pytest.raises(OpeningFailed, match="connect limit"):
            await connect(url, timeouts=Timeouts(connect=0.1, probe=0.05))


@scene
async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with FakeHttp() as url, connect(url) as client:
        assert client.era == "modern"


# Authorization


@scene
async def test_a_token_goes_with_each_request():
    fake = FakeHttp({"tools/call": text("hi")})
    async with fake as url, connect(url, auth="secret") as client:
        await client.call_tool("greet")
    assert [each.headers["Authorization"] for each in fake.seen] == ["Bearer secret", "Bearer secret"]


@pytest.mark.parametrize("is_async", [True, False])
@scene
async def test_a_function_gives_the_token_of_each_request(is_async):
    tokens = iter(["one", "two"])

    async def later():
        return next(tokens)

    fake = FakeHttp({"tools/call": text("hi")})
    async with fake as url, connect(url, auth=later if is_async else lambda: next(tokens)) as client:
        await client.call_tool("greet")
    assert [each.headers["Authorization"] for each in fake.seen] == ["Bearer one", "Bearer two"]


class SignIn:
    """Answers challenges with a new token each time."""

    def __init__(self, *tokens):
        self.tokens = list(tokens)
        self.challenges = []

    async def challenge(self, challenge):
        self.challenges.append(challenge)
        await asyncio.sleep(0)
        return self.tokens.pop(0) if self.tokens else None


def guarded(good, answer):
    async def check(exchange):
        if exchange.headers.get("Authorization") in [f"Bearer {each}" for each in good]:
            return answer
        return Http(401, headers={"WWW-Authenticate": 'Bearer resource_metadata="https://x/.well-known/m"'})

    return check


@scene
async def test_a_challenge_is_answered_and_the_request_is_sent_once_more():
    good = ["first"]
    discovered = {"supportedVersions": [LATEST_MODERN], "capabilities": {"tools": {}}}
    fake = FakeHttp({"server/discover": guarded(good, discovered), "tools/call": guarded(good, text("done"))})
    sign_in = SignIn("first", "second")
    async with fake as url, connect(url, auth=sign_in) as client:
        assert len(sign_in.challenges) == 1
        assert sign_in.challenges[0].resource_metadata == "https://x/.well-known/m"
        assert (sign_in.challenges[0].status, sign_in.challenges[0].token, sign_in.challenges[0].url) == (401, None, url)
        good[:] = ["second"]  # the first one has expired
        results = await asyncio.gather(*(client.call_tool("work") for _ in range(5)))
        assert [each.text for each in results] == ["done"] * 5
        assert len(sign_in.challenges) == 2  # one challenge for all of them
        good[:] = ["third"]
        with pytest.raises(HttpError, match="rejected the token") as caught:
            await client.call_tool("work")
    assert caught.value.challenges == ('Bearer resource_metadata="https://x/.well-known/m"',)
    assert len(sign_in.challenges) == 3


@scene
async def test_a_token_is_not_sent_to_another_origin():
    other = FakeHttp()
    async with other as elsewhere:
        fake = FakeHttp({"server/discover": Http(308, headers={"Location": elsewhere})})
        async with fake as url:
            with pytest.raises(HttpError, match="redirects elsewhere"):
                await connect(url, auth="secret")
    assert other.seen == []


@pytest.mark.parametrize("auth", ["", "a\nb", "é", lambda: "a\r\nX: 1", lambda: 7])
@scene
async def test_an_invalid_token_is_not_sent_and_not_shown(auth):
    fake = FakeHttp()
    async with fake as url:
        with pytest.raises(LocalProtocolError, match="token of visible ASCII characters"):
            await connect(url, auth=auth)
    assert fake.seen == []


@pytest.mark.parametrize("era", ["auto", "legacy"])
@scene
async def test_a_function_for_tokens_that_fails(era):
    def fail():
        raise OSError("no key ring")

    fake = FakeHttp()
    async with fake as url:
        with pytest.raises(LocalProtocolError, match="auth= raised OSError: no key ring"):
            await connect(url, auth=fail, era=era)
    assert fake.seen == []


@scene
async def test_an_object_that_cannot_authorize():
    with pytest.raises(LocalProtocolError, match="auth= must be a token, a function that returns one, or an object"):
        await connect("http://127.0.0.1:9/mcp", auth=7)


# Around it


@scene
async def test_a_recording_has_each_message_as_a_line(tmp_path):
    async def call(exchange):
        await exchange.progress(1)
        await exchange.result(text("done"))

    fake = FakeHttp(
        {
            "tools/call": call,
            "tools/list": Http(200, b'{\n "jsonrpc": "2.0",\r\n "id": 2,\n "result": {"tools": []}}', "application/json"),
        }
    )
    path = tmp_path / "trace.jsonl"
    async with fake as url, connect(url, trace=path) as client:
        await client.list_tools()
        await client.call_tool("work")
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert entries[0]["target"] == url
    kinds = [(entry["kind"], json.loads(entry["line"]).get("method", "response")) for entry in entries[1:] if "line" in entry]
    assert kinds == [
        (">", "server/discover"),
        ("<", "response"),
        (">", "tools/list"),
        ("<", "response"),
        (">", "tools/call"),
        ("<", "notifications/progress"),
        ("<", "response"),
    ]


class BlockingSignIn:
    """Gets its tokens in threads that are not those of a loop."""

    def __init__(self):
        self.is_in_a_loop = []

    def __call__(self):
        self.challenge(None)
        return "first"

    def challenge(self, challenge):
        try:
            asyncio.get_running_loop()
            self.is_in_a_loop.append(True)
        except RuntimeError:
            self.is_in_a_loop.append(False)
        return "second"


@pytest.mark.parametrize("auth", ["second", lambda: "second", BlockingSignIn()])
@scene
async def test_the_blocking_client_takes_a_url(auth):
    def use(url):
        with blocking.connect(url, auth=auth) as client:
            return client.call_tool("work").text

    fake = FakeHttp({"tools/call": guarded(["second"], text("done"))})
    async with fake as url:
        assert await asyncio.to_thread(use, url) == "done"
    assert fake.seen[-1].headers["Authorization"] == "Bearer second"
    assert not any(getattr(auth, "is_in_a_loop", []))


def test_without_the_library_the_error_names_the_extra():
    program = (
        "import sys; sys.modules['aiohttp'] = None\n"
        "from twopipes import blocking\n"
        "try: blocking.connect('http://127.0.0.1:9/mcp')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout == 'LocalProtocolError connecting to a URL needs an HTTP client library: pip install "twopipes[http]"\n'


def test_a_client_of_a_command_imports_nothing_of_http():
    program = (
        "import asyncio, sys; from twopipes import Server, connect\n"
        "async def main():\n"
        "    async with connect(Server('x')) as client: await client.list_tools()\n"
        "asyncio.run(main())\n"
        "print(sorted(name for name in sys.modules if 'http' in name or name == 'aiohttp'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout == "[]\n"
