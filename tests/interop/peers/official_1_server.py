"""A server on the official Python SDK 1.x: one of each feature that a client can use. Over HTTP with a port as argument."""

import asyncio
import sys

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.lowlevel import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.types import Completion, SamplingMessage, TextContent
from pydantic import AnyUrl, BaseModel

server = FastMCP("official-1")
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


@server.tool()
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Who are you?", Person)
    return f"Hello, {answer.data.name}" if answer.action == "accept" else f"the user said {answer.action}"


@server.tool()
async def sample(ctx: Context) -> str:
    question = SamplingMessage(role="user", content=TextContent(type="text", text="hm"))
    return (await ctx.session.create_message([question], max_tokens=10)).content.text


@server.tool()
async def roots(ctx: Context) -> str:
    return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool()
async def log(ctx: Context) -> str:
    await ctx.info("written down")
    return "logged"


@server.tool()
async def touch(text: str, ctx: Context) -> str:
    notes["first"] = text
    await ctx.session.send_resource_updated(AnyUrl("note://first"))
    return "touched"


@server.tool()
async def mutate(ctx: Context) -> str:
    await ctx.session.send_tool_list_changed()
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


async def main() -> None:
    # FastMCP's own run() declares no changes of lists, and there is no public access to the server that it runs.
    inner = server._mcp_server
    async with stdio_server() as streams:
        await inner.run(*streams, inner.create_initialization_options(NotificationOptions(tools_changed=True)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.settings.port = int(sys.argv[1])
        server.run(transport="streamable-http")
    else:
        asyncio.run(main())
