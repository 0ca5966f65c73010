"""What our client reports when its server dies during a call: ``twopipes_lost_server.py CMD...``."""

import asyncio
import json
import sys

from twopipes import TwopipesError, connect


async def outcome(call):
    try:
        return (await call).text
    except TwopipesError as error:
        return f"{type(error).__name__}: {error}"


async def main():
    async with connect(*sys.argv[1:]) as client:
        return {"lost": await outcome(client.call_tool("die")), "next": await outcome(client.call_tool("live"))}


print(json.dumps(asyncio.run(main())))
