"""The end of a host: responses for one that reads them, and none for one that is gone."""

import asyncio
import json
import sys

import pytest

from fake_server import SILENCE, FakeServer, scene, text
from gateways import gateway_to
from sessions import modern
from twopipes import ServerSettings
from twopipes._channels.pipes import pipe_pair
from twopipes._gateway.back import Back
from twopipes._gateway.backs import Backs
from twopipes._gateway.front import GatewayServer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a pipe on Windows does not report that its reader is gone")
CALL = json.dumps(modern(1, "tools/call", name="x")).encode() + b"\n"


@scene
async def test_a_host_that_is_gone_does_not_keep_its_calls_running():
    """Otherwise its calls would get the time that ``drain`` allows, which is longer than this test may take."""
    fake = FakeServer(answers={"tools/call": SILENCE})
    gateway = GatewayServer(Backs(lambda: Back(fake)), settings=ServerSettings(drain=3600.0))
    ours, theirs = pipe_pair()
    async with gateway._running():
        serving = asyncio.create_task(gateway._serve_channel(theirs))
        ours.write(CALL)
        await ours.drain()
        await fake.until("tools/call")
        await ours.close()
        await serving


@scene
async def test_a_host_that_only_closes_its_output_gets_its_responses():
    gateway = gateway_to(FakeServer(answers={"tools/call": text("late")}))
    ours, theirs = pipe_pair()
    async with gateway._running(), ours:
        serving = asyncio.create_task(gateway._serve_channel(theirs))
        ours.write(CALL)
        await ours.close_write()
        line = await ours.read()
        assert json.loads(line)["result"]["content"][0]["text"] == "late"
        await serving
