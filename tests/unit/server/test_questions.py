"""Questions to the client: plain awaits in both eras (sections EL, SA, RT and MR of the rules)."""

import asyncio
import concurrent.futures
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest
from msgspec import Meta, Struct

import sessions
from inmemory import ANSWERS, ERAS, LATEST_LEGACY, LATEST_MODERN, LEGACY, Client, connected, play, turn_until, willing
from twopipes import Context, InputPolicy, McpError, RequestTimedOut, Server, ToolError
from twopipes._channels.memory import memory_pair
from twopipes._protocol.types import ModelPreferences, SamplingMessage, TextContent, Tool, ToolChoice
from twopipes._server.connection import ServerConnection
from twopipes.errors import CapabilityMissing, LocalProtocolError

KEY = b"a key for tests, and only there."


class Person(TypedDict):
    name: Annotated[str, Meta(min_length=1)]


@dataclass
class Order:
    dish: Literal["soup", "salad"]
    count: int = 1


class Address(Struct):
    street: str
    number: int


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def asking(**options: Any) -> Server:
    server = Server("s", state_key=KEY, **options)

    @server.tool
    async def name(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Person, key="who")
        return answer.content["name"] if answer.content else answer.action

    @server.tool
    async def names(count: int, ctx: Context) -> str:
        found = []
        for number in range(count):
            answer = await ctx.elicit(f"Who is number {number}?", Person)
            found.append(answer.content["name"] if answer.content else answer.action)
        return " ".join(found)

    @server.tool
    async def together(ctx: Context) -> str:
        person, roots, sampled = await asyncio.gather(ctx.elicit("Who?", Person), ctx.list_roots(), ctx.sample("Hello"))
        return f"{person.content['name'] if person.content else ''} {roots[0].uri} {sampled.text}"

    @server.tool
    def from_a_thread(ctx: Context) -> str:
        first = ctx.wait(ctx.elicit("Who?", Person))
        second = ctx.wait(ctx.elicit("And who?", Person))
        return f"{first.content['name']} {second.content['name']}" if first.content and second.content else "nobody"

    @server.tool
    async def url(ctx: Context) -> str:
        answer = await ctx.elicit_url("Go there", "https://example.com/")
        return f"{answer.action} {answer.accepted} {answer.content}"

    @server.tool
    async def sample(ctx: Context) -> str:
        return (await ctx.sample("Hello", max_tokens=10)).text

    @server.tool
    async def sample_with_tools(ctx: Context) -> str:
        tools = [Tool("t", {"type": "object"})]
        return (await ctx.sample("Hello", tools=tools, tool_choice=ToolChoice("none"))).text

    @server.tool
    async def roots(ctx: Context) -> list[str]:
        return [root.uri for root in await ctx.list_roots()]

    return server


@pytest.mark.parametrize("revision", ["2025-06-18", *ERAS])
@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (Person, {"name": "Anna"}, {"name": "Anna"}),
        (Order, {"dish": "soup", "count": 2}, Order("soup", 2)),
        (Order, {"dish": "salad"}, Order("salad", 1)),
        (Address, {"street": "Elm", "number": 5}, Address("Elm", 5)),
        ({"type": "object", "properties": {"x": {"type": "integer"}}}, {"x": 1}, {"x": 1}),
    ],
)
def test_a_form_gives_what_was_asked_for(kind, given, expected, revision):
    """EL-01, EL-02, MR-03."""
    server = Server("s")
    found = []

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Please", kind)
        found.append(answer.content)
        return f"{answer.action} {answer.accepted}"

    async def scenario(client: Client):
        client.answer = lambda *_: accept(**given)
        assert await client.text("ask") == "accept True"
        ((_, method, params),) = client.asked
        assert (method, params["message"]) == ("elicitation/create", "Please")
        assert params["requestedSchema"]["type"] == "object"
        assert client.rounds == (1 if client.modern else 0)

    play(server, scenario, revision)
    assert found == [expected]


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_may_decline_or_turn_away(action, revision):
    """EL-15."""

    async def scenario(client: Client):
        client.answer = lambda *_: {"action": action}
        assert await client.text("name") == action
        assert await client.text("url") == f"{action} False None"

    play(asking(), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_an_answer_that_does_not_fit_the_form_is_not_taken(revision, capsys):
    """EL-16, MR-14."""

    async def scenario(client: Client):
        client.answer = lambda *_: accept(name="")
        assert (await client.call("name"))["isError"] is True
        client.answer = lambda *_: {"action": "maybe"}
        line = await client.request("tools/call", name="name")
        assert "error" in line or line["result"]["isError"] is True
        client.answer = willing
        assert await client.text("name") == "Anna"

    play(asking(), scenario, revision)


@pytest.mark.parametrize("revision", LEGACY)
def test_a_client_that_cannot_ask_its_user_responds_with_an_error(revision):
    """EL-15, SA-10: its error reaches the handler that asked."""
    server = Server("s")

    @server.tool
    async def sample(ctx: Context) -> str:
        try:
            return (await ctx.sample("Hello")).text
        except McpError as error:
            raise ToolError(f"{type(error).__name__}: {error.message}") from error

    async def scenario(client: Client):
        client.answer = lambda *_: {"code": -1, "message": "User rejected"}
        assert await client.text("sample") == "UserRefused: User rejected"

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_a_url_is_asked_with_what_the_revision_needs(revision):
    """EL-10."""

    async def scenario(client: Client):
        client.answer = lambda *_: {"action": "accept"}
        assert await client.text("url") == "accept True None"
        params = client.asked[0][2]
        assert (params["mode"], params["url"]) == ("url", "https://example.com/")
        assert ("elicitationId" in params) is not client.modern

    play(asking(), scenario, revision)


@pytest.mark.parametrize("revision", [*LEGACY, LATEST_MODERN])
def test_the_client_s_model_can_be_asked(revision):
    """SA-01, SA-11, RT-04, FR-09."""
    server = asking()

    @server.tool
    async def in_detail(ctx: Context) -> str:
        messages = [SamplingMessage("user", TextContent("One")), SamplingMessage("assistant", TextContent("Two"))]
        preferences = ModelPreferences(cost_priority=0.5)
        result = await ctx.sample(
            messages, max_tokens=5, system_prompt="Be brief", temperature=0.5, stop_sequences=["."], preferences=preferences
        )
        return result.text

    async def scenario(client: Client):
        assert await client.text("sample") == "Hi"
        params = client.asked[0][2]
        assert params["maxTokens"] == 10
        assert params["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hello"}}]
        assert "tools" not in params
        assert await client.text("in_detail") == "Hi"
        params = client.asked[1][2]
        assert (params["systemPrompt"], params["temperature"], params["stopSequences"]) == ("Be brief", 0.5, ["."])
        assert params["modelPreferences"] == {"costPriority": 0.5}
        assert [message["role"] for message in params["messages"]] == ["user", "assistant"]
        assert "file:///home" in await client.text("roots")
        if client.modern:
            assert not [line for line in client.lines if "method" in line and "id" in line]

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_several_rounds_one_after_the_other(revision):
    """MR-11."""
    people = iter(["Anna", "Bert", "Cleo", "Dora", "Emil"])

    async def scenario(client: Client):
        client.answer = lambda *_: accept(name=next(people))
        assert await client.text("names", count=5) == "Anna Bert Cleo Dora Emil"
        assert client.rounds == (5 if client.modern else 0)
        if client.modern:
            assert [key for key, _, _ in client.asked] == [f"elicit-{number}" for number in range(1, 6)]

    play(asking(), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_questions_asked_together_are_one_round(revision):
    """MR-03: a map of keys, each with method and params, and no envelope."""

    async def scenario(client: Client):
        assert await client.text("together") == "Anna file:///home Hi"
        assert [method for _, method, _ in client.asked] == ["elicitation/create", "roots/list", "sampling/createMessage"]
        if client.modern:
            assert client.rounds == 1
            (first,) = [line for line in client.lines if line.get("result", {}).get("resultType") == "input_required"]
            questions = first["result"]["inputRequests"]
            assert list(questions) == ["elicit-1", "roots-1", "sample-1"]
            assert all(question.keys() <= {"method", "params"} for question in questions.values())

    play(asking(), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_a_function_that_blocks_can_ask_too(revision):
    async def scenario(client: Client):
        people = iter(["Anna", "Bert"])
        client.answer = lambda *_: accept(name=next(people))
        assert await client.text("from_a_thread") == "Anna Bert"

    play(asking(), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_waiting_is_not_for_coroutines(revision, capsys):
    server = Server("s")

    @server.tool
    async def stuck(ctx: Context) -> str:
        for question in (ctx.list_roots(), asyncio.get_running_loop().create_future()):
            with pytest.raises(LocalProtocolError, match="await the question"):
                ctx.wait(question)
        return "not stuck"

    async def scenario(client: Client):
        assert await client.text("stuck") == "not stuck"

    play(server, scenario, revision)


NEEDS = {
    "name": "elicitation",
    "url": "elicitation.url",
    "sample": "sampling",
    "sample_with_tools": "sampling.tools",
    "roots": "roots",
}


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("tool", NEEDS)
def test_what_the_client_did_not_declare_is_not_asked(tool, revision):
    """CP-02, CP-04, CP-06, MR-04, EL-08, SA-04, ST-01: -32021 with the object; in a session, a result of the tool (TL-05)."""
    least = {"url": {"elicitation": {}}, "sample_with_tools": {"sampling": {}}}.get(tool, {})

    async def main():
        async with connected(asking(), revision, can=least) as client:
            if not client.modern:
                result = await client.call(tool)
                assert result["isError"] is True
                assert result["content"][0]["text"] == f"This request needs a client that declares the capability {NEEDS[tool]}"
                assert client.asked == []
            else:
                error = await client.error("tools/call", name=tool)
                assert error["code"] == -32021
                assert error["message"] == f"This request needs a client that declares the capability {NEEDS[tool]}"
                assert isinstance(error["data"]["requiredCapabilities"], dict)
                assert client.asked == []
                # each request counts for itself
                client.can = sessions.ABLE
                assert "result" in await client.request("tools/call", name=tool)
                client.can = least
                assert (await client.error("tools/call", name=tool))["code"] == -32021

    asyncio.run(main())


@pytest.mark.parametrize("revision", ERAS)
def test_a_handler_may_do_without_what_the_client_lacks(revision):
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            await ctx.list_roots()
        except CapabilityMissing as error:
            return f"no {', '.join(error.required)}"
        return "roots"

    async def main():
        async with connected(server, revision, can={}) as client:
            assert await client.text("ask") == "no roots"

    asyncio.run(main())


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_a_revision_without_forms_has_no_forms(revision):
    """CP-02: whatever the client says it can."""

    async def scenario(client: Client):
        result = await client.call("name")
        assert result["isError"] is True
        assert "elicitation" in result["content"][0]["text"]
        assert client.asked == []

    play(asking(), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_resources_and_prompts_may_ask_as_well(revision):
    """RS-10, PM-07."""
    server = Server("s")

    @server.resource("gated://secret")
    async def secret(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Person)
        return f"{answer.content}"

    @server.resource("gated://{door}")
    async def door(door: str, ctx: Context) -> str:
        answer = await ctx.elicit(f"Who is at {door}?", Person)
        return f"{answer.content}"

    @server.prompt
    def gated(ctx: Context) -> str:
        return f"{ctx.wait(ctx.elicit('Who?', Person)).content}"

    async def scenario(client: Client):
        for uri in ("gated://secret", "gated://front"):
            read = await client.result("resources/read", uri=uri)
            assert read["contents"][0]["text"] == "{'name': 'Anna'}"
        prompt = await client.result("prompts/get", name="gated")
        assert prompt["messages"][0]["content"]["text"] == "{'name': 'Anna'}"

    play(server, scenario, revision)


def test_nothing_else_may_ask_on_the_stateless_wire(capsys):
    """MR-01, CM-05."""
    server = asking()

    async def curious(ctx: Context, call_next: Any) -> Any:
        if ctx.call.method == "tools/list":
            await ctx.list_roots()
        return await call_next(ctx)

    server._middleware = curious

    async def scenario(client: Client):
        assert (await client.error("tools/list"))["code"] == -32603

    play(server, scenario)
    assert "tools/list must not ask" in capsys.readouterr().err


@pytest.mark.parametrize("revision", ERAS)
def test_the_same_key_means_another_question_the_second_time(revision):
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        first = await ctx.elicit("Who?", Person, key="who")
        second = await ctx.elicit("Who?", Person, key="who")
        return f"{first.content} {second.content}"

    async def scenario(client: Client):
        people = iter(["Anna", "Bert"])
        client.answer = lambda *_: accept(name=next(people))
        assert await client.text("ask") == "{'name': 'Anna'} {'name': 'Bert'}"
        if client.modern:
            assert [key for key, _, _ in client.asked] == ["who", "who#2"]

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_two_questions_at_once_need_two_keys(revision):
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        both = (ctx.list_roots(key="x"), ctx.elicit("Who?", Person, key="x"))
        first, second = await asyncio.gather(*both, return_exceptions=True)
        return f"{type(first).__name__} {type(second).__name__}"

    async def scenario(client: Client):
        assert await client.text("ask") == "list LocalProtocolError"

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_a_question_asked_while_another_waits_is_asked_after_it_or_beside_it(revision):
    """MR-11: beside it in a session, in the next round on the stateless wire."""
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        first = asyncio.create_task(ctx.elicit("Who?", Person))
        for _ in range(5):
            await asyncio.sleep(0)
        second = await ctx.list_roots()
        return f"{(await first).content} {len(second)}"

    async def scenario(client: Client):
        assert await client.text("ask") == "{'name': 'Anna'} 1"
        assert client.rounds == (2 if client.modern else 0)

    play(server, scenario, revision)


# The stateless wire: rounds, states, and handlers that are not there any more


async def first_leg(client: Client, tool: str, **arguments: Any) -> Any:
    line = await client.line_of(client.start_tool(tool, **arguments))
    assert line["result"]["resultType"] == "input_required", line
    return line["result"]


async def retry(client: Client, tool: str, result: Any, *, arguments: Any = None, **change: Any) -> Any:
    more = {**client.replies(result), **change}
    return await client.line_of(client.start("tools/call", name=tool, arguments=arguments or {}, **more))


def text(line: Any) -> str:
    return line["result"]["content"][0]["text"]


def test_a_retry_may_reach_another_server_with_the_same_key():
    """ST-03: the handler runs again from the top with the answers already given."""
    people = iter(["Anna", "Bert", "Cleo"])

    async def main():
        one, other = asking(), asking()
        async with connected(one) as here, connected(other) as there, connected(other) as elsewhere:
            for client in (here, there, elsewhere):
                client.answer = lambda *_: accept(name=next(people))
            arguments = {"count": 3}
            first = await first_leg(here, "names", count=3)
            second = await retry(there, "names", first, arguments=arguments)
            assert second["result"]["resultType"] == "input_required"
            third = await retry(elsewhere, "names", second["result"], arguments=arguments)
            last = await retry(here, "names", third["result"], arguments=arguments)
            assert text(last) == "Anna Bert Cleo"
            assert [len(client.asked) for client in (here, there, elsewhere)] == [1, 1, 1]

    # `replies` is called by the client that retries.
    async def run():
        async with asyncio.timeout(60):
            await main()

    asyncio.run(run())


def test_two_dialogues_at_once_do_not_mix():
    """ST-02."""

    async def scenario(client: Client):
        one = await first_leg(client, "names", count=1)
        other = await first_leg(client, "name")
        client.answer = lambda *_: accept(name="Bert")
        assert text(await retry(client, "name", other)) == "Bert"
        client.answer = lambda *_: accept(name="Anna")
        assert text(await retry(client, "names", one, arguments={"count": 1})) == "Anna"

    play(asking(), scenario)


def test_missing_answers_are_asked_again_and_strange_ones_ignored():
    """MR-02, MR-12, MR-13."""

    async def scenario(client: Client):
        first = await first_leg(client, "together")
        again = await retry(client, "together", first, inputResponses={"roots-1": ANSWERS["roots/list"], "zz": {}})
        assert list(again["result"]["inputRequests"]) == ["elicit-1", "sample-1"]
        assert text(await retry(client, "together", again["result"])) == "Anna file:///home Hi"

    play(asking(), scenario)


def test_a_state_that_is_not_ours_is_refused():
    """MR-15, MR-16: changed, for another tool, for other arguments, of another key."""

    async def main():
        async with connected(asking()) as client, connected(Server("s", state_key=b"x" * 32)) as stranger:
            stranger.can = client.can
            first = await first_leg(client, "names", count=1)
            state = first["requestState"]
            flipped = state[:-1] + ("A" if state[-1] != "A" else "B")
            for bad in (flipped, state[:-3], "", "x"):
                line = await retry(client, "names", first, arguments={"count": 1}, requestState=bad)
                assert line["error"]["code"] == -32602
            assert (await retry(client, "name", first))["error"]["code"] == -32602
            assert (await retry(client, "names", first, arguments={"count": 2}))["error"]["code"] == -32602
            assert (await retry(client, "names", first, arguments={"count": 1}, inputResponses=5))["error"]["code"] == -32602
            assert text(await retry(client, "names", first, arguments={"count": 1})) == "Anna"

    asyncio.run(main())


def test_a_retry_sent_twice_is_served_twice():
    """MR-17: single use is the author's to enforce; the second run starts from the top."""

    async def scenario(client: Client):
        first = await first_leg(client, "name")
        assert text(await retry(client, "name", first)) == "Anna"
        assert text(await retry(client, "name", first)) == "Anna"

    play(asking(), scenario)


def test_handlers_that_wait_are_bounded_and_an_abandoned_call_can_still_go_on():
    """MR-18: the oldest gives way; its retry runs from the top."""
    server = asking(questions=InputPolicy(max_waiting=3))

    async def scenario(client: Client):
        legs = [await first_leg(client, "name") for _ in range(50)]
        (connection,) = server._connections
        await client.settle()
        assert len(connection._contexts) <= 3
        assert text(await retry(client, "name", legs[0])) == "Anna"
        assert text(await retry(client, "name", legs[-1])) == "Anna"

    play(server, scenario)


def test_a_handler_that_waited_too_long_is_given_up_and_its_thread_is_free():
    """MR-18: also one that blocks; the retry runs from the top."""
    server = asking(questions=InputPolicy(wait=0.05))
    ended = asyncio.Event()
    outcomes: list[BaseException] = []

    @server.tool
    def blocking(ctx: Context) -> str:
        try:
            return f"{ctx.wait(ctx.elicit('Who?', Person)).content}"
        except concurrent.futures.CancelledError as error:
            outcomes.append(error)
            with pytest.raises(LocalProtocolError, match="is over"):
                ctx.wait(ctx.list_roots())
            ctx._loop.call_soon_threadsafe(ended.set)
            raise

    async def scenario(client: Client):
        first = await first_leg(client, "blocking")
        await ended.wait()
        (connection,) = server._connections
        await client.settle()
        assert len(outcomes) == 1
        assert connection._waiting_for_client == 0
        assert connection._contexts == {}
        assert text(await retry(client, "blocking", first)) == "{'name': 'Anna'}"

    play(server, scenario)


def test_a_person_who_takes_too_long_is_a_timeout_in_a_session():
    """EL-15."""
    server = Server("s", questions=InputPolicy(wait=0.05))

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            await ctx.elicit("Who?", Person)
        except RequestTimedOut as error:
            return error.limit
        return "?"

    async def scenario(client: Client):
        client.answer = lambda *_: None
        assert await client.text("ask") == "idle"
        assert client.notes("notifications/cancelled")[0]["requestId"] == client.asked[0][0]  # CA-02

    play(server, scenario, LATEST_LEGACY)


@pytest.mark.parametrize("revision", ERAS)
def test_a_handler_with_its_own_deadline_still_responds(revision):
    """MR-18: on the stateless wire its first answer was the question; the retry starts another one, with the answer."""
    server = Server("s")
    runs = []

    @server.tool
    async def impatient(ctx: Context) -> str:
        runs.append(ctx)
        try:
            async with asyncio.timeout(0.01 if len(runs) == 1 else None):
                return f"{(await ctx.elicit('Who?', Person)).content}"
        except TimeoutError:
            return "too late"

    async def scenario(client: Client):
        if not client.modern:
            client.answer = lambda *_: None
            assert await client.text("impatient") == "too late"
            return
        first = await first_leg(client, "impatient")
        (connection,) = server._connections
        await turn_until(lambda: not connection._contexts)
        assert text(await retry(client, "impatient", first)) == "{'name': 'Anna'}"
        assert len(runs) == 2

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("tool", ["name", "from_a_thread"])
def test_a_call_that_is_cancelled_while_it_asks_is_silent(tool, revision):
    """CA-02, CA-03: the question is withdrawn, and a thread that waits for the answer is let go."""
    server = asking()
    before = threading.active_count()

    async def scenario(client: Client):
        client.answer = lambda *_: None
        request_id = client.start_tool(tool)
        if client.modern:
            # Its request is over; what can be cancelled is the retry, once it asks again.
            await client.line_of(request_id)
            client.cancel(request_id)
        else:
            await client.until(lambda: client.asked)
            client.cancel(request_id)
            assert (await client.note("notifications/cancelled"))["requestId"] == client.asked[0][0]
            assert client.answers_to(request_id) == []
            await client.settle()
            (connection,) = server._connections
            assert connection._contexts == {}
            assert connection._waiting_for_client == 0
        await client.settle()
        assert len(client.answers_to(request_id)) == (1 if client.modern else 0)

    play(server, scenario, revision)
    assert threading.active_count() <= before + 1


def test_a_retry_can_be_cancelled():
    """CA-03, CA-04."""
    server = Server("s")
    cancelled = asyncio.Event()

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.elicit("Who?", Person)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "?"

    async def scenario(client: Client):
        first = await first_leg(client, "ask")
        request_id = client.start("tools/call", name="ask", arguments={}, **client.replies(first))
        await client.settle()
        client.cancel(request_id)
        await cancelled.wait()
        await client.settle()
        assert client.answers_to(request_id) == []

    play(server, scenario)


@pytest.mark.parametrize("revision", ERAS)
def test_a_client_that_leaves_during_a_question_blocks_nothing(revision):
    """SD-02, MR-18."""
    server = asking()

    async def scenario(client: Client):
        client.answer = lambda *_: None
        for tool in ("name", "from_a_thread"):
            request_id = client.start_tool(tool)
            if client.modern:
                await client.line_of(request_id)
            else:
                await client.until(lambda: client.asked)
        await client.leave()
        await client.until(lambda: client.over)

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_a_question_after_its_call_is_refused(revision):
    """Left behind in a task of its own, it ends with the call."""
    server = Server("s")
    left: list[asyncio.Task[Any]] = []
    contexts: list[Context] = []

    @server.tool
    async def careless(ctx: Context) -> str:
        contexts.append(ctx)
        left.append(asyncio.create_task(ctx.list_roots()))
        await asyncio.sleep(0)
        return "done"

    async def scenario(client: Client):
        client.answer = lambda *_: None
        client.start_tool("careless")
        await client.settle()
        await asyncio.wait(left)
        assert left[0].cancelled()
        (connection,) = server._connections
        assert connection._waiting_for_client == 0
        with pytest.raises(LocalProtocolError, match="is over"):
            await contexts[0].list_roots()

    play(server, scenario, revision)


def test_the_limit_of_rounds_is_the_authors(capsys):
    """SA-12."""
    server = asking(questions=InputPolicy(max_rounds=2))

    async def scenario(client: Client):
        assert (await client.call("names", count=3))["isError"] is True
        assert await client.text("names", count=2) == "Anna Anna"

    play(server, scenario)
    assert "has asked 2 times" in capsys.readouterr().err


@pytest.mark.parametrize("revision", ERAS)
def test_a_handler_sees_who_asks_in_this_round(revision):
    """MT-01, ST-01."""
    server = Server("s")

    @server.tool
    async def who(ctx: Context) -> str:
        before = ctx.client
        await ctx.elicit("Who?", Person)
        name = before.info.name if before.info else None
        return f"{ctx.client.revision} {name} {ctx.meta.get('x/y')} {ctx.client.capabilities.allows('roots')}"

    async def scenario(client: Client):
        found = await client.text("who", meta={"x/y": 1})
        assert found == f"{revision} {None if client.modern else 'c'} 1 True"

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_a_question_that_is_taken_back_at_once_is_not_asked(revision):
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        question = asyncio.create_task(ctx.list_roots())
        await asyncio.sleep(0)
        question.cancel()
        await asyncio.wait([question])
        return "never mind"

    async def scenario(client: Client):
        assert await client.text("ask") == "never mind"
        assert client.asked == []

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_what_goes_wrong_while_asking_belongs_to_whoever_asked(revision, monkeypatch):
    server = asking()

    def broken(*_: Any) -> None:
        raise OSError("no question today")

    monkeypatch.setattr(ServerConnection, "ask", broken)

    @server.tool
    async def ask(ctx: Context) -> str:
        with pytest.raises(OSError, match="no question today"):
            await ctx.list_roots()
        return "caught"

    async def scenario(client: Client):
        assert await client.text("ask") == "caught"

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_several_threads_of_one_handler_may_ask(revision):
    server = Server("s")

    @server.tool
    def ask(ctx: Context) -> int:
        found: list[Any] = []

        def one(number: int) -> None:
            found.append(ctx.wait(ctx.elicit(f"Who is number {number}?", Person, key=f"who-{number}")).content)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(found)

    async def scenario(client: Client):
        assert (await client.call("ask"))["structuredContent"] == {"result": 3}

    play(server, scenario, revision)


def test_a_server_that_is_stopped_while_it_asks_leaves_no_timer_behind():
    server = asking()

    async def main():
        ours, theirs = memory_pair()
        client = Client(ours, LATEST_LEGACY, sessions.ABLE)
        client.answer = lambda *_: None
        client.listen()
        serving = asyncio.create_task(server.serve(channel=theirs))
        client.send(sessions.initialize("opening", capabilities=sessions.ABLE), sessions.note("notifications/initialized"))
        client.start_tool("name")
        await client.until(lambda: client.asked)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        await client.close()

    asyncio.run(main())
