"""One tool, on the official Python SDK 2.x."""

from mcp.server import MCPServer

server = MCPServer("official", version="1.0")


@server.tool()
async def echo(text: str) -> str:
    """Return a text."""
    return text


server.run()
