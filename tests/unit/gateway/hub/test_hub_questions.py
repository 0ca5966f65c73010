"""Questions through a hub: the host whose call caused them is asked, and the user sees which server asks."""

import asyncio

import pytest

from fake_server import FORM, SAMPLE, URL, FakeServer, asks, scene, text
from gateways import ERA_OF, Person, accept, combinations, fronts, through_hub
from inmemory import LATEST_LEGACY, LATEST_MODERN, connected
from twopipes import Context, Server
from twopipes._gateway.back import BackConfig
from twopipes._gateway.hub.member import MemberSettings

ASKS = {"tools/list": {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}}


def asking_server() -> Server:
    server = Server("asking")

    @server.tool
    async def form(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Person)
        return answer.content["name"] if answer.content else answer.action

    @server.tool
    async def page(ctx: Context) -> str:
        return (await ctx.elicit_url("Sign in", "https://example.test/in")).action

    @server.tool
    async def sample(ctx: Context) -> str:
        return (await ctx.sample("Hello", max_tokens=9)).text

    @server.tool
    async def roots(ctx: Context) -> str:
        return " ".join(root.uri for root in await ctx.list_roots())

    @server.tool
    async def twice(ctx: Context) -> str:
        first = await ctx.elicit("First?", Person)
        second = await ctx.elicit("Second?", Person)
        return f"{first.content['name']} {second.content['name']}"

    return server


def speaking(back):
    return MemberSettings(config=BackConfig(era=ERA_OF[back]))


@combinations
@pytest.mark.parametrize(
    ("tool", "answered", "message"),
    [("form", "Anna", "[b] Who?"), ("page", "accept", "[b] Sign in"), ("sample", "Hi", None), ("roots", "file:///home", None)],
)
@scene
async def test_a_question_names_its_server_and_its_answer_reaches_it(front, back, tool, answered, message):
    async with through_hub({"a": asking_server(), "b": asking_server()}, front, members=speaking(back)) as (host, _):
        assert await host.text(f"b__{tool}") == answered
    ((_, _, params),) = host.asked
    assert (params or {}).get("message") == message


@combinations
@scene
async def test_a_call_can_ask_again(front, back):
    async with through_hub({"a": asking_server()}, front, members=speaking(back)) as (host, _):
        names = iter(["Anna", "Bert"])
        host.answer = lambda key, method, params: accept(name=next(names))
        assert await host.text("a__twice") == "Anna Bert"
    assert [params["message"] for _, _, params in host.asked] == ["[a] First?", "[a] Second?"]


@combinations
@scene
async def test_two_servers_ask_at_the_same_time(front, back):
    both = asyncio.Barrier(2)

    def server(name):
        made = Server(name)

        @made.tool
        async def ask(ctx: Context) -> str:
            await both.wait()
            return (await ctx.elicit("Who?", Person)).content["name"]

        return made

    async with through_hub({"a": server("a"), "b": server("b")}, front, members=speaking(back)) as (host, _):
        host.answer = lambda key, method, params: accept(name=params["message"])
        assert await asyncio.gather(host.text("a__ask"), host.text("b__ask")) == ["[a] Who?", "[b] Who?"]


@scene
async def test_members_of_a_question_that_are_unknown_here_pass():
    questions = {"form": ("elicitation/create", {**FORM, "own": 1}), "page": ("elicitation/create", {**URL, "own": 2})}
    fake = FakeServer({**ASKS, "tools/call": [asks({**questions, "model": ("sampling/createMessage", SAMPLE)}, "s"), text("x")]})
    async with through_hub({"a": fake}) as (host, _):
        await host.text("a__ask")
    asked = {key: params for key, _, params in host.asked}
    assert asked["form"] == {**FORM, "message": "[a] Who?", "own": 1}
    assert asked["page"] == {**URL, "message": "[a] Sign in", "own": 2}
    assert asked["model"] == SAMPLE


@scene
async def test_a_server_gets_its_own_state_back():
    fake = FakeServer({**ASKS, "tools/call": [asks({"form": ("elicitation/create", FORM)}, "its \u00e4 state"), text("x")]})
    async with through_hub({"a": fake}) as (host, _):
        await host.text("a__ask")
    _, retry = fake.of("tools/call")
    assert retry["requestState"] == "its \u00e4 state"
    assert retry["inputResponses"]["form"]["action"] == "accept"


@scene
async def test_a_server_never_gets_the_state_of_another_one():
    servers = {name: FakeServer({**ASKS, "tools/call": asks({"form": ("elicitation/create", FORM)}, "s")}) for name in "ab"}
    async with through_hub(servers) as (host, _):
        line = await host.line_of(host.start_tool("a__ask"))
        more = host.replies(line["result"])
        for state in (more["requestState"], "s"):
            wrong = host.start("tools/call", name="b__ask", arguments={}, **{**more, "requestState": state})
            error = (await host.line_of(wrong))["error"]
            assert error["code"] == -32602
            assert "does not come from the server 'b'" in error["message"]
    assert servers["b"].of("tools/call") == []


@fronts
@scene
async def test_a_host_is_asked_only_about_its_own_calls(front):
    async with through_hub({"a": asking_server(), "b": asking_server()}, front, is_shared=True) as (host, hub):
        async with connected(hub, LATEST_LEGACY) as other:
            other.answer = lambda key, method, params: accept(name="Other")
            assert await asyncio.gather(host.text("a__form"), other.text("b__form")) == ["Anna", "Other"]
        assert len(host.asked) == len(other.asked) == 1


@fronts
@scene
async def test_calls_of_two_hosts_on_one_legacy_server_are_not_asked_by_a_guess(front):
    both = asyncio.Barrier(2)
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        await both.wait()
        try:
            return str((await ctx.elicit("Who?", Person)).content)
        finally:
            await both.wait()

    options = {"members": speaking(LATEST_LEGACY), "is_shared": True}
    async with through_hub({"a": server}, front, **options) as (host, hub), connected(hub, LATEST_LEGACY) as other:
        errors = await asyncio.gather(*(each.error("tools/call", name="a__ask", arguments={}) for each in (host, other)))
    assert all("serve the hub with twopipes bridge --isolate" in error["message"] for error in errors)
    assert host.asked == other.asked == []


@scene
async def test_roots_after_the_handshake_are_asked_of_a_legacy_host():
    fake = FakeServer(ASKS, speaks=LATEST_LEGACY)
    async with through_hub({"a": fake}, LATEST_LEGACY) as (host, _):
        await host.names("tools/list", "tools")
        answer = await fake.ask("roots/list")
        assert answer["result"]["roots"] == [{"uri": "file:///home"}]
        host.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        await fake.until("notifications/roots/list_changed")


@scene
async def test_extensions_that_a_hub_cannot_route_are_not_declared_to_servers():
    fake = FakeServer(ASKS)
    can = {"extensions": {"io.modelcontextprotocol/tasks": {}, "io.modelcontextprotocol/ui": {"a": 1}}, "own": {"b": 2}}
    async with through_hub({"a": fake}, LATEST_MODERN, can=can) as (host, _):
        await host.text("a__ask")
    (params,) = fake.of("tools/call")
    declared = params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert declared == {"extensions": {"io.modelcontextprotocol/ui": {"a": 1}}, "own": {"b": 2}}
