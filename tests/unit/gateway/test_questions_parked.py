"""Calls of a modern host that are parked while the host answers a question of a legacy server."""

import asyncio
from typing import Any

import pytest

from fake_server import FORM, SILENCE, Asked, FakeServer, legacy, scene, text
from gateways import Person, accept, alone, gateway_to
from inmemory import LATEST_MODERN, Client, connected
from twopipes import Context, Server


def asking() -> FakeServer:
    async def call(asked: Asked) -> Any:
        line = await asked.fake.ask("elicitation/create", FORM, ident=f"about {asked.id}")
        return text(line["result"]["content"]["name"])

    return legacy({"tools/call": call})


async def parked(host: Client) -> dict[str, Any]:
    """Call a tool that asks, and return the members of the retry."""
    line = await host.line_of(host.start_tool("x"))
    assert line["result"]["resultType"] == "input_required"
    return host.replies(line["result"])


async def retried(host: Client, retry: dict[str, Any], **changed: Any) -> Any:
    return await host.line_of(host.start("tools/call", **{"name": "x", "arguments": {}, **retry, **changed}))


@scene
async def test_a_parked_call_continues_and_runs_once():
    fake = asking()
    async with alone(fake, LATEST_MODERN) as host:
        line = await retried(host, await parked(host))
        assert line["result"]["content"][0]["text"] == "Anna"
        assert line["result"]["resultType"] == "complete"
    assert fake.methods.count("tools/call") == 1
    assert "requestState" not in fake.of("tools/call")[0]


@scene
async def test_a_retry_that_comes_twice_does_not_run_the_call_again():
    fake = asking()
    async with alone(fake, LATEST_MODERN) as host:
        retry = await parked(host)
        assert "result" in await retried(host, retry)
        error = (await retried(host, retry))["error"]
    assert error["code"] == -32602
    assert "it was not run again" in error["message"]
    assert fake.methods.count("tools/call") == 1


@scene
async def test_a_retry_after_a_restart_of_the_gateway_does_not_run_the_call_again():
    fake = asking()
    async with alone(fake, LATEST_MODERN) as host:
        retry = await parked(host)
    async with alone(fake, LATEST_MODERN) as host:
        error = (await retried(host, retry))["error"]
        assert "the process that ran it is gone" in error["message"]
    assert fake.methods.count("tools/call") == 1


@pytest.mark.parametrize("changed", [{"arguments": {"other": 1}}, {"name": "y"}, {"requestState": "forged"}])
@scene
async def test_a_state_for_another_request_does_not_continue_the_call(changed):
    """MR-15."""
    fake = asking()
    async with alone(fake, LATEST_MODERN) as host:
        retry = await parked(host)
        assert "error" in await retried(host, retry, **changed)
        assert (await retried(host, retry))["result"]["content"][0]["text"] == "Anna"
    assert fake.methods.count("tools/call") == 1


@scene
async def test_an_answer_that_does_not_fit_is_refused_and_the_call_stays_parked():
    """MR-14."""
    fake = asking()
    async with alone(fake, LATEST_MODERN) as host:
        retry = await parked(host)
        (key,) = retry["inputResponses"]
        error = (await retried(host, {**retry, "inputResponses": {key: {"action": "perhaps"}}}))["error"]
        assert "does not match elicitation/create" in error["message"]
        assert (await retried(host, retry))["result"]["content"][0]["text"] == "Anna"
    assert fake.methods.count("tools/call") == 1


@scene
async def test_a_retry_without_an_answer_is_asked_again():
    """MR-12."""
    fake = asking()
    async with alone(fake, LATEST_MODERN) as host:
        retry = await parked(host)
        line = await retried(host, {**retry, "inputResponses": {}})
        assert line["result"]["resultType"] == "input_required"
        assert (await retried(host, host.replies(line["result"])))["result"]["content"][0]["text"] == "Anna"
    assert fake.methods.count("tools/call") == 1


@scene
async def test_a_server_that_dies_while_a_call_is_parked_is_reported_to_the_retry():
    fake = legacy({"tools/call": SILENCE})
    async with alone(fake, LATEST_MODERN) as host:
        call = host.start_tool("x")
        await fake.until("tools/call")
        fake.write({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": FORM})
        retry = host.replies((await host.line_of(call))["result"])
        await fake.hang_up()
        await fake.until("initialize", 2)  # the gateway has started it again
        error = (await retried(host, retry))["error"]
        assert error["code"] == -32603
        fake.answers["tools/call"] = text("new")
        assert await host.text("x") == "new"
    assert fake.methods.count("tools/call") == 2


@scene
async def test_a_host_that_cancels_its_retry_cancels_the_call():
    fake = legacy({"tools/call": SILENCE})
    async with alone(fake, LATEST_MODERN) as host:
        call = host.start_tool("x")
        await fake.until("tools/call")
        asked = asyncio.create_task(fake.ask("elicitation/create", FORM))
        retry = host.replies((await host.line_of(call))["result"])
        again = host.start("tools/call", name="x", arguments={}, **retry)
        assert (await asked)["result"] == accept(name="Anna")
        host.cancel(again)
        await fake.until("notifications/cancelled")
        assert fake.cancelled == fake.ids_of("tools/call")


@scene
async def test_progress_of_the_continued_call_has_the_token_of_the_retry():
    """MR-08."""
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.progress(1)
        answer = await ctx.elicit("Who?", Person)
        await ctx.progress(2)
        return answer.content["name"]

    async with alone(server, LATEST_MODERN, era="legacy") as host:
        line = await host.line_of(host.start_tool("ask", meta={"progressToken": "first"}))
        retry = host.replies(line["result"])
        await host.line_of(host.start("tools/call", meta={"progressToken": "second"}, name="ask", arguments={}, **retry))
    reports = [(params["progressToken"], params["progress"]) for params in host.notes("notifications/progress")]
    assert reports == [("first", 1), ("second", 2)]


@scene
async def test_the_end_of_the_host_ends_a_parked_call():
    fake = legacy({"tools/call": SILENCE})
    shared = gateway_to(fake)
    async with shared._running():
        async with connected(shared, LATEST_MODERN) as host:
            call = host.start_tool("x")
            await fake.until("tools/call")
            asked = asyncio.create_task(fake.ask("elicitation/create", FORM))
            await host.line_of(call)
        assert "has ended" in (await asked)["error"]["message"]
        await fake.until("notifications/cancelled")
    assert fake.cancelled == fake.ids_of("tools/call")
