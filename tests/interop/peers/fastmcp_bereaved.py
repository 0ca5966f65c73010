"""What the client of FastMCP says when its server dies in a call: ``fastmcp_bereaved.py CMD...``."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def told(call):
    try:
        return (await asyncio.wait_for(call, 10)).content[0].text
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def main():
    command, *arguments = sys.argv[1:]
    async with Client(StdioTransport(command, arguments, keep_alive=False)) as client:
        return {"lost": await told(client.call_tool("die", {})), "next": await told(client.call_tool("live", {}))}


print(json.dumps(asyncio.run(main())))
