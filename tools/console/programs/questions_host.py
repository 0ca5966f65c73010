"""Record a conversation with ``everything.py`` with overlapping calls and a question: ``python questions_host.py FILE``."""

import asyncio
import sys

from twopipes import connect


async def main():
    started = asyncio.Event()

    def progress(_):
        started.set()

    answers = {"name": "Ada", "age": 36}
    async with connect(sys.executable, "everything.py", trace=sys.argv[1], on_elicit=lambda _: answers) as client:
        slow = asyncio.ensure_future(client.call_tool("slow", {"steps": 3, "seconds": 0.1}, on_progress=progress))
        await asyncio.wait_for(started.wait(), 30)
        await client.call_tool("echo", {"text": "hi"})
        await slow
        await client.call_tool("ask")


asyncio.run(main())
