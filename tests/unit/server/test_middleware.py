"""Middleware around every request, the protocol's own included: it may watch, change, refuse, and take its time."""

import asyncio
from typing import Any

import pytest

import sessions
from inmemory import LATEST_LEGACY, LATEST_MODERN, NET, Client, connected, play, turn_until
from twopipes import Context, McpError, Server, ServerSettings
from twopipes._channels.memory import memory_pair
from twopipes._protocol.types import EmptyResult, InitializeResult, SubscriptionsListenResult

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
# Every method that a server knows, by era, with params that it takes.
SHARED = {
    "tools/list": {},
    "tools/call": {"name": "x"},
    "prompts/list": {},
    "prompts/get": {"name": "x", "arguments": {"word": "a"}},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "x://y"},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "word", "value": "a"}},
}
METHODS = {
    LATEST_LEGACY: {
        "ping": {},
        "logging/setLevel": {"level": "error"},
        "resources/subscribe": {"uri": "x://y"},
        "resources/unsubscribe": {"uri": "x://y"},
        **SHARED,
    },
    LATEST_MODERN: {"server/discover": {}, **SHARED},
}
ALL_METHODS = [(revision, method) for revision, methods in METHODS.items() for method in methods]


class Watcher:
    """A middleware that records requests, and refuses the given ones."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self.refused = ""

    async def __call__(self, ctx: Context, call_next: Any) -> Any:
        method = ctx.call.method
        self.began.append(method)
        if method == self.refused:
            raise McpError("closed on Mondays", code=-31001)
        try:
            result = await call_next(ctx)
        except BaseException as error:
            self.ended.append((method, type(error).__name__))
            raise
        self.ended.append((method, type(result).__name__))
        return result


def make(middleware: Any, **options: Any) -> Server:
    server = Server("s", middleware=middleware, **options)
    server.add_tool(lambda: "x", name="x")
    server.add_prompt(lambda word: "x", name="x")
    server.add_resource("x://y", lambda: "z", name="x")
    return server


def listen(client: Client, request_id: Any = "ear") -> None:
    client.start("subscriptions/listen", request_id=request_id, notifications={"toolsListChanged": True})


@pytest.mark.parametrize(("revision", "method"), ALL_METHODS)
def test_every_method_passes_it_and_may_be_refused(revision, method):
    watcher = Watcher()

    async def scenario(client: Client):
        params = METHODS[revision][method]
        before = len(watcher.began)
        await client.result(method, **params)
        assert watcher.began[before:] == [method]
        watcher.refused = method
        assert (await client.error(method, **params))["code"] == -31001
        watcher.refused = ""
        await client.result(method, **params)

    play(make(watcher), scenario, revision)


def test_the_handshake_passes_it_and_may_be_changed():
    async def rename(ctx: Context, call_next: Any) -> Any:
        result = await call_next(ctx)
        if isinstance(result, InitializeResult):
            assert ctx.client.info.name == "c"
            assert ctx.client.revision == result.protocol_version
            assert (ctx.meta, ctx.lifespan) == ({}, None)
            return InitializeResult(
                protocol_version=result.protocol_version,
                capabilities=result.capabilities,
                server_info=result.server_info,
                instructions="as you like",
            )
        return result

    async def scenario(client: Client):
        assert (await client.line_of("opening"))["result"]["instructions"] == "as you like"

    play(make(rename), scenario, LATEST_LEGACY)


def test_after_a_refused_handshake_nothing_is_served_until_another_one():
    watcher = Watcher()
    watcher.refused = "initialize"

    async def main():
        ours, theirs = memory_pair()
        client = Client(ours, LATEST_LEGACY, {})
        client.listen()
        serving = asyncio.create_task(make(watcher)._serve_channel(theirs))
        client.send(sessions.initialize("first"))
        assert (await client.line_of("first"))["error"]["code"] == -31001
        assert (await client.error("tools/list"))["code"] == -32602
        watcher.refused = ""
        client.send(sessions.initialize("second"), sessions.note("notifications/initialized"))
        assert "result" in await client.line_of("second")
        await client.result("tools/list")
        await client.leave()
        await serving
        await client.close()

    asyncio.run(asyncio.wait_for(main(), NET))


def test_a_whole_conversation_in_one_read_is_answered_in_order_to_its_end():
    """SD-07: a shell that pipes a file closes the input at once."""

    async def slow(ctx: Context, call_next: Any) -> Any:
        await asyncio.sleep(0)
        return await call_next(ctx)

    async def main():
        ours, theirs = memory_pair()
        client = Client(ours, LATEST_LEGACY, {})
        client.listen()
        client.send(
            sessions.initialize(0),
            sessions.note("notifications/initialized"),
            sessions.request(1, "ping"),
            sessions.request(2, "logging/setLevel", level="error"),
            sessions.request(3, "tools/list"),
        )
        await client.leave()
        await make(slow)._serve_channel(theirs)
        await client.until(lambda: client.over)
        assert [line["id"] for line in client.lines] == [0, 1, 2, 3]
        assert all("result" in line for line in client.lines)
        await client.close()

    asyncio.run(asyncio.wait_for(main(), NET))


def test_what_the_protocol_answers_waits_for_no_handler():
    """PI-02: all places are taken, and one call waits already."""
    watcher = Watcher()
    server = make(watcher, settings=ServerSettings(max_running=1))
    go_on = asyncio.Event()

    @server.tool
    async def wait() -> str:
        await go_on.wait()
        return "done"

    async def scenario(client: Client):
        first, second = client.start_tool("wait"), client.start_tool("x")
        await client.result("ping")
        await client.result("logging/setLevel", level="error")
        assert client.answers_to(first) == client.answers_to(second) == []
        go_on.set()
        await client.line_of(second)

    play(server, scenario, LATEST_LEGACY)


def test_what_the_protocol_answers_takes_no_place_from_a_handler():
    held = asyncio.Event()

    async def hold(ctx: Context, call_next: Any) -> Any:
        if ctx.call.method == "logging/setLevel":
            # Nor while it asks the client, which another one may use to work.
            assert (await ctx.list_roots())[0].uri == "file:///home"
            await held.wait()
        return await call_next(ctx)

    server = make(hold, settings=ServerSettings(max_running=1))

    async def scenario(client: Client):
        waiting = client.start("logging/setLevel", level="error")
        await client.until(lambda: client.asked)
        assert await client.text("x") == "x"
        assert client.answers_to(waiting) == []
        held.set()
        await client.line_of(waiting)

    play(server, scenario, LATEST_LEGACY)


def test_progress_and_log_work_around_what_the_protocol_answers():
    async def tell(ctx: Context, call_next: Any) -> Any:
        await ctx.progress(1, 2)
        await ctx.log("error", "here")
        return await call_next(ctx)

    async def scenario(client: Client):
        meta = {"progressToken": "t", sessions.LOG_LEVEL: "debug"}
        await client.result("server/discover", meta=meta)
        assert (await client.note("notifications/progress"))["progressToken"] == "t"
        assert (await client.note("notifications/message"))["data"] == "here"

    play(make(tell), scenario)


@pytest.mark.parametrize("same_read", [True, False])
def test_a_cancelled_call_is_cancelled_in_the_middleware_and_gets_no_response(same_read):
    """CA-03, CA-04."""
    seen = []

    async def stick(ctx: Context, call_next: Any) -> Any:
        if ctx.call.id == "stuck":
            try:
                seen.append("began")
                await asyncio.Event().wait()
            finally:
                seen.append(bool(ctx.cancelled))
        return await call_next(ctx)

    async def scenario(client: Client):
        client.start("logging/setLevel", request_id="stuck", level="error")
        if not same_read:
            await turn_until(lambda: seen)
        client.cancel("stuck")
        await client.settle()
        assert client.answers_to("stuck") == []

    play(make(stick), scenario, LATEST_LEGACY)
    assert seen in ([], ["began", True])


def test_a_failing_middleware_is_an_error_that_the_author_sees(capsys):
    async def fail(ctx: Context, call_next: Any) -> Any:
        if ctx.call.method == "server/discover":
            raise RuntimeError("secret")
        return await call_next(ctx)

    async def scenario(client: Client):
        error = await client.error("server/discover")
        assert error["code"] == -32603
        assert "secret" not in str(error)

    play(make(fail), scenario)
    assert "RuntimeError: secret" in capsys.readouterr().err


# Subscriptions


def test_a_listen_lives_as_long_as_call_next_and_ends_with_the_server():
    """SU-02, SU-12, SU-13, SU-14."""
    watcher = Watcher()
    server = make(watcher)

    async def main():
        async with connected(server) as client:
            listen(client)
            assert (await client.note(ACKNOWLEDGED))["_meta"][sessions.TAG] == "ear"
            server.remove_tool("x")
            await client.note("notifications/tools/list_changed")
            await client.settle()
            assert client.answers_to("ear") == []
            assert ("subscriptions/listen", "SubscriptionsListenResult") not in watcher.ended
        cancel, result = client.lines[-2:]
        assert cancel == sessions.cancelled("ear", _meta={sessions.TAG: "ear"})
        assert result["id"] == "ear"
        assert result["result"]["_meta"][sessions.TAG] == "ear"

    asyncio.run(asyncio.wait_for(main(), NET))
    assert watcher.ended[-1] == ("subscriptions/listen", "SubscriptionsListenResult")


def test_an_open_listen_does_not_hold_the_end():
    """It would wait for the drain, which has no end here that a test could wait for."""

    async def main():
        async with connected(make(Watcher(), settings=ServerSettings(drain=1e6))) as client:
            listen(client)
            await client.note(ACKNOWLEDGED)

    asyncio.run(asyncio.wait_for(main(), NET))


def test_a_listen_at_the_end_of_the_input_is_acknowledged_before_it_ends():
    async def main():
        ours, theirs = memory_pair()
        client = Client(ours, LATEST_MODERN, {})
        client.listen()
        listen(client)
        await client.leave()
        await make(Watcher())._serve_channel(theirs)
        await client.until(lambda: client.over)
        assert [line.get("method") for line in client.lines] == [ACKNOWLEDGED, "notifications/cancelled", None]
        await client.close()

    asyncio.run(asyncio.wait_for(main(), NET))


def test_a_refused_listen_is_not_acknowledged():
    watcher = Watcher()
    watcher.refused = "subscriptions/listen"
    server = make(watcher)

    async def scenario(client: Client):
        listen(client)
        assert (await client.line_of("ear"))["error"]["code"] == -31001
        server.remove_tool("x")
        await client.settle()
        assert client.notes(ACKNOWLEDGED) == client.notes("notifications/tools/list_changed") == []

    play(server, scenario)


def test_a_cancelled_listen_is_cancelled_in_there_and_silent():
    """SU-11."""
    watcher = Watcher()
    server = make(watcher)

    async def scenario(client: Client):
        listen(client)
        await client.note(ACKNOWLEDGED)
        client.cancel("ear")
        await client.settle()
        assert ("subscriptions/listen", "CancelledError") in watcher.ended
        server.remove_tool("x")
        await client.settle()
        assert [line for line in client.lines if "ear" in str(line)] == [client.lines[0]]
        # The id is free, and the new one hears.
        listen(client)
        await client.until(lambda: len(client.notes(ACKNOWLEDGED)) == 2)
        server.add_tool(lambda: "y", name="y")
        await client.note("notifications/tools/list_changed")

    play(server, scenario)


@pytest.mark.parametrize("answer", [SubscriptionsListenResult(), EmptyResult(meta={"why": "enough"}), McpError("no", code=-31001)])
def test_a_listen_may_be_ended_in_there(answer):
    """SU-13, SU-14: it ends as every other does."""
    enough = asyncio.Event()

    async def limit(ctx: Context, call_next: Any) -> Any:
        if ctx.call.method != "subscriptions/listen":
            return await call_next(ctx)
        listening = asyncio.ensure_future(call_next(ctx))
        await enough.wait()
        listening.cancel()
        await asyncio.wait([listening])
        if isinstance(answer, McpError):
            raise answer
        return answer

    server = make(limit)

    async def scenario(client: Client):
        listen(client)
        await client.note(ACKNOWLEDGED)
        enough.set()
        line = await client.line_of("ear")
        assert client.notes("notifications/cancelled") == [{"requestId": "ear", "_meta": {sessions.TAG: "ear"}}]
        if isinstance(answer, McpError):
            assert line["error"]["code"] == -31001
        else:
            assert line["result"]["_meta"][sessions.TAG] == "ear"
        server.remove_tool("x")
        await client.settle()
        assert client.notes("notifications/tools/list_changed") == []

    play(server, scenario)


def test_a_listen_that_is_answered_while_call_next_still_waits_is_over():
    """SU-13: nothing comes after the result, and what waits is not left behind."""
    waiting: list[Any] = []

    async def impatient(ctx: Context, call_next: Any) -> Any:
        if ctx.call.method != "subscriptions/listen":
            return await call_next(ctx)
        waiting.append(asyncio.ensure_future(call_next(ctx)))
        await asyncio.sleep(0)
        return SubscriptionsListenResult()

    server = make(impatient)

    async def scenario(client: Client):
        listen(client)
        await client.line_of("ear")
        assert [line.get("method") for line in client.lines] == [ACKNOWLEDGED, "notifications/cancelled", None]
        server.remove_tool("x")
        await client.settle()
        assert client.notes("notifications/tools/list_changed") == []
        await asyncio.wait(waiting)
        assert waiting[0].cancelled()

    play(server, scenario)


def test_a_listen_whose_middleware_does_not_come_to_an_end_is_answered_all_the_same():
    """SU-13."""
    ended = []

    async def stick(ctx: Context, call_next: Any) -> Any:
        try:
            await call_next(ctx)
            await asyncio.Event().wait()
        finally:
            ended.append(ctx.call.method)

    async def main():
        async with connected(make(stick)) as client:
            listen(client)
            await client.note(ACKNOWLEDGED)
        assert client.lines[-1]["result"]["_meta"][sessions.TAG] == "ear"
        await turn_until(lambda: ended)

    asyncio.run(asyncio.wait_for(main(), NET))
    assert ended == ["subscriptions/listen"]


def test_a_session_without_middleware_answers_by_itself():
    """Without a middleware nothing is delegated, so no task is started."""
    server = make(None)

    async def main():
        ours, theirs = memory_pair()
        connection = server._connect(theirs)
        before = asyncio.all_tasks()
        connection._handle(connection.session.receive(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', now=0.0))
        assert connection.session.data_to_send() == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
        assert asyncio.all_tasks() == before
        await connection.close()
        await ours.close()

    asyncio.run(main())
