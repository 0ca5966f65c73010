"""Serve the echo tool over HTTP with FastMCP: ``fastmcp_server.py PORT``."""

import sys

from fastmcp import FastMCP

server = FastMCP("fastmcp", version="1.0")


@server.tool
async def echo(text: str) -> str:
    """Return a text."""
    return text


if __name__ == "__main__":
    server.run(
        transport="http", host="127.0.0.1", port=int(sys.argv[1]), json_response=True, show_banner=False, log_level="WARNING"
    )
