"""What our client says when its server dies in a call: ``twopipes_bereaved.py CMD...``."""

import asyncio
import json
import sys

from twopipes import TwopipesError, connect


async def told(call):
    try:
        return (await call).text
    except TwopipesError as error:
        return f"{type(error).__name__}: {error}"


async def main():
    async with connect(*sys.argv[1:]) as client:
        return {"lost": await told(client.call_tool("die")), "next": await told(client.call_tool("live"))}


print(json.dumps(asyncio.run(main())))
