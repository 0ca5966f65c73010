"""How a client treats unusual but legal servers, and the form of its responses (parts of JR, ER, VN, MT, CP, CT and AP)."""

import asyncio
import base64

import pytest

from fake_server import PREFIX, SAMPLE, Bare, FakeServer, asks, legacy, scene, text
from twopipes import connect
from twopipes._protocol.revisions import ALL, LATEST_MODERN, LEGACY
from twopipes._protocol.types import CreateMessageResult, Icon, ImageContent, Implementation
from twopipes.errors import RemoteProtocolError
from twopipes.types import ClientOptions

PICTURE = base64.b64encode(bytes(range(256))).decode()


# Answers to a legacy server


@pytest.mark.parametrize("revision", LEGACY)
@scene
async def test_an_error_of_the_client_has_a_code_a_message_and_the_id(revision):
    """JR-07, JR-08, JR-17, ER-02, ER-03, ER-05: never both, never neither, and never without the id that was readable."""

    def broken(_question):
        raise ZeroDivisionError

    fake = legacy(revision=revision)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with connect(fake, revision=revision, on_sample=broken) as client:
        answers = {
            -32601: await fake.ask("nope/nope", ident="a"),
            -32602: await fake.ask("sampling/createMessage", {"messages": 5}, ident="b"),
            -32603: await fake.ask("sampling/createMessage", SAMPLE, ident="c"),
        }
        fake.write(b'{"jsonrpc":"2.0","id":77,"method":5}\n{"jsonrpc":"2.0","id":78,"method":"ping","params":[1]}\n')
        await client.ping()
    for code, answer in answers.items():
        assert answer.keys() == {"jsonrpc", "id", "error"}
        assert answer["error"]["code"] == code
        assert isinstance(answer["error"]["message"], str)
    refused = {line["id"]: line["error"]["code"] for line in fake.lines if line.get("id") in {77, 78}}
    assert refused.keys() == {77, 78}
    assert set(refused.values()) <= {-32600, -32602}  # JR-11


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_stray_output_gets_no_response(revision):
    """JR-17, FR-05: a banner on stdout is not a request, and an error without an id would be stray output itself."""
    fake = FakeServer(speaks=revision)
    async with connect(fake, revision=revision) as client:
        fake.write(b"listening on stdio\n{oops\n")
        await client.ping()
        assert client.stray_count == 2
    assert not [line for line in fake.lines if "error" in line]


# Odd servers


@pytest.mark.parametrize("info", [{"name": "a", "version": "1"}, {"name": "b", "version": "2", "title": "B"}, {"name": 5}, None])
@scene
async def test_the_name_of_a_server_changes_nothing(info):
    """VN-14, VN-08: with any name, or none, it gets the same lines."""
    discovered = {"supportedVersions": [LATEST_MODERN], "capabilities": {"tools": {}}}
    known, named = (
        FakeServer({"server/discover": discovered}),
        FakeServer({"server/discover": {**discovered, "_meta": {PREFIX + "serverInfo": info}}}),
    )
    for fake in (known, named):
        async with connect(fake) as client:
            await client.list_tools()
            await client.call_tool("x")
    assert known.raw == named.raw


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_unknown_metadata_is_passed_on_and_has_no_effect(revision):
    """MT-04, MT-06, MT-07: on results, tools and blocks, however malformed."""
    meta = {PREFIX + "future": [1], "traceparent": "junk", "com.example/a": None, "no grammar at all!": {}}
    said = {"content": [{"type": "text", "text": "hello", "_meta": meta}], "_meta": meta}
    fake = FakeServer(
        {"tools/call": said, "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}, "_meta": meta}]}},
        speaks=revision,
    )
    async with connect(fake, revision=revision) as client:
        result = await client.call_tool("t")
        assert result.text == "hello"
        assert result.meta == meta
        assert [tool.name for tool in await client.list_tools()] == ["t"]


@scene
async def test_an_extension_that_was_not_declared_is_not_followed():
    """CP-08, AP-01, VN-11: a task is not a result for a client without tasks."""
    task = {"resultType": "task", "taskId": "1", "status": "working", "ttlMs": None}
    async with connect(FakeServer({"tools/call": task})) as client:
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("x")


@scene
async def test_an_extension_of_the_host_goes_through():
    """AP-02, CP-07, MT-07: it is declared with every request; the page of a tool is a resource like any other."""
    apps = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
    shown = {"name": "t", "inputSchema": {"type": "object"}, "_meta": {"ui": {"resourceUri": "ui://t/page"}}}
    page = {"uri": "ui://t/page", "mimeType": "text/html;profile=mcp-app", "text": "<html>"}
    fake = FakeServer({"tools/list": {"tools": [shown]}, "resources/read": {"contents": [page]}})
    async with connect(fake, options=ClientOptions(extensions=apps)) as client:
        (tool,) = await client.list_tools()
        read = await client.read_resource(tool.meta["ui"]["resourceUri"])
        assert (read.text, read.contents[0].mime_type) == ("<html>", "text/html;profile=mcp-app")
    assert all(line["params"]["_meta"][PREFIX + "clientCapabilities"] == {"extensions": apps} for line in fake.lines)


# Content, in both directions


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_every_kind_of_block_is_read(revision):
    """CT-01, CT-03, CT-04: with its bytes and its annotations."""
    blocks = [
        {"type": "image", "data": PICTURE, "mimeType": "image/png", "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "audio", "data": PICTURE, "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "x://a", "name": "a"},
        {"type": "resource", "resource": {"uri": "x://a", "mimeType": "image/png", "blob": PICTURE}},
    ]
    async with connect(FakeServer({"tools/call": {"content": blocks}}, speaks=revision), revision=revision) as client:
        image, audio, link, resource = (await client.call_tool("x")).content
    assert image.annotations.priority == 0.5
    assert image.data == audio.data == resource.resource.blob == PICTURE
    assert (link.uri, link.name) == ("x://a", "a")


@pytest.mark.parametrize("era", ["legacy", "modern"])
@scene
async def test_a_picture_of_the_model_is_sent_as_base64(era):
    """CT-01, CT-03, SA-02, SA-03."""
    drawn = CreateMessageResult("assistant", ImageContent(PICTURE, "image/png"), "m")
    if era == "legacy":
        fake = legacy()
        async with connect(fake, on_sample=lambda _: drawn):
            answer = (await fake.ask("sampling/createMessage", SAMPLE))["result"]
    else:
        fake = FakeServer({"tools/call": [asks({"k": ("sampling/createMessage", SAMPLE)}), text("done")]})
        async with connect(fake, on_sample=lambda _: drawn) as client:
            await client.call_tool("x")
        answer = fake.of("tools/call")[1]["inputResponses"]["k"]
    assert answer["content"] == {"type": "image", "data": PICTURE, "mimeType": "image/png"}


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_a_client_shows_its_icons_where_the_revision_has_them(revision):
    """CT-06, LC-02, LC-11: from 2025-11-25 on; the name and the version always."""
    fake = FakeServer(speaks=revision)
    info = Implementation("host", "7", icons=[Icon("https://a.test/i.png", sizes=["any"])])
    async with connect(fake, revision=revision, options=ClientOptions(client_info=info)):
        pass
    first = fake.lines[0]["params"]
    info = first["clientInfo"] if revision in LEGACY else first["_meta"][PREFIX + "clientInfo"]
    assert (info["name"], info["version"]) == ("host", "7")
    assert info.get("icons") == ([{"src": "https://a.test/i.png", "sizes": ["any"]}] if revision >= "2025-11-25" else None)


@scene
async def test_a_result_without_its_members_is_an_error_and_not_a_guess():
    """VN-11, JR-18: what is missing is named."""
    async with connect(FakeServer({"tools/list": Bare({"resultType": "complete"}), "tools/call": Bare({"content": 5})})) as client:
        for call in (client.list_tools(), client.call_tool("x")):
            with pytest.raises(RemoteProtocolError):
                await call
        await client.ping()
