"""A server that writes each stage of each call to a ledger: ``counting_server.py ERA``, with ``GATEWAY_LEDGER`` in the environment.

A line is ``STAGE WORD``, or ``pid NUMBER`` at the start. An unsafe call does its work where it writes ``effect``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TypedDict

from twopipes import Context, Server, ToolError
from twopipes.types import ToolAnnotations

server = Server("counting", version="1.0", eras=sys.argv[1])
# All processes share the file; a short line is written whole.
ledger = os.open(os.environ["GATEWAY_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)


def note(stage: str, word: object) -> None:
    """Write one line."""
    os.write(ledger, f"{stage} {word}\n".encode())


class Word(TypedDict):
    """The answer of the user."""

    word: str


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def look(word: str, seconds: float, ctx: Context) -> str:
    """Change nothing, and report progress."""
    note("begin", word)
    for step in range(4):
        await asyncio.sleep(seconds / 4)
        await ctx.progress(step + 1, 4, word)
    note("done", word)
    return word


@server.tool
async def work(word: str, seconds: float) -> str:
    """Do work that must not be done twice."""
    note("begin", word)
    note("effect", word)
    await asyncio.sleep(seconds)
    note("done", word)
    return word


@server.tool
async def ask(word: str, seconds: float, ctx: Context) -> str:
    """Ask for the word, and then do work that must not be done twice."""
    note("begin", word)
    said = await ctx.elicit(word, Word)
    if said.content is None or said.content["word"] != word:
        raise ToolError(f"the answer to {word} was {said.content}")
    note("effect", word)
    await asyncio.sleep(seconds)
    note("done", word)
    return word


note("pid", os.getpid())
server.run()
