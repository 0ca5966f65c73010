"""What a server says about itself and does around its handlers: capabilities, pages, logging, lifespan, middleware."""

import asyncio
import base64
from contextlib import asynccontextmanager
from typing import Any

import pytest

import sessions
from inmemory import ALL, ERAS, LATEST_LEGACY, LATEST_MODERN, LEGACY, Client, connected, play
from twopipes import Context, McpError, Server, ToolResult
from twopipes._channels.memory import memory_pair
from twopipes._protocol.revisions import META_SERVER_INFO
from twopipes._protocol.types import CallToolResult, TextContent
from twopipes.errors import LocalProtocolError

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


def nothing() -> None: ...


# Capabilities


async def capabilities(client: Client) -> Any:
    if client.modern:
        return (await client.result("server/discover"))["capabilities"]
    return (await client.line_of("opening"))["result"]["capabilities"]


@pytest.mark.parametrize("revision", ALL)
def test_a_server_declares_what_is_registered(revision):
    """CP-01, CP-03, LG-01."""
    completions = {"completions"} if revision != "2024-11-05" else set()
    bare = Server("s")
    assert play(bare, capabilities, revision).keys() == {"logging"}
    tools = Server("s")
    tools.add_tool(nothing)
    assert play(tools, capabilities, revision) == {"tools": {"listChanged": True}, "logging": {}}
    prompts = Server("s")
    prompts.add_prompt(lambda: "x", name="p")
    assert play(prompts, capabilities, revision).keys() == {"prompts", "logging"} | completions
    resources = Server("s")
    resources.add_resource("x://y", lambda: "z", name="xy")
    found = play(resources, capabilities, revision)
    assert found == {"resources": {"listChanged": True, "subscribe": True}, "logging": {}}
    templates = Server("s")
    templates.add_resource("x://{y}", lambda y: y, name="xy")
    assert play(templates, capabilities, revision).keys() == {"resources", "logging"} | completions


@pytest.mark.parametrize("revision", ERAS)
def test_what_is_not_declared_is_not_there(revision):
    """RS-11, SU-17: a listen without anything to announce is acknowledged, too."""

    async def scenario(client: Client):
        for method in ("tools/list", "tools/call", "prompts/list", "resources/list", "resources/read", "resources/subscribe"):
            params = {"name": "x", "uri": "x://y"}
            assert (await client.error(method, **params))["code"] == -32601, method
        if client.modern:
            client.start("subscriptions/listen", notifications={"toolsListChanged": True})
            assert (await client.note("notifications/subscriptions/acknowledged"))["notifications"] == {}

    play(Server("s"), scenario, revision)


def test_experimental_and_extension_capabilities_are_declared():
    """CP-07."""
    server = Server("s", experimental={"x": {"y": 1}}, extensions={"com.example/z": {}})
    assert play(server, capabilities)["extensions"] == {"com.example/z": {}}
    assert play(server, capabilities, LATEST_LEGACY)["experimental"] == {"x": {"y": 1}}


@pytest.mark.parametrize("revision", ALL)
def test_a_server_introduces_itself(revision):
    server = Server("s", version="3", title="T", description="D", instructions="Be kind.", website_url="https://example.com/")

    async def scenario(client: Client):
        if client.modern:
            opening = await client.result("server/discover")
            info = opening["_meta"][META_SERVER_INFO]
        else:
            opening = (await client.line_of("opening"))["result"]
            info = opening["serverInfo"]
        assert (info["name"], info["version"]) == ("s", "3")
        assert ("title" in info) is (revision >= "2025-06-18")
        assert ("websiteUrl" in info) is (revision >= "2025-11-25")
        assert opening["instructions"] == "Be kind."

    play(server, scenario, revision)


def test_a_server_of_one_era_serves_that_one():
    """DE-09: a modern-only one names its versions to those who come with a handshake."""
    modern = Server("s", eras="modern")

    async def refused(client: Client):
        client.send(sessions.initialize("hello"))
        line = await client.line_of("hello")
        assert line["error"]["data"]["supported"] == [LATEST_MODERN]

    play(modern, refused)

    async def legacy(client: Client):
        assert (await client.error("server/discover"))["code"] in {-32601, -32602, -32600}

    async def main():
        async with connected(Server("s", eras="legacy"), LATEST_LEGACY) as client:
            client.send(sessions.modern("m", "server/discover"))
            assert "error" in await client.line_of("m")
            await legacy(client)

    asyncio.run(main())


@pytest.mark.parametrize("revision", LEGACY)
def test_a_ping_is_answered_while_a_call_runs(revision):
    """PI-01, PI-02."""
    server = Server("s")
    go_on = asyncio.Event()

    @server.tool
    async def wait() -> str:
        await go_on.wait()
        return "done"

    async def scenario(client: Client):
        waiting = client.start_tool("wait")
        assert await client.result("ping") == {}
        assert client.answers_to(waiting) == []
        go_on.set()
        await client.line_of(waiting)

    play(server, scenario, revision)


def test_there_is_no_ping_on_the_stateless_wire():
    """PI-04, LG-09."""

    async def scenario(client: Client):
        assert (await client.error("ping"))["code"] == -32601
        assert (await client.error("logging/setLevel", level="debug"))["code"] == -32601

    play(Server("s"), scenario)


# Pages


def library(size: int | None, count: int = 7) -> Server:
    server = Server("s", page_size=size, ttl_ms=10, cache_scope="public")
    for number in range(count):
        server.add_tool(nothing, name=f"tool-{number}")
        server.add_prompt(lambda: "x", name=f"prompt {number} ü")
        server.add_resource(f"x://{number}", lambda: "x", name="x")
        server.add_resource(f"y{number}://{{z}}", lambda z: z, name="y")
    return server


LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("size", [1, 3, 7, 8, None])
def test_a_walk_through_the_pages_finds_everything_once(size, revision):
    """PG-01, CH-08."""

    async def scenario(client: Client):
        for method, member in LISTS.items():
            found, cursor, pages, scopes = [], None, 0, set()
            while True:
                page = await client.result(method, **({} if cursor is None else {"cursor": cursor}))
                found += [each.get("uri") or each.get("uriTemplate") or each["name"] for each in page[member]]
                scopes.add(page.get("cacheScope"))
                pages += 1
                cursor = page.get("nextCursor")
                if cursor is None:
                    break
                assert isinstance(cursor, str)
            assert len(found) == len(set(found)) == 7
            assert pages == -(-7 // (size or 7))
            assert len(scopes) == 1

    play(library(size), scenario, revision)


@pytest.mark.parametrize("revision", ALL)
def test_a_cursor_that_is_not_ours_is_refused(revision):
    """PG-05."""

    async def scenario(client: Client):
        other = (await client.result("prompts/list"))["nextCursor"]
        mine = (await client.result("tools/list"))["nextCursor"]
        forged = base64.urlsafe_b64encode(b"00000000tool-1").decode()
        for bogus in ("bogus", "", "ü", "=", mine[:-2], mine + "A", mine.swapcase(), other, forged, " " + mine):
            assert (await client.error("tools/list", cursor=bogus))["code"] == -32602, bogus
        assert (await client.error("tools/list", cursor=7))["code"] == -32602

    play(library(3), scenario, revision)


@pytest.mark.parametrize("size", [3, None])
def test_a_cursor_means_the_same_every_time_and_after_changes(size):
    """PG-05: reuse, other connections, items that come and go."""
    server = library(3)

    async def main():
        async with connected(server) as client, connected(server, LATEST_LEGACY) as other:
            cursor = (await client.result("tools/list"))["nextCursor"]
            page = await client.names("tools/list", "tools", cursor=cursor)
            assert page == ["tool-3", "tool-4", "tool-5"]
            assert await client.names("tools/list", "tools", cursor=cursor) == page
            assert await other.names("tools/list", "tools", cursor=cursor) == page
            server.remove_tool("tool-0")
            server.add_tool(nothing, name="tool-7")
            assert await client.names("tools/list", "tools", cursor=cursor) == page
            server._methods.page_size = size
            rest = [*page, "tool-6", "tool-7"] if size is None else page
            assert await client.names("tools/list", "tools", cursor=cursor) == rest
            server.remove_tool("tool-2")
            assert (await client.error("tools/list", cursor=cursor))["code"] == -32602

    asyncio.run(main())


def test_a_cursor_at_what_became_the_end_gives_an_empty_last_page():
    """PG-05."""
    server = library(3, count=4)

    async def scenario(client: Client):
        cursor = (await client.result("tools/list"))["nextCursor"]
        server.remove_tool("tool-3")
        page = await client.result("tools/list", cursor=cursor)
        assert page["tools"] == []
        assert "nextCursor" not in page

    play(server, scenario)


# Logging


def logger() -> Server:
    server = Server("s")

    @server.tool
    async def log(ctx: Context) -> str:
        for level in LEVELS:
            await ctx.log(level, {"says": level}, logger="it")
        return "logged"

    @server.tool
    def log_from_a_thread(ctx: Context) -> str:
        for level in LEVELS:
            ctx.log(level, [level])
        return "logged"

    return server


def logged(client: Client) -> list[str]:
    found = [note["level"] for note in client.notes("notifications/message")]
    for line in [line for line in client.lines if line.get("method") == "notifications/message"]:
        client.lines.remove(line)
    return found


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("tool", ["log", "log_from_a_thread"])
def test_a_session_gets_log_messages_of_its_level_and_above(tool, revision):
    """LG-02, LG-03, LG-04."""

    async def scenario(client: Client):
        await client.call(tool)
        assert logged(client) == LEVELS[1:]  # the server's own choice
        assert await client.result("logging/setLevel", level="warning") == {}
        await client.call(tool)
        assert logged(client) == LEVELS[3:]
        await client.result("logging/setLevel", level="debug")
        await client.call(tool)
        assert logged(client) == LEVELS
        assert (await client.error("logging/setLevel", level="loud"))["code"] == -32602

    play(logger(), scenario, revision)


@pytest.mark.parametrize("tool", ["log", "log_from_a_thread"])
def test_a_modern_request_gets_log_messages_of_its_level_before_its_response(tool):
    """LG-05, LG-06, LG-07, LG-08."""

    async def scenario(client: Client):
        client.start("subscriptions/listen", request_id="ear", notifications={})
        await client.call(tool)
        assert logged(client) == []
        request_id = client.start_tool(tool, meta={sessions.LOG_LEVEL: "error"})
        line = await client.line_of(request_id)
        methods = [each.get("method") for each in client.lines[: client.lines.index(line)]]
        assert methods.count("notifications/message") == 4
        assert all("_meta" not in note for note in client.notes("notifications/message"))
        assert logged(client) == LEVELS[4:]
        loud = await client.request("tools/call", name=tool, meta={sessions.LOG_LEVEL: "loud"})
        assert loud["error"]["code"] == -32602

    play(logger(), scenario)


def test_the_server_logs_only_to_sessions():
    """LG-05."""
    server = logger()

    async def main():
        async with connected(server) as modern, connected(server, LATEST_LEGACY) as legacy:
            server.log("error", "from nowhere", logger="me")
            server.log("debug", "too quiet")
            assert await legacy.note("notifications/message") == {"level": "error", "data": "from nowhere", "logger": "me"}
            await modern.settle()
            await legacy.settle()
            assert len(legacy.notes("notifications/message")) == 1
            assert modern.notes("notifications/message") == []

    asyncio.run(main())


# Lifespan and middleware


@pytest.mark.parametrize("revision", ERAS)
def test_a_lifespan_is_entered_once_and_reached_by_handlers(revision):
    happened: list[Any] = []

    @asynccontextmanager
    async def lifespan(server: Server):
        happened.append(server)
        yield {"database": 7}
        happened.append("closed")

    server = Server("s", lifespan=lifespan)

    @server.tool
    def database(ctx: Context) -> int:
        return ctx.lifespan["database"]

    async def main():
        ours, theirs = memory_pair()
        client = Client(ours, revision, {})
        client.listen()
        serving = asyncio.create_task(server.serve(channel=theirs))
        if not client.modern:
            client.send(sessions.initialize("opening"), sessions.note("notifications/initialized"))
        assert await client.text("database") == "7"
        assert happened == [server]
        await client.leave()
        await serving
        await client.close()

    asyncio.run(main())
    assert happened == [server, "closed"]


def test_without_a_lifespan_there_is_none():
    server = Server("s")

    @server.tool
    def known(ctx: Context) -> bool:
        return ctx.lifespan is None

    async def main():
        ours, theirs = memory_pair()
        client = Client(ours, LATEST_MODERN, {})
        client.listen()
        serving = asyncio.create_task(server.serve(channel=theirs))
        assert await client.text("known") == "true"
        await client.leave()
        await serving
        await client.close()

    asyncio.run(main())


@pytest.mark.parametrize("revision", ERAS)
def test_middleware_wraps_every_request(revision, capsys):
    seen = []

    async def watch(ctx: Context, call_next: Any) -> Any:
        seen.append(ctx.call.method)
        if ctx.call.method == "prompts/list":
            raise McpError("closed on Mondays", code=-31001)
        if ctx.call.method == "resources/list":
            raise RuntimeError("secret")
        result = await call_next(ctx)
        if isinstance(result, CallToolResult):
            return CallToolResult([*result.content, TextContent(repr(ctx))])
        return result

    server = Server("s", middleware=watch)
    server.add_tool(lambda: "x", name="x")
    server.add_prompt(lambda: "x", name="x")
    server.add_resource("x://y", lambda: "z", name="x")

    async def scenario(client: Client):
        assert (await client.call("x"))["content"][0]["text"] == "x"
        assert "tools/call" in (await client.call("x"))["content"][1]["text"]
        assert (await client.error("prompts/list"))["code"] == -31001
        error = await client.error("resources/list")
        assert error["code"] == -32603
        assert "secret" not in str(error)
        assert (await client.result("prompts/get", name="x"))["messages"]

    play(server, scenario, revision)
    asked = [method for method in seen if method not in {"initialize", "ping"}]
    assert asked == ["tools/call", "tools/call", "prompts/list", "resources/list", "prompts/get"]
    assert "RuntimeError: secret" in capsys.readouterr().err


@pytest.mark.parametrize("revision", ERAS)
def test_middleware_that_returns_nothing_is_an_error(revision, capsys):
    """TL-03: only results are sent."""

    async def forgetful(ctx: Context, call_next: Any) -> Any:
        result = await call_next(ctx)
        return None if ctx.call.method == "tools/list" else result

    server = Server("s", middleware=forgetful)
    server.add_tool(nothing)

    async def scenario(client: Client):
        assert (await client.error("tools/list"))["code"] == -32603

    play(server, scenario, revision)
    assert "the middleware must return a result" in capsys.readouterr().err


def test_what_cannot_be_written_as_json_is_an_error_and_not_silence(capsys):
    """TL-05: in a result, in a log message, in a log message out of a thread."""
    server = Server("s")

    @server.tool
    def result() -> Any:
        return ToolResult(content="x", meta={"a": object()})

    @server.tool
    async def log(ctx: Context) -> str:
        await ctx.log("error", object())
        return "?"

    @server.tool
    def log_from_a_thread(ctx: Context) -> str:
        ctx.log("error", object())
        ctx.log("error", "well")
        return "done"

    async def scenario(client: Client):
        meta = {sessions.LOG_LEVEL: "debug"}
        assert (await client.error("tools/call", name="result"))["code"] == -32603
        assert (await client.call("log", meta=meta))["isError"] is True
        assert (await client.call("log_from_a_thread", meta=meta))["content"][0]["text"] == "done"
        assert [note["data"] for note in client.notes("notifications/message")] == ["well"]

    play(server, scenario)
    assert capsys.readouterr().err.count("Traceback") >= 3


def test_a_method_that_nobody_handles_is_not_there():
    """ER-03: even if the gate lets it through."""
    server = Server("s")

    async def rename(ctx: Context, call_next: Any) -> Any:
        ctx.call.method = "tools/dance"
        return await call_next(ctx)

    server._middleware = rename
    server.add_tool(nothing)

    async def scenario(client: Client):
        assert (await client.error("tools/list"))["code"] == -32601

    play(server, scenario)


def test_a_page_of_nothing_is_refused_at_once():
    with pytest.raises(LocalProtocolError, match="at least one"):
        Server("s", page_size=-1)


def test_each_list_has_its_own_time_to_live():
    """CH-01, CH-02, CH-08: and what is not named has none."""
    server = Server("s", ttl_ms={"tools": 1_000, "discover": 5_000, "resources": 70}, page_size=1)
    for name in ("a", "b"):
        server.add_tool(lambda: None, name=name)
        server.add_prompt(lambda: "x", name=name)
    server.add_resource("x://own", lambda: "own", ttl_ms=9)
    server.add_resource("x://none", lambda: "none")

    async def main():
        async with connected(server, "2026-07-28") as client:
            first = await client.result("tools/list")
            second = await client.result("tools/list", cursor=first["nextCursor"])
            found = {
                "first": first,
                "second": second,
                "prompts": await client.result("prompts/list"),
                "discover": await client.result("server/discover"),
                "resources": await client.result("resources/list"),
                "own": await client.result("resources/read", uri="x://own"),
                "none": await client.result("resources/read", uri="x://none"),
            }
            lives = {name: result["ttlMs"] for name, result in found.items()}
            assert lives == {
                "first": 1_000,
                "second": 1_000,
                "prompts": 0,
                "discover": 5_000,
                "resources": 70,
                "own": 9,
                "none": 70,
            }

    asyncio.run(main())
    with pytest.raises(LocalProtocolError, match="not tolls"):
        Server("s", ttl_ms={"tolls": 1})


def test_a_session_is_notified_only_of_lists_that_its_handshake_declared():
    """TL-17, CP-01: a first prompt that comes later is found by those who look."""
    server = Server("s")
    server.add_tool(lambda: None, name="a")

    async def main():
        async with connected(server, "2025-11-25") as client:
            server.add_prompt(lambda: "x", name="late")
            server.add_tool(lambda: None, name="b")
            await client.result("ping")
            assert client.notes("notifications/prompts/list_changed") == []
            assert len(client.notes("notifications/tools/list_changed")) == 1

    asyncio.run(main())
