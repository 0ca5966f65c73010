"""The server behind the gateway: ``behind_gateway.py ERA [SECONDS]`` speaks one era, and needs some seconds to start."""

import sys
import time

if len(sys.argv) > 2:
    time.sleep(float(sys.argv[2]))

from twopipes import Server, ToolResult

server = Server("behind", version="1.0", eras=sys.argv[1])


@server.tool
async def echo(text: str) -> str:
    """Return a text."""
    return text


@server.tool
async def produce(size: int) -> ToolResult:
    """Make a text of a length, and send it once."""
    return ToolResult(content="x" * size)


server.run()
