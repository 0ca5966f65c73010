"""Tools, prompts, resources, completion, lists and content, as a client requests and returns them (TL, CT, PM, RS, CM, PG)."""

import json

import pytest

from fake_server import FakeServer, Fault, scene, text
from twopipes import Limits, ToolError, connect
from twopipes._protocol.revisions import ALL, LATEST_LEGACY, LATEST_MODERN
from twopipes._protocol.types import TextContent, ToolAnnotations, UnknownContent
from twopipes.errors import InvalidParams, LocalProtocolError, RemoteProtocolError

ERAS = [LATEST_LEGACY, LATEST_MODERN]
OBJECT = {"type": "object"}


def tool(name, **more):
    return {"name": name, "inputSchema": OBJECT, **more}


# Tools


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_a_call_has_a_name_and_an_object_of_arguments_or_none(revision):
    """TL-02."""
    fake = FakeServer(speaks=revision)
    async with connect(fake, revision=revision) as client:
        await client.call_tool("echo", {"a": [1, None], "b": {}})
        await client.call_tool("echo", {})
        await client.call_tool("echo")
        with pytest.raises(LocalProtocolError, match="arguments of echo"):
            await client.call_tool("echo", {"a": object()})
    first, second, third = ({key: value for key, value in params.items() if key != "_meta"} for params in fake.of("tools/call"))
    assert first == {"name": "echo", "arguments": {"a": [1, None], "b": {}}}
    assert second == {"name": "echo", "arguments": {}}
    assert third == {"name": "echo"}


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_the_failure_of_a_tool_is_a_result_that_the_model_can_read(revision):
    """TL-07, TL-03: the text is available; an error is raised only on request. A missing isError means success."""
    fake = FakeServer(
        {"tools/call": [text("the disk is full", isError=True), text("fine"), Fault(-32602, "Unknown tool: x")]}, speaks=revision
    )
    async with connect(fake, revision=revision) as client:
        failed = await client.call_tool("x")
        assert (failed.is_error, failed.text) == (True, "the disk is full")
        assert failed.content == [TextContent("the disk is full")]
        with pytest.raises(ToolError, match="the disk is full"):
            failed.raise_for_error()
        worked = await client.call_tool("x")
        assert not worked.is_error
        assert worked.raise_for_error() is worked
        with pytest.raises(InvalidParams, match="Unknown tool: x"):
            await client.call_tool("x")


@scene
async def test_hints_are_read_as_hints():
    """TL-08: what is missing has the default of the specification, and none of them changes what is sent."""
    hinted = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    fake = FakeServer({"tools/list": {"tools": [tool("silent", annotations={}), tool("loud", annotations=hinted), tool("bare")]}})
    async with connect(fake) as client:
        silent, loud, bare = await client.list_tools()
        await client.call_tool("loud")
        await client.call_tool("bare")
    for unsaid in (silent, bare):
        assert unsaid.hints == ToolAnnotations(
            None, read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
        )
    assert loud.hints == loud.annotations
    assert bare.annotations is None
    first, second = ({key: value for key, value in params.items() if key != "_meta"} for params in fake.of("tools/call"))
    assert (first, second) == ({"name": "loud"}, {"name": "bare"})


@scene
async def test_the_name_to_show_is_the_title_then_that_of_the_annotations_then_the_name():
    """TL-09."""
    titled = tool("a", title="Title", annotations={"title": "Other"})
    fake = FakeServer({"tools/list": {"tools": [titled, tool("b", annotations={"title": "Other"}), tool("c")]}})
    async with connect(fake) as client:
        assert [each.display_name for each in await client.list_tools()] == ["Title", "Other", "c"]


@scene
async def test_any_json_value_may_be_structured_content():
    """TL-12: an array, a number, and a null that is not the same as nothing."""
    values = [[1], 5, "x", {"a": None}, None]
    fake = FakeServer({"tools/call": [*(text("x", structuredContent=value) for value in values), text("x")]})
    async with connect(fake) as client:
        for value in values:
            result = await client.call_tool("x")
            assert (result.has_structured, result.structured) == (True, value)
        assert not (await client.call_tool("x")).has_structured


@scene
async def test_headers_of_another_transport_are_passed_over():
    """TL-18: a tool with x-mcp-header, valid or not, stays listed and callable."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "x-mcp-header": "Region"}, "b": {"type": "array", "x-mcp-header": 5}},
    }
    fake = FakeServer({"tools/list": {"tools": [{"name": "t", "inputSchema": schema}]}})
    async with connect(fake) as client:
        assert [each.name for each in await client.list_tools()] == ["t"]
        assert (await client.call_tool("t", {"a": "x", "b": []})).text == "done"
    assert fake.of("tools/call")[0]["arguments"] == {"a": "x", "b": []}


@scene
async def test_equal_names_of_two_servers_do_not_meet():
    """TL-19, ST-04: each client is a server of its own, though both servers call themselves the same."""
    one = FakeServer({"tools/list": {"tools": [tool("search")]}, "tools/call": text("one")})
    two = FakeServer({"tools/list": {"tools": [tool("search")]}, "tools/call": text("two")})
    async with connect(one) as first, connect(two) as second:
        assert first.server_info == second.server_info
        assert [each.name for each in await first.list_tools()] == [each.name for each in await second.list_tools()] == ["search"]
        assert [(await client.call_tool("search")).text for client in (first, second)] == ["one", "two"]


@pytest.mark.parametrize("revision", ["2025-11-25", LATEST_MODERN])
@scene
async def test_a_schema_reaches_its_reader_as_it_was_written(revision):
    """TL-22, JS-07: every keyword, known or not, also at the root, and in the order of the server."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "oneOf": [{"$ref": "#/$defs/a"}, {"$anchor": "here", "if": {"minProperties": 1}, "then": True}],
        "$defs": {"a": {"properties": {"x": {"prefixItems": [True], "const": 1.5, "x-own": None}}}},
        "dependentRequired": {"x": ["y"]},
    }
    fake = FakeServer({"tools/list": {"tools": [{"name": "t", "inputSchema": schema, "outputSchema": schema}]}}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        (found,) = await client.list_tools()
    assert json.dumps(found.input_schema) == json.dumps(found.output_schema) == json.dumps(schema)


# Content


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_an_unknown_kind_of_block_does_not_spoil_the_rest(revision):
    """CT-08."""
    blocks = [{"type": "hologram", "light": [1]}, {"type": "text", "text": "hello"}]
    fake = FakeServer({"tools/call": {"content": blocks}}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        result = await client.call_tool("x")
    assert result.text == "hello"
    assert isinstance(result.content[0], UnknownContent)
    assert result.content[0] == blocks[0]


@scene
async def test_icons_that_must_not_be_fetched_are_marked_and_the_list_stays_usable():
    """CT-07: https and data are safe, whatever else is not; the client itself fetches none."""
    sources = {
        "https://a.test/i.png": True,
        "HTTPS://a.test/i.png": True,
        "data:image/png;base64,AAAA": True,
        "http://a.test/i.png": False,
        "file:///etc/passwd": False,
        "javascript:alert(1)": False,
        " https://a.test/i.png": False,
        "ftp://a.test/https:": False,
        "i.png": False,
        "": False,
    }
    fake = FakeServer({"tools/list": {"tools": [tool("t", icons=[{"src": source} for source in sources])]}})
    async with connect(fake) as client:
        (found,) = await client.list_tools()
        assert {icon.src: icon.is_safe for icon in found.icons} == sources
        assert (await client.call_tool("t")).text == "done"


# Prompts, resources, completion


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_the_arguments_of_a_prompt_are_strings(revision):
    """PM-02, PM-03."""
    message = {"role": "user", "content": {"type": "text", "text": "Hi"}}
    fake = FakeServer({"prompts/get": {"messages": [message]}}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        result = await client.get_prompt("p", {"a": "1"})
        assert result.messages[0].content == TextContent("Hi")
        await client.get_prompt("p")
        with pytest.raises(LocalProtocolError, match="a of p"):
            await client.get_prompt("p", {"a": 1})
    first, second = ({key: value for key, value in params.items() if key != "_meta"} for params in fake.of("prompts/get"))
    assert (first, second) == ({"name": "p", "arguments": {"a": "1"}}, {"name": "p"})


@scene
async def test_several_contents_may_come_of_one_read():
    """RS-02."""
    contents = [{"uri": "x://a", "text": "one"}, {"uri": "x://b", "blob": "AAE="}]
    async with connect(FakeServer({"resources/read": {"contents": contents}})) as client:
        result = await client.read_resource("x://")
        assert [each.uri for each in result.contents] == ["x://a", "x://b"]


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_a_completion_names_what_is_completed(revision):
    """CM-01: a prompt or a template, the argument, and from 2025-06-18 on what is known already."""
    fake = FakeServer(
        {"completion/complete": {"completion": {"values": ["Berlin"], "total": 1, "hasMore": False}}}, speaks=revision
    )
    async with connect(fake, revision=revision) as client:
        found = await client.complete("city", "B", prompt="travel", context={"country": "de"})
        assert found.values == ["Berlin"]
        await client.complete("path", "", resource="file:///{path}")
        with pytest.raises(LocalProtocolError, match="prompt= or resource="):
            await client.complete("a", "b")
    first, second = ({key: value for key, value in params.items() if key != "_meta"} for params in fake.of("completion/complete"))
    context = {"context": {"arguments": {"country": "de"}}} if revision >= "2025-06-18" else {}
    assert first == {"ref": {"type": "ref/prompt", "name": "travel"}, "argument": {"name": "city", "value": "B"}, **context}
    assert second == {"ref": {"type": "ref/resource", "uri": "file:///{path}"}, "argument": {"name": "path", "value": ""}}


# Lists


def pages(*cursors, sizes=None):
    """Pages of tools that lead from one cursor to the next."""
    sizes = sizes or [1] * (len(cursors) + 1)
    answers, number = [], 0
    for size, cursor in zip(sizes, [*cursors, None], strict=True):
        listed = [tool(f"t{number + each}") for each in range(size)]
        number += size
        answers.append({"tools": listed} if cursor is None else {"tools": listed, "nextCursor": cursor})
    return answers


@pytest.mark.parametrize("revision", ALL)
@scene
async def test_a_list_is_walked_to_its_end_by_the_cursors_as_they_came(revision):
    """PG-01, PG-02, PG-03: pages of any size, odd cursors byte for byte, nothing after the last page."""
    cursors = ["\u00e9 =\n\u0000", "eyJhIjoxfQ==", "0", " "]
    fake = FakeServer({"tools/list": pages(*cursors, sizes=[1, 0, 7, 2, 1])}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        assert [each.name for each in await client.list_tools()] == [f"t{number}" for number in range(11)]
    assert [params.get("cursor") for params in fake.of("tools/list")] == [None, *cursors]
    assert "cursor" not in fake.of("tools/list")[0]


@pytest.mark.parametrize(
    ("method", "member"),
    [("resources/list", "resources"), ("resources/templates/list", "resourceTemplates"), ("prompts/list", "prompts")],
)
@scene
async def test_every_list_has_pages(method, member):
    """PG-01."""
    fake = FakeServer({method: [{member: [], "nextCursor": "2"}, {member: []}]})
    async with connect(fake) as client:
        walk = {
            "resources": client.list_resources,
            "resourceTemplates": client.list_resource_templates,
            "prompts": client.list_prompts,
        }
        assert await walk[member]() == []
    assert [params.get("cursor") for params in fake.of(method)] == [None, "2"]


@scene
async def test_an_empty_cursor_is_a_cursor_and_null_is_none():
    """PG-04."""
    first, second = pages("")
    fake = FakeServer({"tools/list": [first, {**second, "nextCursor": None}]})
    async with connect(fake) as client:
        assert len(await client.list_tools()) == 2
    assert [params.get("cursor", "none") for params in fake.of("tools/list")] == ["none", ""]


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_a_list_without_an_end_is_given_up(revision):
    """PG-06: a repeated cursor, or more pages than any real list has."""
    fake = FakeServer({"tools/list": {"tools": [], "nextCursor": "again"}}, speaks=revision)
    async with connect(fake, revision=revision) as client:
        with pytest.raises(RemoteProtocolError, match="the list never ends"):
            await client.list_tools()
    assert len(fake.of("tools/list")) == 2
    count = iter(range(1_000))
    fake = FakeServer({"tools/list": lambda asked: {"tools": [], "nextCursor": str(next(count))}}, speaks=revision)
    async with connect(fake, revision=revision, limits=Limits(max_pages=10)) as client:
        with pytest.raises(RemoteProtocolError, match="more than 10 pages"):
            await client.list_tools()
    assert len(fake.of("tools/list")) == 10
