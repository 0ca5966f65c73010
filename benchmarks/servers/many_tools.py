"""One of many servers behind a hub: ``many_tools.py COUNT [SECONDS]`` has so many tools, and needs some seconds to start."""

import sys
import time

if len(sys.argv) > 2:
    time.sleep(float(sys.argv[2]))

from twopipes import Server

server = Server("many", version="1.0")


@server.tool
async def echo(text: str) -> str:
    """Return a text."""
    return text


async def find(query: str, limit: int = 10) -> str:
    """Find what matches a query, and return at most so many results, the best ones first."""
    return f"{limit} results for {query}"


for number in range(int(sys.argv[1]) - 1):
    server.add_tool(find, name=f"find_{number}")

server.run()
