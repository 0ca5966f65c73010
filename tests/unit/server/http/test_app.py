"""The ASGI application in the modern era: each POST is one exchange."""

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Annotated

import msgspec
import pytest

from sessions import ABLE, TAG, VERSION, modern, note, request
from twopipes import Context, Server, ServerSettings
from twopipes._session.subscriptions import Change
from twopipes.http import HttpOptions, LocalBus
from unit.server.http.http_client import Http, listen, running, tool_call


def make_server(**options):
    server = Server("s", **options)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    def threaded(text: str) -> str:
        return text

    @server.tool
    async def steps(ctx: Context) -> str:
        for number in range(3):
            await ctx.progress(number + 1, 3)
        return "done"

    @server.tool
    async def who(ctx: Context) -> str:
        answer = await ctx.elicit("Your name?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return answer.content["name"] if answer.action == "accept" else answer.action

    return server


def run(test, *, server=None, options=None, **more):
    """Run a test with a client of an application."""

    async def main():
        app = (server or make_server()).asgi(options, **more)
        async with running(app) as http:
            await test(http)
        left_behind = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left_behind

    asyncio.run(main())


def text_of(exchange):
    return exchange.messages[-1]["result"]["content"][0]["text"]


# Responses


@pytest.mark.parametrize("tool", ["echo", "threaded"])
def test_a_response_alone_is_json(tool):
    """HT-12."""

    async def test(http):
        exchange = await http.call(tool, {"text": "hello"})
        assert (exchange.status, exchange.headers["content-type"]) == (200, "application/json")
        assert text_of(exchange) == "hello"

    run(test)


def test_progress_makes_a_stream_that_ends_with_the_response():
    """HT-15, HT-16, HT-17."""

    async def test(http):
        exchange = await http.call("steps", meta={"progressToken": "p"})
        assert exchange.headers["content-type"] == "text/event-stream"
        assert exchange.headers["x-accel-buffering"] == "no"
        assert [line["params"]["progress"] for line in exchange.messages[:-1]] == [1, 2, 3]
        assert {line["params"]["progressToken"] for line in exchange.messages[:-1]} == {"p"}
        assert text_of(exchange) == "done"
        assert exchange.is_complete

    run(test)


def test_clients_may_use_the_same_id_at_the_same_time():
    async def test(http):
        exchanges = await asyncio.gather(*(http.call("echo", {"text": str(number)}) for number in range(50)))
        assert [text_of(exchange) for exchange in exchanges] == [str(number) for number in range(50)]

    run(test)


def test_the_author_can_ask_for_streams():
    async def test(http):
        exchange = await http.call("echo", {"text": "hello"})
        assert exchange.headers["content-type"] == "text/event-stream"
        assert text_of(exchange) == "hello"

    run(test, options=HttpOptions(responses="stream"))


def test_a_notification_is_accepted_without_a_body():
    """HT-10."""

    async def test(http):
        exchange = await http.post(note("notifications/whatever"))
        assert (exchange.status, exchange.body) == (202, b"")

    run(test)


# Refusals


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (modern(7, "no/such"), 404, -32601),
        (modern(7, "initialize"), 404, -32601),
        (modern(7, "tools/call", name="echo", arguments=5), 400, -32602),
        (request(7, "tools/list", _meta={VERSION: "2099-01-01", "io.modelcontextprotocol/clientCapabilities": {}}), 400, -32022),
        (request(7, "tools/list", _meta={VERSION: "2026-07-28"}), 400, -32602),
        (modern(7, "tools/call", name="no such tool", arguments={}), 200, -32602),
        (tool_call("who", request_id=7), 400, -32021),
    ],
)
def test_a_refused_request_has_the_status_of_its_code(message, status, code):
    # HT-52, HT-56, HT-57, HT-58
    async def test(http):
        exchange = await http.post(message)
        assert (exchange.status, exchange.message["id"], exchange.code) == (status, 7, code)

    run(test)


@pytest.mark.parametrize(
    ("headers", "without"),
    [
        ({"mcp-method": "tools/list"}, ()),
        ({"mcp-method": "TOOLS/CALL"}, ()),
        ({"mcp-name": "other"}, ()),
        ({"mcp-protocol-version": "2025-11-25"}, ()),
        ({"mcp-protocol-version": "2099-01-01"}, ()),
        ({"mcp-name": "=?base64?%%%?="}, ()),
    ],
)
def test_headers_that_differ_from_the_body_are_refused(headers, without):
    # HT-55, HT-62, HT-63, HT-65: values with their case
    async def test(http):
        exchange = await http.call("echo", {"text": "x"}, request_id=7, headers=headers, without=without)
        assert (exchange.status, exchange.message["id"], exchange.code) == (400, 7, -32020)

    run(test)


def test_whitespace_around_the_value_of_a_header_is_ignored():
    async def test(http):
        exchange = await http.call("echo", {"text": "x"}, headers={"mcp-name": "  echo \t"})
        assert (exchange.status, text_of(exchange)) == (200, "x")

    run(test)


@pytest.mark.parametrize("missing", ["mcp-protocol-version", "mcp-method", "mcp-name"])
def test_a_missing_header_is_refused(missing):
    # HT-54, HT-62, HT-63
    async def test(http):
        exchange = http.begin(tool_call("echo", {"text": "x"}))
        exchange.scope["headers"] = [pair for pair in exchange.scope["headers"] if pair[0] != missing.encode()]
        await exchange.run()
        assert (exchange.status, exchange.code) == (400, -32020)

    run(test)


def test_a_parameter_with_a_header_of_its_own_is_compared():
    # HT-73
    server = make_server()

    @server.tool
    async def query(region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})], text: str) -> str:
        return f"{text} in {region}"

    async def test(http):
        arguments = {"region": "us-west1", "text": "all"}
        assert text_of(await http.call("query", arguments, headers={"Mcp-Param-Region": "us-west1"})) == "all in us-west1"
        for headers in ({}, {"Mcp-Param-Region": "eu"}):
            exchange = await http.call("query", arguments, headers=headers)
            assert (exchange.status, exchange.code) == (400, -32020)

    run(test, server=server)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"\xff{}", 400, -32700),
        (b"[]", 400, -32600),
        (b"{}", 400, -32600),
        (b'"text"', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', 400, -32600),
        (b"[" * 100_000, 400, -32600),
    ],
)
def test_a_body_that_is_not_a_request_is_refused(body, status, code):
    """HT-14, HT-11."""

    async def test(http):
        exchange = await http.exchange(body=body, headers={"mcp-protocol-version": "2026-07-28"}).run()
        assert exchange.status == status
        assert exchange.code in {code, -32700}

    run(test)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/json; charset=latin-1"}, 415),
        ({"content-type": "Application/JSON; charset=utf-8"}, 200),
        ({"accept": "application/json"}, 406),
        ({"accept": "text/event-stream"}, 406),
        ({"accept": "text/event-stream;q=0.5, application/json"}, 200),
        ({"accept": "*/*"}, 200),
        ({"content-length": "99999999"}, 413),
        ({"content-length": "-5"}, 413),
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://localhost:6274"}, 200),
    ],
)
def test_http_itself_is_checked_first(headers, status):
    async def test(http):
        exchange = await http.call("echo", {"text": "x"}, headers=headers)
        assert exchange.status == status
        if status != 200:
            assert exchange.code == -32600

    run(test)


def test_a_body_that_grows_over_the_limit_is_refused():
    async def test(http):
        exchange = await http.exchange(body=[b"{", b" " * 600, b" " * 600, None]).run()
        assert exchange.status == 413

    run(test, options=HttpOptions(max_body=1000))


def test_a_body_that_does_not_arrive_is_refused():
    async def test(http):
        exchange = await http.exchange(body=[b"{", None]).run()
        assert exchange.status == 408

    run(test, options=HttpOptions(read_timeout=0.01))


def test_a_client_that_is_gone_before_its_body_is_complete_gets_nothing():
    async def test(http):
        exchange = http.exchange(body=[b"{", None])
        exchange.gone.set()
        await exchange.run()
        assert exchange.status == 0

    run(test)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD"])
def test_a_modern_server_accepts_only_post(method):
    # HT-47
    async def test(http):
        exchange = await http.exchange(method).run()
        assert (exchange.status, exchange.headers["allow"]) == (405, "POST")

    run(test, server=make_server(eras="modern"))


def test_a_modern_server_refuses_a_handshake_and_ignores_session_ids():
    # HT-48, HT-49
    async def test(http):
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        exchange = await http.post(request(1, "initialize", **params))
        assert (exchange.status, exchange.code) == (400, -32022)
        exchange = await http.call("echo", {"text": "x"}, headers={"mcp-session-id": "abc", "last-event-id": "7"})
        assert exchange.status == 200
        assert "mcp-session-id" not in exchange.headers

    run(test, server=make_server(eras="modern"))


def test_other_paths_are_not_found():
    # HT-01
    async def test(http):
        for path in ("/", "/mcp/", "/other"):
            assert (await http.exchange(path=path).run()).status == 404
        assert (await http.exchange(path="/other", headers={"host": "evil.example"}).run()).status == 403

    run(test)


def test_it_can_be_mounted_below_a_path_without_lifespan_events():
    async def main():
        http = Http(make_server().asgi())
        exchange = await http.begin(tool_call("echo", {"text": "x"}), root_path="/below").run()
        assert text_of(exchange) == "x"

    asyncio.run(main())


def test_websockets_are_refused():
    async def main():
        sent = []

        async def receive():
            return {"type": "websocket.connect"}

        async def send(message):
            sent.append(message["type"])

        await make_server().asgi()({"type": "websocket"}, receive, send)
        assert sent == ["websocket.close"]

    asyncio.run(main())


# Cancellation


def test_a_closed_response_cancels_the_request():
    # HT-20
    server = make_server()
    started, cancelled = asyncio.Event(), asyncio.Event()

    @server.tool
    async def forever() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def test(http):
        async with http.open(tool_call("forever")) as exchange:
            await started.wait()
        async with asyncio.timeout(10):
            await cancelled.wait()
        assert exchange.messages == []
        assert text_of(await http.call("echo", {"text": "still served"})) == "still served"

    run(test, server=server)


# Subscriptions


def test_a_subscription_gets_its_changes_until_the_client_goes_away():
    server = make_server()

    async def test(http):
        async with http.open(listen(5, toolsListChanged=True)) as one, http.open(listen(5, promptsListChanged=True)) as two:
            await one.until(lambda: one.messages)
            await two.until(lambda: two.messages)
            assert one.headers["content-type"] == "text/event-stream"
            assert one.messages[0]["method"] == "notifications/subscriptions/acknowledged"
            server._announce(Change("tools"))
            await one.until(lambda: len(one.messages) == 2)
            assert one.messages[1]["method"] == "notifications/tools/list_changed"
            assert one.messages[1]["params"]["_meta"][TAG] == 5
            assert len(two.messages) == 1
        await http.call("echo", {"text": "x"})
        assert len(http.app._owner.runtime.modern.session.subscriptions) == 0

    run(test, server=server)


def test_a_subscription_ends_properly_when_the_server_ends():
    async def main():
        app = make_server(settings=ServerSettings(drain=1)).asgi()
        async with running(app) as http:
            exchange = http.begin(listen(5, toolsListChanged=True))
            task = asyncio.create_task(exchange.run())
            await exchange.until(lambda: exchange.messages)
        await task
        assert exchange.messages[-1]["id"] == 5
        assert "result" in exchange.messages[-1]
        assert exchange.is_complete

    asyncio.run(main())


def test_too_many_subscriptions_are_refused():
    async def test(http):
        async with http.open(listen(1, toolsListChanged=True)) as first:
            await first.until(lambda: first.messages)
            exchange = await http.post(listen(2, toolsListChanged=True))
            assert (exchange.status, exchange.code, exchange.headers["retry-after"]) == (503, -32603, "5")

    run(test, options=HttpOptions(max_streams=1))


def test_too_many_requests_are_refused():
    server = make_server()
    started, finish = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        started.set()
        await finish.wait()
        return "done"

    async def test(http):
        async with http.open(tool_call("wait")) as first:
            await started.wait()
            exchange = await http.call("echo", {"text": "x"})
            assert (exchange.status, exchange.headers["retry-after"]) == (503, "1")
            finish.set()
            await first.until(lambda: first.is_complete)
            assert text_of(first) == "done"
        assert (await http.call("echo", {"text": "x"})).status == 200

    run(test, server=server, options=HttpOptions(max_requests=1))


# Questions


def test_a_question_is_answered_by_the_retry():
    async def test(http):
        asking = (await http.call("who", can=ABLE)).message["result"]
        assert asking["resultType"] == "input_required"
        (key,) = asking["inputRequests"]
        answers = {key: {"action": "accept", "content": {"name": "Anna"}}}
        retry = tool_call("who", request_id=1, can=ABLE)
        retry["params"] |= {"inputResponses": answers, "requestState": asking["requestState"]}
        assert text_of(await http.post(retry)) == "Anna"

    run(test)


def test_a_retry_may_reach_another_process():
    key = b"k" * 32

    async def main():
        async with running(make_server(state_key=key).asgi()) as one, running(make_server(state_key=key).asgi()) as two:
            asking = (await one.call("who", can=ABLE)).message["result"]
            (name,) = asking["inputRequests"]
            retry = tool_call("who", request_id="another", can=ABLE)
            retry["params"] |= {
                "inputResponses": {name: {"action": "accept", "content": {"name": "Anna"}}},
                "requestState": asking["requestState"],
            }
            assert text_of(await two.post(retry)) == "Anna"

    asyncio.run(main())


# Life


def test_the_lifespan_is_entered_once_and_left_at_the_end():
    events = []

    @asynccontextmanager
    async def lifespan(_):
        events.append("enter")
        yield "value"
        events.append("leave")

    server = make_server(lifespan=lifespan)

    @server.tool
    async def value(ctx: Context) -> str:
        return ctx.lifespan

    async def test(http):
        assert text_of(await http.call("value")) == "value"
        assert text_of(await http.call("value")) == "value"
        assert events == ["enter"]

    run(test, server=server)
    assert events == ["enter", "leave"]


def test_a_lifespan_that_fails_is_reported():
    @asynccontextmanager
    async def lifespan(_):
        raise OSError("no database")
        yield

    async def main():
        app = make_server(lifespan=lifespan).asgi()
        sent = []

        async def receive():
            return {"type": "lifespan.startup"}

        async def send(message):
            sent.append(message)

        await app({"type": "lifespan"}, receive, send)
        assert sent == [{"type": "lifespan.startup.failed", "message": "OSError: no database"}]
        exchange = await Http(app).call("echo", {"text": "x"})
        assert exchange.status == 500
        assert "no database" not in json.dumps(exchange.message)

    asyncio.run(main())


def test_running_calls_finish_and_new_ones_are_refused_while_the_server_ends():
    server = make_server()
    started, finish = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        started.set()
        await finish.wait()
        return "done"

    async def main():
        app = server.asgi()
        async with running(app) as http, http.open(tool_call("wait")) as exchange:
            await started.wait()
            draining = asyncio.create_task(app.drain(10))
            await asyncio.sleep(0)
            late = await http.call("echo", {"text": "x"})
            assert (late.status, late.headers["retry-after"]) == (503, "1")
            assert (await http.exchange("GET", "/health").run()).status == 503
            finish.set()
            await draining
            await exchange.until(lambda: exchange.is_complete)
            assert text_of(exchange) == "done"

    asyncio.run(main())


def test_the_end_does_not_wait_for_an_answer_that_reaches_another_process():
    async def main():
        app = make_server().asgi()
        async with running(app) as http:
            assert (await http.call("who", can=ABLE)).message["result"]["resultType"] == "input_required"
            async with asyncio.timeout(30):
                await app.drain(1e6)

    asyncio.run(main())


def test_health():
    async def test(http):
        exchange = await http.exchange("GET", "/health").run()
        assert (exchange.status, json.loads(exchange.body)) == (200, {"status": "ok"})
        by_address = await http.exchange("GET", "/health", headers={"host": "10.1.2.3:8000"}).run()
        assert by_address.status == 200

    run(test)


def test_without_its_bus_an_application_is_not_healthy_and_refuses_subscriptions_only():
    class Away(LocalBus):
        is_connected = False

    async def test(http):
        exchange = await http.exchange("GET", "/health").run()
        assert (exchange.status, json.loads(exchange.body)) == (503, {"status": "unavailable"})
        refused = await http.post(modern(1, "subscriptions/listen", notifications={"toolsListChanged": True}))
        assert (refused.status, refused.message["error"]["code"]) == (503, -32603)
        assert refused.headers["retry-after"] == "1"
        assert text_of(await http.call("echo", {"text": "x"})) == "x"

    run(test, bus=Away())


def test_pages_of_an_allowed_origin_can_read_responses():
    async def test(http):
        origin = {"origin": "https://app.example"}
        exchange = await http.call("echo", {"text": "x"}, headers=origin)
        assert exchange.headers["access-control-allow-origin"] == "https://app.example"
        preflight = await http.exchange(
            "OPTIONS", headers={**origin, "access-control-request-method": "POST", "access-control-request-headers": "mcp-param-a"}
        ).run()
        assert preflight.status == 204
        assert "mcp-param-a" in preflight.headers["access-control-allow-headers"]
        assert (await http.call("echo", {"text": "x"}, headers={"origin": "https://other.example"})).status == 403

    run(test, options=HttpOptions(origins=("https://app.example",)))
