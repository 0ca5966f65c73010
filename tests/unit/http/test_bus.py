"""Buses without a connection: the one for a single process, and RedisBus before there is a Redis."""

import asyncio
import socket

import pytest

from twopipes import Change
from twopipes._http.bus import LocalBus
from twopipes._http.redis_bus import RedisBus

TOOLS = Change("tools")


def test_a_single_process_has_no_other_to_notify():
    async def main():
        bus, reports = LocalBus(), []
        await bus.open(reports.append, reports.append, lambda: reports.append("missed"))
        assert bus.is_connected
        bus.publish(TOOLS)
        await bus.close()
        assert reports == []

    asyncio.run(main())


@pytest.mark.parametrize("url", ["localhost:6379", "http://localhost", "redis://localhost:port"])
def test_a_malformed_address_is_refused_at_once(url):
    with pytest.raises(ValueError):
        RedisBus(url)


def test_a_redis_that_refuses_connections_is_reported_once_and_close_does_not_wait():
    async def main():
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # bound, but not listening
            port = unused.getsockname()[1]
            bus, reports = RedisBus(f"redis://user:secret@127.0.0.1:{port}"), []
            await bus.open(reports.append, reports.append, lambda: reports.append("missed"))
            assert not bus.is_connected
            bus.publish(TOOLS)
            await bus.close()
        assert len(reports) == 1
        assert str(port) in reports[0]
        assert "secret" not in reports[0] + repr(bus)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_changes_that_wait_for_redis_are_bounded():
    bus = RedisBus("redis://127.0.0.1:1")
    for number in range(25_000):
        bus.publish(Change("resource", f"note://{number}"))
        assert len(bus._pending) <= 10_001  # one more for "anything may have changed"
    assert bus._pending.take(1)[1]
