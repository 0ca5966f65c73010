"""Serve the echo tool over HTTP with twopipes: ``ours.py PORT [uvicorn option=value ...]``."""

import sys

from twopipes import Server

server = Server("ours", version="1.0")


@server.tool
async def echo(text: str) -> str:
    """Return a text."""
    return text


if __name__ == "__main__":
    server.run(http=f"127.0.0.1:{sys.argv[1]}")
else:
    app = server.asgi()
