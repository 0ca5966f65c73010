"""When a client uses its cache and when it asks again, as seen by the server (section CH of the rules)."""

import asyncio

import pytest

from fake_server import FORM, SILENCE, TAG, FakeServer, Fault, asks, legacy, scene
from twopipes import RestartPolicy, connect
from twopipes.errors import InvalidParams

TOOLS = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
MINUTE = {"ttlMs": 60_000}


@pytest.mark.parametrize(("hint", "fetched"), [(60_000, 1), (0, 3), (-5, 3), (None, 3), (10**30, 1)])
@scene
async def test_a_list_is_asked_for_again_when_its_time_is_over(hint, fetched):
    """CH-03: a ttl of 0 or less, or none, means stale at once; a new request is sent only when a caller asks."""
    answer = {**TOOLS, "ttlMs": hint}
    fake = FakeServer({"tools/list": answer})
    async with connect(fake) as client:
        for _ in range(3):
            assert [tool.name for tool in await client.list_tools()] == ["t"]
    assert len(fake.of("tools/list")) == fetched


@scene
async def test_time_that_is_over_is_over():
    """CH-03: a result expires without a request, and is fetched when it is next needed."""
    fake = FakeServer({"tools/list": {**TOOLS, "ttlMs": 1}})
    async with connect(fake) as client:
        await client.list_tools()
        await asyncio.sleep(0.01)
        await client.ping()
        assert len(fake.of("tools/list")) == 1  # no caller needed it
        await client.list_tools()
    assert len(fake.of("tools/list")) == 2


@scene
async def test_a_caller_may_want_it_fresh():
    """CH-03."""
    fake = FakeServer({"tools/list": {**TOOLS, **MINUTE}})
    async with connect(fake) as client:
        await client.list_tools()
        await client.list_tools(fresh=True)
        await client.list_tools()
    assert len(fake.of("tools/list")) == 2


@scene
async def test_another_question_is_never_answered_by_the_same_result():
    """CH-04: two resources, and every page of a list."""
    fake = FakeServer(
        {
            "resources/read": lambda asked: {"contents": [{"uri": asked.params["uri"], "text": asked.params["uri"]}], **MINUTE},
            "resources/list": [{"resources": [], "nextCursor": "2", **MINUTE}, {"resources": [], **MINUTE}],
        }
    )
    async with connect(fake) as client:
        for _ in range(2):
            assert [(await client.read_resource(uri)).text for uri in ("x://a", "x://b")] == ["x://a", "x://b"]
            await client.list_resources()
    assert [params["uri"] for params in fake.of("resources/read")] == ["x://a", "x://b"]
    assert [params.get("cursor") for params in fake.of("resources/list")] == [None, "2"]


@scene
async def test_what_was_asked_back_about_is_not_kept():
    """CH-05."""
    done = {"contents": [{"uri": "x://a", "text": "secret"}], **MINUTE}
    gate = asks({"k": ("elicitation/create", FORM)}, "s")
    fake = FakeServer({"resources/read": [{**gate, **MINUTE}, done, done]})
    async with connect(fake, on_elicit=lambda _: {"name": "Anna"}) as client:
        await client.read_resource("x://a")
        assert len(fake.of("resources/read")) == 2
        await client.read_resource("x://a")
    assert ["requestState" in params for params in fake.of("resources/read")] == [False, True, False]


@scene
async def test_two_clients_share_nothing():
    """CH-06: not even public results; each client may have other rights."""
    fake = FakeServer({"tools/list": {**TOOLS, **MINUTE, "cacheScope": "private"}})
    async with connect(fake) as one, connect(fake) as two:
        await one.list_tools()
        await two.list_tools()
    assert len(fake.of("tools/list")) == 2


@pytest.mark.parametrize(
    ("method", "result", "notification", "call"),
    [
        ("tools/list", TOOLS, "notifications/tools/list_changed", lambda client: client.list_tools()),
        ("prompts/list", {"prompts": []}, "notifications/prompts/list_changed", lambda client: client.list_prompts()),
        ("resources/list", {"resources": []}, "notifications/resources/list_changed", lambda client: client.list_resources()),
        ("resources/read", {"contents": []}, "notifications/resources/updated", lambda client: client.read_resource("x://a")),
    ],
)
@scene
async def test_a_change_makes_what_is_kept_stale_at_once(method, result, notification, call):
    """CH-07: also during a fetch."""
    fake = FakeServer({method: {**result, **MINUTE}})
    async with (
        connect(fake) as client,
        client.subscribe(tools=True, prompts=True, resource_list=True, resources=["x://a"]) as changes,
    ):
        await changes.ready()
        await call(client)
        await call(client)
        assert len(fake.of(method)) == 1
        tag = {"_meta": {TAG: fake.ids_of("subscriptions/listen")[0]}, "uri": "x://a"}
        fake.notify(notification, tag)
        await anext(changes)
        await call(client)
        assert len(fake.of(method)) == 2

        asked = []
        fake.notify(notification, tag)
        await anext(changes)
        fake.answers[method] = lambda question: asked.append(question) or SILENCE
        slow = asyncio.ensure_future(call(client))
        await fake.until(method, 3)
        fake.notify(notification, tag)
        asked[0].answer({**result, **MINUTE})
        await slow
        fake.answers[method] = result
        await call(client)
        assert len(fake.of(method)) == 4


@scene
async def test_a_cursor_that_is_rejected_starts_the_walk_again():
    """CH-09, PG-02: once, without a cursor and with nothing of the first walk."""
    first = {"tools": TOOLS["tools"], "nextCursor": "2"}
    last = {"tools": [{"name": "u", "inputSchema": {"type": "object"}}]}
    fake = FakeServer({"tools/list": [first, Fault(-32602, "Invalid cursor"), first, last]})
    async with connect(fake) as client:
        assert [tool.name for tool in await client.list_tools()] == ["t", "u"]
    assert [params.get("cursor") for params in fake.of("tools/list")] == [None, "2", None, "2"]
    fake = FakeServer({"tools/list": lambda asked: Fault(-32602, "Invalid cursor") if "cursor" in asked.params else first})
    async with connect(fake) as client:
        with pytest.raises(InvalidParams):
            await client.list_tools()
    assert len(fake.of("tools/list")) == 4


@scene
async def test_a_fresh_server_is_asked_everything_again():
    """CH-06, SD-06: results of the old process are not used for the new one."""
    fake = FakeServer({"tools/list": {**TOOLS, **MINUTE}})
    async with connect(fake, restart=RestartPolicy(first_delay=0.0)) as client:
        await client.list_tools()
        await fake.hang_up()
        await fake.until("server/discover", 2)
        await client.list_tools()
    assert len(fake.of("tools/list")) == 2


@scene
async def test_nothing_is_kept_of_a_session():
    """CH-03: the hints belong to the stateless era."""
    fake = legacy({"tools/list": {**TOOLS, **MINUTE}})
    async with connect(fake) as client:
        await client.list_tools()
        await client.list_tools()
    assert len(fake.of("tools/list")) == 2
