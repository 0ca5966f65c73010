"""The server that is soaked: each tool gives back the word it was called with, so that its caller knows its own answer."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from typing import TypedDict

from twopipes import Context, Server, ToolError
from twopipes._protocol.types import ToolAnnotations

READ_ONLY = ToolAnnotations(read_only_hint=True)

server = Server("soaked", version="1.0")
# One line for each time that the tool did its work; all processes share it, and a short line is written whole.
ledger = os.open(os.environ["SOAK_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)


class Word(TypedDict):
    """What the user says."""

    word: str


@server.tool(annotations=READ_ONLY)
async def echo(word: str) -> str:
    """Give a word back at once."""
    return word


@server.tool(annotations=READ_ONLY)
async def slow(word: str, seconds: float, steps: int, ctx: Context) -> str:
    """Give a word back after some time, and say it with each report of progress."""
    for step in range(steps):
        await asyncio.sleep(seconds / steps)
        await ctx.progress(step + 1, steps, word)
    return word


@server.tool(annotations=READ_ONLY)
async def silent(word: str, seconds: float) -> str:
    """Give a word back after some time, and say nothing meanwhile."""
    await asyncio.sleep(seconds)
    return word


@server.tool
async def unsafe(word: str) -> str:
    """Do what may not be done twice: a line in the ledger."""
    os.write(ledger, f"{word}\n".encode())
    return word


@server.tool(annotations=READ_ONLY)
async def big(word: str, filler: str) -> str:
    """Give everything back that came."""
    return word + filler


@server.tool
async def ask(word: str, ctx: Context) -> str:
    """Ask for the word, and give back both: the one that was called with and the one that was answered."""
    said = await ctx.elicit(word, Word)
    if said.content is None:
        raise ToolError(f"nobody answered {word}")
    return f"{word} {said.content['word']}"


@server.tool
async def spawn(word: str) -> str:
    """Leave a grandchild behind that holds stderr and heeds nothing but signals."""
    await asyncio.to_thread(subprocess.Popen, ["sleep", "600"], stdin=subprocess.DEVNULL)
    return word


@server.tool
async def crash(word: str, exit_code: int) -> str:
    """Die: with a code, or, where that is 0, by a signal."""
    if exit_code:
        os._exit(exit_code)
    os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(60)
    return word


if __name__ == "__main__":
    server.run()
