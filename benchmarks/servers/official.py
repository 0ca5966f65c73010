"""The tools of the benchmark, on the official Python SDK 2.x."""

import asyncio
import time

from mcp.server import MCPServer
from pydantic import BaseModel

server = MCPServer("official", version="1.0")


class Weather(BaseModel):
    """A result with a structure."""

    city: str
    celsius: float


@server.tool()
async def echo(text: str) -> str:
    """Return a text."""
    return text


@server.tool()
def echo_def(text: str) -> str:
    """Return a text, from a function that may block."""
    return text


@server.tool()
async def weather(city: str) -> Weather:
    """Return the weather."""
    return Weather(city=city, celsius=7.5)


@server.tool(structured_output=False)
async def swallow(text: str) -> str:
    """Return the length of a text."""
    return str(len(text))


@server.tool(structured_output=False)
async def produce(size: int) -> str:
    """Make a text of a length, and send it once: left alone it would be sent as a structure as well."""
    return "x" * size


@server.tool()
async def pause(seconds: float) -> str:
    """Wait without blocking others."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool()
def pause_def(seconds: float) -> str:
    """Wait and block."""
    time.sleep(seconds)
    return "done"


if __name__ == "__main__":
    server.run()
