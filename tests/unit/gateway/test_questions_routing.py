"""Which host gets a question of a legacy server, and how it ends when one side gives up."""

import asyncio
import logging
from typing import Any

from fake_server import FORM, SILENCE, URL, Asked, FakeServer, asks, legacy, scene, text
from gateways import ERA_OF, Person, accept, alone, combinations, fronts, gateway_to
from inmemory import LATEST_LEGACY, LATEST_MODERN, connected, turn_until
from twopipes import Context, Server


def ask_during_call(*question: Any) -> tuple[FakeServer, list[Any]]:
    """Return a legacy server that asks a question in each call, and the responses that it gets."""
    got: list[Any] = []

    async def call(asked: Asked) -> Any:
        got.append(await asked.fake.ask(*question, ident=f"about {asked.id}"))
        return text("done")

    return legacy({"tools/call": call}), got


# Several hosts


@combinations
@scene
async def test_each_host_of_a_shared_server_gets_its_own_questions(front, back):
    """One after the other; a modern server may be asked at the same time."""
    server = Server("s")

    @server.tool
    async def ask(who: str, ctx: Context) -> str:
        return (await ctx.elicit(f"Who is {who}?", Person)).content["name"]

    shared = gateway_to(server, era=ERA_OF[back])
    async with shared._running(), connected(shared, front) as one, connected(shared, front) as two:
        one.answer = lambda key, method, params: accept(name="Anna")
        two.answer = lambda key, method, params: accept(name="Bert")
        assert await one.text("ask", who="a") == "Anna"
        assert await two.text("ask", who="b") == "Bert"
        if back == LATEST_MODERN:
            assert await asyncio.gather(one.text("ask", who="c"), two.text("ask", who="d")) == ["Anna", "Bert"]
    assert all(params["message"] in {"Who is a?", "Who is c?"} for _, _, params in one.asked)
    assert all(params["message"] in {"Who is b?", "Who is d?"} for _, _, params in two.asked)


@fronts
@scene
async def test_a_question_is_refused_while_two_hosts_have_calls_open(front, caplog):
    """The server is told what to do about it; neither host is asked."""
    both, got = asyncio.Barrier(2), []

    async def call(asked: Asked) -> Any:
        await both.wait()
        got.append(await asked.fake.ask("elicitation/create", FORM, ident=f"about {asked.id}"))
        await both.wait()
        return text("done")

    shared = gateway_to(legacy({"tools/call": call}))
    with caplog.at_level(logging.WARNING, "twopipes.gateway"):
        async with shared._running(), connected(shared, front) as one, connected(shared, front) as two:
            await asyncio.gather(one.text("x"), two.text("x"))
    assert not one.asked
    assert not two.asked
    assert all("--isolate" in line["error"]["message"] for line in got)
    assert "2 hosts have calls open" in caplog.text


@fronts
@scene
async def test_isolated_hosts_ask_at_the_same_time(front):
    both = asyncio.Barrier(2)

    async def call(asked: Asked) -> Any:
        await both.wait()
        line = await asked.fake.ask("elicitation/create", FORM, ident=f"about {asked.params['arguments']['n']}")
        return text(line["result"]["content"]["name"])

    fakes = [legacy({"tools/call": call}), legacy({"tools/call": call})]
    left = iter(fakes)

    class Next:
        async def serve(self, *, channel: Any) -> None:
            await next(left).serve(channel=channel)

    server = gateway_to(Next(), isolated=True)
    async with connected(server, front) as one, connected(server, front) as two:
        one.answer = lambda key, method, params: accept(name="Anna")
        two.answer = lambda key, method, params: accept(name="Bert")
        assert await asyncio.gather(one.text("x", n=1), two.text("x", n=2)) == ["Anna", "Bert"]


# Questions that belong to no call


@scene
async def test_a_question_outside_of_a_call_reaches_the_only_host():
    """As servers ask for the roots after the handshake."""
    fake = legacy()
    async with alone(fake, LATEST_LEGACY) as host:
        await host.text("x")
        assert (await fake.ask("roots/list"))["result"] == {"roots": [{"uri": "file:///home"}]}
    assert [method for _, method, _ in host.asked] == ["roots/list"]


@scene
async def test_a_question_outside_of_a_call_waits_for_a_call_of_a_modern_host():
    fake = legacy()
    async with alone(fake, LATEST_MODERN) as host:
        await host.result("tools/list")
        answer = asyncio.create_task(fake.ask("roots/list"))
        await host.result("tools/list")  # it cannot carry a question
        assert not host.asked
        assert await host.text("x") == "done"
        assert (await answer)["result"] == {"roots": [{"uri": "file:///home"}]}
    assert [method for _, method, _ in host.asked] == ["roots/list"]


@scene
async def test_a_question_outside_of_a_call_is_refused_with_several_hosts():
    fake = legacy()
    shared = gateway_to(fake)
    async with shared._running(), connected(shared, LATEST_LEGACY) as one, connected(shared, LATEST_LEGACY) as two:
        await one.text("x")
        await two.text("x")
        error = (await fake.ask("roots/list"))["error"]
    assert "2 hosts use the server" in error["message"]
    assert not one.asked + two.asked


@scene
async def test_an_unanswered_question_outside_of_a_call_ends_with_the_host():
    fake = legacy()
    shared = gateway_to(fake)
    async with shared._running():
        async with connected(shared, LATEST_LEGACY) as host:
            host.answer = lambda key, method, params: None
            await host.text("x")
            asking = asyncio.create_task(fake.ask("roots/list"))
            await host.until(lambda: host.asked)
        assert (await asking)["error"]["code"] == -32603


# Cancellation


@scene
async def test_a_question_that_the_server_cancels_is_cancelled_at_a_legacy_host():
    """CA-01."""
    fake = legacy({"tools/call": SILENCE})
    async with alone(fake, LATEST_LEGACY) as host:
        host.answer = lambda key, method, params: None
        call = host.start_tool("x")
        await fake.until("tools/call")
        fake.write({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": FORM})
        ((asked, _, _),) = await host.until(lambda: host.asked)
        fake.notify("notifications/cancelled", {"requestId": "q", "reason": "too late"})
        assert (await host.note("notifications/cancelled"))["requestId"] == asked
        fake.write({"jsonrpc": "2.0", "id": fake.ids_of("tools/call")[0], "result": text("without it")})
        assert (await host.line_of(call))["result"] == text("without it")
    assert not [line for line in fake.lines if line.get("id") == "q"]


@scene
async def test_a_question_that_the_server_cancels_does_not_lose_the_result_for_a_modern_host():
    """The host has the question already; its retry gets the result."""
    fake = legacy({"tools/call": SILENCE})
    async with alone(fake, LATEST_MODERN) as host:
        call = host.start_tool("x")
        await fake.until("tools/call")
        fake.write({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": FORM})
        asking = (await host.line_of(call))["result"]
        fake.notify("notifications/cancelled", {"requestId": "q"})
        fake.write({"jsonrpc": "2.0", "id": fake.ids_of("tools/call")[0], "result": text("without it")})
        retry = host.start("tools/call", name="x", arguments={}, **host.replies(asking))
        assert (await host.line_of(retry))["result"]["content"] == text("without it")["content"]
    assert fake.methods.count("tools/call") == 1


@fronts
@scene
async def test_a_result_with_a_question_still_open_answers_the_question_with_an_error(front):
    fake = legacy({"tools/call": SILENCE})
    async with alone(fake, front) as host:
        host.answer = lambda key, method, params: accept(name="Anna") if front == LATEST_MODERN else None
        call = host.start_tool("x")
        await fake.until("tools/call")
        asking = asyncio.create_task(fake.ask("elicitation/create", FORM))
        line = await host.line_of(call) if front == LATEST_MODERN else await host.until(lambda: host.asked)
        fake.write({"jsonrpc": "2.0", "id": fake.ids_of("tools/call")[0], "result": text("without it")})
        assert "has ended" in (await asking)["error"]["message"]
        if front == LATEST_MODERN:
            call = host.start("tools/call", name="x", arguments={}, **host.replies(line["result"]))
        assert (await host.line_of(call))["result"]["content"] == text("without it")["content"]


@scene
async def test_a_question_for_the_roots_outlives_the_call_that_was_open():
    """A server asks for them after the handshake, and nothing shows that this was for no call."""
    fake = legacy({"tools/call": SILENCE})
    async with alone(fake, LATEST_MODERN) as host:
        host.answer = lambda key, method, params: {"roots": [{"uri": "file:///home/anna"}]}
        call = host.start_tool("x")
        await fake.until("tools/call")
        asking = asyncio.create_task(fake.ask("roots/list", {}))
        line = await host.line_of(call)
        fake.write({"jsonrpc": "2.0", "id": fake.ids_of("tools/call")[0], "result": text("without it")})
        await fake.ask("ping", {}, ident="p")  # the result has arrived before this
        call = host.start("tools/call", name="x", arguments={}, **host.replies(line["result"]))
        assert (await host.line_of(call))["result"]["content"] == text("without it")["content"]
        line = await host.line_of(host.start_tool("y"))
        host.start("tools/call", name="y", arguments={}, **host.replies(line["result"]))
        assert (await asking)["result"] == {"roots": [{"uri": "file:///home/anna"}]}


@scene
async def test_a_call_that_a_legacy_host_cancels_is_cancelled_at_the_server_with_its_question():
    """CA-02."""
    fake = legacy({"tools/call": SILENCE})
    async with alone(fake, LATEST_LEGACY) as host:
        host.answer = lambda key, method, params: None
        call = host.start_tool("x")
        await fake.until("tools/call")
        asking = asyncio.create_task(fake.ask("elicitation/create", FORM))
        ((asked, _, _),) = await host.until(lambda: host.asked)
        host.cancel(call)
        assert (await host.note("notifications/cancelled"))["requestId"] == asked
        assert "has ended" in (await asking)["error"]["message"]
        await fake.until("notifications/cancelled")
        assert fake.cancelled == fake.ids_of("tools/call")


@scene
async def test_a_question_moves_to_another_call_of_the_host_if_its_call_is_cancelled():
    fake = legacy({"tools/call": SILENCE})
    async with alone(fake, LATEST_LEGACY) as host:
        host.answer = lambda key, method, params: accept(name="Anna") if len(host.asked) > 1 else None
        one, two = host.start_tool("x"), host.start_tool("x")
        await fake.until("tools/call", 2)
        asking = asyncio.create_task(fake.ask("elicitation/create", FORM))
        await host.until(lambda: host.asked)
        host.cancel(one)
        assert (await asking)["result"] == accept(name="Anna")
        fake.write({"jsonrpc": "2.0", "id": fake.ids_of("tools/call")[1], "result": text("done")})
        assert (await host.line_of(two))["result"] == text("done")


@scene
async def test_a_call_of_a_modern_server_that_a_legacy_host_cancels_withdraws_its_questions():
    fake = FakeServer({"tools/call": asks({"k": ("elicitation/create", FORM)}, "s")})
    async with alone(fake, LATEST_LEGACY) as host:
        host.answer = lambda key, method, params: None
        call = host.start_tool("x")
        ((asked, _, _),) = await host.until(lambda: host.asked)
        host.cancel(call)
        assert (await host.note("notifications/cancelled"))["requestId"] == asked
    assert fake.methods.count("tools/call") == 1


# Notifications around questions


@scene
async def test_a_change_of_roots_is_passed_on():
    """RT-03."""
    fake = legacy()
    async with alone(fake, LATEST_LEGACY) as host:
        await host.text("x")
        host.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        await fake.until("notifications/roots/list_changed")


@scene
async def test_the_completion_of_a_visit_reaches_only_the_host_that_was_asked():
    """EL-12."""
    fake, _ = ask_during_call("elicitation/create", URL)
    shared = gateway_to(fake)
    async with shared._running(), connected(shared, LATEST_LEGACY) as one, connected(shared, LATEST_LEGACY) as two:
        one.answer = lambda key, method, params: {"action": "accept"}
        await one.text("x")
        await two.result("tools/list")
        assert one.asked[0][2]["elicitationId"] == "e1"
        fake.notify("notifications/elicitation/complete", {"elicitationId": "e1"})
        assert (await one.note("notifications/elicitation/complete"))["elicitationId"] == "e1"
        await two.settle()
    assert not two.notes("notifications/elicitation/complete")
    assert len(one.notes("notifications/elicitation/complete")) == 1


@scene
async def test_each_answer_of_a_legacy_host_is_passed_on_as_soon_as_it_comes():
    """It does not wait for the answer to another question of the call. A modern host answers all in one retry."""
    fake = legacy({"tools/call": SILENCE})
    async with alone(fake, LATEST_LEGACY) as host:
        host.answer = lambda key, method, params: {"roots": []} if method == "roots/list" else None
        call = host.start_tool("x")
        await fake.until("tools/call")
        fake.write(
            b'{"jsonrpc":"2.0","id":"a","method":"elicitation/create","params":{"message":"?","requestedSchema":'
            b'{"type":"object","properties":{}}}}\n{"jsonrpc":"2.0","id":"b","method":"roots/list"}\n'
        )
        await turn_until(lambda: any(line.get("id") == "b" for line in fake.lines))
        host.cancel(call)


@scene
async def test_the_completion_of_a_visit_that_was_not_a_question_reaches_the_only_host():
    """The server may have named the page in an error. A malformed notification is dropped."""
    fake = legacy()
    async with alone(fake, LATEST_LEGACY) as host:
        await host.text("x")
        fake.notify("notifications/elicitation/complete", {"elicitationId": 7})
        fake.notify("notifications/elicitation/complete", {"elicitationId": "of an error"})
        assert (await host.note("notifications/elicitation/complete"))["elicitationId"] == "of an error"


@scene
async def test_a_question_outside_of_a_call_needs_the_capability_of_the_host():
    """CP-06."""
    fake = legacy()
    shared = gateway_to(fake, shared=True)
    async with shared._running(), connected(shared, LATEST_LEGACY, can={"elicitation": {}}) as host:
        await host.text("x")
        assert (await fake.ask("roots/list"))["error"]["code"] == -32601
        assert (await fake.ask("elicitation/create", URL))["error"]["code"] == -32602
    assert not host.asked


@scene
async def test_the_server_gets_a_call_after_the_answer_that_it_waits_for():
    """It asked before the call, and may need the answer for it, as with the roots."""
    fake = legacy()
    async with alone(fake, LATEST_MODERN) as host:
        await host.result("tools/list")
        answer = asyncio.create_task(fake.ask("roots/list"))
        await host.result("tools/list")
        first = (await host.line_of(host.start_tool("x")))["result"]
        retry = host.start("tools/call", name="x", arguments={}, **{**host.replies(first), "inputResponses": {}})
        again = (await host.line_of(retry))["result"]
        assert again["resultType"] == "input_required"
        assert not fake.of("tools/call")
        retry = host.start("tools/call", name="x", arguments={}, **host.replies(again))
        assert (await host.line_of(retry))["result"]["content"] == text("done")["content"]
        assert (await answer)["result"] == {"roots": [{"uri": "file:///home"}]}
    assert len(fake.of("tools/call")) == 1


@scene
async def test_too_many_questions_of_a_modern_server_are_an_error():
    fake = FakeServer({"tools/call": asks({f"k{number}": ("elicitation/create", FORM) for number in range(65)}, "s")})
    async with alone(fake, LATEST_LEGACY) as host:
        error = await host.error("tools/call", name="x", arguments={})
    assert "with 65 questions; the limit is 64" in error["message"]
    assert not host.asked
