"""A server on the official Python SDK 2.x: one tool that answers, one that must be cancelled, one that tells whether it was."""

import asyncio

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("official-2", version="1.0")
cancelled = asyncio.Event()


@server.tool()
async def echo(text: str, ctx: Context) -> str:
    await ctx.report_progress(0.5, 1, "echoing")
    return text


@server.tool()
async def wait_for_ever(ctx: Context) -> str:
    try:
        await ctx.report_progress(0.5, 1, "waiting")
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        cancelled.set()
        raise
    return "nobody cancelled"


@server.tool()
async def wait_until_cancelled() -> str:
    await cancelled.wait()
    return "cancelled"


if __name__ == "__main__":
    server.run()
