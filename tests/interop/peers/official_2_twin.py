"""The twin of ``examples/everything.py`` on the official Python SDK 2.x, as far as it supports the same features."""

import asyncio
import base64
import warnings
from typing import Annotated, Literal

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Audio, Context, Elicit, ElicitationResult, Image, ListRoots, Resolve, Sample
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    Completion,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestURLParams,
    EmptyResult,
    InputRequiredResult,
    ListRootsResult,
    SamplingMessage,
    SubscribeRequestParams,
    TextContent,
    ToolAnnotations,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

# Logging is deprecated; the warnings would only be noise.
warnings.simplefilter("ignore")

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SILENCE = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=")
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
PAGE = "https://login.example/start"
SAFE = ToolAnnotations(read_only_hint=True, idempotent_hint=True)

server = MCPServer(
    "official-2-twin", title="Everything", version="1.0", instructions="For tests: call anything.", log_level="ERROR"
)
notes = {"first": "The first note.", "second": "The second note."}
watched = set()


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
        await ctx.log(level, {"says": level}, logger_name="everything")
    return "logged"


@server.tool()
async def whoami(ctx: Context) -> str:
    return str(ctx.protocol_version)


# Tools that ask. The question that a resolver returns is sent as a request in one era, and in a result in the other.


async def who() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


async def thought(prompt: str) -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text=prompt))], max_tokens=100)


async def places() -> ListRoots:
    return ListRoots()


@server.tool()
async def ask(answer: Annotated[ElicitationResult[Person], Resolve(who)]) -> str:
    return (
        f"{answer.data.name} is {answer.data.age}" if isinstance(answer, AcceptedElicitation) else f"the user said {answer.action}"
    )


@server.tool()
async def sample(prompt: str, said: Annotated[CreateMessageResult, Resolve(thought)]) -> str:
    return said.content.text


@server.tool()
async def roots_tool(listed: Annotated[ListRootsResult, Resolve(places)]) -> list[str]:
    return [str(root.uri) for root in listed.roots]


@server.tool(structured_output=False)
async def ask_url(ctx: Context):
    # There is no resolver for URLs that would check the capabilities, so both eras are written out.
    asking = ctx.client_capabilities and ctx.client_capabilities.elicitation
    can_visit = bool(asking) and asking.url is not None
    if ctx.protocol_version < "2026":
        if not can_visit:
            raise ToolError("this needs a client that opens URLs")
        return (await ctx.elicit_url("Please log in.", PAGE, "login-1")).action
    if not can_visit:
        needed = {"requiredCapabilities": {"elicitation": {"url": {}}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "this needs a client that opens URLs", needed)
    if not ctx.input_responses:
        visit = ElicitRequestURLParams(message="Please log in.", url=PAGE)
        return InputRequiredResult(input_requests={"visit": ElicitRequest(params=visit)})
    return ctx.input_responses["visit"].action


# Tools that change the server


@server.tool()
async def mutate(ctx: Context) -> str:
    def extra() -> str:
        return "extra"

    if any(tool.name == "extra" for tool in await server.list_tools()):
        server.remove_tool("extra")
    else:
        server.add_tool(extra)
    await ctx.notify_tools_changed()
    return "mutated"


@server.tool()
async def touch(ctx: Context, name: str = "first", text: str = "changed") -> str:
    notes[name] = text
    # One call for each era.
    await ctx.notify_resource_updated(f"note://{name}")
    if f"note://{name}" in watched:
        await ctx.session.send_resource_updated(f"note://{name}")
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
    if name not in notes:
        raise ResourceNotFoundError(f"there is no note {name}")
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
    return Completion(values=found[:100], total=len(found), has_more=len(found) > 100)


async def watch(ctx, params) -> EmptyResult:
    watched.add(str(params.uri))
    return EmptyResult()


async def unwatch(ctx, params) -> EmptyResult:
    watched.discard(str(params.uri))
    return EmptyResult()


if __name__ == "__main__":
    # In a session, resources can be watched only if these are handled; MCPServer has no public method for them.
    server._lowlevel_server.add_request_handler("resources/subscribe", SubscribeRequestParams, watch)
    server._lowlevel_server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unwatch)
    server.run()
