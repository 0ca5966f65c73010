"""Serve the echo tool over HTTP with the official Python SDK 2.x: ``official.py PORT``."""

import sys

from mcp.server import MCPServer

server = MCPServer("official", version="1.0", log_level="WARNING")


@server.tool()
async def echo(text: str) -> str:
    """Return a text."""
    return text


if __name__ == "__main__":
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]), json_response=True)
