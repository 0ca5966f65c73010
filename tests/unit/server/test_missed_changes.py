"""What subscribers get when changes of other processes may have been missed: everything, or the end of the subscription."""

import pytest

import sessions
from inmemory import LATEST_LEGACY, LATEST_MODERN, Client, play
from twopipes import Change, Server
from twopipes.errors import InternalError

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


async def pass_on(ctx, call_next):
    return await call_next(ctx)


def make(middleware=None):
    server = Server("s", middleware=middleware)
    server.add_tool(lambda: "x", name="x")
    server.add_prompt(lambda: "x", name="x")
    for name in ("a", "b", "c"):
        server.add_resource(f"x://{name}", lambda: "z", name=name)
    return server


def connection_of(server):
    (connection,) = server._connections
    return connection


@pytest.mark.parametrize("middleware", [None, pass_on])
def test_a_listen_that_fails_gets_pending_changes_and_then_one_error(middleware):
    server = make(middleware)

    async def scenario(client: Client):
        client.start("subscriptions/listen", request_id="ear", notifications={"toolsListChanged": True})
        await client.note(ACKNOWLEDGED)
        connection = connection_of(server)
        connection.announce(Change("tools"))
        connection.fail_listens(InternalError("the bus is lost"))
        error = (await client.line_of("ear"))["error"]
        assert (error["code"], error["message"]) == (-32603, "the bus is lost")
        assert len(client.notes("notifications/tools/list_changed")) == 1
        connection.announce(Change("tools"))
        connection.fail_listens(InternalError("again"))
        await client.settle()
        assert len(client.notes("notifications/tools/list_changed")) == 1
        assert len(client.answers_to("ear")) == 1
        assert (await client.result("tools/list"))["tools"]

    play(server, scenario, revision=LATEST_MODERN)


def test_a_listen_is_notified_of_all_that_it_asked_for():
    server = make()

    async def scenario(client: Client):
        wanted = {"promptsListChanged": True, "resourceSubscriptions": ["x://a", "x://c"]}
        client.start("subscriptions/listen", request_id="ear", notifications=wanted)
        await client.note(ACKNOWLEDGED)
        connection_of(server).announce_everything()
        updated = await client.until(lambda: client.notes("notifications/resources/updated")[1:] and client.lines)
        assert [line["method"] for line in updated[-3:]] == [
            "notifications/prompts/list_changed",
            "notifications/resources/updated",
            "notifications/resources/updated",
        ]
        assert [note["uri"] for note in client.notes("notifications/resources/updated")] == ["x://a", "x://c"]
        assert all(line["params"]["_meta"][sessions.TAG] == "ear" for line in updated[-3:])

    play(server, scenario, revision=LATEST_MODERN)


def test_a_legacy_session_is_notified_of_every_list_and_of_the_resources_that_it_watches():
    server = make()

    async def scenario(client: Client):
        await client.result("resources/subscribe", uri="x://b")
        connection_of(server).announce_everything()
        assert (await client.note("notifications/resources/updated"))["uri"] == "x://b"
        for kind in ("tools", "prompts", "resources"):
            await client.note(f"notifications/{kind}/list_changed")

    play(server, scenario, revision=LATEST_LEGACY)
