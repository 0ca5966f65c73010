"""The servers of a hub: added, removed, replaced, failing, restarted, idle. One of them never affects the others."""

import asyncio

import msgspec
import pytest

from fake_server import SILENCE, FakeServer, legacy, scene, text
from gateways import fronts, through_hub
from inmemory import LATEST_LEGACY, turn_until
from twopipes._gateway.back import BackConfig
from twopipes._gateway.hub import member as member_module
from twopipes._gateway.hub.member import MemberSettings
from twopipes._host.config import ServerConfig
from twopipes.errors import LocalProtocolError
from twopipes.settings import RestartPolicy

CHANGED = "notifications/tools/list_changed"


def server(name="t", **more):
    answers = {"tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}}]}, "tools/call": text(name), **more}
    return legacy(answers)


async def names_of(host):
    return await host.names("tools/list", "tools")


async def until(hub, name, state):
    await turn_until(lambda: hub.members[name].state == state)


@fronts
@scene
async def test_a_server_can_be_added(front):
    async with through_hub({"a": server()}, front) as (host, hub):
        assert await names_of(host) == ["a__t"]
        hub.add("b", server("new"))
        assert await names_of(host) == ["a__t", "b__new"]
        assert await host.text("b__new") == "new"
        with pytest.raises(LocalProtocolError, match="already has a server 'b'"):
            hub.add("b", server())


@scene
async def test_an_added_server_is_announced():
    async with through_hub({"a": server()}, LATEST_LEGACY) as (host, hub):
        await names_of(host)
        hub.add("b", server("new"))
        await host.note(CHANGED)


@scene
async def test_a_removed_server_is_ended_and_its_calls_fail():
    fake = server(**{"tools/call": SILENCE})
    async with through_hub({"a": fake, "b": server()}, LATEST_LEGACY) as (host, hub):
        assert await names_of(host) == ["a__t", "b__t"]
        waiting = host.start_tool("a__t")
        await fake.until("tools/call")
        await hub.remove("a")
        error = (await host.line_of(waiting))["error"]
        assert error["message"] == "the server 'a' was removed from the hub before it answered tools/call"
        await host.note(CHANGED)
        assert await names_of(host) == ["b__t"]
        await asyncio.wait_for(fake.gone.wait(), 10)
        assert (await host.error("tools/call", name="a__t"))["message"].startswith("Unknown tool: a__t")


@scene
async def test_a_replaced_server_keeps_its_place():
    async with through_hub({name: server() for name in "abc"}, LATEST_LEGACY) as (host, hub):
        assert await names_of(host) == ["a__t", "b__t", "c__t"]
        await hub.replace("b", server("new"))
        assert await names_of(host) == ["a__t", "b__new", "c__t"]
        assert list(hub.members) == ["a", "b", "c"]


@scene
async def test_a_server_can_be_removed_while_it_is_opened(monkeypatch):
    monkeypatch.setattr("twopipes._gateway.hub.server._INTRODUCTION", 0.0)
    async with through_hub({"a": server(initialize=SILENCE), "b": server()}, LATEST_LEGACY, start_timeout=0) as (host, hub):
        await until(hub, "b", "ready")
        waiting = asyncio.create_task(hub.members["a"].ready(hub._router._client))
        await hub.remove("a")
        with pytest.raises(Exception, match="closed"):
            await waiting
        assert await names_of(host) == ["b__t"]


@scene
async def test_watched_resources_follow_a_replaced_server():
    def watched(text_):
        return server(
            **{
                "resources/list": {"resources": [{"uri": "a:1", "name": "a"}]},
                "resources/read": {"contents": [{"uri": "a:1", "text": text_}]},
            }
        )

    async with through_hub({"a": watched("old")}, LATEST_LEGACY) as (host, hub):
        await host.result("resources/subscribe", uri="a:1")
        await hub.replace("a", new := watched("new"))
        await new.until("resources/subscribe")
        new.notify("notifications/resources/updated", {"uri": "a:1"})
        await host.note("notifications/resources/updated")


# Failures


class Flaky:
    """A target that cannot be opened until it works."""

    def __init__(self):
        self.works = False
        self.attempts = 0
        self.fake = server()

    async def serve(self, *, channel):
        self.attempts += 1
        if self.works:
            await self.fake.serve(channel=channel)
        else:
            await channel.close()


@scene
async def test_a_server_that_failed_is_tried_again_and_announced(monkeypatch):
    monkeypatch.setattr(member_module, "_FIRST_RETRY", 0.01)
    flaky = Flaky()
    async with through_hub({"a": flaky, "b": server()}, LATEST_LEGACY) as (host, hub):
        assert await names_of(host) == ["b__t"]
        attempts = flaky.attempts
        await turn_until(lambda: flaky.attempts > attempts)
        flaky.works = True
        await host.note(CHANGED)
        assert await names_of(host) == ["a__t", "b__t"]
        reports = [note for note in host.notes("notifications/message") if note["level"] == "error"]
        assert len(reports) == 1, reports
        assert hub.members["a"].problem is None


@scene
async def test_no_list_waits_for_another_attempt_to_open_a_server(monkeypatch):
    monkeypatch.setattr(member_module, "_FIRST_RETRY", 0.0)
    flaky = Flaky()
    async with through_hub({"a": flaky, "b": server()}, LATEST_LEGACY) as (host, hub):
        assert await names_of(host) == ["b__t"]
        flaky.works = True
        flaky.fake.answers["initialize"] = SILENCE
        await flaky.fake.until("initialize")
        assert hub.members["a"].state == "opening"
        assert await names_of(host) == ["b__t"]


@scene
async def test_a_broken_configuration_is_not_tried_again(monkeypatch):
    monkeypatch.setattr(member_module, "_FIRST_RETRY", 0.0)
    async with through_hub({"a": ServerConfig(problem="the variable TOKEN is not set"), "b": server()}, LATEST_LEGACY) as (
        host,
        hub,
    ):
        assert await names_of(host) == ["b__t"]
        assert hub.members["a"].state == "failed"
        assert hub.members["a"]._retry is None
        (note,) = host.notes("notifications/message")
        assert note["data"] == "Server 'a': it cannot be used: the variable TOKEN is not set"


@fronts
@scene
async def test_a_crash_fails_only_the_calls_of_that_server(front):
    crashing, other = server(**{"tools/call": SILENCE}), server(**{"tools/call": [SILENCE, text("fine")]})
    async with through_hub({"a": crashing, "b": other}, front) as (host, hub):
        lost, kept = host.start_tool("a__t"), host.start_tool("b__t")
        await crashing.until("tools/call")
        await other.until("tools/call")
        await crashing.hang_up()
        error = (await host.line_of(lost))["error"]
        assert error["message"].startswith("server 'a': ")
        assert host.answers_to(kept) == []
        assert await host.text("b__t") == "fine"
        await until(hub, "a", "ready")
        assert hub.members["a"].back.restarts == 1
        assert await names_of(host) == ["a__t", "b__t"]
        host.cancel(kept)


@scene
async def test_lists_are_read_again_after_a_restart():
    listed = [{"tools": [{"name": name, "inputSchema": {"type": "object"}}]} for name in ("old", "new")]
    fake = server(**{"tools/list": listed})
    async with through_hub({"a": fake}, LATEST_LEGACY) as (host, _):
        assert await names_of(host) == ["a__old"]
        await fake.hang_up()
        await host.note(CHANGED)
        assert await names_of(host) == ["a__new"]
        assert any("it is restarted" in note["data"] for note in host.notes("notifications/message"))


@scene
async def test_a_server_that_crashes_too_often_is_given_up_and_its_calls_say_so():
    settings = MemberSettings(config=BackConfig(restart=RestartPolicy(when="always", max_restarts=0)))
    fake = server()
    async with through_hub({"a": fake, "b": server()}, LATEST_LEGACY, members=settings) as (host, hub):
        assert await names_of(host) == ["a__t", "b__t"]
        await until(hub, "a", "ready")
        await fake.hang_up()
        await until(hub, "a", "failed")
        error = await host.error("tools/call", name="a__t")
        assert error["message"].startswith("server 'a': ")
        assert await host.text("b__t") == "t"
        assert "not restarted any more" in host.notes("notifications/message")[-1]["data"]


# Lazy and idle


@scene
async def test_a_lazy_hub_starts_nothing_before_it_is_needed():
    fake = server()
    async with through_hub({"a": fake}, LATEST_LEGACY, is_lazy=True) as (host, _):
        await host.settle()
        assert fake.lives == []
        assert await host.text("a__t") == "t"


@scene
async def test_an_idle_server_is_stopped_and_started_by_the_next_call():
    fake = server()
    async with through_hub({"a": fake}, LATEST_LEGACY, members=MemberSettings(idle=0.0)) as (host, hub):
        assert await names_of(host) == ["a__t"]
        await until(hub, "a", "waiting")
        await fake.gone.wait()
        assert await names_of(host) == ["a__t"]  # still known
        assert await host.text("a__t") == "t"
        assert len(fake.lives) >= 2


@scene
async def test_a_subscription_starts_an_idle_server():
    fake = server(**{"resources/list": {"resources": [{"uri": "a:1", "name": "a"}]}})
    async with through_hub({"a": fake}, LATEST_LEGACY, members=MemberSettings(idle=0.0)) as (host, hub):
        assert await names_of(host) == ["a__t"]
        await until(hub, "a", "waiting")
        await host.result("resources/subscribe", uri="a:1")
        await fake.until("resources/subscribe")
        fake.notify("notifications/resources/updated", {"uri": "a:1"})
        await host.note("notifications/resources/updated")
        assert hub.members["a"].state == "ready"


@scene
async def test_a_server_that_declares_no_changes_is_listed_again(monkeypatch):
    monkeypatch.setattr(member_module, "_MAX_AGE", 0.0)
    listed = [{"tools": [{"name": name, "inputSchema": {"type": "object"}}]} for name in ("old", "new")]
    fake = FakeServer({"tools/list": listed}, speaks=LATEST_LEGACY, capabilities={"tools": {}})
    async with through_hub({"a": fake}, LATEST_LEGACY) as (host, hub):
        await until(hub, "a", "ready")
        assert await names_of(host) == ["a__old"]
        await host.note(CHANGED)
        assert await names_of(host) == ["a__new"]


# The hub's own tools


@fronts
@scene
async def test_tools_of_the_hub_itself_are_listed_and_can_pass_calls_on(front):
    fake = server("t")
    async with through_hub({"a": fake}, front) as (host, hub):

        @hub.tool
        def search_tools(query: str) -> str:
            """Search."""
            return f"found {query}"

        @hub.tool
        def call_tool(tool: str) -> str:
            """Call."""
            raise AssertionError("the handler is called instead")

        async def passed(context):
            return await hub.call_tool(context, msgspec.json.decode(context.call.params.arguments)["tool"], {"x": 1})

        hub.handlers["call_tool"] = passed
        hub.catalogue.hides_tools = True
        assert await names_of(host) == ["search_tools", "call_tool"]
        assert await host.text("search_tools", query="x") == "found x"
        assert await host.text("call_tool", tool="a__t") == "t"
    assert fake.of("tools/call")[0]["arguments"] == {"x": 1}
