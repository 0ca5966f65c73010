"""The tools of the benchmark, on FastMCP."""

import asyncio
import time

from fastmcp import FastMCP
from pydantic import BaseModel

server = FastMCP("fastmcp", version="1.0")


class Weather(BaseModel):
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
    return Weather(city=city, celsius=7.5)


@server.tool(output_schema=None)
async def swallow(text: str) -> str:
    """Return the length of a text."""
    return str(len(text))


@server.tool(output_schema=None)
async def produce(size: int) -> str:
    """Make a text of a length, and send it once: left alone it would be sent as a structure as well."""
    return "x" * size


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
    server.run(show_banner=False)
