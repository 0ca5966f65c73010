"""Subscriptions to changes (section SU of the rules, and their counterpart in legacy sessions)."""

import asyncio

import pytest

from fake_server import SILENCE, TAG, FakeServer, Fault, acknowledge, legacy, scene
from twopipes import Change, RestartPolicy, connect
from twopipes.errors import ConnectionLost, InvalidParams, LocalProtocolError, MethodNotFound

AT_ONCE = RestartPolicy(first_delay=0.0)
LIST = "notifications/{}/list_changed"


def changed(fake, ident, kind="tools"):
    fake.notify(LIST.format(kind), {"_meta": {TAG: ident}})


def updated(fake, ident, uri):
    fake.notify("notifications/resources/updated", {"_meta": {TAG: ident}, "uri": uri})


@scene
async def test_a_listen_asks_for_what_is_wanted_and_nothing_else():
    """SU-01, VN-01, PR-07: as booleans and a list; no progress token on a listen."""
    fake = FakeServer()
    async with (
        connect(fake) as client,
        client.subscribe(tools=True) as one,
        client.subscribe(prompts=True, resource_list=True, resources=["x://a"]) as two,
    ):
        await one.ready()
        await two.ready()
    first, second = fake.of("subscriptions/listen")
    assert first["notifications"] == {"toolsListChanged": True}
    assert second["notifications"] == {"promptsListChanged": True, "resourcesListChanged": True, "resourceSubscriptions": ["x://a"]}
    assert all("progressToken" not in params["_meta"] for params in (first, second))


@scene
async def test_what_the_server_does_not_deliver_is_known():
    """SU-07: nothing hangs, and the caller can compare."""

    def nothing(asked):
        asked.notify("notifications/subscriptions/acknowledged", {"_meta": {TAG: asked.id}, "notifications": {}})
        return SILENCE

    async with connect(FakeServer({"subscriptions/listen": nothing})) as client, client.subscribe(tools=True) as changes:
        honoured = await changes.ready()
        assert not honoured.tools_list_changed
        assert changes.wanted.tools_list_changed
        assert changes.honoured is honoured


@scene
async def test_changes_go_to_the_subscription_they_are_tagged_for():
    """SU-08, SU-10, SU-04: two of the same kind at once; a tag of another type, or an unknown one, belongs to no subscription."""
    fake = FakeServer()
    async with connect(fake) as client, client.subscribe(tools=True) as one, client.subscribe(tools=True, prompts=True) as two:
        await one.ready()
        await two.ready()
        first, second = fake.ids_of("subscriptions/listen")
        changed(fake, str(first), "prompts")
        changed(fake, 999)
        changed(fake, second, "prompts")
        changed(fake, second)
        changed(fake, first)
        assert await anext(one) == Change("tools")
        assert [await anext(two), await anext(two)] == [Change("prompts"), Change("tools")]
        await client.ping()
        assert not one._changes
        assert not two._changes


@scene
async def test_other_traffic_may_come_before_the_acknowledgement():
    """SU-03: the acknowledgement of a later subscription, and answers."""
    asked = []
    fake = FakeServer({"subscriptions/listen": [lambda question: asked.append(question) or SILENCE, acknowledge]})
    async with connect(fake) as client, client.subscribe(tools=True) as late, client.subscribe(prompts=True) as early:
        await early.ready()
        await client.list_tools()
        assert late.honoured is None
        acknowledge(asked[0])
        assert (await late.ready()).tools_list_changed


@scene
async def test_leaving_ends_a_listen_by_a_cancel():
    """SU-11, CA-08: once, with its id; what still comes for it is dropped, the other one lives on."""
    fake = FakeServer()
    async with connect(fake) as client, client.subscribe(tools=True) as stays:
        async with client.subscribe(tools=True) as leaves:
            await stays.ready()
            await leaves.ready()
        leaves.close()
        await fake.until("notifications/cancelled")
        first, second = fake.ids_of("subscriptions/listen")
        changed(fake, second)
        changed(fake, first)
        assert await anext(stays) == Change("tools")
        assert [change async for change in leaves] == []
        assert fake.cancelled == [second]


def _result(fake, ident):
    fake.write({"jsonrpc": "2.0", "id": ident, "result": {"resultType": "complete", "_meta": {TAG: ident}}})


def _cancel(fake, ident):
    fake.notify("notifications/cancelled", {"requestId": ident, "_meta": {TAG: ident}})


@pytest.mark.parametrize("signals", [[_result], [_cancel], [_cancel, _result], [_result, _cancel]])
@scene
async def test_the_server_ends_a_listen_once_by_whichever_signal(signals):
    """SU-15, SU-13, SU-14, JR-19: what came before is still read, and nothing is cancelled afterwards."""
    fake = FakeServer()
    async with connect(fake) as client:
        async with client.subscribe(tools=True) as changes:
            await changes.ready()
            (ident,) = fake.ids_of("subscriptions/listen")
            changed(fake, ident)
            for signal in signals:
                signal(fake, ident)
            assert [change async for change in changes] == [Change("tools")]
        await client.ping()
        assert client.stray_count == 0
    assert fake.cancelled == []
    assert len(fake.of("subscriptions/listen")) == 1


@scene
async def test_a_server_without_subscriptions_refuses_them():
    """SU-17, SU-07: CON-12 allows it; the reader gets the error, and no other listen is sent."""
    fake = FakeServer({"subscriptions/listen": Fault(-32601, "there is no subscriptions/listen here")})
    async with connect(fake) as client:
        with pytest.raises(MethodNotFound):
            await client.subscribe(tools=True).ready()
    assert len(fake.of("subscriptions/listen")) == 1


@scene
async def test_after_a_restart_every_listen_is_made_again():
    """SU-16, SD-04: changes may have been missed, so everything it watches is reported as changed once."""
    fake = FakeServer()
    async with connect(fake, restart=AT_ONCE) as client, client.subscribe(tools=True, resources=["x://a"]) as changes:
        await changes.ready()
        async with client.subscribe(prompts=True) as over:
            await over.ready()
        await fake.hang_up()
        assert {await anext(changes), await anext(changes)} == {Change("tools"), Change("resource", "x://a")}
        updated(fake, fake.ids_of("subscriptions/listen")[-1], "x://a")
        assert await anext(changes) == Change("resource", "x://a")
    first, second = ([line for line in life if line["method"] == "subscriptions/listen"] for life in fake.lives)
    assert len(first) == 2
    assert [line["params"]["notifications"] for line in second] == [{"toolsListChanged": True, "resourceSubscriptions": ["x://a"]}]


@scene
async def test_without_a_restart_the_reader_learns_of_the_loss():
    """SU-16, SD-03."""
    fake = FakeServer()
    async with connect(fake, restart=RestartPolicy(when="never")) as client, client.subscribe(tools=True) as changes:
        await changes.ready()
        await fake.hang_up()
        with pytest.raises(ConnectionLost):
            await anext(changes)


@scene
async def test_closing_the_client_ends_its_subscriptions():
    """SU-11."""
    fake = FakeServer()
    async with connect(fake) as client:
        changes = client.subscribe(tools=True)
        await changes.ready()
        reader = asyncio.ensure_future(anext(changes, None))
    assert await reader is None
    with pytest.raises(LocalProtocolError, match="list of URIs"):
        client.subscribe(resources="x://a")


# Sessions


@scene
async def test_in_a_session_subscriptions_to_one_resource_share_one_request():
    """RS-03: the last one to close unsubscribes."""
    fake = legacy()
    async with connect(fake) as client:
        async with client.subscribe(resources=["x://a"]) as one:
            await one.ready()
            async with client.subscribe(resources=["x://a", "x://b"]) as two:
                await two.ready()
                fake.notify("notifications/resources/updated", {"uri": "x://a"})
                assert await anext(one) == await anext(two) == Change("resource", "x://a")
            await fake.until("resources/unsubscribe")
        await fake.until("resources/unsubscribe", 2)
    assert [params["uri"] for params in fake.of("resources/subscribe")] == ["x://a", "x://b"]
    assert [params["uri"] for params in fake.of("resources/unsubscribe")] == ["x://b", "x://a"]
    assert "subscriptions/listen" not in fake.methods


@scene
async def test_in_a_session_list_changes_reach_those_who_want_them():
    """TL-17, RS-04, SU-07: as far as the server has declared them."""
    fake = legacy(capabilities={"tools": {"listChanged": True}, "prompts": {}})
    async with connect(fake) as client, client.subscribe(tools=True, prompts=True) as changes:
        honoured = await changes.ready()
        assert (honoured.tools_list_changed, bool(honoured.prompts_list_changed)) == (True, False)
        for kind in ("prompts", "tools"):
            fake.notify(LIST.format(kind))
        fake.notify("notifications/resources/updated", {"uri": "x://unwatched"})
        await client.ping()
        assert await anext(changes) == Change("tools")
        assert not changes._changes
        async with client.subscribe(resources=["x://a"]):
            pass  # closed before anything was sent
        await client.ping()
        assert list(client._subscriptions._held) == [changes]


@scene
async def test_a_session_that_was_lost_is_subscribed_again():
    """SD-06, SU-16, LG-03: a fresh session knows nothing of the old one, neither subscriptions nor the level of the logs."""
    fake = legacy()
    async with connect(fake, restart=RestartPolicy(when="always", first_delay=0.0)) as client:
        await client.set_log_level("error")
        async with client.subscribe(resources=["x://a"]) as changes:
            await changes.ready()
            await fake.hang_up()
            assert await anext(changes) == Change("resource", "x://a")
    said = [line["method"] for line in fake.lives[1]]
    assert said[said.index("initialize") :][:2] == ["initialize", "notifications/initialized"]
    assert {"logging/setLevel", "resources/subscribe"} <= set(said)


@scene
async def test_a_subscription_that_is_closed_early_leaves_nothing_watched():
    """RS-03: closed while the first of two resources is being subscribed to."""
    asked = []
    fake = legacy({"resources/subscribe": lambda question: asked.append(question) or SILENCE})
    async with connect(fake) as client:
        async with client.subscribe(resources=["x://a", "x://b"]):
            await fake.until("resources/subscribe")
        asked[0].answer({})
        await fake.until("resources/unsubscribe")
        await client.ping()
    watched = {params["uri"] for params in fake.of("resources/subscribe")}
    assert watched == {params["uri"] for params in fake.of("resources/unsubscribe")}


@scene
async def test_a_resource_that_cannot_be_watched_leaves_nothing_watched():
    """RS-03: the second of two is refused, so the first is given back, and can be watched again."""
    fake = legacy({"resources/subscribe": [{}, Fault(-32602, "no such resource"), {}]})
    async with connect(fake) as client:
        with pytest.raises(InvalidParams):
            await client.subscribe(resources=["x://a", "x://b"]).ready()
        async with client.subscribe(resources=["x://a"]) as changes:
            await changes.ready()
            fake.notify("notifications/resources/updated", {"uri": "x://a"})
            assert await anext(changes) == Change("resource", "x://a")
    assert [params["uri"] for params in fake.of("resources/subscribe")] == ["x://a", "x://b", "x://a"]
    assert fake.of("resources/unsubscribe")[0]["uri"] == "x://a"
