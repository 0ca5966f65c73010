"""An event loop whose tasks run at once, until they wait for the first time: asyncio.eager_task_factory."""

import asyncio
import sys

import pytest

import sessions
from fake_server import FakeServer, scene, text
from gateways import through
from inmemory import LATEST_LEGACY, connected, turn_until
from twopipes import RestartPolicy, Server
from twopipes._channels.memory import CAPACITY
from twopipes._client.targets import target_of
from twopipes._gateway.back import BackConfig
from twopipes._gateway.front_call import ClientIdentity
from twopipes._gateway.keeper import KeepSettings, KeptBack, kept_command
from twopipes.types import ClientCapabilities, Implementation

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 has no eager tasks")
HOST = ClientIdentity(Implementation("host", "1"), ClientCapabilities())


def make_tasks_eager():
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)


@scene
async def test_a_response_that_does_not_fit_into_the_pipe_does_not_block_the_next_one():
    """It is still below the mark above which drain() waits, so the task that drains is done when it has been made."""
    make_tasks_eager()
    server = Server("s")

    @server.tool
    async def repeat(count: int) -> str:
        return count * "x"

    async with connected(server, reads=False) as client:
        first = client.start_tool("repeat", count=CAPACITY + 1)
        await turn_until(lambda: any(connection.sent for connection in server._connections))
        client.listen()
        await client.line_of(first)
        assert await client.text("repeat", count=3) == "xxx"


@scene
async def test_a_call_does_not_overtake_an_answer_in_a_gateway():
    """A server that asked for the roots expects them before the next call."""
    make_tasks_eager()
    fake = FakeServer({"tools/call": text("t")}, speaks=LATEST_LEGACY)
    async with through(fake, LATEST_LEGACY) as (host, _, _):
        await host.settle()
        host.answer = lambda *_: None  # not yet
        asking = asyncio.create_task(fake.ask("roots/list"))
        question = await host.until(lambda: next((line for line in host.lines if line.get("method") == "roots/list"), None))
        roots = {"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}
        host.send(roots, sessions.request("call", "tools/call", name="t", arguments={}))  # the gateway reads both at once
        await host.line_of("call")
        await asking
        assert [line.get("method", "answer") for line in fake.lines[-2:]] == ["answer", "tools/call"]


@scene
async def test_a_server_that_was_given_up_and_started_again_is_stopped_again():
    """To stop one that was given up takes no time, so the task that stops it is done when it has been made."""
    make_tasks_eager()
    fake = FakeServer(speaks=LATEST_LEGACY)
    settings = KeepSettings(idle=0.0, has_manifest=False)
    back = KeptBack(
        kept_command(["server"], settings), settings, config=BackConfig(restart=RestartPolicy(when="always", max_restarts=0))
    )
    back.target = target_of(fake)
    given_up = asyncio.Event()
    back.on_given_up.append(lambda _: given_up.set())
    with back._idle.used():
        await back.ready(HOST)
        await fake.hang_up()
        await given_up.wait()
    await turn_until(lambda: not back.is_running)
    with back._idle.used():
        await back.ready(HOST)
    await turn_until(lambda: not back.is_running)
    await fake.gone.wait()
    await back.close()
