"""What passes through a hub besides results: log messages, progress, cancellation, and how the hub introduces itself."""

import pytest

from fake_server import SILENCE, FakeServer, legacy, scene, text
from gateways import combinations, fronts, through_hub
from inmemory import LATEST_LEGACY, LATEST_MODERN, turn_until

LEVEL = "io.modelcontextprotocol/logLevel"
LIST = {"tools/list": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}}
MESSAGE = "notifications/message"


def logs(**params):
    def work(asked):
        asked.notify(MESSAGE, {"level": "warning", "data": {"a": [1]}, "own": 1, **params})
        return text("done")

    return {**LIST, "tools/call": work}


@combinations
@pytest.mark.parametrize(("logger", "named"), [({"logger": "db"}, "x.db"), ({}, "x")], ids=["logger", "no-logger"])
@scene
async def test_a_log_message_names_its_server(front, back, logger, named):
    async with through_hub({"x": FakeServer(logs(**logger), speaks=back)}, front) as (host, _):
        await host.call("x__work", meta={LEVEL: "info"} if host.modern else None)
        (note,) = host.notes(MESSAGE)
    assert note == {"level": "warning", "data": {"a": [1]}, "own": 1, "logger": named}


@scene
async def test_a_level_reaches_every_server_also_those_that_start_later():
    servers = {name: legacy(LIST) for name in ("x", "y")}
    async with through_hub(servers, LATEST_LEGACY) as (host, hub):
        await turn_until(lambda: all(member.state == "ready" for member in hub.members.values()))
        assert await host.result("logging/setLevel", level="error") == {}
        hub.add("z", late := legacy(LIST))
        for fake in (*servers.values(), late):
            assert (await fake.until("logging/setLevel"))["params"]["level"] == "error"
        late.notify(MESSAGE, {"level": "info", "data": "unwanted"})
        late.notify(MESSAGE, {"level": "error", "data": "wanted"})
        assert (await host.note(MESSAGE))["data"] == "wanted"


@scene
async def test_a_server_that_does_not_answer_delays_no_level():
    servers = {"x": legacy({**LIST, "logging/setLevel": SILENCE}), "y": legacy(LIST)}
    async with through_hub(servers, LATEST_LEGACY) as (host, hub):
        await turn_until(lambda: all(member.state == "ready" for member in hub.members.values()))
        assert await host.result("logging/setLevel", level="error") == {}
        await servers["y"].until("logging/setLevel")


@combinations
@scene
async def test_progress_has_the_token_of_the_host(front, back):
    def work(asked):
        for step in range(3):
            asked.progress(step, total=3)
        return text("done")

    async with through_hub({"x": FakeServer({**LIST, "tools/call": work}, speaks=back)}, front) as (host, _):
        await host.call("x__work", meta={"progressToken": "mine"})
        notes = host.notes("notifications/progress")
    assert [(note["progressToken"], note["progress"]) for note in notes] == [("mine", 0), ("mine", 1), ("mine", 2)]


@combinations
@scene
async def test_a_cancelled_call_is_cancelled_at_its_server(front, back):
    servers = {name: FakeServer({**LIST, "tools/call": SILENCE}, speaks=back) for name in ("x", "y")}
    async with through_hub(servers, front) as (host, _):
        kept, cancelled = host.start_tool("x__work"), host.start_tool("y__work")
        for fake in servers.values():
            await fake.until("tools/call")
        host.cancel(cancelled)
        await servers["y"].until("notifications/cancelled")
        await host.settle()
        assert servers["x"].cancelled == []
        assert host.answers_to(kept) == host.answers_to(cancelled) == []
        host.cancel(kept)


@combinations
@scene
async def test_unknown_members_of_meta_pass_both_ways(front, back):
    fake = FakeServer({**LIST, "tools/call": text("done", _meta={"own.example/b": 2})}, speaks=back)
    async with through_hub({"x": fake}, front) as (host, _):
        result = await host.call("x__work", meta={"own.example/a": 1})
    assert fake.of("tools/call")[0]["_meta"]["own.example/a"] == 1
    assert result["_meta"]["own.example/b"] == 2


@fronts
@scene
async def test_an_unknown_notification_of_a_server_reaches_the_host(front):
    fake = legacy(LIST)
    async with through_hub({"x": fake}, front) as (host, _):
        await host.names("tools/list", "tools")
        fake.notify("notifications/vendor/own", {"a": 1})
        assert await host.note("notifications/vendor/own") == {"a": 1}


@scene
async def test_an_unknown_notification_of_a_host_reaches_no_server():
    fake = legacy(LIST)
    async with through_hub({"x": fake}, LATEST_LEGACY) as (host, _):
        host.send({"jsonrpc": "2.0", "method": "notifications/vendor/own", "params": {"secret": 1}})
        await host.text("x__work")
    assert fake.of("notifications/vendor/own") == []


# The introduction


async def introduction(host):
    return await host.result("server/discover") if host.modern else (await host.line_of("opening"))["result"]


@fronts
@scene
async def test_the_hub_declares_what_servers_may_offer(front):
    async with through_hub({"x": legacy(capabilities={"tools": {}})}, front) as (host, _):
        found = await introduction(host)
    assert found["capabilities"] == {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "logging": {},
    }


@fronts
@scene
async def test_instructions_are_under_the_names_of_their_servers(front):
    async with through_hub({"x": FakeServer(LIST), "y": legacy(LIST)}, front) as (host, _):
        found = await introduction(host)
    assert found["instructions"] == (
        "These are the tools, prompts and resources of several servers: x, y. "
        "The name of a tool or prompt begins with that of its server and '__'.\n\n# x\n\nAsk.\n\n# y\n\nAsk."
    )


@scene
async def test_long_instructions_are_cut():
    def introduce(asked):
        return {**legacy()._initialize(asked), "instructions": "a" * 100_000}

    async with through_hub({f"x{number}": legacy({"initialize": introduce}) for number in range(20)}, LATEST_LEGACY) as (host, _):
        found = (await introduction(host))["instructions"]
    assert 20_000 < len(found) < 25_000
    assert "\n\n# x0\n\naaa" in found
    assert "a [...]" in found


@scene
async def test_a_server_that_hangs_does_not_stop_the_introduction(monkeypatch):
    monkeypatch.setattr("twopipes._gateway.hub.server._INTRODUCTION", 0.0)
    servers = {"slow": FakeServer({"server/discover": SILENCE}), "quick": FakeServer(LIST)}
    async with through_hub(servers, LATEST_MODERN) as (host, _):
        found = await introduction(host)
    assert "# slow" not in found["instructions"]
