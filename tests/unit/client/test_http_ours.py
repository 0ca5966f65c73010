"""Our client and our server over HTTP, on a real uvicorn, in every revision that has Streamable HTTP."""

import asyncio
import threading
from contextlib import asynccontextmanager, suppress
from typing import Annotated

import pytest
from msgspec import Meta

from fake_server import scene
from http_server import serve_asgi
from transcript import fresh_server
from twopipes import Context, RestartPolicy, Server, blocking, connect
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN
from twopipes.errors import HttpError, InvalidParams, MethodNotFound, NotFound
from twopipes.http import Identity

pytestmark = pytest.mark.slow  # real sockets

REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
SOON = RestartPolicy(first_delay=0.01, jitter=0.0, factor=1.0)
each_revision = pytest.mark.parametrize("revision", REVISIONS)
each_era = pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])


@asynccontextmanager
async def connected(server, revision=None, *, path="/mcp", **options):
    with serve_asgi(server.asgi()) as port:
        async with connect(f"http://127.0.0.1:{port}{path}", revision=revision, **options) as client:
            yield client


@each_revision
@scene
async def test_everything_works_in_every_revision(revision):
    seen = []
    async with connected(fresh_server(), revision, on_log=lambda entry: seen.append(entry.level)) as client:
        assert client.revision == revision
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        tools = await client.list_tools()  # several pages
        assert len(tools) > 20
        assert (await client.read_resource("note://first")).text == "The first note."
        assert (await client.get_prompt("dialogue", {"topic": "x"})).messages
        assert len((await client.call_tool("blocks")).content) > 2
        assert (await client.call_tool("fail")).is_error
        await client.ping()
        progress = []
        await client.call_tool("slow", {"steps": 3, "seconds": 0}, on_progress=lambda each: progress.append(each.progress))
        await client.set_log_level("error")
        await client.call_tool("log")
        with pytest.raises(NotFound):
            await client.read_resource("note://none")
        with pytest.raises((MethodNotFound, InvalidParams)):
            await client.request("no/such/method")
    assert progress == [1, 2, 3]
    assert seen == ["error", "critical", "alert", "emergency"]


@each_revision
@scene
async def test_questions_are_answered_in_every_revision(revision):
    async def answer(question):
        return {"favourite": "red", "others": ["blue"]} if "like" in question.message else {"name": "Ada", "age": 36}

    options = {"on_elicit": answer, "on_sample": lambda _: "a sample", "roots": ["file:///a", "file:///b"]}
    async with connected(fresh_server(), revision, **options) as client:
        if revision != "2025-03-26":  # it has no elicitation
            assert (await client.call_tool("ask")).text == "Ada is 36"
            if revision >= "2025-11-25":  # earlier forms have no multiple choice
                assert (await client.call_tool("ask_twice")).text == "Ada likes red"
            assert (await client.call_tool("ask_from_a_thread")).text == "accept"
            results = await asyncio.gather(*(client.call_tool("ask") for _ in range(10)))
            assert {each.text for each in results} == {"Ada is 36"}
        assert (await client.call_tool("sample", {"prompt": "hi"})).text == "a sample"
        roots = await client.call_tool("roots_tool")
        assert "file:///a" in roots.text
        assert "file:///b" in roots.text


@each_revision
@scene
async def test_changes_reach_subscriptions_in_every_revision(revision):
    async with (
        connected(fresh_server(), revision) as client,
        client.subscribe(tools=True, resources=["note://first"]) as changes,
    ):
        await changes.ready()
        await client.call_tool("mutate")
        assert (await anext(changes)).kind == "tools"
        await client.call_tool("touch")
        assert (await anext(changes)).uri == "note://first"


@each_era
@scene
async def test_a_hundred_calls_at_once(revision):
    async with connected(fresh_server(), revision) as client:
        results = await asyncio.gather(*(client.call_tool("add", {"a": each, "b": 1}) for each in range(100)))
        assert [each.structured["result"] for each in results] == list(range(1, 101))


@each_era
@scene
async def test_large_messages_pass_in_both_directions(revision):
    text = "é" * 500_000
    async with connected(fresh_server(), revision) as client:
        assert (await client.call_tool("echo", {"text": text})).text == text


@each_era
@scene
async def test_a_cancelled_call_ends_its_handler(revision):
    started, ended = threading.Event(), threading.Event()
    server = Server("slow")

    @server.tool
    async def wait() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with connected(server, revision) as client:
        calling = asyncio.create_task(client.call_tool("wait"))
        await asyncio.to_thread(started.wait)
        calling.cancel()
        await asyncio.to_thread(ended.wait)
        with suppress(asyncio.CancelledError):
            await calling


@scene
async def test_the_caller_is_known_to_the_handler():
    server = Server("private")

    @server.tool
    async def me(ctx: Context) -> str:
        return ctx.identity.subject

    async def verify(token):
        return Identity(subject=f"user of {token}") if token.startswith("good") else None

    with serve_asgi(server.asgi(auth=verify)) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        for era in ("modern", "legacy"):
            async with connect(url, auth="good-1", era=era) as client:
                assert (await client.call_tool("me")).text == "user of good-1"
            with pytest.raises(HttpError) as caught:
                await connect(url, era=era)
            assert (caught.value.reason, caught.value.status) == ("unauthorized", 401)
            with pytest.raises(HttpError, match="rejected the token"):
                await connect(url, auth="bad", era=era)


@scene
async def test_arguments_in_headers_are_understood_by_the_server():
    server = Server("regions")

    @server.tool
    async def query(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})], text: str = "") -> str:
        return f"{region}: {text}"

    async with connected(server) as client:
        # The client learns the headers from the error, and repeats the call.
        assert (await client.call_tool("query", {"region": "Zürich", "text": "x"})).text == "Zürich: x"
        assert (await client.call_tool("query", {"region": " eu "})).text == " eu : "


@scene
async def test_only_arguments_that_the_author_marks_are_sent_as_headers():
    """HT-67: proxies log headers, so an author decides, and a password stays in the body."""
    server = Server("login")
    seen = []

    @server.tool
    async def log_in(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})], password: str) -> str:
        return password

    application = server.asgi()

    async def spying(scope, receive, send):
        seen.extend(scope.get("headers", ()))
        await application(scope, receive, send)

    with serve_asgi(spying) as port:
        async with connect(f"http://127.0.0.1:{port}/mcp") as client:
            await client.list_tools()
            assert (await client.call_tool("log_in", {"region": "eu", "password": "hunter2"})).text == "hunter2"
    assert (b"mcp-param-region", b"eu") in seen
    assert {name for name, _ in seen if name.startswith(b"mcp-param-")} == {b"mcp-param-region"}
    assert all(b"hunter2" not in value for _, value in seen)


@scene
async def test_a_path_without_a_server():
    with pytest.raises(HttpError, match=r"there is no MCP server at .*/other: HTTP 404 \(there is nothing at this path"):
        async with connected(Server("x"), path="/other"):
            pass


class Cutter:
    """A TCP proxy that can cut every connection through it."""

    def __init__(self, port):
        self._target = port
        self._writers = set()
        self.is_refusing = False

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"

    async def __aexit__(self, *_):
        self._server.close()
        self.cut()

    def cut(self):
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader, writer):
        if self.is_refusing:
            writer.transport.abort()
            return
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._target)
        both = {writer, to_writer}
        self._writers |= both
        try:
            await asyncio.gather(self._copy(reader, to_writer), self._copy(to_reader, writer))
        finally:
            self._writers -= both

    async def _copy(self, reader, writer):
        with suppress(OSError):
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
        writer.close()


@scene
async def test_a_legacy_call_survives_a_cut_connection():
    """HT-22, HT-35."""
    started, go = threading.Event(), threading.Event()
    server = Server("slow")

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.progress(1)
        started.set()
        await asyncio.to_thread(go.wait)
        await ctx.progress(2)
        return "done"

    progress = []
    with serve_asgi(server.asgi()) as port:
        cutter = Cutter(port)
        async with cutter as url, connect(url, era="legacy") as client:
            calling = asyncio.create_task(client.call_tool("wait", on_progress=lambda each: progress.append(each.progress)))
            await asyncio.to_thread(started.wait)
            while not progress:
                await asyncio.sleep(0.01)
            cutter.cut()
            go.set()
            assert (await calling).text == "done"
    assert progress == [1, 2]


@scene
async def test_a_modern_subscription_survives_a_cut_connection():
    server = fresh_server()
    with serve_asgi(server.asgi()) as port:
        cutter = Cutter(port)
        async with cutter as url, connect(url, restart=SOON) as client, client.subscribe(tools=True) as changes:
            await changes.ready()
            cutter.is_refusing = True
            cutter.cut()
            cutter.is_refusing = False
            assert (await anext(changes)).kind == "tools"  # renewed: anything may have changed
            await client.call_tool("mutate")
            assert (await anext(changes)).kind == "tools"


@each_era
def test_the_blocking_client_has_the_same(revision):
    with serve_asgi(fresh_server().asgi()) as port:
        options = {"revision": revision, "on_elicit": lambda _: {"name": "Ada", "age": 36}}
        with blocking.connect(f"http://127.0.0.1:{port}/mcp", **options) as client:
            assert client.call_tool("ask").text == "Ada is 36"
            assert len(client.list_tools()) > 20
