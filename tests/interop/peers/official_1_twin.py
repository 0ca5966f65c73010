"""The twin of ``examples/everything.py`` on the official Python SDK 1.x, as far as it supports the same features."""

import asyncio
import base64
from typing import Annotated, Literal

from mcp.server.fastmcp import Audio, Context, FastMCP, Image
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.lowlevel import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.types import Completion, SamplingMessage, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SILENCE = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=")
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
SAFE = ToolAnnotations(readOnlyHint=True, idempotentHint=True)

server = FastMCP("official-1-twin", instructions="For tests: call anything.", log_level="ERROR")
notes = {"first": "The first note.", "second": "The second note."}


class Weather(BaseModel):
    city: str
    celsius: float
    conditions: Literal["sun", "rain", "snow"]


class Person(BaseModel):
    name: str = Field(min_length=1)
    age: int = Field(ge=0, le=150)


# Tools that return, fail, or are slow


@server.tool(annotations=SAFE)
async def echo(text: str) -> str:
    return text


@server.tool()
def add(a: int, b: int = 0) -> int:
    return a + b


@server.tool(annotations=SAFE)
async def structured(city: str, celsius: float = 20.0) -> Weather:
    return Weather(city=city, celsius=celsius, conditions="sun" if celsius > 0 else "snow")


@server.tool()
def numbers(count: Annotated[int, Field(ge=0, le=1000)]) -> list[int]:
    return list(range(count))


@server.tool()
async def blocks() -> list:
    return ["a text", Image(data=PIXEL, format="png"), Audio(data=SILENCE, format="wav")]


@server.tool()
async def fail() -> str:
    raise ToolError("This tool always fails.")


@server.tool()
def boom() -> str:
    raise RuntimeError("secret details")


@server.tool()
async def slow(ctx: Context, steps: int = 100, seconds: float = 0.05) -> str:
    for step in range(1, steps + 1):
        await asyncio.sleep(seconds)
        await ctx.report_progress(step, steps, f"step {step}")
    return f"{steps} steps"


@server.tool()
async def log(ctx: Context) -> str:
    for level in LEVELS:
        await ctx.session.send_log_message(level, {"says": level}, logger="everything", related_request_id=ctx.request_id)
    return "logged"


@server.tool()
async def whoami(ctx: Context) -> str:
    client = ctx.session.client_params
    return client.clientInfo.name if client else "nobody"


# Tools that ask


def need(ctx: Context, capability: str, mode: str = "") -> None:
    """Refuse a call whose client cannot answer; the library leaves that to the author."""
    client = ctx.session.client_params
    declared = getattr(client.capabilities, capability, None) if client else None
    # A client that declares neither mode accepts forms.
    has_mode = not mode or getattr(declared, mode, None) is not None or (mode == "form" and getattr(declared, "url", None) is None)
    if declared is None or not has_mode:
        raise ToolError(f"this needs a client with {capability}")


@server.tool()
async def ask(ctx: Context) -> str:
    need(ctx, "elicitation", "form")
    answer = await ctx.elicit("Who are you?", Person)
    return f"{answer.data.name} is {answer.data.age}" if answer.action == "accept" else f"the user said {answer.action}"


@server.tool()
async def ask_url(ctx: Context) -> str:
    need(ctx, "elicitation", "url")
    return (await ctx.elicit_url("Please log in.", "https://login.example/start", "login-1")).action


@server.tool()
async def sample(prompt: str, ctx: Context) -> str:
    need(ctx, "sampling")
    question = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return (await ctx.session.create_message([question], max_tokens=100)).content.text


@server.tool()
async def roots_tool(ctx: Context) -> list[str]:
    need(ctx, "roots")
    return [str(root.uri) for root in (await ctx.session.list_roots()).roots]


# Tools that change the server


@server.tool()
async def mutate(ctx: Context) -> str:
    def extra() -> str:
        return "extra"

    if any(tool.name == "extra" for tool in await server.list_tools()):
        server.remove_tool("extra")
    else:
        server.add_tool(extra)
    await ctx.session.send_tool_list_changed()
    return "mutated"


@server.tool()
async def touch(name: str = "first", text: str = "changed") -> str:
    # No notification is possible: it always declares `subscribe: false`.
    notes[name] = text
    return name


# Resources and prompts


@server.resource("note://first", mime_type="text/plain")
def first_note() -> str:
    return notes["first"]


@server.resource("image://pixel", mime_type="image/png")
def pixel() -> bytes:
    return PIXEL


@server.resource("broken://always")
def broken() -> str:
    raise OSError("disk on fire")


@server.resource("note://{name}", mime_type="text/plain")
def note(name: str) -> str:
    return notes[name]


@server.prompt(title="Code review")
def review(code: str, language: str = "python") -> str:
    return f"Please review this {language} code:\n{code}"


@server.prompt()
def dialogue(topic: str) -> str:
    return f"Let us talk about {topic}."


@server.completion()
async def complete(ref, argument, context) -> Completion | None:
    known = {("dialogue", "topic"): [f"topic-{number}" for number in range(250)], ("note://{name}", "name"): list(notes)}
    values = known.get((getattr(ref, "name", None) or getattr(ref, "uri", None), argument.name))
    if values is None:
        return None
    found = [value for value in values if value.startswith(argument.value)]
    return Completion(values=found[:100], total=len(found), hasMore=len(found) > 100)


async def main() -> None:
    # FastMCP's own run() declares no changes of lists, and there is no public access to the server that it runs.
    inner = server._mcp_server
    async with stdio_server() as streams:
        await inner.run(*streams, inner.create_initialization_options(NotificationOptions(tools_changed=True)))


if __name__ == "__main__":
    asyncio.run(main())
