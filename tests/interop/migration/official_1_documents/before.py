"""Documents that can be searched and measured."""

import asyncio

import mcp.server.stdio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from pydantic import AnyUrl

DOCUMENTS = {"readme": "Read me first.\nThen read on.", "licence": "Do as you like."}

server = Server("documents", version="3.1", instructions="Holds two documents.")


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    return [
        types.Tool(
            name="measure",
            title="Measure a document",
            description="Counts the words of a document.",
            inputSchema={
                "type": "object",
                "properties": {"name": {"type": "string", "enum": ["readme", "licence"]}},
                "required": ["name"],
            },
            outputSchema={
                "type": "object",
                "properties": {"words": {"type": "integer"}, "lines": {"type": "integer"}},
                "required": ["words", "lines"],
            },
            annotations=types.ToolAnnotations(readOnlyHint=True),
        ),
        types.Tool(
            name="search",
            description="Finds the lines in which a word stands.",
            inputSchema={
                "type": "object",
                "properties": {
                    "word": {"type": "string", "minLength": 2, "description": "What to look for."},
                    "limit": {"type": "integer", "default": 5},
                },
                "required": ["word"],
            },
        ),
    ]


@server.call_tool()
async def call_tool(name: str, arguments: dict) -> list[types.ContentBlock] | dict:
    session, request = server.request_context.session, server.request_context
    if name == "measure":
        text = DOCUMENTS[arguments["name"]]
        return {"words": len(text.split()), "lines": len(text.splitlines())}
    if name == "search":
        found = []
        for number, (title, text) in enumerate(DOCUMENTS.items(), start=1):
            if request.meta and request.meta.progressToken is not None:
                await session.send_progress_notification(request.meta.progressToken, number, len(DOCUMENTS), title)
            found += [line for line in text.splitlines() if arguments["word"] in line]
        await session.send_log_message("info", {"found": len(found)}, logger="search", related_request_id=request.request_id)
        if not found:
            raise ValueError(f"Nothing has {arguments['word']}.")
        return [types.TextContent(type="text", text=line) for line in found[: arguments.get("limit", 5)]]
    raise ValueError(f"Unknown tool: {name}")


@server.list_resources()
async def list_resources() -> list[types.Resource]:
    return [types.Resource(uri=AnyUrl("docs://about"), name="about", description="What this is.", mimeType="text/plain")]


@server.list_resource_templates()
async def list_resource_templates() -> list[types.ResourceTemplate]:
    return [types.ResourceTemplate(uriTemplate="docs://text/{name}", name="text", mimeType="text/plain")]


@server.read_resource()
async def read_resource(uri: AnyUrl) -> list[ReadResourceContents]:
    if str(uri) == "docs://about":
        return [ReadResourceContents(content="Two documents.", mime_type="text/plain")]
    text = DOCUMENTS[str(uri).removeprefix("docs://text/")]
    return [ReadResourceContents(content=text, mime_type="text/plain")]


@server.list_prompts()
async def list_prompts() -> list[types.Prompt]:
    wanted = types.PromptArgument(name="name", description="Of the document.", required=True)
    return [types.Prompt(name="explain", description="Explains a document.", arguments=[wanted])]


@server.get_prompt()
async def get_prompt(name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
    if name != "explain":
        raise ValueError(f"Unknown prompt: {name}")
    text = types.TextContent(type="text", text=f"Please explain:\n{DOCUMENTS[(arguments or {})['name']]}")
    return types.GetPromptResult(description="Explains a document.", messages=[types.PromptMessage(role="user", content=text)])


async def main() -> None:
    async with mcp.server.stdio.stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
