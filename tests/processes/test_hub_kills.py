"""One server of a hub is killed at any stage: only its own calls notice, and no process remains."""

import asyncio
import sys

import pytest

from fake_server import scene
from gateways import through_hub
from inmemory import LATEST_LEGACY, LATEST_MODERN
from processes.children import end, is_running
from processes.launching import HOW_KILLED
from twopipes._gateway.back import BackConfig
from twopipes._gateway.hub.member import MemberSettings
from twopipes._host.config import ServerConfig
from twopipes.settings import RestartPolicy, Timeouts

# Notes its process id, and in its first life waits at the given stage for its end.
SERVER = """
import os, pathlib, sys, time
from typing import TypedDict

folder, stage = pathlib.Path(sys.argv[1]), sys.argv[2]
life = len(list(folder.iterdir()))
(folder / str(life)).write_text(str(os.getpid()))
if stage == "opening" and life == 0:
    time.sleep(3600)

from twopipes import Context, Server

class Person(TypedDict):
    name: str

server = Server("victim", eras=sys.argv[3])

@server.tool
async def look() -> str:
    return f"life {life}"

@server.tool
async def wait(ctx: Context) -> str:
    await ctx.progress(1)
    time.sleep(3600) if life == 0 else None
    return "done"

@server.tool
async def ask(ctx: Context) -> str:
    return (await ctx.elicit("Who?", Person)).action

server.run()
"""
POLICY = MemberSettings(
    config=BackConfig(restart=RestartPolicy(when="always", first_delay=0.0), timeouts=Timeouts(connect=60, probe=30))
)
FRONTS = pytest.mark.parametrize("front", [LATEST_LEGACY, LATEST_MODERN])
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


class Victims:
    """Programs that note their process ids in folders."""

    def __init__(self, folder):
        self.folder = folder
        self.program = folder / "server.py"
        self.program.write_text(SERVER)

    def config(self, name, stage="", era="both"):
        (self.folder / name).mkdir()
        return ServerConfig(command=[sys.executable, str(self.program), str(self.folder / name), stage, era], environment="inherit")

    async def pid(self, name, life=0):
        file = self.folder / name / str(life)
        while not file.exists() or not file.read_text():
            await asyncio.sleep(0.01)
        return int(file.read_text())

    async def kill(self, name, life=0):
        end(await self.pid(name, life))

    def all(self):
        return [int(file.read_text()) for file in self.folder.glob("*/*")]


@pytest.fixture
def victims(tmp_path):
    found = Victims(tmp_path)
    yield found
    assert not any(map(is_running, found.all()))


@FRONTS
@scene
async def test_while_it_is_opened(victims, front, monkeypatch):
    monkeypatch.setattr("twopipes._gateway.hub.server._INTRODUCTION", 0.0)
    monkeypatch.setattr("twopipes._gateway.hub.member._FIRST_RETRY", 0.0)
    servers = {"a": victims.config("a", "opening"), "b": victims.config("b")}
    async with through_hub(servers, front, members=POLICY, start_timeout=60) as (host, hub):
        looking = asyncio.create_task(host.text("b__look"))
        await victims.kill("a")
        assert await looking == "life 0"
        while hub.members["a"].state != "ready":
            await asyncio.sleep(0.01)
        assert await host.text("a__look") == "life 1"


@FRONTS
@ERAS
@scene
async def test_between_two_calls(victims, front, era):
    servers = {"a": victims.config("a", era=era), "b": victims.config("b")}
    async with through_hub(servers, front, members=POLICY) as (host, hub):
        assert await host.text("a__look") == "life 0"
        exited = asyncio.Event()
        hub.members["a"].back.on_exit.append(exited.set)
        await victims.kill("a")
        await exited.wait()
        assert await host.text("b__look") == "life 0"
        assert await host.text("a__look") == "life 1"
        assert hub.members["b"].back.restarts == 0


@FRONTS
@ERAS
@scene
async def test_during_a_call(victims, front, era):
    servers = {name: victims.config(name, era=era) for name in ("a", "b")}
    async with through_hub(servers, front, members=POLICY) as (host, _):
        await host.names("tools/list", "tools")
        lost = host.start_tool("a__wait", meta={"progressToken": 1})
        await host.note("notifications/progress")
        await victims.kill("a")
        error = (await host.line_of(lost))["error"]
        assert error["message"].startswith("server 'a': ")
        assert HOW_KILLED in error["message"]
        assert await host.text("b__look") == "life 0"
        assert await host.text("a__wait") == "done"


@FRONTS
@scene
async def test_while_it_asks(victims, front):
    servers = {"a": victims.config("a", era="legacy"), "b": victims.config("b")}
    async with through_hub(servers, front, members=POLICY) as (host, hub):
        await host.names("tools/list", "tools")
        host.answer = lambda key, method, params: None
        lost = host.start_tool("a__ask")
        if host.modern:
            asked = (await host.line_of(lost))["result"]
        else:
            await host.until(lambda: [line for line in host.lines if line.get("method") == "elicitation/create"])
        exited = asyncio.Event()
        hub.members["a"].back.on_exit.append(exited.set)
        await victims.kill("a")
        await exited.wait()
        if host.modern:
            host.answer = lambda key, method, params: {"action": "decline"}
            lost = host.start("tools/call", name="a__ask", arguments={}, **host.replies(asked))
        assert "error" in await host.line_of(lost)
        assert await host.text("b__look") == "life 0"
        assert await host.text("a__look") == "life 1"


@FRONTS
@scene
async def test_again_and_again(victims, front):
    settings = MemberSettings(config=BackConfig(restart=RestartPolicy(when="always", first_delay=0.0, max_restarts=1)))
    servers = {"a": victims.config("a"), "b": victims.config("b")}
    async with through_hub(servers, front, members=settings) as (host, hub):
        assert await host.text("a__look") == "life 0"
        await victims.kill("a", 0)
        await victims.pid("a", 1)  # a call before that could still go to the process that was killed
        assert await host.text("a__look") == "life 1"
        await victims.kill("a", 1)
        while hub.members["a"].state != "failed":
            await asyncio.sleep(0.01)
        error = await host.error("tools/call", name="a__look", arguments={})
        assert error["message"].startswith("server 'a': ")
        assert await host.text("b__look") == "life 0"


@scene
async def test_a_host_that_leaves_while_servers_are_opened_leaves_nothing_behind(victims):
    servers = {name: victims.config(name, "opening") for name in ("a", "b")}
    async with through_hub(servers, LATEST_MODERN, members=POLICY) as (host, _):
        host.start("tools/list")
        await victims.pid("a")
        await victims.pid("b")
        host.cancel(1)
