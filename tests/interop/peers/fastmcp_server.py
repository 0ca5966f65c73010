"""A server on FastMCP: one of each feature that a client can use. Over HTTP with a port as argument."""

import asyncio
import sys

from fastmcp import Context, FastMCP
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    ResourceUpdatedNotification,
    ResourceUpdatedNotificationParams,
    SamplingMessage,
    TextContent,
    ToolListChangedNotification,
)
from pydantic import BaseModel

server = FastMCP("fastmcp", version="1.0")
cancelled = asyncio.Event()
notes = {"first": "The first note."}
NAMES = ("Ada", "Alan", "Grace")
QUESTION = SamplingMessage(role="user", content=TextContent(type="text", text="hm"))


class Weather(BaseModel):
    city: str
    celsius: float


class Person(BaseModel):
    name: str


def is_modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version >= "2026"


@server.tool
async def echo(text: str, ctx: Context) -> str:
    await ctx.report_progress(0.5, 1, "echoing")
    return text


@server.tool
async def weather(city: str) -> Weather:
    return Weather(city=city, celsius=7.5)


@server.tool
async def wait_for_ever(ctx: Context) -> str:
    try:
        await ctx.report_progress(0.5, 1, "waiting")
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        cancelled.set()
        raise
    return "not cancelled"


@server.tool
async def wait_until_cancelled() -> str:
    await cancelled.wait()
    return "cancelled"


# An await in a session must be written as a result and a second call on the stateless wire.


@server.tool(output_schema=None)
async def ask(ctx: Context):
    if not is_modern(ctx):
        answer = await ctx.elicit("Who are you?", Person)
        return f"Hello, {answer.data.name}" if answer.action == "accept" else f"the user said {answer.action}"
    if not ctx.input_responses:
        form = ElicitRequestFormParams(message="Who are you?", requested_schema=Person.model_json_schema())
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)})
    answer = ctx.input_responses["who"]
    return f"Hello, {answer.content['name']}" if answer.action == "accept" else f"the user said {answer.action}"


@server.tool(output_schema=None)
async def sample(ctx: Context):
    if not is_modern(ctx):
        return (await ctx.session.create_message([QUESTION], max_tokens=10)).content.text
    if not ctx.input_responses:
        request = CreateMessageRequest(params=CreateMessageRequestParams(messages=[QUESTION], max_tokens=10))
        return InputRequiredResult(input_requests={"thought": request})
    return ctx.input_responses["thought"].content.text


@server.tool(output_schema=None)
async def roots(ctx: Context):
    if not is_modern(ctx):
        listed = await ctx.session.list_roots()
    elif not ctx.input_responses:
        return InputRequiredResult(input_requests={"places": ListRootsRequest()})
    else:
        listed = ctx.input_responses["places"]
    return " ".join(str(root.uri) for root in listed.roots)


@server.tool
async def log(ctx: Context) -> str:
    await ctx.info("written down")
    return "logged"


@server.tool
async def touch(text: str, ctx: Context) -> str:
    notes["first"] = text
    params = ResourceUpdatedNotificationParams(uri="note://first")
    await ctx.send_notification(ResourceUpdatedNotification(params=params))
    return "touched"


@server.tool
async def mutate(ctx: Context) -> str:
    await ctx.send_notification(ToolListChangedNotification())
    return "mutated"


@server.resource("note://first", mime_type="text/plain")
def first() -> str:
    return notes["first"]


@server.resource("poem://{name}", mime_type="text/plain")
def poem(name: str) -> str:
    return f"O {name}!"


@server.prompt
def greet(name: str) -> str:
    return f"Please greet {name}."


@server.completion
async def complete(ref, argument, context) -> list[str]:
    return [name for name in NAMES if name.startswith(argument.value)]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
    else:
        server.run(show_banner=False)
