"""The last progress of a call reaches a client that handles a response before a notification read together with it."""

import sys

import pytest

from interop import harness
from interop.harness import node_script, visit_of
from twopipes._protocol.revisions import LATEST_MODERN

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform == "win32", reason="the witness reports through a FIFO"),
]

SERVER = """
from twopipes import Context, Server

server = Server("progressing")

@server.tool
async def awaited(ctx: Context) -> str:
    await ctx.progress(1, 2)
    await ctx.progress(2, 2)
    return "done"

@server.tool
async def instant(ctx: Context) -> str:
    ctx.progress(1, 2)
    ctx.progress(2, 2)
    return "done"

@server.tool
def threaded(ctx: Context) -> str:
    ctx.progress(1, 2)
    ctx.progress(2, 2)
    return "done"

server.run()
"""
CALLS = 30


@pytest.mark.parametrize("mode", ["legacy", {"pin": LATEST_MODERN}], ids=["legacy", "modern"])
@pytest.mark.parametrize("tool", ["awaited", "instant", "threaded"])
def test_the_typescript_client_gets_the_last_progress_of_nearly_every_call(tool, mode, tmp_path, monkeypatch):
    """PR-04. Without the pause between the two it lost most of them; a busy machine may still join two writes in one read."""
    monkeypatch.setattr(harness, "TEXT", " ".join([tool] * CALLS))
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    visit = visit_of(node_script("typescript_progress.mjs"), mode=mode, folder=tmp_path, server=(sys.executable, str(program)))
    calls = visit.findings["calls"]
    complete = sum(seen == [1, 2] for seen in calls)
    assert len(calls) == CALLS
    assert complete >= CALLS * 2 / 3, visit.findings
