"""A host for ``weather.py``: launch the given command, ask for the weather of three cities, and exit."""

import asyncio
import sys
from contextlib import suppress

from twopipes import McpError, connect
from twopipes.errors import ClientClosed


async def main():
    heard = asyncio.Event()

    def on_stderr(line):
        if line.text.startswith("twopipes tap"):
            print(line.text, file=sys.stderr)
        if "Atlantis" in line.text:
            heard.set()

    async with connect(sys.argv[1:], era="legacy", on_stderr=on_stderr) as client:
        await client.list_tools()
        await client.call_tool("forecast", {"city": "Paris"}, on_progress=lambda _: None)
        with suppress(McpError):
            await client.call_tool("forecast", {"city": "Oz"}, on_progress=lambda _: None)
        last = asyncio.ensure_future(client.call_tool("forecast", {"city": "Atlantis"}))
        await asyncio.wait_for(heard.wait(), 30)
    with suppress(ClientClosed):
        await last


asyncio.run(main())
