"""A complete MCP server built on a session, a channel, and a loop that connects them.

This is what a server looks like underneath. It answers both eras and all five revisions, because the session does; what is
written here is one tool, and how to wait.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from twopipes.channels import Channel, open_stdio
from twopipes.errors import InvalidParams, NotFound
from twopipes.sansio import Call, CallReceived, ServerProfile, ServerSession
from twopipes.types import CallToolResult, Implementation, ListToolsResult, ServerCapabilities, TextContent, Tool

ECHO = Tool(
    "echo",
    description="Give a text back.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
PROFILE = ServerProfile(info=Implementation("echo", "1.0"), capabilities=ServerCapabilities(tools={}))


class EchoArguments(msgspec.Struct):
    """The arguments of the tool."""

    text: str


def answer(session: ServerSession, call: Call) -> None:
    """Serve one call: list the tool, or run it."""
    if call.method == "tools/list":
        session.respond(call, ListToolsResult([ECHO]))
    elif call.params.name != ECHO.name:
        session.fail(call, NotFound("tool", call.params.name))
    else:
        session.report_progress(call, 0.5, 1, "echoing")
        try:
            arguments = msgspec.json.decode(call.params.arguments or b"{}", type=EchoArguments)
        except msgspec.ValidationError as error:
            session.fail(call, InvalidParams(f"echo: {error}"))
        else:
            session.respond(call, CallToolResult([TextContent(arguments.text)]))


async def serve(channel: Channel) -> None:
    """Run one connection until it ends: bytes in, events out, bytes out."""
    session = ServerSession(PROFILE)
    while chunk := await channel.read():
        for event in session.receive(chunk, now=time.monotonic()):
            if isinstance(event, CallReceived):
                answer(session, event.call)
        channel.write(session.data_to_send())
        await channel.drain()
    session.receive_eof(now=time.monotonic())
    channel.write(session.data_to_send())
    await channel.flush()


async def main() -> None:
    """Serve standard input and output until the client closes them."""
    async with open_stdio() as channel:
        await serve(channel)


if __name__ == "__main__":
    asyncio.run(main())
