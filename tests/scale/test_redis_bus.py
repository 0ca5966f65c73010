"""The bus on a real Redis: delivery, a lost connection, a Redis that does not respond, refused commands."""

import asyncio
import signal
from contextlib import asynccontextmanager

import pytest
from redis import Redis

from twopipes import Change
from twopipes._http import pending_changes, redis_bus
from twopipes._http.redis_bus import RedisBus
from twopipes.errors import LocalProtocolError

pytestmark = pytest.mark.scale

TOOLS = Change("tools")
NOTE = Change("resource", "note://1")


class Member:
    """One process of a server: its bus, and what the bus reported."""

    def __init__(self, url, **options):
        self.bus = RedisBus(url, **options)
        self.reports = asyncio.Queue()

    async def open(self):
        await self.bus.open(
            self.reports.put_nowait,
            lambda reason: self.reports.put_nowait(("lost", reason)),
            lambda: self.reports.put_nowait("missed"),
        )

    async def next(self):
        return await asyncio.wait_for(self.reports.get(), 30)


@asynccontextmanager
async def members(url, count=2, **options):
    all_members = [Member(url, **options) for _ in range(count)]
    try:
        for each in all_members:
            await each.open()
        yield all_members
    finally:
        for each in all_members:
            await each.bus.close()


def run(test):
    """Run a test, and check that the buses it closed left no task."""

    async def main():
        await test
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


async def lost(member):
    what, reason = await member.next()
    assert what == "lost"
    return reason


def test_a_change_reaches_every_other_process_and_not_its_own(redis_server):
    async def main():
        async with members(redis_server.url, 3) as (first, second, third):
            assert first.bus.is_connected
            first.bus.publish(TOOLS)
            second.bus.publish(NOTE)
            assert [await second.next(), await first.next()] == [TOOLS, NOTE]
            assert {await third.next(), await third.next()} == {TOOLS, NOTE}
            assert first.reports.empty()
            assert second.reports.empty()

    run(main())


def test_equal_changes_of_one_moment_are_published_once(redis_server):
    async def main():
        async with members(redis_server.url) as (first, second):
            for _ in range(100):
                first.bus.publish(NOTE)
            first.bus.publish(TOOLS)
            assert [await second.next(), await second.next()] == [NOTE, TOOLS]

    run(main())


def test_servers_with_different_channels_do_not_meet(redis_server):
    async def main():
        async with members(redis_server.url, channel="a") as (first, second), members(redis_server.url, 1, channel="b") as (other,):
            first.bus.publish(TOOLS)
            await second.next()
            other.bus.publish(NOTE)
            first.bus.publish(NOTE)
            assert await second.next() == NOTE
            assert second.reports.empty()
            assert other.reports.empty()

    run(main())


def test_a_killed_redis_is_reported_and_the_next_one_is_found(redis_server):
    async def main():
        async with members(redis_server.url) as (first, second):
            redis_server.kill()
            for each in (first, second):
                assert "Connection" in await lost(each)
                assert not each.bus.is_connected
            redis_server.start()
            for each in (first, second):
                assert await each.next() == "missed"  # the other may have published while this one was away
                assert each.bus.is_connected
            first.bus.publish(TOOLS)
            assert await second.next() == TOOLS
            assert first.reports.empty()

    run(main())


def test_a_redis_that_does_not_respond_is_reported(redis_server, monkeypatch):
    monkeypatch.setattr(redis_bus, "_PING_AFTER", 0.05)
    monkeypatch.setattr(redis_bus, "_TIMEOUT", 0.5)

    async def main():
        async with members(redis_server.url, 1) as (member,):
            redis_server.send(signal.SIGSTOP)
            assert "did not respond" in await lost(member)
            redis_server.send(signal.SIGCONT)
            assert await member.next() == "missed"
            assert member.bus.is_connected

    run(main())


def test_a_redis_that_is_not_there_yet_is_found_when_it_starts(redis_server):
    redis_server.kill()

    async def main():
        async with members(redis_server.url, 1) as (member,):
            assert not member.bus.is_connected
            assert str(redis_server.port) in await lost(member)
            redis_server.start()
            assert await member.next() == "missed"
            assert member.bus.is_connected

    run(main())


def test_a_forbidden_publish_keeps_the_bus_disconnected_until_it_is_allowed(redis_server):
    """A bus that only receives would let the other processes miss changes."""
    with Redis.from_url(redis_server.url) as admin:
        admin.acl_setuser("listener", enabled=True, nopass=True, channels=["*"], commands=["+@all", "-publish"])
        url = redis_server.url.replace("redis://", "redis://listener:any@")

        async def main():
            async with members(url, 1) as (restricted,), members(redis_server.url, 1) as (other,):
                assert restricted.bus.is_connected
                restricted.bus.publish(TOOLS)
                assert "permission" in await lost(restricted)
                await asyncio.to_thread(admin.execute_command, "ACL", "SETUSER", "listener", "+publish")
                assert await other.next() == TOOLS
                assert await restricted.next() == "missed"
                assert restricted.bus.is_connected

        run(main())


def test_a_foreign_message_on_the_channel_is_ignored_with_a_warning(redis_server, caplog):
    async def main():
        async with members(redis_server.url) as (first, second):
            with Redis.from_url(redis_server.url) as stranger:
                for data in (b"hello", b"\xff", b'["x"]', b'["x",[{"kind":"cats"}]]', b'["x",[{"kind":"tools","uri":7}]]'):
                    stranger.publish("twopipes", data)
            first.bus.publish(TOOLS)
            assert await second.next() == TOOLS
            assert second.bus.is_connected

    run(main())
    assert sum("is not a change" in record.message for record in caplog.records) == 2 * 5


def test_changes_beyond_the_limit_become_one_report_that_anything_changed(redis_server, monkeypatch):
    monkeypatch.setattr(pending_changes, "MAX_PENDING", 10)

    async def main():
        async with members(redis_server.url) as (first, second):
            for number in range(1000):
                first.bus.publish(Change("resource", f"note://{number}"))
            assert len(first.bus._pending) <= 11
            while (report := await second.next()) != "missed":
                assert isinstance(report, Change)

    run(main())


def test_many_changes_arrive_in_order(redis_server):
    changes = [Change("resource", f"note://{number}") for number in range(5_000)]

    async def main():
        async with members(redis_server.url) as (first, second):
            for change in changes:
                first.bus.publish(change)
            assert [await second.next() for _ in changes] == changes

    run(main())


def test_close_publishes_what_is_pending(redis_server):
    async def main():
        async with members(redis_server.url) as (first, second):
            first.bus.publish(TOOLS)
            await first.bus.close()
            assert await second.next() == TOOLS

    run(main())


def test_close_does_not_wait_for_a_redis_that_is_away(redis_server):
    async def main():
        async with members(redis_server.url) as (first, second):
            redis_server.kill()
            await lost(first)
            first.bus.publish(TOOLS)
            await first.bus.close()
            assert not first.bus.is_connected
            await lost(second)

    run(main())


def test_a_bus_is_opened_once_at_a_time_and_can_be_opened_again(redis_server):
    async def main():
        async with members(redis_server.url) as (first, second):
            with pytest.raises(LocalProtocolError, match="open already"):
                await first.open()
            await first.bus.close()
            await first.bus.close()
            await first.open()
            second.bus.publish(TOOLS)
            assert await first.next() == TOOLS

    run(main())
