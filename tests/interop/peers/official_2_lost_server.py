"""What the client of the official Python SDK 2 reports when its server dies during a call: ``official_2_lost_server.py CMD...``."""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters


async def outcome(call):
    try:
        return (await asyncio.wait_for(call, 10)).content[0].text
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def main():
    command, *arguments = sys.argv[1:]
    async with Client(StdioServerParameters(command=command, args=arguments)) as client:
        return {"lost": await outcome(client.call_tool("die", {})), "next": await outcome(client.call_tool("live", {}))}


print(json.dumps(asyncio.run(main())))
