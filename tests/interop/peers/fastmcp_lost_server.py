"""What the client of FastMCP reports when its server dies during a call: ``fastmcp_lost_server.py CMD...``."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def outcome(call):
    try:
        return (await asyncio.wait_for(call, 10)).content[0].text
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def main():
    command, *arguments = sys.argv[1:]
    async with Client(StdioTransport(command, arguments, keep_alive=False)) as client:
        return {"lost": await outcome(client.call_tool("die", {})), "next": await outcome(client.call_tool("live", {}))}


print(json.dumps(asyncio.run(main())))
