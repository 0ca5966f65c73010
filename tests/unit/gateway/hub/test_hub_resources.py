"""Resources, templates, prompts and completion through a hub: names are rewritten, URIs are routed."""

import asyncio

from fake_server import TAG, FakeServer, Fault, legacy, scene
from gateways import combinations, fronts, through_hub
from inmemory import LATEST_LEGACY, turn_until

UPDATED = "notifications/resources/updated"


def resources(*uris):
    return {"resources": [{"uri": uri, "name": uri} for uri in uris]}


def templates(*texts):
    return {"resourceTemplates": [{"uriTemplate": text, "name": text} for text in texts]}


def reads(name):
    return lambda asked: {"contents": [{"uri": asked.params["uri"], "text": name}]}


def server(name, *uris, back="2026-07-28", has=(), **more):
    answers = {
        "resources/list": resources(*uris),
        "resources/templates/list": templates(*has),
        "resources/read": reads(name),
        **more,
    }
    return FakeServer(answers, speaks=back)


async def read(host, uri):
    (content,) = (await host.result("resources/read", uri=uri))["contents"]
    return content["text"]


@combinations
@scene
async def test_a_resource_is_read_from_the_server_that_lists_it(front, back):
    servers = {"x": server("x", "a:1", "a:2", back=back), "y": server("y", "b:1", back=back)}
    async with through_hub(servers, front) as (host, _):
        assert await host.names("resources/list", "resources") == ["a:1", "a:2", "b:1"]
        assert [await read(host, uri) for uri in ("b:1", "a:2")] == ["y", "x"]


@fronts
@scene
async def test_a_uri_that_is_not_listed_goes_to_the_server_with_the_template(front):
    servers = {"x": server("x", "a:1"), "y": server("y", has=["users://{id}"])}
    async with through_hub(servers, front) as (host, _):
        assert await host.names("resources/templates/list", "resourceTemplates") == ["users://{id}"]
        assert await read(host, "users://7") == "y"


@fronts
@scene
async def test_a_uri_that_is_not_known_goes_to_the_only_server_with_resources(front):
    servers = {"x": server("x"), "y": legacy(capabilities={"tools": {}})}
    async with through_hub(servers, front) as (host, _):
        assert await read(host, "made-by-a-tool:1") == "x"


@fronts
@scene
async def test_a_uri_that_may_belong_to_several_servers_is_refused(front):
    servers = {"x": server("x", "a:1"), "y": server("y", "b:1")}
    async with through_hub(servers, front) as (host, _):
        error = await host.error("resources/read", uri="c:1")
    assert error["code"] == (-32602 if front == "2026-07-28" else -32002)
    assert error["data"] == {"uri": "c:1"}
    assert error["message"].endswith(
        "no server lists it, has a template for it or had it in a result. Servers with resources: 'x', 'y'"
    )
    assert all(each.of("resources/read") == [] for each in servers.values())


@combinations
@scene
async def test_a_link_in_a_result_is_read_from_the_server_that_made_it(front, back):
    link, embedded = {"type": "resource_link", "uri": "https://h/1", "name": "1"}, {"uri": "https://h/2", "text": "2"}
    content = [{"type": "text", "text": "see"}, link, {"type": "resource", "resource": embedded}]
    prompt = {"messages": [{"role": "user", "content": {"type": "resource", "resource": {"uri": "https://h/3", "text": "3"}}}]}
    more = {
        "tools/list": {"tools": [{"name": "find", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": content},
        "prompts/list": {"prompts": [{"name": "show"}]},
        "prompts/get": prompt,
    }
    servers = {"x": server("x", "a:1", back=back), "y": server("y", "b:1", back=back, **more)}
    async with through_hub(servers, front) as (host, hub):
        await host.error("resources/read", uri="https://h/1")
        await host.result("tools/call", name="y__find", arguments={})
        await host.result("prompts/get", name="y__show")
        assert [await read(host, f"https://h/{number}") for number in (1, 2, 3)] == ["y", "y", "y"]
        await hub.remove("y")
        assert await read(host, "https://h/1") == "x"  # the only one with resources


@fronts
@scene
async def test_a_uri_goes_to_the_only_server_with_resources_of_its_scheme(front):
    servers = {
        "x": server("x", "notes://1", "file:///a"),
        "y": server("y", has=["github://{repo}/issues"]),
        "z": server("z", "db://1"),
        "z2": server("z2", "DB://2"),
    }
    async with through_hub(servers, front) as (host, _):
        assert [await read(host, uri) for uri in ("notes://2", "github://a/b/c")] == ["x", "y"]
        for uri in ("db://3", "file:///b", "other://1", "no scheme"):
            assert "Servers with resources" in (await host.error("resources/read", uri=uri))["message"]


@fronts
@scene
async def test_a_template_that_matches_everything_does_not_take_the_resources_of_others(front):
    servers = {"x": server("x", has=["{+uri}"]), "y": server("y", has=["users://{id}"])}
    async with through_hub(servers, front) as (host, _):
        assert [await read(host, uri) for uri in ("users://7", "other://7")] == ["y", "x"]


@scene
async def test_a_server_cannot_take_a_resource_of_another_one_by_a_link():
    link = {"type": "resource_link", "uri": "b:1", "name": "x"}
    more = {"tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}, "tools/call": {"content": [link]}}
    servers = {"x": server("x", "a:1", **more), "y": server("y", "b:1")}
    async with through_hub(servers, LATEST_LEGACY) as (host, _):
        await host.result("tools/call", name="x__t", arguments={})
        assert await read(host, "b:1") == "y"


@scene
async def test_the_first_of_two_servers_with_one_uri_owns_it_and_that_is_reported():
    servers = {"x": server("x", "a:1", has=["t:{a}"]), "y": server("y", "a:1", "b:1", has=["t:{a}"])}
    async with through_hub(servers, LATEST_LEGACY) as (host, _):
        assert await host.names("resources/list", "resources") == ["a:1", "b:1"]
        assert await host.names("resources/templates/list", "resourceTemplates") == ["t:{a}"]
        assert await read(host, "a:1") == "x"
        notes = [note["data"] for note in host.notes("notifications/message")]
    assert "a:1 is offered by 'x' and by 'y'; the one of 'x' is used" in notes
    assert "t:{a} is offered by 'x' and by 'y'; the one of 'x' is used" in notes


@scene
async def test_no_server_can_offer_a_resource_of_the_hub():
    servers = {"x": server("x", "twopipes://hub/servers", "a:1")}
    async with through_hub(servers, LATEST_LEGACY) as (host, hub):
        hub.resource("twopipes://hub/servers")(lambda: "own")
        assert await host.names("resources/list", "resources") == ["twopipes://hub/servers", "a:1"]
        assert await read(host, "twopipes://hub/servers") == "own"
        assert any("belongs to the hub" in note["data"] for note in host.notes("notifications/message"))


# Prompts and completion


@combinations
@scene
async def test_a_prompt_has_the_name_of_its_server(front, back):
    answers = {"prompts/list": {"prompts": [{"name": "greet", "own": 1}]}, "prompts/get": {"messages": [], "description": "hi"}}
    fake = FakeServer(answers, speaks=back)
    async with through_hub({"x": fake, "y": FakeServer()}, front) as (host, _):
        (prompt,) = (await host.result("prompts/list"))["prompts"]
        assert prompt == {"name": "x__greet", "own": 1}
        assert (await host.result("prompts/get", name="x__greet", arguments={"a": "b"}))["description"] == "hi"
        error = await host.error("prompts/get", name="greet")
    assert error["message"] == "Unknown prompt: greet; similar names: x__greet"
    (params,) = fake.of("prompts/get")
    assert (params["name"], params["arguments"]) == ("greet", {"a": "b"})


@combinations
@scene
async def test_completion_reaches_the_server_of_the_reference(front, back):
    answers = {
        "prompts/list": {"prompts": [{"name": "greet"}]},
        "resources/templates/list": templates("users://{id}"),
        "completion/complete": {"completion": {"values": ["v"]}},
    }
    fake = FakeServer(answers, speaks=back)
    async with through_hub({"x": fake, "y": server("y", "b:1")}, front) as (host, _):
        argument = {"name": "id", "value": "v"}
        for ref in ({"type": "ref/prompt", "name": "x__greet", "own": 1}, {"type": "ref/resource", "uri": "users://{id}"}):
            result = await host.result("completion/complete", ref=ref, argument=argument)
            assert result["completion"] == {"values": ["v"]}
    prompt, resource = (params["ref"] for params in fake.of("completion/complete"))
    assert prompt == {"type": "ref/prompt", "name": "greet", "own": 1}
    assert resource == {"type": "ref/resource", "uri": "users://{id}"}


@fronts
@scene
async def test_a_server_without_completion_suggests_nothing(front):
    fake = legacy({"prompts/list": {"prompts": [{"name": "greet"}]}}, capabilities={"prompts": {}})
    async with through_hub({"x": fake}, front) as (host, _):
        ref = {"type": "ref/prompt", "name": "x__greet"}
        result = await host.result("completion/complete", ref=ref, argument={"name": "a", "value": ""})
    assert result["completion"]["values"] == []
    assert fake.of("completion/complete") == []


# Subscriptions


async def watch(host, uri):
    if host.modern:
        host.start("subscriptions/listen", request_id="watch", notifications={"resourceSubscriptions": [uri]})
        await host.note("notifications/subscriptions/acknowledged")
    else:
        await host.result("resources/subscribe", uri=uri)


def update(fake, uri):
    """Announce a change, in the way of the server's era."""
    if fake.speaks == (LATEST_LEGACY,):
        fake.notify(UPDATED, {"uri": uri})
    else:
        listens = [line for line in fake.lines if line.get("method") == "subscriptions/listen"]
        (ident,) = [line["id"] for line in listens if uri in line["params"]["notifications"].get("resourceSubscriptions", ())]
        fake.notify(UPDATED, {"uri": uri, "_meta": {TAG: ident}})


@combinations
@scene
async def test_a_subscription_is_made_at_the_server_of_the_resource(front, back):
    servers = {"x": server("x", "a:1", back=back), "y": server("y", "b:1", back=back)}
    method = "resources/subscribe" if back == LATEST_LEGACY else "subscriptions/listen"
    async with through_hub(servers, front) as (host, hub):
        await host.names("resources/list", "resources")
        await turn_until(lambda: all(member.state == "ready" for member in hub.members.values()))
        await watch(host, "b:1")
        assert any("b:1" in str(params) for params in servers["y"].of(method))
        assert not any("a:1" in str(params) or "b:1" in str(params) for params in servers["x"].of(method))
        update(servers["y"], "b:1")
        assert (await host.note(UPDATED))["uri"] == "b:1"


@scene
async def test_a_server_cannot_announce_a_resource_of_another_one():
    servers = {"x": server("x", "a:1", back=LATEST_LEGACY), "y": server("y", "b:1", back=LATEST_LEGACY)}
    async with through_hub(servers, LATEST_LEGACY) as (host, _):
        await watch(host, "a:1")
        servers["y"].notify(UPDATED, {"uri": "a:1"})
        assert await read(host, "b:1") == "y"  # so that the notification has passed
        await host.settle()
        assert host.notes(UPDATED) == []
        servers["x"].notify(UPDATED, {"uri": "a:1"})
        await host.note(UPDATED)


@scene
async def test_the_last_watcher_ends_the_subscription():
    fake = server("x", "a:1", back=LATEST_LEGACY)
    async with through_hub({"x": fake}, LATEST_LEGACY) as (host, _):
        await watch(host, "a:1")
        await watch(host, "a:1")
        await host.result("resources/unsubscribe", uri="a:1")
        await fake.until("resources/unsubscribe")
    assert len(fake.of("resources/subscribe")) == 1


@scene
async def test_a_resource_can_be_watched_before_its_server_is_ready():
    released = asyncio.Event()

    async def later(_):
        await released.wait()
        return resources("a:1")

    fake = FakeServer({"resources/list": later}, speaks=LATEST_LEGACY)
    async with through_hub({"x": fake, "y": server("y", "b:1")}) as (host, _):
        await watch(host, "a:1")
        released.set()
        await fake.until("resources/subscribe")
        fake.notify(UPDATED, {"uri": "a:1"})
        assert (await host.note(UPDATED))["uri"] == "a:1"


@scene
async def test_a_refused_subscription_is_an_error_for_the_host():
    fake = server("x", "a:1", back=LATEST_LEGACY, **{"resources/subscribe": Fault(-32602, "no")})
    async with through_hub({"x": fake}, LATEST_LEGACY) as (host, _):
        assert (await host.error("resources/subscribe", uri="a:1"))["message"] == "no"
        assert await read(host, "a:1") == "x"


@scene
async def test_a_listen_does_not_fail_with_one_of_its_servers():
    refusing = server("x", "a:1", back=LATEST_LEGACY, **{"resources/subscribe": Fault(-32602, "no")})
    other = server("y", "b:1", back=LATEST_LEGACY)
    async with through_hub({"x": refusing, "y": other}) as (host, hub):
        await host.names("resources/list", "resources")
        await turn_until(lambda: all(member.state == "ready" for member in hub.members.values()))
        host.start("subscriptions/listen", request_id="all", notifications={"resourceSubscriptions": ["a:1", "b:1"]})
        await host.note("notifications/subscriptions/acknowledged")
        update(other, "b:1")
        assert (await host.note(UPDATED))["uri"] == "b:1"
