"""The twin of ``examples/everything.py`` on FastMCP, as far as it supports the same features."""

import asyncio
import base64
from typing import Annotated, Literal

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Audio, Image
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
    ToolListChangedNotification,
)
from pydantic import BaseModel, Field

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SILENCE = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=")
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
PAGE = "https://login.example/start"
SAFE = ToolAnnotations(read_only_hint=True, idempotent_hint=True)

server = FastMCP("fastmcp-twin", version="1.0", instructions="For tests: call anything.", list_page_size=10)
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


@server.tool
def add(a: int, b: int = 0) -> int:
    return a + b


@server.tool(annotations=SAFE)
async def structured(city: str, celsius: float = 20.0) -> Weather:
    return Weather(city=city, celsius=celsius, conditions="sun" if celsius > 0 else "snow")


@server.tool
def numbers(count: Annotated[int, Field(ge=0, le=1000)]) -> list[int]:
    return list(range(count))


@server.tool
async def blocks() -> list:
    return ["a text", Image(data=PIXEL, format="png"), Audio(data=SILENCE, format="wav")]


@server.tool
async def fail() -> str:
    raise ToolError("This tool always fails.")


@server.tool
def boom() -> str:
    raise RuntimeError("secret details")


@server.tool
async def slow(ctx: Context, steps: int = 100, seconds: float = 0.05) -> str:
    for step in range(1, steps + 1):
        await asyncio.sleep(seconds)
        await ctx.report_progress(step, steps, f"step {step}")
    return f"{steps} steps"


@server.tool
async def log(ctx: Context) -> str:
    for level in LEVELS:
        await ctx.log(f"says {level}", level=level, logger_name="everything")
    return "logged"


@server.tool
async def whoami(ctx: Context) -> str:
    return str(ctx.request_context.protocol_version)


# Tools that ask. An await in a session must be written as a result and a second call on the stateless wire.


def is_modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version >= "2026"


def need(ctx: Context, capability: str, mode: str = "") -> None:
    """Refuse a request whose client cannot answer; the library leaves that to the author."""
    declared = getattr(ctx.session.client_capabilities, capability, None)
    # A client that declares neither mode accepts forms.
    has_mode = not mode or getattr(declared, mode, None) is not None or (mode == "form" and getattr(declared, "url", None) is None)
    if declared is not None and has_mode:
        return
    if is_modern(ctx):
        needed = {"requiredCapabilities": {capability: {mode: {}} if mode else {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, f"this needs {capability}", needed)
    raise ToolError(f"this needs a client with {capability}")


@server.tool(output_schema=None)
async def ask(ctx: Context):
    need(ctx, "elicitation", "form")
    if not is_modern(ctx):
        answer = await ctx.elicit("Who are you?", Person)
        return f"{answer.data.name} is {answer.data.age}" if answer.action == "accept" else f"the user said {answer.action}"
    if not ctx.input_responses:
        form = ElicitRequestFormParams(message="Who are you?", requested_schema=Person.model_json_schema())
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)})
    answer = ctx.input_responses["who"]
    if answer.action != "accept":
        return f"the user said {answer.action}"
    person = Person.model_validate(answer.content)
    return f"{person.name} is {person.age}"


@server.tool(output_schema=None)
async def ask_url(ctx: Context):
    need(ctx, "elicitation", "url")
    if not is_modern(ctx):
        return (await ctx.session.elicit_url("Please log in.", PAGE, "login-1")).action
    if not ctx.input_responses:
        visit = ElicitRequestURLParams(message="Please log in.", url=PAGE)
        return InputRequiredResult(input_requests={"visit": ElicitRequest(params=visit)})
    return ctx.input_responses["visit"].action


@server.tool(output_schema=None)
async def sample(prompt: str, ctx: Context):
    need(ctx, "sampling")
    question = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    if not is_modern(ctx):
        return (await ctx.session.create_message([question], max_tokens=100)).content.text
    if not ctx.input_responses:
        request = CreateMessageRequest(params=CreateMessageRequestParams(messages=[question], max_tokens=100))
        return InputRequiredResult(input_requests={"thought": request})
    return ctx.input_responses["thought"].content.text


@server.tool(output_schema=None)
async def roots_tool(ctx: Context):
    need(ctx, "roots")
    if not is_modern(ctx):
        listed = await ctx.session.list_roots()
    elif not ctx.input_responses:
        return InputRequiredResult(input_requests={"places": ListRootsRequest()})
    else:
        listed = ctx.input_responses["places"]
    return " ".join(str(root.uri) for root in listed.roots)


# Tools that change the server


@server.tool
async def mutate(ctx: Context) -> str:
    def extra() -> str:
        return "extra"

    if any(tool.name == "extra" for tool in await server.list_tools()):
        server.local_provider.remove_tool("extra")
    else:
        server.add_tool(extra)
    if not is_modern(ctx):  # on the stateless wire it has no listeners to notify
        await ctx.send_notification(ToolListChangedNotification())
    return "mutated"


@server.tool
async def touch(name: str = "first", text: str = "changed") -> str:
    # No notification is possible: it has no subscriptions to resources.
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
    if name not in notes:
        # The error that it sends for missing resources. Its NotFoundError, raised here, would become an internal error (-32603).
        raise MCPError(INVALID_PARAMS, f"there is no note {name}")
    return notes[name]


@server.prompt(title="Code review")
def review(code: str, language: str = "python") -> str:
    return f"Please review this {language} code:\n{code}"


@server.prompt
def dialogue(topic: str) -> str:
    return f"Let us talk about {topic}."


@server.completion
async def complete(ref, argument, context) -> list[str]:
    known = {("dialogue", "topic"): [f"topic-{number}" for number in range(250)], ("note://{name}", "name"): list(notes)}
    values = known.get((getattr(ref, "name", None) or getattr(ref, "uri", None), argument.name), [])
    return [value for value in values if value.startswith(argument.value)][:100]


if __name__ == "__main__":
    server.run(show_banner=False)
