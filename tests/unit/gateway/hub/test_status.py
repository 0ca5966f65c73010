"""The resources about the servers of a hub."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import pytest

from fake_server import TAG, FakeServer, scene, text
from gateways import fronts
from inmemory import LATEST_LEGACY, LATEST_MODERN, connected
from sessions import ABLE
from twopipes._gateway.hub.server import HubServer
from twopipes._gateway.hub.status import StatusResources
from twopipes._host.config import ServerConfig

ALL = "twopipes://hub/servers"
TOOL = {"name": "say", "inputSchema": {"type": "object"}}


def server(**more):
    return FakeServer({"tools/list": {"tools": [TOOL]}, "tools/call": text("done"), **more})


@asynccontextmanager
async def shown(servers, front=LATEST_MODERN):
    hub = HubServer(servers)
    StatusResources(hub)
    async with hub._running(), connected(hub, front, can=ABLE) as host:
        await host.result("tools/list")
        yield host, hub


async def read(host, uri=ALL):
    (content,) = (await host.result("resources/read", uri=uri))["contents"]
    assert content["mimeType"] == "application/json"
    return json.loads(content["text"])


@fronts
@scene
async def test_each_server_is_described(front):
    async with shown({"good": server(), "broken": ["/does/not/exist", "--token=s3cret"]}, front) as (host, _):
        await host.text("good__say")
        good, broken = (await read(host))["servers"]
    assert good["since"].endswith("+00:00")
    assert {key: value for key, value in good.items() if key != "since"} == {
        "name": "good",
        "uri": f"{ALL}/good",
        "state": "ready",
        "server": "fake",
        "revision": LATEST_MODERN,
        "tools": 1,
        "prompts": 0,
        "resources": 0,
        "restarts": 0,
        "calls": {"running": 0, "total": 1},
    }
    assert broken["state"] == "failed"
    assert "/does/not/exist" in broken["error"]
    assert "s3cret" not in json.dumps(broken)


@fronts
@scene
async def test_one_server_is_read_by_its_name(front):
    async with shown({"a b/c": server()}, front) as (host, _):
        (summary,) = (await read(host))["servers"]
        assert summary["uri"] == f"{ALL}/a%20b%2Fc"
        one = await read(host, summary["uri"])
    assert one == {**summary, "stderr": []}


@fronts
@scene
async def test_an_unknown_server_is_not_found(front):
    async with shown({"good": server()}, front) as (host, _):
        error = await host.error("resources/read", uri=f"{ALL}/goof")
    assert error["message"] == "this hub has no server 'goof'; servers: 'good'"
    assert error["data"] == {"uri": f"{ALL}/goof"}


@fronts
@scene
async def test_the_resources_are_listed_before_those_of_servers(front):
    behind = server(**{"resources/list": {"resources": [{"uri": "a:b", "name": "b"}]}})
    async with shown({"good": behind}, front) as (host, _):
        assert await host.names("resources/list", "resources") == [ALL, "a:b"]
        assert await host.names("resources/templates/list", "resourceTemplates") == [f"{ALL}/{{name}}"]


@fronts
@scene
async def test_the_names_of_servers_are_suggested(front):
    async with shown({"good": server(), "great": server(), "other": server()}, front) as (host, _):
        found = await host.result(
            "completion/complete",
            ref={"type": "ref/resource", "uri": f"{ALL}/{{name}}"},
            argument={"name": "name", "value": "g"},
        )
    assert found["completion"]["values"] == ["good", "great"]


@pytest.mark.parametrize("uri", [ALL, f"{ALL}/good"])
@scene
async def test_a_legacy_host_is_notified_of_changes(uri):
    async with shown({"good": server(), "other": server()}, LATEST_LEGACY) as (host, hub):
        await host.result("resources/subscribe", uri=uri)
        await hub.remove("good")
        assert await host.note("notifications/resources/updated") == {"uri": uri}


@scene
async def test_a_modern_host_is_notified_of_changes():
    async with shown({"good": server()}) as (host, hub):
        number = host.start("subscriptions/listen", notifications={"resourceSubscriptions": [ALL]})
        await host.note("notifications/subscriptions/acknowledged")
        hub.add("other", server())
        assert await host.note("notifications/resources/updated") == {"uri": ALL, "_meta": {TAG: number}}


@scene
async def test_changes_that_follow_each_other_are_announced_once(monkeypatch):
    hub = HubServer({"good": server()})
    StatusResources(hub)
    announced, is_announced = [], asyncio.Event()

    def notify(uri):
        announced.append(uri)
        if uri.endswith("/good"):
            is_announced.set()

    monkeypatch.setattr(hub, "notify_resource_updated", notify)
    for _ in range(20):
        hub.state_changed(hub.members["good"])
    await is_announced.wait()
    assert announced == [ALL, f"{ALL}/good"]


@scene
async def test_errors_do_not_show_the_arguments_of_a_command():
    """They may contain a token, and any host can read this."""
    exits = ServerConfig(command=[sys.executable, "-c", "raise SystemExit(3)", "--token", "s3cret"])
    async with shown({"exits": exits}) as (host, _):
        (found,) = (await read(host))["servers"]
    assert "exit code 3" in found["error"]
    assert sys.executable in found["error"]
    assert "s3cret" not in found["error"]


@scene
async def test_long_errors_are_cut():
    async with shown({"broken": ["/" + "x" * 5000]}) as (host, _):
        (broken,) = (await read(host))["servers"]
    assert len(broken["error"]) <= 2000
