"""A bookshop with few books."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from twopipes import Context, Image, Server, ToolError
from twopipes.errors import NotFound

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
async def opened(server: Server) -> AsyncIterator[Shop]:
    yield Shop({"Emma": 3, "Walden": 1})


mcp = Server("Bookshop", version="1.0", instructions="Sells books.", lifespan=opened)


@mcp.tool(annotations={"readOnlyHint": True})
async def search(words: Annotated[str, Field(min_length=2)], ctx: Context) -> list[Hit]:
    """Looks for books by their titles."""
    stock = ctx.lifespan.stock
    await ctx.progress(1, 2, "looking")
    found = [Hit(title=title, left=left) for title, left in stock.items() if words.lower() in title.lower()]
    await ctx.progress(2, 2, "found")
    return found


@mcp.tool(title="Order a book")
async def order(title: str, ctx: Context, copies: int = 1) -> Receipt:
    """Orders a book; the user is asked for the address."""
    address = await ctx.elicit(f"Where shall {title} go?", Address)
    stock = ctx.lifespan.stock
    if stock.get(title, 0) < copies:
        raise ToolError(f"There are not {copies} copies of {title}.")
    if address.action != "accept":
        raise ToolError("Nothing was ordered.")
    stock[title] -= copies
    await ctx.log("info", f"{copies} of {title} to {address.content.street}")
    return Receipt(title=title, copies=copies, cents=copies * 900 + (500 if address.content.express else 0))


@mcp.tool()
def cover(title: str) -> Image:
    """Shows the cover of a book."""
    return Image(COVER, mime_type="image/png")


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
        raise NotFound("resource", f"shop://books/{title}", message=f"There is no blurb of {title}.")
    return "Handsome, clever, and rich."


@mcp.prompt()
def recommend(mood: str, language: str = "English") -> list[dict]:
    """Asks for a book."""
    return [
        {"role": "user", "content": f"Which {language} book is good when one is {mood}?"},
        {"role": "assistant", "content": "How long may it be?"},
    ]


@mcp.completion("recommend", "mood")
async def complete(value) -> list[str]:
    moods = ["happy", "hungry", "sad"]
    return [mood for mood in moods if mood.startswith(value)]


if __name__ == "__main__":
    mcp.run()
