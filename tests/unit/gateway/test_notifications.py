"""Notifications through the gateway: log messages and levels, changes, and those that are unknown."""

import pytest

from fake_server import SILENCE, FakeServer, Fault, scene, text
from gateways import REVISIONS, gateway_to, through
from inmemory import connected
from twopipes.settings import RestartPolicy

PAIRS = [(front, back) for front in REVISIONS for back in REVISIONS]
every_pair = pytest.mark.parametrize(("front", "back"), PAIRS)
LEVEL = "io.modelcontextprotocol/logLevel"
MODERN = "2026-07-28"
TAG = "io.modelcontextprotocol/subscriptionId"


async def listen(host, **wanted):
    """Open a subscription of a modern host, and return its id."""
    request_id = host.start("subscriptions/listen", notifications=wanted)
    await host.note("notifications/subscriptions/acknowledged")
    return request_id


def tell(fake, method, **params):
    """Send a notification of the server: about its listen request in the modern era."""
    if fake.speaks == (MODERN,):
        for request_id, asked in zip(fake.ids_of("subscriptions/listen"), fake.of("subscriptions/listen"), strict=True):
            wants = asked["notifications"]
            if ("resourceSubscriptions" in wants) == (method == "notifications/resources/updated"):
                fake.notify(method, {**params, "_meta": {TAG: request_id}})
    else:
        fake.notify(method, params)


# Log messages


@every_pair
@scene
async def test_a_log_message_reaches_the_host_whose_call_it_is_about(front, back):
    def work(asked):
        asked.notify("notifications/message", {"level": "warning", "data": {"a": [1]}, "logger": "l", "own": 1})
        return text("done")

    fake = FakeServer({"tools/call": work}, speaks=back)
    async with through(fake, front) as (host, _, _):
        await host.call("work", meta={LEVEL: "info"} if front == MODERN else None)
        notes = host.notes("notifications/message")
    assert notes == [{"level": "warning", "data": {"a": [1]}, "logger": "l", "own": 1}]


@pytest.mark.parametrize("back", REVISIONS)
@scene
async def test_a_legacy_host_sets_the_level(back):
    fake = FakeServer(speaks=back)
    async with through(fake, "2025-11-25") as (host, _, _):
        assert await host.result("logging/setLevel", level="error") == {}
        await host.call("work")
    if back == MODERN:
        assert fake.of("tools/call")[0]["_meta"][LEVEL] == "error"
    else:
        assert [params["level"] for params in fake.of("logging/setLevel")] == ["error"]


@scene
async def test_the_server_gets_the_most_verbose_level_of_all_hosts():
    fake = FakeServer(speaks="2025-11-25")
    gateway = gateway_to(fake)
    async with gateway._running(), connected(gateway, "2025-11-25") as one, connected(gateway, "2025-11-25") as two:
        await one.result("logging/setLevel", level="debug")
        await two.result("logging/setLevel", level="error")
        assert [params["level"] for params in fake.of("logging/setLevel")] == ["debug", "debug"]
        fake.notify("notifications/message", {"level": "info", "data": "x"})
        await one.note("notifications/message")
        await two.settle()
        assert two.notes("notifications/message") == []


@scene
async def test_a_host_that_chose_no_level_gets_what_the_server_sends():
    fake = FakeServer(speaks="2025-11-25")
    async with through(fake, "2025-11-25") as (host, _, _):
        fake.notify("notifications/message", {"level": "debug", "data": "x"})
        assert await host.note("notifications/message") == {"level": "debug", "data": "x"}


# Changes


@every_pair
@scene
async def test_list_changes_reach_the_host(front, back):
    fake = FakeServer(speaks=back)
    async with through(fake, front) as (host, _, _):
        if front == MODERN:
            await listen(host, toolsListChanged=True)
        else:
            await host.settle()
            if back == MODERN:
                await fake.until("subscriptions/listen")
        tell(fake, "notifications/tools/list_changed")
        await host.note("notifications/tools/list_changed")


@every_pair
@scene
async def test_updates_of_a_resource_reach_the_host_that_watches_it(front, back):
    fake = FakeServer(speaks=back)
    async with through(fake, front) as (host, gateway, _):
        if front == MODERN:
            watch_id = await listen(host, resourceSubscriptions=["file:///a"])
        else:
            assert await host.result("resources/subscribe", uri="file:///a") == {}
        tell(fake, "notifications/resources/updated", uri="file:///a")
        assert (await host.note("notifications/resources/updated"))["uri"] == "file:///a"
        if front == MODERN:
            host.cancel(watch_id)
        else:
            await host.result("resources/unsubscribe", uri="file:///a")
        await fake.until("notifications/cancelled" if back == MODERN else "resources/unsubscribe")
        (server,) = gateway.backs
        assert not server.watches.has_resources
        assert not server.watches._resources


NEVER = RestartPolicy(when="always", max_restarts=0)
WATCHED = {"lists": {"toolsListChanged": True}, "a resource": {"resourceSubscriptions": ["file:///a"]}}


@pytest.mark.parametrize("wanted", WATCHED.values(), ids=WATCHED)
@pytest.mark.parametrize("back", REVISIONS)
@scene
async def test_a_subscription_fails_when_the_server_is_not_restarted(back, wanted):
    fake = FakeServer(speaks=back)
    async with through(fake, restart=NEVER) as (host, gateway, _):
        watch_id = await listen(host, **wanted)
        await fake.hang_up()
        error = (await host.line_of(watch_id))["error"]
        assert error["code"] == -32603
        again = host.start("subscriptions/listen", notifications=wanted)
        assert (await host.line_of(again))["error"]["code"] == -32603  # and does not wait for ever
        (server,) = gateway.backs
        assert not server.watches.has_resources


@pytest.mark.parametrize("wanted", WATCHED.values(), ids=WATCHED)
@scene
async def test_a_subscription_that_the_server_ends_is_ended(wanted):
    fake = FakeServer()
    async with through(fake) as (host, _, _):
        ended = await listen(host, **wanted)
        about = "resourceSubscriptions" in wanted
        other = host.start("subscriptions/listen", notifications=WATCHED["lists" if about else "a resource"])
        await host.until(lambda: len(host.notes("notifications/subscriptions/acknowledged")) == 2)
        for request_id, asked in zip(fake.ids_of("subscriptions/listen"), fake.of("subscriptions/listen"), strict=True):
            if ("resourceSubscriptions" in asked["notifications"]) == about:
                fake.write({"jsonrpc": "2.0", "id": request_id, "result": {"resultType": "complete", "_meta": {TAG: request_id}}})
        assert (await host.line_of(ended))["result"]["_meta"][TAG] == ended
        assert host.answers_to(other) == []
        count = len(fake.of("subscriptions/listen"))
        again = host.start("subscriptions/listen", notifications=wanted)
        await fake.until("subscriptions/listen", count + 1)
        await host.until(lambda: len(host.notes("notifications/subscriptions/acknowledged")) == 3)
        tell_again = "notifications/resources/updated" if about else "notifications/tools/list_changed"
        tell(fake, tell_again, **({"uri": "file:///a"} if about else {}))
        assert (await host.note(tell_again))["_meta"][TAG] == again


@scene
async def test_a_subscription_stays_open_while_the_server_is_restarted():
    fake = FakeServer()
    async with through(fake, restart=RestartPolicy(when="always", first_delay=0.0)) as (host, _, _):
        watch_id = await listen(host, toolsListChanged=True)
        await fake.hang_up()
        await host.note("notifications/tools/list_changed")  # changes may have been missed
        assert host.answers_to(watch_id) == []


@pytest.mark.parametrize("back", REVISIONS)
@scene
async def test_two_hosts_share_one_subscription(back):
    fake = FakeServer(speaks=back)
    method = "subscriptions/listen" if back == MODERN else "resources/subscribe"
    gateway = gateway_to(fake)
    async with gateway._running(), connected(gateway, "2025-11-25") as one:
        async with connected(gateway, "2025-11-25") as two:
            await one.result("resources/subscribe", uri="a:b")
            await two.result("resources/subscribe", uri="a:b")
            await two.result("resources/subscribe", uri="a:b")
        await one.settle()
        tell(fake, "notifications/resources/updated", uri="a:b")
        await one.note("notifications/resources/updated")
        wanted = [params for params in fake.of(method) if "uri" in params or "resourceSubscriptions" in params["notifications"]]
        assert len(wanted) == 1


@scene
async def test_a_refused_subscription_is_an_error_of_the_host():
    fake = FakeServer({"resources/subscribe": Fault(-32002, "no such resource", {"uri": "a:b"})}, speaks="2025-11-25")
    async with through(fake, "2025-11-25") as (host, gateway, _):
        error = await host.error("resources/subscribe", uri="a:b")
        assert (error["code"], error["message"]) == (-32002, "no such resource")
        (back,) = gateway.backs
        assert not back.watches.has_resources


@pytest.mark.parametrize("back", REVISIONS)
@scene
async def test_after_a_restart_the_subscriptions_are_renewed_and_everything_may_have_changed(back):
    fake = FakeServer(speaks=back)
    async with through(fake, "2025-11-25", restart=RestartPolicy(when="always", first_delay=0)) as (host, _, _):
        await host.result("resources/subscribe", uri="a:b")
        await host.result("logging/setLevel", level="error")
        await fake.hang_up()
        await host.note("notifications/tools/list_changed")
        await host.note("notifications/resources/updated")
        assert len(fake.lives) == 2
        if back != MODERN:
            assert [line["params"]["level"] for line in fake.lives[1] if line["method"] == "logging/setLevel"] == ["error"]


@pytest.mark.parametrize("back", REVISIONS)
@scene
async def test_after_a_stop_the_next_request_starts_the_server_and_renews_everything(back):
    fake = FakeServer(speaks=back)
    async with through(fake, "2025-11-25") as (host, gateway, _):
        await host.result("resources/subscribe", uri="a:b")
        await host.result("logging/setLevel", level="error")
        (server,) = gateway.backs
        await server.stop()
        assert not server.is_running
        await host.settle()
        assert len(fake.lives) == 1
        await host.call("work")
        assert len(fake.lives) == 2
        await host.note("notifications/tools/list_changed")
        await host.note("notifications/resources/updated")
        if back != MODERN:
            assert [line["params"]["level"] for line in fake.lives[1] if line["method"] == "logging/setLevel"] == ["error"]


# Unknown notifications


@every_pair
@scene
async def test_an_unknown_notification_of_the_server_passes(front, back):
    fake = FakeServer(speaks=back)
    async with through(fake, front) as (host, _, _):
        await host.call("work")
        fake.notify("own/news", {"a": {"b": [1]}})
        assert await host.note("own/news") == {"a": {"b": [1]}}


@every_pair
@scene
async def test_an_unknown_notification_of_the_host_passes(front, back):
    fake = FakeServer(speaks=back)
    async with through(fake, front) as (host, _, _):
        await host.call("work")
        host.send({"jsonrpc": "2.0", "method": "own/news", "params": {"a": {"b": [1]}}})
        line = await fake.until("own/news")
    assert line["params"] == {"a": {"b": [1]}}


@pytest.mark.parametrize("back", REVISIONS)
@scene
async def test_the_reason_of_a_cancellation_passes(back):
    fake = FakeServer({"tools/call": SILENCE}, speaks=back)
    async with through(fake, "2025-11-25") as (host, _, _):
        request_id = host.start_tool("slow")
        await fake.until("tools/call")
        reason = {"requestId": request_id, "reason": "the user pressed stop"}
        host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": reason})
        line = await fake.until("notifications/cancelled")
    assert line["params"]["reason"] == "the user pressed stop"
