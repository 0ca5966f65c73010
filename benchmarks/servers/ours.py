"""The tools of the benchmark, on twopipes."""

import asyncio
import time

from msgspec import Struct

from twopipes import Server, ToolResult

server = Server("ours", version="1.0")


class Weather(Struct):
    """A result with a structure."""

    city: str
    celsius: float


@server.tool
async def echo(text: str) -> str:
    """Return a text."""
    return text


@server.tool
def echo_def(text: str) -> str:
    """Return a text, from a function that may block."""
    return text


@server.tool
async def weather(city: str) -> Weather:
    """Return the weather."""
    return Weather(city, 7.5)


@server.tool
async def swallow(text: str) -> ToolResult:
    """Return the length of a text."""
    return ToolResult(content=str(len(text)))


@server.tool
async def produce(size: int) -> ToolResult:
    """Make a text of a length, and send it once: annotated as a string it would be sent as a structure as well."""
    return ToolResult(content="x" * size)


@server.tool
async def pause(seconds: float) -> str:
    """Wait without blocking others."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool
def pause_def(seconds: float) -> str:
    """Wait and block."""
    time.sleep(seconds)
    return "done"


if __name__ == "__main__":
    server.run()
