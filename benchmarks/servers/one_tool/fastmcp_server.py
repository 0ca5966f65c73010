"""One tool, on FastMCP."""

from fastmcp import FastMCP

server = FastMCP("fastmcp", version="1.0")


@server.tool
async def echo(text: str) -> str:
    """Return a text."""
    return text


server.run(show_banner=False)
