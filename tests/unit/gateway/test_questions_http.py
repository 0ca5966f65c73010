"""Questions through a gateway with HTTP on either side."""

import asyncio
from typing import Any

import pytest

from fake_server import scene
from gateways import ERA_OF, Person, combinations, fronts, gateway_to
from http_server import serve_asgi
from inmemory import connected
from twopipes import Context, Server, connect
from twopipes.types import Elicitation

pytestmark = pytest.mark.slow  # real sockets


def asking(meeting: asyncio.Barrier | None = None) -> Server:
    """A server with a tool that asks; with a barrier, once several calls are open."""
    server = Server("asking")

    @server.tool
    async def ask(who: str, ctx: Context) -> str:
        if meeting is not None:
            await meeting.wait()
        answer = await ctx.elicit(f"Who is {who}?", Person)
        return f"{who} is {answer.content['name']}"

    return server


@combinations
@scene
async def test_a_client_over_http_is_asked(front, back):
    with serve_asgi(gateway_to(asking(), era=ERA_OF[back], shared=True).asgi()) as port:
        asked: list[str] = []

        def answer(question: Elicitation) -> dict[str, Any]:
            asked.append(question.message)
            return {"name": "Anna"}

        async with connect(f"http://127.0.0.1:{port}/mcp", era=ERA_OF[front], on_elicit=answer) as client:
            assert (await client.call_tool("ask", {"who": "a"})).text == "a is Anna"
    assert asked == ["Who is a?"]


@fronts
@scene
async def test_the_streams_of_a_server_over_http_show_whose_question_it_is(front):
    """Two hosts have a call open at the same time, and the server has one session for both."""
    with serve_asgi(asking(asyncio.Barrier(2)).asgi()) as port:
        shared = gateway_to(f"http://127.0.0.1:{port}/mcp", era="legacy", shared=True)
        async with shared._running(), connected(shared, front) as one, connected(shared, front) as two:
            one.answer = lambda key, method, params: {"action": "accept", "content": {"name": "Anna"}}
            two.answer = lambda key, method, params: {"action": "accept", "content": {"name": "Bert"}}
            texts = await asyncio.gather(one.text("ask", who="a"), two.text("ask", who="b"))
    assert texts == ["a is Anna", "b is Bert"]
    assert [params["message"] for _, _, params in one.asked] == ["Who is a?"]
    assert [params["message"] for _, _, params in two.asked] == ["Who is b?"]


@scene
async def test_each_stateless_request_is_a_caller_of_its_own():
    """Nothing shows that two requests over HTTP come from the same client, so a question is not passed on."""
    meeting = asyncio.Barrier(2)

    with serve_asgi(gateway_to(caught(meeting), era="legacy").asgi()) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with connect(url, era="modern", on_elicit=never) as one, connect(url, era="modern", on_elicit=never) as two:
            results = await asyncio.gather(one.call_tool("ask"), two.call_tool("ask"))
    assert ["--isolate" in result.text for result in results] == [True, True]


def never(question: Elicitation) -> None:
    pytest.fail("a client was asked")


def caught(meeting: asyncio.Barrier) -> Server:
    """A server whose tool returns the error that it gets instead of an answer."""
    server = Server("caught")

    @server.tool
    async def ask(ctx: Context) -> str:
        await meeting.wait()
        try:
            await ctx.elicit("Who?", Person)
        except Exception as error:
            return str(error)
        finally:
            await meeting.wait()
        return "an answer"

    return server
