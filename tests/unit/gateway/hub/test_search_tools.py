"""``--search``: three tools of the hub find, describe and call the tools of its servers."""

import json
from contextlib import asynccontextmanager

import pytest

from fake_server import FakeServer, scene, text
from gateways import ERA_OF, Person, accept, combinations, fronts
from inmemory import LATEST_MODERN, connected
from sessions import ABLE
from twopipes import Context, Server
from twopipes._gateway.hub.search_tools import SearchTools
from twopipes._gateway.hub.server import HubServer
from twopipes._protocol.types import Tool

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
ISSUE = {"name": "create_issue", "description": "Open an issue.\n\nDetails.", "inputSchema": SCHEMA, "icons": [{"src": "data:,x"}]}
CLOCK = {"name": "now", "description": "Get the time of day.", "inputSchema": {"type": "object"}}


def server(*tools, speaks=LATEST_MODERN, **more):
    return FakeServer({"tools/list": {"tools": list(tools)}, "tools/call": text("done"), **more}, speaks=speaks)


@asynccontextmanager
async def searched(servers, front=LATEST_MODERN):
    hub = HubServer(servers)
    SearchTools(hub)
    async with hub._running(), connected(hub, front, can=ABLE) as host:
        yield host, hub


def two(back=LATEST_MODERN):
    return {"hub": server(ISSUE, speaks=back), "clock": server(CLOCK, speaks=back)}


async def found(host, query, **more):
    return json.loads(await text_of(host, "search_tools", query=query, **more))


async def used(host, tool, meta=None, /, **arguments):
    return await host.result("tools/call", meta=meta, name=tool, arguments=arguments)


async def text_of(host, tool, /, **arguments):
    return (await used(host, tool, **arguments))["content"][0]["text"]


async def refused(host, tool, /, **arguments):
    result = await used(host, tool, **arguments)
    assert result["isError"] is True
    return result["content"][0]["text"]


@combinations
@scene
async def test_only_the_three_tools_are_listed(front, back):
    async with searched(two(back), front) as (host, _):
        listed = (await host.result("tools/list"))["tools"]
    assert [tool["name"] for tool in listed] == ["search_tools", "describe_tool", "call_tool"]
    assert listed[0]["inputSchema"]["required"] == ["query"]
    assert listed[2]["inputSchema"]["required"] == ["name"]


@fronts
@scene
async def test_a_search_returns_names_and_first_lines(front):
    async with searched(two(), front) as (host, _):
        assert await found(host, "open issue") == {"tools": [{"name": "hub__create_issue", "description": "Open an issue."}]}


@scene
async def test_a_search_has_structured_content():
    async with searched(two()) as (host, _):
        result = await used(host, "search_tools", query="time")
    assert result["structuredContent"]["tools"] == [{"name": "clock__now", "description": "Get the time of day."}]


@scene
async def test_a_search_without_a_match_names_the_servers():
    async with searched(two()) as (host, _):
        empty = await found(host, "zebra")
    assert empty == {
        "tools": [],
        "note": "No tool fits these words. Search with other words. Servers and how many tools they have: hub (1), clock (1).",
    }


@scene
async def test_a_limit_bounds_the_result_and_is_checked():
    many = server(*({"name": f"copy_{n}", "inputSchema": {"type": "object"}} for n in range(60)))
    async with searched({"many": many}) as (host, _):
        assert len((await found(host, "copy"))["tools"]) == 8
        assert len((await found(host, "copy", limit=50))["tools"]) == 50
        assert "limit" in await refused(host, "search_tools", query="copy", limit=51)


@scene
async def test_long_descriptions_are_cut():
    async with searched({"a": server({**CLOCK, "description": "time " * 1000})}) as (host, _):
        (tool,) = (await found(host, "time"))["tools"]
    assert len(tool["description"]) == 200
    assert tool["description"].endswith("…")


@combinations
@scene
async def test_a_tool_is_described_with_its_schema_and_without_icons(front, back):
    async with searched(two(back), front) as (host, _):
        definition = json.loads(await text_of(host, "describe_tool", name="hub__create_issue"))
    assert definition == {"name": "hub__create_issue", "description": ISSUE["description"], "inputSchema": SCHEMA}


@scene
async def test_a_huge_output_schema_is_left_out_and_a_huge_definition_is_refused():
    big = {"type": "object", "description": "x" * 70_000}
    tools = [{**CLOCK, "outputSchema": big}, {**ISSUE, "inputSchema": big}]
    async with searched({"a": server(*tools)}) as (host, _):
        assert "outputSchema" not in json.loads(await text_of(host, "describe_tool", name="a__now"))
        assert "too long to show" in await refused(host, "describe_tool", name="a__create_issue")


@combinations
@scene
async def test_a_call_reaches_the_server_with_its_own_name_and_arguments(front, back):
    servers = two(back)
    async with searched(servers, front) as (host, _):
        assert await text_of(host, "call_tool", name="hub__create_issue", arguments={"title": "x"}) == "done"
    (params,) = servers["hub"].of("tools/call")
    assert (params["name"], params["arguments"]) == ("create_issue", {"title": "x"})
    assert servers["clock"].of("tools/call") == []


@fronts
@pytest.mark.parametrize(
    ("given", "sent"), [({}, {}), ({"arguments": None}, {}), ({"arguments": '{"title": "x"}'}, {"title": "x"})]
)
@scene
async def test_arguments_may_be_missing_or_a_text_with_json(front, given, sent):
    servers = two()
    async with searched(servers, front) as (host, _):
        assert await text_of(host, "call_tool", name="hub__create_issue", **given) == "done"
    assert servers["hub"].of("tools/call")[0]["arguments"] == sent


@fronts
@pytest.mark.parametrize("given", [{"arguments": [1]}, {"arguments": "no json"}, {"arguments": '"x"'}, {"arguments": 3}])
@scene
async def test_wrong_arguments_are_refused_before_a_server_gets_them(front, given):
    servers = two()
    async with searched(servers, front) as (host, _):
        assert "object with" in await refused(host, "call_tool", name="hub__create_issue", **given)
        assert "needs the name of a tool" in await refused(host, "call_tool", arguments={})
    assert servers["hub"].of("tools/call") == []


@fronts
@pytest.mark.parametrize("tool", ["describe_tool", "call_tool"])
@scene
async def test_an_unknown_name_is_a_result_with_similar_names(front, tool):
    async with searched(two(), front) as (host, _):
        message = await refused(host, tool, name="hub__make_issue")
    assert message == "Unknown tool: hub__make_issue; similar names: hub__create_issue. Use search_tools to find the right name"


@combinations
@scene
async def test_progress_and_questions_of_a_searched_call_reach_the_host(front, back):
    asking = Server("asking", eras=ERA_OF[back])

    @asking.tool
    async def greet(ctx: Context) -> str:
        await ctx.progress(1, 2)
        answer = await ctx.elicit("Who?", Person)
        return f"Hello, {answer.content['name']}"

    async with searched({"a": asking}, front) as (host, _):
        host.answer = lambda *_: accept(name="Ada")
        result = await used(host, "call_tool", {"progressToken": 7}, name="a__greet")
    assert result["content"][0]["text"] == "Hello, Ada"
    assert host.notes("notifications/progress")[0]["progressToken"] == 7


@scene
async def test_a_hidden_tool_can_still_be_called_by_its_name():
    async with searched(two()) as (host, _):
        assert await host.text("clock__now") == "done"


@scene
async def test_the_index_follows_changes_of_lists_and_servers():
    async with searched(two()) as (host, hub):
        assert (await found(host, "open issue"))["tools"]
        await hub.remove("hub")
        assert not (await found(host, "open issue"))["tools"]
        hub.add("other", server({**ISSUE, "name": "open_ticket"}))
        assert [tool["name"] for tool in (await found(host, "open issue"))["tools"]] == ["other__open_ticket"]


@scene
async def test_changes_of_hidden_tools_are_not_announced():
    async with searched(two(), "2025-11-25") as (host, hub):
        await host.names("tools/list", "tools")
        await found(host, "time")
        await hub.remove("clock")
        await host.settle()
        assert host.notes("notifications/tools/list_changed") == []


@scene
async def test_a_server_that_cannot_be_opened_is_named():
    async with searched({**two(), "broken": ["/does/not/exist"]}) as (host, _):
        assert (await found(host, "time"))["note"] == "Servers that are not available: broken."


@scene
async def test_tools_with_members_of_wrong_types_are_searched_by_name():
    odd = {"name": "odd", "title": 3, "description": [1], "inputSchema": {"type": "object", "properties": []}}
    async with searched({"a": server(odd)}) as (host, _):
        assert await found(host, "odd") == {"tools": [{"name": "a__odd", "description": ""}]}


@fronts
@scene
async def test_the_instructions_explain_the_three_tools(front):
    async with searched(two(), front) as (host, hub):
        await host.result("tools/list")
        assert "find them with search_tools" in hub._profile.instructions


def test_the_tools_are_described_for_a_model():
    tools: dict[str, Tool] = {}

    @scene
    async def read():
        async with searched(two()) as (_, hub):
            tools.update({name: entry.tool for name, entry in hub.tools.entries.items()})

    read()
    assert tools["search_tools"].annotations.read_only_hint
    assert tools["describe_tool"].annotations.read_only_hint
    assert tools["call_tool"].annotations is None
    assert tools["search_tools"].input_schema["properties"]["query"]["description"].startswith("A few words")
