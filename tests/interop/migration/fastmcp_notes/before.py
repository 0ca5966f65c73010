"""Short notes, kept while the server runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ResourceError, ToolError
from fastmcp.prompts import Message
from pydantic import BaseModel, Field


class Note(BaseModel):
    title: str
    text: str
    tags: list[str] = Field(default=[], description="Words to find it by.")


class Confirmation(BaseModel):
    delete: bool = Field(description="Delete it for good?")


@asynccontextmanager
async def notebook(server: FastMCP) -> AsyncIterator[dict[str, dict[str, Note]]]:
    yield {"notes": {"milk": Note(title="milk", text="Buy two litres.", tags=["shopping"])}}


mcp = FastMCP("Notes", instructions="Keeps short notes.", version="1.4", lifespan=notebook)


@mcp.tool(title="Add a note", annotations={"destructiveHint": False}, tags={"write"})
async def add_note(
    title: Annotated[str, Field(min_length=1, max_length=40, description="What it is about.")],
    text: str,
    ctx: Context,
    tags: list[str] | None = None,
) -> Note:
    """Writes a note down.

    Args:
        text: The note itself.
        tags: Words to find it by.
    """
    notes = ctx.lifespan_context["notes"]
    if title in notes:
        raise ToolError(f"There is a note about {title} already.")
    notes[title] = Note(title=title, text=text, tags=tags or [])
    await ctx.info(f"wrote down {title}")
    return notes[title]


@mcp.tool(annotations={"readOnlyHint": True})
def find_notes(word: str, ctx: Context, limit: Annotated[int, Field(ge=1, le=100)] = 10) -> list[Note]:
    """Finds the notes that have a word in their text or among their tags."""
    notes = ctx.lifespan_context["notes"].values()
    return [note for note in notes if word in note.text or word in note.tags][:limit]


@mcp.tool(annotations={"destructiveHint": True})
async def delete_note(title: str, ctx: Context) -> str:
    """Deletes a note, if the user agrees."""
    notes = ctx.lifespan_context["notes"]
    if title not in notes:
        raise ToolError(f"There is no note about {title}.")
    answer = await ctx.elicit(f"Delete the note about {title}?", Confirmation)
    if answer.action != "accept" or not answer.data.delete:
        return f"The note about {title} was kept."
    del notes[title]
    return f"The note about {title} was deleted."


@mcp.resource("notes://titles", mime_type="text/plain")
def titles(ctx: Context) -> str:
    """What there are notes about, one a line."""
    return "\n".join(ctx.lifespan_context["notes"])


@mcp.resource("notes://text/{title}", mime_type="text/plain")
async def text(title: str, ctx: Context) -> str:
    """What a note says."""
    notes = ctx.lifespan_context["notes"]
    if title not in notes:
        raise ResourceError(f"There is no note about {title}.")
    return notes[title].text


@mcp.prompt(tags={"write"})
def rewrite(title: str, style: Annotated[str, Field(description="Such as formal or rhyming.")] = "plain") -> list[Message]:
    """Asks for a note in another style."""
    return [
        Message(f"Please rewrite my note about {title} in a {style} style."),
        Message("Who is going to read it?", role="assistant"),
    ]


if __name__ == "__main__":
    mcp.run(show_banner=False)
