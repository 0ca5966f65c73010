"""A bookshop with few books."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Image, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from mcp_types import Completion, ToolAnnotations
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

COVER = b"\x89PNG\r\n\x1a\n a cover"


class Receipt(BaseModel):
    title: str
    copies: int
    cents: int = Field(description="What it costs altogether.")


class Hit(TypedDict):
    title: str
    left: int


class Address(BaseModel):
    street: str
    express: bool = False


@dataclass
class Shop:
    stock: dict[str, int]


@asynccontextmanager
async def opened(server: MCPServer) -> AsyncIterator[Shop]:
    yield Shop({"Emma": 3, "Walden": 1})


mcp = MCPServer("Bookshop", version="1.0", instructions="Sells books.", lifespan=opened)


@mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
async def search(words: Annotated[str, Field(min_length=2)], ctx: Context[Shop]) -> list[Hit]:
    """Looks for books by their titles."""
    stock = ctx.request_context.lifespan_context.stock
    await ctx.report_progress(1, 2, "looking")
    found = [Hit(title=title, left=left) for title, left in stock.items() if words.lower() in title.lower()]
    await ctx.report_progress(2, 2, "found")
    return found


async def where_to(title: str) -> Elicit[Address]:
    return Elicit(f"Where shall {title} go?", Address)


@mcp.tool(title="Order a book")
async def order(
    title: str, ctx: Context[Shop], address: Annotated[ElicitationResult[Address], Resolve(where_to)], copies: int = 1
) -> Receipt:
    """Orders a book; the user is asked for the address."""
    stock = ctx.request_context.lifespan_context.stock
    if stock.get(title, 0) < copies:
        raise ToolError(f"There are not {copies} copies of {title}.")
    if address.action != "accept":
        raise ToolError("Nothing was ordered.")
    stock[title] -= copies
    await ctx.info(f"{copies} of {title} to {address.data.street}")
    return Receipt(title=title, copies=copies, cents=copies * 900 + (500 if address.data.express else 0))


@mcp.tool()
def cover(title: str) -> Image:
    """Shows the cover of a book."""
    return Image(data=COVER, format="png")


@mcp.tool()
def shelf(title: str) -> int:
    """Tells the number of the shelf that a book stands on."""
    return {"Emma": 4, "Walden": 7}[title]


@mcp.resource("shop://hours", mime_type="text/plain")
def hours() -> str:
    """When it is open."""
    return "9 to 5"


@mcp.resource("shop://books/{title}", mime_type="text/plain")
def blurb(title: str) -> str:
    """What a book is about."""
    if title != "Emma":
        raise ResourceNotFoundError(f"There is no blurb of {title}.")
    return "Handsome, clever, and rich."


@mcp.prompt()
def recommend(mood: str, language: str = "English") -> list[Message]:
    """Asks for a book."""
    return [UserMessage(f"Which {language} book is good when one is {mood}?"), AssistantMessage("How long may it be?")]


@mcp.completion()
async def complete(ref, argument, context) -> Completion | None:
    moods = ["happy", "hungry", "sad"]
    return Completion(values=[mood for mood in moods if mood.startswith(argument.value)]) if argument.name == "mood" else None


if __name__ == "__main__":
    mcp.run()
