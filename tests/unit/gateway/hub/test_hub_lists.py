"""The merged lists of a hub: pages, revisions, filters, changes, and servers that are slow or broken."""

import asyncio

import pytest

from fake_server import SILENCE, FakeServer, Fault, legacy, scene, text
from gateways import combinations, fronts, through_hub
from inmemory import LATEST_LEGACY, connected, turn_until
from twopipes._gateway.hub.member import MemberSettings
from twopipes._gateway.hub.server import HubServer
from twopipes._host.config import ServerConfig
from twopipes._host.filters import ToolFilter
from twopipes._protocol.dialect import dialect

CHANGED = "notifications/tools/list_changed"


def tools(*names, **more):
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}, **more} for name in names]}


def pages(*lists):
    """Answer a list method with these pages."""

    def page(asked):
        index = int(asked.params.get("cursor", "0"))
        following = {"nextCursor": str(index + 1)} if index + 1 < len(lists) else {}
        return {**lists[index], **following}

    return page


async def names_of(host):
    return await host.names("tools/list", "tools")


@combinations
@scene
async def test_every_page_of_a_server_is_read(front, back):
    fake = FakeServer({"tools/list": pages(tools("a", "b"), tools("c"), tools("d"))}, speaks=back)
    async with through_hub({"x": fake}, front) as (host, _):
        listed = await host.result("tools/list")
    assert [tool["name"] for tool in listed["tools"]] == ["x__a", "x__b", "x__c", "x__d"]
    assert "nextCursor" not in listed


@fronts
@scene
async def test_the_hub_has_pages_of_its_own(front):
    servers = {name: FakeServer({"tools/list": tools("a", "b", "c")}) for name in ("x", "y")}
    async with through_hub(servers, front, page_size=4) as (host, _):
        first = await host.result("tools/list")
        second = await host.result("tools/list", cursor=first["nextCursor"])
        error = await host.error("tools/list", cursor="made up")
    assert [tool["name"] for tool in first["tools"]] == ["x__a", "x__b", "x__c", "y__a"]
    assert [tool["name"] for tool in second["tools"]] == ["y__b", "y__c"]
    assert "nextCursor" not in second
    assert error["code"] == -32602


@fronts
@scene
async def test_servers_are_asked_once_however_often_hosts_list(front):
    fake = FakeServer({"tools/list": tools("a")})
    async with through_hub({"x": fake}, front) as (host, hub):
        for _ in range(3):
            assert await names_of(host) == ["x__a"]
        async with connected(hub, LATEST_LEGACY) as other:
            assert await names_of(other) == ["x__a"]
    assert len(fake.of("tools/list")) == 1


@scene
async def test_a_modern_list_has_the_members_of_its_revision():
    async with through_hub({"x": legacy({"tools/list": tools("a")})}) as (host, _):
        listed = await host.result("tools/list")
    assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == ("complete", 0, "private")
    assert listed["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "twopipes-hub"


@scene
async def test_an_item_that_the_revision_of_the_host_cannot_express_is_adapted():
    fake = FakeServer({"tools/list": tools("a", title="A", outputSchema={"type": "array"}, own=1)})
    async with through_hub({"x": fake}, "2024-11-05") as (host, _):
        (tool,) = (await host.result("tools/list"))["tools"]
    assert tool["name"] == "x__a"
    assert "outputSchema" not in tool


@scene
async def test_one_invalid_item_does_not_hide_the_others():
    listed = {"tools": [*tools("a")["tools"], {"name": 7}, "none", {"name": "bad", "inputSchema": 7}, *tools("b")["tools"]]}
    async with through_hub({"x": FakeServer({"tools/list": listed})}, LATEST_LEGACY) as (host, _):
        assert await names_of(host) == ["x__a", "x__b"]
        (note,) = host.notes("notifications/message")
    assert note["data"] == "Server 'x': tools/list has an item without a valid name; it is left out"


@scene
async def test_a_name_that_is_listed_twice_is_offered_once_and_reported():
    async with through_hub({"x": FakeServer({"tools/list": tools("a", "a")})}, LATEST_LEGACY) as (host, _):
        assert await names_of(host) == ["x__a"]
        (note,) = host.notes("notifications/message")
    assert note["level"] == "warning"
    assert note["logger"] == "twopipes.hub"
    assert "'x' lists 'a' more than once" in note["data"]


@fronts
@scene
async def test_filters_hide_tools_and_refuse_their_calls(front):
    listed = {"tools": [*tools("read", annotations={"readOnlyHint": True})["tools"], *tools("write", "delete")["tools"]]}
    fake = FakeServer({"tools/list": listed})
    settings = MemberSettings(tools=ToolFilter(exclude=["delete"]))
    async with through_hub({"x": fake}, front, members=settings) as (host, _):
        assert await names_of(host) == ["x__read", "x__write"]
        error = await host.error("tools/call", name="x__delete")
        assert error["message"].startswith("Unknown tool: x__delete")
    assert fake.of("tools/call") == []
    settings = MemberSettings(tools=ToolFilter(read_only=True))
    async with through_hub({"x": fake}, front, members=settings) as (host, _):
        assert await names_of(host) == ["x__read"]


# Changes


@combinations
@scene
async def test_a_change_is_announced_when_the_new_list_is_known(front, back):
    fake = FakeServer({"tools/list": [tools("a"), tools("a", "b")]}, speaks=back)
    async with through_hub({"x": fake, "y": FakeServer({"tools/list": tools("c")})}, front) as (host, _):
        assert await names_of(host) == ["x__a", "y__c"]
        if host.modern:
            host.start("subscriptions/listen", request_id="all", notifications={"toolsListChanged": True})
            await host.note("notifications/subscriptions/acknowledged")
        announce(fake, back)
        await host.note(CHANGED)
        assert await names_of(host) == ["x__a", "x__b", "y__c"]


def announce(fake, back):
    if back == LATEST_LEGACY:
        fake.notify(CHANGED)
    else:
        (listen,) = fake.ids_of("subscriptions/listen")
        fake.notify(CHANGED, {"_meta": {"io.modelcontextprotocol/subscriptionId": listen}})


@scene
async def test_a_flood_of_changes_is_read_and_announced_once():
    turns = iter(range(100))
    fake = legacy({"tools/list": lambda asked: tools("a", *(f"b{turn}" for turn in range(min(next(turns), 1))))})
    async with through_hub({"x": fake}, LATEST_LEGACY) as (host, _):
        assert await names_of(host) == ["x__a"]
        for _ in range(1000):
            fake.notify(CHANGED)
        await host.note(CHANGED)
        await host.settle()
        assert len(host.notes(CHANGED)) == 1
        assert len(fake.of("tools/list")) == 2


@scene
async def test_a_change_to_the_same_list_is_not_announced():
    fake = legacy({"tools/list": tools("a")})
    async with through_hub({"x": fake}, LATEST_LEGACY) as (host, _):
        await names_of(host)
        fake.notify(CHANGED)
        await fake.until("tools/list", 2)
        await host.text("x__a")
        await host.settle()
        assert host.notes(CHANGED) == []


@scene
async def test_a_list_that_no_host_has_read_is_not_announced():
    async with through_hub({"x": legacy({"tools/list": tools("a")})}, LATEST_LEGACY) as (host, hub):
        await turn_until(lambda: hub.members["x"].state == "ready")
        await host.settle()
        assert host.notes(CHANGED) == []


# Servers that are slow or broken


@fronts
@scene
async def test_a_server_that_does_not_start_is_left_out_and_reported(front):
    servers = {"bad": ServerConfig(command=["/does/not/exist"]), "good": FakeServer({"tools/list": tools("a")})}
    async with through_hub(servers, front) as (host, hub):
        assert await names_of(host) == ["good__a"]
        error = await host.error("tools/call", name="bad__a")
        assert "not available: 'bad'" in error["message"]
        if not host.modern:
            (note,) = host.notes("notifications/message")
            assert note["level"] == "error"
            assert note["data"].startswith("Server 'bad': it cannot be used: ")
        assert hub.members["bad"].state == "failed"
        assert "/does/not/exist" in str(hub.members["bad"].problem)


@fronts
@scene
async def test_a_server_that_hangs_delays_the_list_by_its_limit_only_and_is_announced_later(front):
    released = asyncio.Event()

    async def later(_):
        await released.wait()
        return tools("late")

    servers = {"slow": legacy({"tools/list": later}), "quick": FakeServer({"tools/list": tools("a")})}
    async with through_hub(servers, front, start_timeout=0) as (host, hub):
        await host.settle()  # it starts the servers
        await turn_until(lambda: hub.members["quick"].state == "ready")
        assert await names_of(host) == ["quick__a"]
        if host.modern:
            host.start("subscriptions/listen", request_id="all", notifications={"toolsListChanged": True})
            await host.note("notifications/subscriptions/acknowledged")
        assert hub.members["slow"].state == "opening"
        released.set()
        await host.note(CHANGED)
        assert await names_of(host) == ["slow__late", "quick__a"]


@fronts
@scene
async def test_a_list_that_hangs_does_not_delay_the_others(front):
    fake = FakeServer({"tools/list": tools("a"), "resources/list": SILENCE, "prompts/list": Fault(-32603, "broken")})
    async with through_hub({"x": fake}, front) as (host, _):
        assert await names_of(host) == ["x__a"]
        assert await host.text("x__a") == "done"


@scene
async def test_only_what_a_server_declares_is_read():
    fake = legacy({"tools/list": tools("a")}, capabilities={"tools": {}})
    async with through_hub({"x": fake}, LATEST_LEGACY) as (host, _):
        assert await names_of(host) == ["x__a"]
        assert await host.names("prompts/list", "prompts") == []
        assert await host.names("resources/list", "resources") == []
    assert set(fake.methods) <= {"server/discover", "initialize", "notifications/initialized", "tools/list"}


@scene
async def test_a_list_that_is_too_long_is_cut_and_reported():
    endless = {"tools/list": lambda asked: {**tools(f"t{asked.params.get('cursor', 0)}"), "nextCursor": next_of(asked)}}
    async with through_hub({"x": legacy(endless)}, LATEST_LEGACY) as (host, hub):
        limit = hub.members["x"]._settings.config.limits.max_pages
        assert len(await names_of(host)) == limit
        assert any("tools/list is too long" in note["data"] for note in host.notes("notifications/message"))


def next_of(asked):
    return str(int(asked.params.get("cursor", 0)) + 1)


@pytest.mark.parametrize("count", [0, 1])
@scene
async def test_a_hub_with_few_servers(count):
    servers = {f"x{number}": FakeServer({"tools/list": tools("a"), "tools/call": text("a")}) for number in range(count)}
    async with through_hub(servers) as (host, _):
        assert await names_of(host) == ["x0__a"][:count]
        assert await host.names("resources/list", "resources") == []


@scene
async def test_a_hub_that_never_ran_serves_nothing():
    assert HubServer({}).members == {}


@fronts
@scene
async def test_a_long_list_is_renamed_completely_and_follows_its_changes(front):
    long = [f"t{number}" for number in range(900)]
    fake = FakeServer({"tools/list": tools(*long, long[3])})
    async with through_hub({"x": fake, "y": FakeServer({"tools/list": tools("a")})}, front) as (host, hub):
        assert await names_of(host) == [*(f"x__{name}" for name in long), "y__a"]
        fake.answers["tools/list"] = tools(*long[:600], description="new")
        fake.notify(CHANGED)
        await turn_until(lambda: len(hub.members["x"].tools) == 600)
        listed = (await host.result("tools/list"))["tools"]
    assert [tool["name"] for tool in listed] == [*(f"x__{name}" for name in long[:600]), "y__a"]
    assert {tool.get("description") for tool in listed[:-1]} == {"new"}


@scene
async def test_a_list_that_changes_while_it_is_renamed_is_renamed_again():
    fake = FakeServer({"tools/list": tools(*(f"t{number}" for number in range(1200)))})
    async with through_hub({"x": fake}, LATEST_LEGACY) as (host, hub):
        await names_of(host)
        member, spoken = hub.members["x"], dialect("2026-07-28")
        preparing = asyncio.create_task(hub.catalogue.prepare("tools/list", spoken))
        await asyncio.sleep(0)
        member.lists["tools/list"] = member.lists["tools/list"][:500]
        hub.catalogue.update(member, "tools/list")
        await preparing
        listed = hub.catalogue.page("tools/list", spoken, None, hub.info)
    assert bytes(listed.raw).count(b'"x__t') == 500


@scene
async def test_other_tasks_run_while_a_long_list_is_renamed():
    fake = FakeServer({"tools/list": tools(*(f"t{number}" for number in range(1200)))})
    async with through_hub({"x": fake}, LATEST_LEGACY) as (host, hub):
        await names_of(host)
        preparing = asyncio.create_task(hub.catalogue.prepare("tools/list", dialect("2026-07-28")))
        turns = 0
        while not preparing.done():
            turns += 1
            await asyncio.sleep(0)
    assert turns >= 4
