"""Documents that can be searched and measured."""

from typing import Annotated

from twopipes import Context, Server, ToolError
from twopipes.types import TextContent

DOCUMENTS = {"readme": "Read me first.\nThen read on.", "licence": "Do as you like."}

server = Server("documents", version="3.1", instructions="Holds two documents.")


@server.tool(
    title="Measure a document",
    description="Counts the words of a document.",
    input_schema={
        "type": "object",
        "properties": {"name": {"type": "string", "enum": ["readme", "licence"]}},
        "required": ["name"],
    },
    output_schema={
        "type": "object",
        "properties": {"words": {"type": "integer"}, "lines": {"type": "integer"}},
        "required": ["words", "lines"],
    },
    annotations={"readOnlyHint": True},
)
async def measure(name: str) -> dict:
    text = DOCUMENTS[name]
    return {"words": len(text.split()), "lines": len(text.splitlines())}


@server.tool(
    description="Finds the lines in which a word stands.",
    input_schema={
        "type": "object",
        "properties": {
            "word": {"type": "string", "minLength": 2, "description": "What to look for."},
            "limit": {"type": "integer", "default": 5},
        },
        "required": ["word"],
    },
)
async def search(ctx: Context, word: str, limit: int = 5) -> list[TextContent]:
    found = []
    for number, (title, text) in enumerate(DOCUMENTS.items(), start=1):
        await ctx.progress(number, len(DOCUMENTS), title)
        found += [line for line in text.splitlines() if word in line]
    await ctx.log("info", {"found": len(found)}, logger="search")
    if not found:
        raise ToolError(f"Nothing has {word}.")
    return [TextContent(line) for line in found[:limit]]


@server.resource("docs://about", name="about", description="What this is.", mime_type="text/plain")
async def about() -> str:
    return "Two documents."


@server.resource("docs://text/{name}", name="text", mime_type="text/plain")
async def text(name: str) -> str:
    return DOCUMENTS[name]


@server.prompt(name="explain", description="Explains a document.")
async def explain(name: Annotated[str, "Of the document."]) -> str:
    return f"Please explain:\n{DOCUMENTS[name]}"


if __name__ == "__main__":
    server.run()
