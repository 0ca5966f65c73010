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
# A busy machine can join two writes in one read. Without the pause no visit succeeds, so one success is enough.
VISITS = 3


@pytest.mark.parametrize("mode", ["legacy", {"pin": LATEST_MODERN}], ids=["legacy", "modern"])
@pytest.mark.parametrize("tool", ["awaited", "instant", "threaded"])
def test_the_typescript_client_gets_the_last_progress_of_nearly_every_call(tool, mode, tmp_path, monkeypatch):
    """PR-04. Without the pause between the two it lost most of them."""
    monkeypatch.setattr(harness, "TEXT", " ".join([tool] * CALLS))
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    complete = []
    while len(complete) < VISITS and (not complete or complete[-1] < CALLS * 2 / 3):
        folder = tmp_path / str(len(complete))
        folder.mkdir()
        visit = visit_of(node_script("typescript_progress.mjs"), mode=mode, folder=folder, server=(sys.executable, str(program)))
        assert len(visit.findings["calls"]) == CALLS
        complete.append(sum(seen == [1, 2] for seen in visit.findings["calls"]))
    assert complete[-1] >= CALLS * 2 / 3, complete
