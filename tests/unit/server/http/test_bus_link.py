"""Two servers, as two processes would have them, with a bus of the tests between them."""

import asyncio
from contextlib import asynccontextmanager

from inmemory import LATEST_LEGACY, LATEST_MODERN, NET, connected
from twopipes import Change, Server
from twopipes._http.bus import Bus
from twopipes._server.http.bus_link import LOST, BusLink

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"


class Wire(Bus):
    """A bus between the servers of one test."""

    def __init__(self, all_wires):
        self.all_wires = all_wires
        self.published = []
        self.is_up = True

    async def open(self, deliver, lost, missed):
        self.deliver, self.lost, self.missed = deliver, lost, missed
        self.all_wires.append(self)

    def publish(self, change):
        self.published.append(change)
        for wire in self.all_wires:
            if wire is not self:
                wire.deliver(change)

    @property
    def is_connected(self):
        return self.is_up

    async def close(self):
        self.all_wires.remove(self)


class Member:
    def __init__(self, all_wires):
        self.server = Server("s")
        self.server.add_tool(lambda: "x", name="x")
        self.server.add_resource("note://1", lambda: "z", name="note")
        self.wire = Wire(all_wires)
        self.link = BusLink(self.wire, lambda: self.server._connections)


@asynccontextmanager
async def two_members():
    all_wires = []
    members = [Member(all_wires), Member(all_wires)]
    async with asyncio.timeout(NET):
        for each in members:
            await each.link.open()
            each.server._publishers.add(each.link.publish)
        yield members
        for each in members:
            await each.link.close()
    assert all_wires == []


def listen(client):
    client.start(
        "subscriptions/listen",
        request_id="ear",
        notifications={"toolsListChanged": True, "resourceSubscriptions": ["note://1"]},
    )


def test_a_change_reaches_the_subscribers_of_both_servers_and_is_published_once():
    async def main():
        async with two_members() as (first, second), connected(first.server) as near, connected(second.server) as far:
            for client in (near, far):
                listen(client)
                await client.note(ACKNOWLEDGED)
            first.server.notify_resource_updated("note://1")
            for client in (near, far):
                assert (await client.note(UPDATED))["uri"] == "note://1"
                await client.settle()
                assert len(client.notes(UPDATED)) == 1
            assert first.wire.published == [Change("resource", "note://1")]
            assert second.wire.published == []

    asyncio.run(main())


def test_a_changed_list_reaches_a_legacy_session_of_the_other_server():
    async def main():
        async with two_members() as (first, second), connected(second.server, LATEST_LEGACY) as far:
            first.server.add_tool(lambda: "y", name="y")
            await far.note("notifications/tools/list_changed")

    asyncio.run(main())


def test_a_change_from_a_thread_is_published_in_the_event_loop():
    async def main():
        async with two_members() as (first, second), connected(second.server, LATEST_MODERN) as far:
            listen(far)
            await far.note(ACKNOWLEDGED)
            await asyncio.to_thread(first.server.notify_resource_updated, "note://1")
            await far.note(UPDATED)

    asyncio.run(main())


def test_without_the_bus_subscriptions_end_and_a_legacy_session_is_notified_when_it_is_back(capsys):
    async def main():
        async with two_members() as (first, _), connected(first.server) as modern, connected(first.server, LATEST_LEGACY) as legacy:
            listen(modern)
            await modern.note(ACKNOWLEDGED)
            await legacy.result("resources/subscribe", uri="note://1")
            first.wire.is_up = False
            first.wire.lost("ConnectionError: closed")
            assert not first.link.is_connected
            error = (await modern.line_of("ear"))["error"]
            assert (error["code"], error["message"]) == (-32603, LOST)
            assert (await modern.result("tools/list"))["tools"]
            await legacy.settle()
            assert legacy.notes(UPDATED) == []
            first.wire.is_up = True
            first.wire.missed()
            assert (await legacy.note(UPDATED))["uri"] == "note://1"
            await legacy.note("notifications/tools/list_changed")

    asyncio.run(main())
    assert "the bus is not connected (ConnectionError: closed)" in capsys.readouterr().err


def test_a_closed_link_publishes_nothing():
    async def main():
        async with two_members() as (first, _):
            await first.link.close()
            first.server.notify_resource_updated("note://1")
            await asyncio.to_thread(first.server.notify_resource_updated, "note://1")
            assert first.wire.published == []
            await first.link.open()

    asyncio.run(main())
