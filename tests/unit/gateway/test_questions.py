"""Questions of a server behind the gateway, in every combination of eras: what the host is asked, and what the server gets."""

import asyncio
from typing import Any

import pytest

import sessions
from fake_server import FORM, SAMPLE, URL, FakeServer, asks, legacy, scene, text
from gateways import ERA_OF, Person, accept, alone, combinations, fronts, gateway_to
from inmemory import LATEST_LEGACY, LATEST_MODERN, connected
from twopipes import Context, McpError, Server
from twopipes._protocol.types import Tool
from twopipes.errors import UserRefused

pytestmark = pytest.mark.slow  # every pair of revisions

MODEL = {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m", "stopReason": "endTurn"}
TOOL_USE = {
    "role": "assistant",
    "content": {"type": "tool_use", "id": "1", "name": "t", "input": {"a": 1}},
    "model": "m",
    "stopReason": "toolUse",
}


def asking_server() -> Server:
    """A server with one tool for each kind of question; each returns the answer as text."""
    server = Server("asking")

    @server.tool
    async def form(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Person)
        return answer.content["name"] if answer.content else answer.action

    @server.tool
    async def url(ctx: Context) -> str:
        return (await ctx.elicit_url("Sign in", "https://example.test/in")).action

    @server.tool
    async def sample(ctx: Context) -> str:
        return (await ctx.sample("Hello", system_prompt="Be short", max_tokens=9)).text

    @server.tool
    async def sample_tools(ctx: Context) -> str:
        answer = await ctx.sample("Hello", tools=[Tool("t", {"type": "object"})])
        return f"{answer.stop_reason} {answer.blocks[0].name}"

    @server.tool
    async def roots(ctx: Context) -> str:
        return " ".join(root.uri for root in await ctx.list_roots())

    @server.tool
    async def together(ctx: Context) -> str:
        person, roots, sampled = await asyncio.gather(ctx.elicit("Who?", Person), ctx.list_roots(), ctx.sample("Hello"))
        return f"{person.content['name']} {roots[0].uri} {sampled.text}"

    @server.tool
    async def twice(ctx: Context) -> str:
        first = await ctx.elicit("First?", Person)
        second = await ctx.elicit("Second?", Person)
        return f"{first.content['name']} {second.content['name']}"

    @server.tool
    async def caught(ctx: Context) -> str:
        try:
            await ctx.sample("Hello")
        except McpError as error:
            return f"{type(error).__name__} {error.code} {error.message}"
        return "no error"

    @server.prompt
    async def ask_prompt(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Person)
        return answer.content["name"]

    @server.resource("ask://who")
    async def ask_resource(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Person)
        return answer.content["name"]

    return server


# Every kind and every answer, in every combination of eras


@combinations
@pytest.mark.parametrize(
    ("tool", "answer", "returned"),
    [
        ("form", accept(name="Anna"), "Anna"),
        ("form", {"action": "decline"}, "decline"),
        ("form", {"action": "cancel"}, "cancel"),
        ("url", {"action": "accept"}, "accept"),
        ("url", {"action": "decline"}, "decline"),
        ("url", {"action": "cancel"}, "cancel"),
        ("sample", MODEL, "Hi"),
        ("sample_tools", TOOL_USE, "toolUse t"),
        ("roots", {"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "B"}]}, "file:///a file:///b"),
    ],
)
@scene
async def test_an_answer_reaches_the_server(front, back, tool, answer, returned):
    async with alone(asking_server(), front, era=ERA_OF[back]) as host:
        host.answer = lambda key, method, params: answer
        assert await host.text(tool) == returned
    assert len(host.asked) == 1


@combinations
@scene
async def test_a_question_keeps_its_content(front, back):
    async with alone(asking_server(), front, era=ERA_OF[back]) as host:
        await host.text("form")
        await host.text("sample")
        await host.text("url")
    form, sample, url = (params for _, _, params in host.asked)
    assert form["message"] == "Who?"
    assert form["requestedSchema"]["properties"]["name"]["type"] == "string"
    assert sample["systemPrompt"] == "Be short"
    assert sample["maxTokens"] == 9
    assert (url["mode"], url["url"]) == ("url", "https://example.test/in")


@combinations
@scene
async def test_several_questions_at_once_are_answered_together(front, back):
    async with alone(asking_server(), front, era=ERA_OF[back]) as host:
        assert await host.text("together") == "Anna file:///home Hi"
    assert sorted(method for _, method, _ in host.asked) == ["elicitation/create", "roots/list", "sampling/createMessage"]
    assert host.rounds == (1 if front == LATEST_MODERN else 0)


@combinations
@scene
async def test_a_call_can_ask_again(front, back):
    async with alone(asking_server(), front, era=ERA_OF[back]) as host:
        names = iter(["Anna", "Bert"])
        host.answer = lambda key, method, params: accept(name=next(names))
        assert await host.text("twice") == "Anna Bert"
    assert [params["message"] for _, _, params in host.asked] == ["First?", "Second?"]


@combinations
@scene
async def test_prompts_and_resources_may_ask_too(front, back):
    async with alone(asking_server(), front, era=ERA_OF[back]) as host:
        prompt = await host.result("prompts/get", name="ask_prompt")
        assert prompt["messages"][0]["content"]["text"] == "Anna"
        assert (await host.result("resources/read", uri="ask://who"))["contents"][0]["text"] == "Anna"


@combinations
@scene
async def test_two_calls_of_one_host_ask_at_the_same_time(front, back):
    server, both = Server("s"), asyncio.Barrier(2)

    @server.tool
    async def ask(who: str, ctx: Context) -> str:
        await both.wait()
        answer = await ctx.elicit(f"Who is {who}?", Person)
        return f"{who} is {answer.content['name']}"

    async with alone(server, front, era=ERA_OF[back]) as host:
        host.answer = lambda key, method, params: accept(name=params["message"].upper())
        one, two = await asyncio.gather(host.text("ask", who="a"), host.text("ask", who="b"))
    assert one == "a is WHO IS A?"
    assert two == "b is WHO IS B?"


# Errors instead of answers, which only a legacy host can send


@scene
async def test_the_error_of_a_legacy_host_reaches_a_legacy_server():
    """ER-15: with its code."""
    async with alone(asking_server(), LATEST_LEGACY, era="legacy") as host:
        host.answer = lambda key, method, params: {"code": -1, "message": "I would rather not"}
        assert await host.text("caught") == f"{UserRefused.__name__} -1 I would rather not"


@scene
async def test_the_error_of_a_legacy_host_ends_the_call_of_a_modern_server():
    """MR-19: a modern server has no place for it in a retry."""
    fake = FakeServer({"tools/call": asks({"k": ("sampling/createMessage", SAMPLE)}, "state")})
    async with alone(fake, LATEST_LEGACY) as host:
        host.answer = lambda key, method, params: {"code": -1, "message": "I would rather not"}
        error = await host.error("tools/call", name="x", arguments={})
    assert error == {"code": -1, "message": "I would rather not"}
    assert fake.methods.count("tools/call") == 1


# What is not declared is not asked


@fronts
@pytest.mark.parametrize(
    ("can", "question", "code"),
    [
        ({}, ("elicitation/create", FORM), -32601),
        ({"elicitation": {}}, ("elicitation/create", URL), -32602),
        ({"elicitation": {"url": {}}}, ("elicitation/create", FORM), -32602),
        ({"sampling": {}}, ("sampling/createMessage", {**SAMPLE, "tools": []}), -32602),
        ({}, ("roots/list", {}), -32601),
    ],
)
@scene
async def test_a_shared_server_gets_an_error_for_what_the_caller_did_not_declare(front, can, question, code):
    """CP-06: a shared legacy server is opened with everything, so the gateway checks each caller."""
    got: list[Any] = []

    async def call(asked: Any) -> Any:
        got.append(await asked.fake.ask(*question))
        return text("done")

    fake = legacy({"tools/call": call})
    server = gateway_to(fake, shared=True)
    async with server._running(), connected(server, front, can=can) as host:
        assert await host.text("x") == "done"
    assert not host.asked
    assert got[0]["error"]["code"] == code
    assert fake.of("initialize")[0]["capabilities"].keys() == {"elicitation", "sampling", "roots"}


@fronts
@scene
async def test_a_server_of_one_host_is_opened_with_its_capabilities(front):
    """CP-02."""
    fake = legacy()
    can = {"elicitation": {"form": {}}, "experimental": {"x": {"a": 1}}}
    async with alone(fake, front, can=can) as host:
        await host.text("x")
    assert fake.of("initialize")[0]["capabilities"] == can


@scene
async def test_a_modern_server_gets_the_capabilities_of_each_caller():
    """ST-01."""
    fake = FakeServer()
    server = gateway_to(fake)
    async with (
        server._running(),
        connected(server, LATEST_MODERN, can={"roots": {}}) as one,
        connected(server, LATEST_LEGACY, can={"sampling": {}}) as two,
    ):
        await one.text("x")
        await two.text("x")
    key = "io.modelcontextprotocol/clientCapabilities"
    assert [params["_meta"][key] for params in fake.of("tools/call")] == [{"roots": {}}, {"sampling": {}}]


# Questions of a modern server


@scene
async def test_a_modern_host_gets_the_questions_of_a_modern_server_unchanged():
    """MR-07: with the state and members that the gateway does not know."""
    asking = {**asks({"k": ("elicitation/create", {**FORM, "x-new": 1})}, "the state"), "x-other": [1]}
    fake = FakeServer({"tools/call": [asking, text("done")]})
    async with alone(fake, LATEST_MODERN) as host:
        line = await host.line_of(host.start_tool("x"))
        assert line["result"] == asking
        retry = {"inputResponses": {"k": accept(name="Anna")}, "requestState": "the state"}
        line = await host.line_of(host.start("tools/call", name="x", arguments={}, **retry))
        assert line["result"]["content"][0]["text"] == "done"
    first, second = fake.of("tools/call")
    assert "requestState" not in first
    assert second["requestState"] == "the state"
    assert second["inputResponses"] == {"k": accept(name="Anna")}


@scene
async def test_a_retry_for_a_legacy_host_has_the_state_unchanged():
    """MR-05 to MR-09."""
    first = asks({"a": ("elicitation/create", FORM), "b": ("roots/list", {})}, "one")
    fake = FakeServer({"tools/call": [first, asks(state="two"), text("done")]})
    async with alone(fake, LATEST_LEGACY) as host:
        assert await host.text("x", n=1) == "done"
    calls = fake.of("tools/call")
    assert [call.get("requestState") for call in calls] == [None, "one", "two"]
    assert calls[1]["inputResponses"] == {"a": sessions.ANNA, "b": {"roots": [{"uri": "file:///home"}]}}
    assert "inputResponses" not in calls[2]
    assert all(call["arguments"] == {"n": 1} for call in calls)


@scene
async def test_a_modern_server_that_always_asks_is_given_up():
    """MR-10."""
    fake = FakeServer({"tools/call": asks({"k": ("elicitation/create", FORM)}, "again")})
    async with alone(fake, LATEST_LEGACY) as host:
        error = await host.error("tools/call", name="x", arguments={})
    assert "asked for input 16 times" in error["message"]
    assert fake.methods.count("tools/call") == 17


# Members that the gateway does not know

ODD_FORM = {"type": "object", "properties": {"name": {"anyOf": [{"type": "string"}, {"type": "null"}], "x-hint": 1}}}
ODD = [
    ("elicitation/create", {**FORM, "x-new": {"a": [1, 2.50]}}, {**accept(name="Anna"), "x-new": 1}),
    ("elicitation/create", {**FORM, "requestedSchema": ODD_FORM}, accept(name="Anna")),
    (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi", "x-new": 1}}], "maxTokens": 7, "x-new": 1},
        {**MODEL, "content": {"type": "text", "text": "Hello", "x-new": 1}, "usage": {"tokens": 7}},
    ),
    ("roots/list", {"x-new": 1}, {"roots": [{"uri": "file:///a", "x-new": 1}], "x-new": 1}),
]


@combinations
@pytest.mark.parametrize(("method", "params", "answer"), ODD, ids=["form", "odd form", "sample", "roots"])
@scene
async def test_unknown_members_of_questions_and_answers_pass(front, back, method, params, answer):
    got: list[Any] = []

    async def ask_with_request(asked: Any) -> Any:
        got.append((await asked.fake.ask(method, params))["result"])
        return text("done")

    def ask_with_result(asked: Any) -> Any:
        if "inputResponses" not in asked.params:
            return asks({"k": (method, params)}, "state")
        got.append(asked.params["inputResponses"]["k"])
        return text("done")

    handler = ask_with_request if ERA_OF[back] == "legacy" else ask_with_result
    async with alone(FakeServer({"tools/call": handler}, speaks=back), front) as host:
        host.answer = lambda key, method, params: answer
        assert await host.text("x") == "done"
    assert [(method, params) for _, method, params in host.asked] == [(method, params)]
    assert got == [answer]


@scene
async def test_unknown_content_passes_between_sides_of_the_same_revision():
    """CT-08."""
    question = {"messages": [{"role": "user", "content": {"type": "smell", "of": "rain"}}], "maxTokens": 7}
    answer = {**MODEL, "content": {"type": "smell", "of": "roses"}}
    got: list[Any] = []

    async def call(asked: Any) -> Any:
        got.append((await asked.fake.ask("sampling/createMessage", question))["result"])
        return text("done")

    async with alone(legacy({"tools/call": call}), LATEST_LEGACY) as host:
        host.answer = lambda key, method, params: answer
        await host.text("x")
    assert host.asked[0][2] == question
    assert got == [answer]


@scene
async def test_an_answer_to_a_form_of_a_later_revision_is_translated_back():
    """EL-03: a host of 2025-06-18 has no multiple choice."""
    form = {"type": "object", "properties": {"which": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}}}
    got: list[Any] = []

    async def call(asked: Any) -> Any:
        got.append((await asked.fake.ask("elicitation/create", {"message": "Which?", "requestedSchema": form}))["result"])
        return text("done")

    async with alone(legacy({"tools/call": call}), "2025-06-18") as host:
        host.answer = lambda key, method, params: accept(**{"which.a": True, "which.b": False, "which.c": True})
        await host.text("x")
    assert got == [accept(which=["a", "c"])]
