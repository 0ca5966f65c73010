"""A small server for tests of what tests are made of."""

import asyncio

from twopipes import Context, Server


def sums() -> Server:
    """A fresh one, so that no test sees what another has done to it."""
    server = Server("sums", version="1.0")

    @server.tool(annotations={"readOnlyHint": True})
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def wait(seconds: float) -> str:
        """Answer later."""
        await asyncio.sleep(seconds)
        return "waited"

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask the user."""
        answer = await ctx.elicit("Really?", bool)
        return repr(answer)

    @server.tool
    async def steps(ctx: Context) -> str:
        """Report progress."""
        await ctx.progress(1, 2)
        return "done"

    return server
