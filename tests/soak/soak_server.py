"""The server of the soak: each tool returns the word it was called with, so that its caller recognises its own result."""

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
# One line for each run of the unsafe tool. All processes share the file; a short line is written whole.
ledger = os.open(os.environ["SOAK_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)


class Word(TypedDict):
    """The answer of the user."""

    word: str


@server.tool(annotations=READ_ONLY)
async def echo(word: str) -> str:
    """Return a word at once."""
    return word


@server.tool(annotations=READ_ONLY)
async def slow(word: str, seconds: float, steps: int, ctx: Context) -> str:
    """Return a word after some time, and send it with each progress report."""
    for step in range(steps):
        await asyncio.sleep(seconds / steps)
        await ctx.progress(step + 1, steps, word)
    return word


@server.tool(annotations=READ_ONLY)
async def silent(word: str, seconds: float) -> str:
    """Return a word after some time, without progress."""
    await asyncio.sleep(seconds)
    return word


@server.tool
async def unsafe(word: str) -> str:
    """Do work that must not be done twice: write a line to the ledger."""
    os.write(ledger, f"{word}\n".encode())
    return word


@server.tool(annotations=READ_ONLY)
async def big(word: str, filler: str) -> str:
    """Return all arguments."""
    return word + filler


@server.tool
async def ask(word: str, ctx: Context) -> str:
    """Ask for the word, and return both: the argument and the answer."""
    said = await ctx.elicit(word, Word)
    if said.content is None:
        raise ToolError(f"no answer for {word}")
    return f"{word} {said.content['word']}"


@server.tool
async def spawn(word: str) -> str:
    """Start a grandchild that holds stderr and exits only on signals."""
    await asyncio.to_thread(subprocess.Popen, ["sleep", "600"], stdin=subprocess.DEVNULL)
    return word


@server.tool
async def crash(word: str, exit_code: int) -> str:
    """Exit with a code, or die from a signal if it is 0."""
    if exit_code:
        os._exit(exit_code)
    os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(60)
    return word


if __name__ == "__main__":
    server.run()
