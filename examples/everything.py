"""A server with one example of every feature. The tests and the interop suite use it."""

from __future__ import annotations

import asyncio
import base64
import enum
import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta, Struct

from twopipes import Audio, Context, Image, Server, ToolError, ToolResult
from twopipes.types import (
    Annotations,
    EmbeddedResource,
    Icon,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolAnnotations,
)

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SILENCE = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=")

server = Server(
    "everything",
    version="1.0",
    title="Everything",
    description="Each feature once",
    instructions="For tests: call anything.",
    icons=[Icon("data:image/png;base64," + base64.b64encode(PIXEL).decode(), mime_type="image/png")],
    page_size=10,
    ttl_ms=1000,
)
notes = {"first": "The first note.", "second": "The second note."}
redeemed: set[str] = set()


# Tools that return: text, numbers, structures, blocks


@server.tool(title="Echo", annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
async def echo(text: str) -> str:
    """Give a text back.

    Args:
        text: What to say.
    """
    return text


@server.tool
def add(a: int, b: int = 0) -> int:
    """Add two whole numbers.

    Args:
        a: the first summand
        b: the second one
    """
    return a + b


class Weather(Struct):
    """What it is like outside."""

    city: str
    celsius: float
    conditions: Literal["sun", "rain", "snow"]


@server.tool(annotations={"readOnlyHint": True})
async def structured(city: str, celsius: float = 20.0) -> Weather:
    """Tell the weather, as a structure."""
    return Weather(city, celsius, "sun" if celsius > 0 else "snow")


@dataclass
class Point:
    """A place on a plane."""

    x: float
    y: float


class Unit(enum.Enum):
    """How to measure."""

    METRE = "m"
    MILE = "mi"


@server.tool
def distance(start: Point, end: Point, unit: Unit = Unit.METRE) -> dict[str, float]:
    """Measure between two points."""
    length = ((start.x - end.x) ** 2 + (start.y - end.y) ** 2) ** 0.5
    return {"length": length if unit is Unit.METRE else length / 1609.344}


@server.tool
async def blocks() -> list[Any]:
    """Give one block of each kind."""
    return [
        "a text",
        Image(PIXEL),
        Audio(SILENCE),
        ResourceLink("note://first", "first", mime_type="text/plain"),
        EmbeddedResource(ResourceContents("note://second", text=notes["second"], mime_type="text/plain")),
        TextContent("for the user", annotations=Annotations(audience=["user"], priority=0.5)),
    ]


@server.tool(output_schema={"type": "array", "items": {"type": "integer"}})
def numbers(count: Annotated[int, Meta(ge=0, le=1000)]) -> ToolResult:
    """Count, with a hand-written schema that is not an object."""
    return ToolResult(structured=list(range(count)))


# Tools that fail, and tools that take time


@server.tool
async def fail() -> str:
    """Fail in a way that the model should know."""
    raise ToolError("This tool always fails.")


@server.tool
def boom() -> str:
    """Break."""
    raise RuntimeError("secret details")


@server.tool
async def slow(steps: int = 100, seconds: float = 0.05, ctx: Context | None = None) -> str:
    """Work in steps and report progress."""
    for step in range(1, steps + 1):
        await asyncio.sleep(seconds)
        if ctx is not None:
            await ctx.progress(step, steps, f"step {step}")
    return f"{steps} steps"


@server.tool
def block(seconds: float, ctx: Context) -> str:
    """Block a thread; stop early when the call is cancelled."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ctx.cancelled:
        ctx.cancelled.wait(0.01)
    return "cancelled" if ctx.cancelled else "done"


@server.tool
async def log(ctx: Context) -> str:
    """Log once at each level."""
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        await ctx.log(level, {"says": level}, logger="everything")
    return "logged"


@server.tool
async def whoami(ctx: Context) -> dict[str, Any]:
    """Tell what is known about the client."""
    info = ctx.client.info
    return {"name": info.name if info else None, "revision": ctx.client.revision, "meta": sorted(ctx.meta)}


# Tools that ask questions


class Person(TypedDict):
    """Who somebody is."""

    name: Annotated[str, Meta(min_length=1, description="Your name")]
    age: Annotated[int, Meta(ge=0, le=150)]


class Colours(TypedDict):
    """What somebody likes."""

    favourite: Literal["red", "green", "blue"]
    others: list[Literal["red", "green", "blue"]]


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the user for a name and an age."""
    answer = await ctx.elicit("Who are you?", Person, key="person")
    return f"{answer.content['name']} is {answer.content['age']}" if answer.content else f"the user said {answer.action}"


@server.tool
async def ask_twice(ctx: Context) -> str:
    """Ask two things, one after the other."""
    person = await ctx.elicit("Who are you?", Person)
    if person.content is None:
        return "nobody"
    colours = await ctx.elicit(f"What do you like, {person.content['name']}?", Colours)
    return f"{person.content['name']} likes {colours.content['favourite'] if colours.content else 'nothing'}"


@server.tool
async def ask_at_once(ctx: Context) -> str:
    """Ask two things side by side."""
    person, roots = await asyncio.gather(ctx.elicit("Who are you?", Person), ctx.list_roots())
    return f"{person.content['name'] if person.content else person.action}, {len(roots)} roots"


@server.tool
async def ask_url(ctx: Context) -> str:
    """Ask the user to visit a page."""
    return (await ctx.elicit_url("Please log in.", "https://login.example/start")).action


@server.tool
async def sample(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    return (await ctx.sample(prompt, max_tokens=100)).text


@server.tool
async def roots_tool(ctx: Context) -> list[str]:
    """List the client's roots."""
    return [root.uri for root in await ctx.list_roots()]


@server.tool
def ask_from_a_thread(ctx: Context) -> str:
    """Ask the user, in a function that blocks."""
    return ctx.wait(ctx.elicit("Who are you?", Person)).action


# Tools that change the server


@server.tool
async def mutate() -> str:
    """Add the tool `extra`, or take it away."""
    if "extra" in server.tools:
        server.remove_tool("extra")
        return "removed"

    async def extra() -> str:
        """Be there for a while."""
        return "extra"

    server.add_tool(extra)
    return "added"


@server.tool
async def touch(name: str = "first", text: str = "changed") -> str:
    """Change a note."""
    notes[name] = text
    server.notify_resource_updated(f"note://{name}")
    return name


# Resources


@server.resource("note://first", mime_type="text/plain", annotations=Annotations(priority=1.0), ttl_ms=0)
def first_note() -> str:
    """The first note."""
    return notes["first"]


@server.resource("image://pixel", mime_type="image/png", size=len(PIXEL), ttl_ms=60_000, cache_scope="public")
def pixel() -> bytes:
    """One pixel."""
    return PIXEL


@server.resource("notes://all")
def all_notes() -> list[ResourceContents]:
    """All notes at once."""
    return [ResourceContents(f"note://{name}", text=text, mime_type="text/plain") for name, text in notes.items()]


@server.resource("broken://always")
def broken() -> str:
    """A resource whose source has failed."""
    raise OSError("disk on fire")


@server.resource("gated://secret")
async def gated(ctx: Context) -> str:
    """A resource for those who give their name."""
    answer = await ctx.elicit("Who wants to know?", Person)
    return f"The secret of {answer.content['name']}" if answer.content else "No name, no secret"


@server.resource("note://{name}", name="note", title="A note")
def note(name: str) -> str | None:
    """A note by its name."""
    return notes.get(name)


@server.completion("note://{name}", "name")
def note_names(typed: str) -> list[str]:
    """The names of notes."""
    return [name for name in notes if name.startswith(typed)]


# Prompts


@server.prompt(title="Code review")
async def review(code: str, language: Literal["python", "rust", "go"] = "python") -> str:
    """Ask for a review.

    Args:
        code: The code to look at.
        language: What it is written in.
    """
    return f"Please review this {language} code:\n{code}"


@server.prompt
def dialogue(topic: str) -> list[PromptMessage]:
    """Start a conversation with a note in it."""
    embedded = EmbeddedResource(ResourceContents("note://first", text=notes["first"], mime_type="text/plain"))
    return [
        PromptMessage("user", TextContent(f"Let us talk about {topic}.")),
        PromptMessage("assistant", TextContent("With pleasure.")),
        PromptMessage("user", embedded),
    ]


@server.prompt
async def gated_prompt(ctx: Context) -> str:
    """A prompt for those who give their name."""
    answer = await ctx.elicit("Who asks?", Person)
    return f"I am {answer.content['name']}" if answer.content else "I am nobody"


@server.completion("dialogue", "topic")
async def topics(typed: str, settled: dict[str, str]) -> list[str]:
    """Two hundred and fifty topics; other ones for those who have a mood."""
    kind = settled.get("mood", "topic")
    return [topic for topic in (f"{kind}-{number}" for number in range(250)) if topic.startswith(typed)]


if __name__ == "__main__":
    server.run()
