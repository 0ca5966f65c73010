"""Every transcript of conversations/everything/ with a gateway in between, in all combinations of eras and over each binding.

The gateway and its server are connected over the same kind of channel as the host and the gateway.
"""

import asyncio
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import transcript
from http_server import serve_asgi
from twopipes._channels.sockets import listen_unix
from twopipes._gateway.back import Back, BackConfig
from twopipes._gateway.backs import Backs
from twopipes._gateway.front import GatewayServer
from twopipes._process.command import ServerCommand

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parent / "conversations" / "everything"
# How the host is connected to the gateway, and the gateway to the server.
BINDINGS = {"pipes": "stdio", "unix": "unix", "http": "http"}
ERAS = ("legacy", "modern")
# What a gateway cannot hide: the revision of the connection behind it. By transcript and era of the server.
DIFFERENT = {
    ("tools-bad-arguments-old", "legacy"): "the server reports bad arguments as its own revision, 2025-11-25, requires",
    ("tools-bad-arguments-old", "modern"): "likewise, for 2026-07-28",
    ("structured-array", "legacy"): "a legacy server cannot send structured content that is not an object",
}
RUNS = [
    pytest.param(path, revision, kind, era, id=f"{path.stem}-{revision}-{BINDINGS[kind]}-{era}")
    for path in sorted(FOLDER.glob("*.txt"))
    for revision in transcript.revisions_of(path.read_text())
    for kind in BINDINGS
    for era in ERAS
    if transcript.is_played(revision, kind) and (path.stem, era) not in DIFFERENT
]


@asynccontextmanager
async def server_over(binding):
    """Run a new server, and yield the target of its clients."""
    if binding == "stdio":
        yield ServerCommand([sys.executable, str(transcript.EVERYTHING)], environment="inherit")
    elif binding == "unix":
        server = transcript.fresh_server()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s"
            async with await listen_unix(path, server._serve_channel):
                yield f"unix:{path}"
    else:
        with serve_asgi(transcript.fresh_server().asgi()) as port:
            yield f"http://127.0.0.1:{port}/mcp"


async def play(path, revision, kind, era):
    async with server_over(BINDINGS[kind]) as target:
        backs = Backs(lambda: Back(target, config=BackConfig(era=era)), isolated=False)
        try:
            await transcript.Transcript(path.read_text(), revision).run_against(GatewayServer(backs), kind)
        finally:
            await backs.close()


@pytest.mark.parametrize(("path", "revision", "kind", "era"), RUNS)
def test_a_server_behind_a_gateway_matches_the_transcript(path, revision, kind, era):
    asyncio.run(play(path, revision, kind, era))


def test_the_table_of_differences_names_transcripts():
    assert {stem for stem, _ in DIFFERENT} <= {path.stem for path in FOLDER.glob("*.txt")}
