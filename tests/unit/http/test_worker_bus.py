"""The bus between the workers of one machine, on real sockets."""

import asyncio
import os
import socket
import sys
import tempfile
from contextlib import asynccontextmanager

import pytest

from twopipes import Change
from twopipes._http import pending_changes
from twopipes._http.worker_bus import WorkerBus

pytestmark = [
    pytest.mark.slow,  # real sockets
    pytest.mark.skipif(sys.platform == "win32", reason="workers need a system that can share a socket"),
]

TOOLS = Change("tools")
NOTE = Change("resource", "note://1")


class Member:
    """One worker: its bus, and what the bus reported."""

    def __init__(self, folder, count, index):
        self.bus = WorkerBus(folder, count, index)
        self.reports = asyncio.Queue()

    async def open(self):
        await self.bus.open(self.reports.put_nowait, self.reports.put_nowait, lambda: self.reports.put_nowait("missed"))

    async def next(self):
        return await asyncio.wait_for(self.reports.get(), 30)


@asynccontextmanager
async def members(count, *, absent=()):
    # In a short path: that of a Unix socket is limited.
    with tempfile.TemporaryDirectory() as folder:
        workers = [Member(folder, count, index) for index in range(count)]
        for index, worker in enumerate(workers):
            if index not in absent:
                await worker.open()
        try:
            yield folder, workers
        finally:
            for worker in workers:
                await worker.bus.close()
        assert os.listdir(folder) == []


def test_a_change_reaches_every_other_worker_and_not_its_own():
    async def main():
        async with members(3) as (_, (first, second, third)):
            first.bus.publish(TOOLS)
            second.bus.publish(NOTE)
            assert [await second.next(), await first.next()] == [TOOLS, NOTE]
            assert {await third.next(), await third.next()} == {TOOLS, NOTE}
            assert first.reports.empty()
            assert first.bus.is_connected

    asyncio.run(main())


def test_a_flood_of_changes_arrives_in_order():
    changes = [Change("resource", f"note://{'x' * (number % 300)}/{number}") for number in range(5_000)]

    async def main():
        async with members(2) as (_, (first, second)):
            for change in changes:
                first.bus.publish(change)
            assert [await second.next() for _ in changes] == changes

    asyncio.run(main())


def test_an_address_that_does_not_fit_is_reported_as_missed_and_the_others_arrive():
    async def main():
        async with members(2) as (_, (first, second)):
            for change in (NOTE, Change("resource", "note://" + "x" * 10_000), TOOLS):
                first.bus.publish(change)
            assert [await second.next() for _ in range(3)] == [NOTE, "missed", TOOLS]

    asyncio.run(main())


def test_a_worker_that_does_not_run_is_left_out_until_it_starts():
    async def main():
        async with members(3, absent=[1]) as (_, (first, second, third)):
            first.bus.publish(TOOLS)
            assert await third.next() == TOOLS
            assert len(first.bus._pending[second.bus._path]) == 0
            await second.open()
            first.bus.publish(NOTE)
            assert [await second.next(), await third.next()] == [NOTE, NOTE]

    asyncio.run(main())


def test_a_worker_that_does_not_read_delays_no_other_and_costs_a_bounded_set(monkeypatch):
    monkeypatch.setattr(pending_changes, "MAX_PENDING", 500)

    async def main():
        async with members(3, absent=[1]) as (_, (first, second, third)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as silent:
                silent.bind(second.bus._path)
                sent = 0
                while not second_is_notified_later(first, second):
                    first.bus.publish(Change("resource", f"note://{sent}"))
                    sent += 1
                    await third.next()
                assert len(first.bus._pending[second.bus._path]) <= 501
            await second.open()  # in place of the one that is stuck
            first.bus.publish(TOOLS)
            while await second.next() != TOOLS:
                pass

    def second_is_notified_later(first, second):
        return first.bus._pending[second.bus._path]._has_dropped

    asyncio.run(main())


def test_what_is_not_a_change_is_ignored(caplog):
    async def main():
        async with members(2) as (_, (first, second)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
                for data in (b"", b"hello", b"\xff", b'["0",[{"kind":"cats"}]]', b"x" * 5_000):
                    stranger.sendto(data, second.bus._path)
            first.bus.publish(TOOLS)
            assert await second.next() == TOOLS

    asyncio.run(main())
    assert sum("is not a change" in record.message for record in caplog.records) == 5


def test_a_closed_bus_sends_what_is_pending_and_can_be_opened_again():
    async def main():
        async with members(2) as (_, (first, second)):
            first.bus.publish(TOOLS)
            await first.bus.close()
            await first.bus.close()
            assert await second.next() == TOOLS
            first.bus.publish(NOTE)  # waits until it is open
            await first.open()
            first.bus.publish(TOOLS)
            assert {await second.next(), await second.next()} == {NOTE, TOOLS}

    asyncio.run(main())
