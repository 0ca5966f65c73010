"""A server on the official Python SDK 2.x: one of each feature that a client can use. Over HTTP with a port as argument."""

import asyncio
import sys
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, Resolve, Sample
from mcp_types import (
    Completion,
    CreateMessageResult,
    EmptyResult,
    ListRootsResult,
    SamplingMessage,
    SubscribeRequestParams,
    TextContent,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel

server = MCPServer("official-2", version="1.0")
cancelled = asyncio.Event()
notes = {"first": "The first note."}
NAMES = ("Ada", "Alan", "Grace")


class Weather(BaseModel):
    city: str
    celsius: float


class Person(BaseModel):
    name: str


@server.tool()
async def echo(text: str, ctx: Context) -> str:
    await ctx.report_progress(0.5, 1, "echoing")
    return text


@server.tool()
async def weather(city: str) -> Weather:
    return Weather(city=city, celsius=7.5)


@server.tool()
async def wait_for_ever(ctx: Context) -> str:
    try:
        await ctx.report_progress(0.5, 1, "waiting")
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        cancelled.set()
        raise
    return "not cancelled"


@server.tool()
async def wait_until_cancelled() -> str:
    await cancelled.wait()
    return "cancelled"


# The question that a resolver returns is sent as a request in one era, and in a result that asks for input in the other.


async def who() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


async def thought() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="hm"))], max_tokens=10)


async def places() -> ListRoots:
    return ListRoots()


@server.tool()
async def ask(answer: Annotated[ElicitationResult[Person], Resolve(who)]) -> str:
    return f"Hello, {answer.data.name}" if isinstance(answer, AcceptedElicitation) else f"the user said {answer.action}"


@server.tool()
async def sample(said: Annotated[CreateMessageResult, Resolve(thought)]) -> str:
    return said.content.text


@server.tool()
async def roots(listed: Annotated[ListRootsResult, Resolve(places)]) -> str:
    return " ".join(str(root.uri) for root in listed.roots)


@server.tool()
async def log(ctx: Context) -> str:
    await ctx.info("written down")
    return "logged"


@server.tool()
async def touch(text: str, ctx: Context) -> str:
    notes["first"] = text
    # One call for each era; each has no effect in the other.
    await ctx.notify_resource_updated("note://first")
    await ctx.session.send_resource_updated("note://first")
    return "touched"


@server.tool()
async def mutate(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "mutated"


@server.resource("note://first", mime_type="text/plain")
def first() -> str:
    return notes["first"]


@server.resource("poem://{name}", mime_type="text/plain")
def poem(name: str) -> str:
    return f"O {name}!"


@server.prompt()
def greet(name: str) -> str:
    return f"Please greet {name}."


@server.completion()
async def complete(ref, argument, context) -> Completion:
    return Completion(values=[name for name in NAMES if name.startswith(argument.value)])


async def nod(ctx, params) -> EmptyResult:
    return EmptyResult()


if __name__ == "__main__":
    # In a session, resources can be watched only if these are handled; MCPServer has no public method for them.
    server._lowlevel_server.add_request_handler("resources/subscribe", SubscribeRequestParams, nod)
    server._lowlevel_server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, nod)
    if len(sys.argv) > 1:
        server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
