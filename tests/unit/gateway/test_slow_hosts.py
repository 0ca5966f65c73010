"""A host that does not read: it loses notifications beyond a limit, no memory, and other hosts do not notice."""

import asyncio

import pytest

from fake_server import SILENCE, FakeServer, scene, text
from gateways import gateway_to, through
from inmemory import connected

pytestmark = pytest.mark.slow  # large messages

LATEST = ("2025-11-25", "2026-07-28")
LEVEL = "io.modelcontextprotocol/logLevel"


@pytest.mark.parametrize("front", LATEST)
@scene
async def test_notifications_for_a_host_that_does_not_read_are_bounded(front):
    asked = []
    fake = FakeServer({"tools/call": lambda each: asked.append(each) or SILENCE}, speaks="2025-11-25")
    gateway = gateway_to(fake)
    async with gateway._running(), connected(gateway, front, reads=False) as slow, connected(gateway, front) as quick:
        slow.start_tool("flood", meta={"progressToken": "p", LEVEL: "debug"})
        await fake.until("tools/call")
        for step in range(2000):
            asked[0].progress(step, message="x" * 20_000)
            if step % 50 == 0:
                await asyncio.sleep(0)
        for step in range(2000):
            fake.notify("notifications/message", {"level": "error", "data": "y" * 20_000})
            if step % 50 == 0:
                await asyncio.sleep(0)
        fake.answers["tools/call"] = text("quick")
        assert await quick.text("x") == "quick"
        (runner,) = [each for each in gateway._connections if each.is_blocked]
        waiting = sum(len(message.line) for message in runner.session.outbox)
        limit = runner.session.limits.max_backlog
        assert 0 < waiting < limit + 100_000
        await slow.channel.close()


@scene
async def test_notifications_for_a_server_that_does_not_read_are_bounded():
    class Stuck(FakeServer):
        """Stops reading after the first call."""

        async def _notify_waiters(self):
            await super()._notify_waiters()
            if "tools/call" in self.methods:
                await asyncio.Event().wait()

    fake = Stuck(speaks="2025-11-25")
    async with through(fake, "2025-11-25") as (host, gateway, _):
        await host.call("x")
        for step in range(5000):
            host.send({"jsonrpc": "2.0", "method": "own/news", "params": {"text": "z" * 2000}})
            if step % 50 == 0:
                await asyncio.sleep(0)
        await host.settle()
        (back,) = gateway.backs
        assert 0 < len(back._client.connection.session.outbox) <= 1000
