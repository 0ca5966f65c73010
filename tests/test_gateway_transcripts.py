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
# What is otherwise than in the transcript, and why: a text of it, and the text instead.
NAMES = "a legacy server does not name its questions, so the gateway does"
UNDECLARED = "the server reports a capability that the client lacks as its own revision requires"
OPENED = (
    "a legacy server has the capabilities of its first request; a later one without them gets the error of a client without them"
)
SHARED = "a legacy server that several clients share is opened with every capability, and gets the error of a client without it"


def lacks(name):
    text = f"This request needs a client that declares the capability {name}"
    return f'"content":[{{"type":"text","text":"{text}"}}],"isError":true'


NO_ROOTS = f'"result":{{{lacks("roots")}}}'
NO_SAMPLING, NO_FORMS = (
    f'"error":{{"code":-32021,"message":"...","data":{{"requiredCapabilities":{{"{name}":{{}}}}}}}}'
    for name in ("sampling", "elicitation")
)
REPLACED = {
    ("ask-at-once", "legacy"): [(NAMES, "elicit-1", "elicitation-1")],
    ("ask-stateless", "legacy"): [
        (NAMES, "elicit-", "elicitation-"),
        (NAMES, '"person"', '"elicitation-1"'),
        (NAMES, "elicit_url-1", "elicitation-1"),
        (OPENED, NO_FORMS, '"error":{"code":-32601,"message":"this client does not support elicitation/create"}'),
    ],
    **{
        ("ask-stateless", "legacy", kind): [
            (UNDECLARED, NO_SAMPLING, f'"result":{{{lacks("sampling")},"...":"..."}}'),
        ]
        for kind in ("pipes", "unix")
    },
    ("ask-stateless", "legacy", "http"): [
        (SHARED, NO_SAMPLING, '"error":{"code":-32601,"message":"this client does not support sampling/createMessage"}'),
    ],
    ("ask-session", "modern"): [
        (UNDECLARED, NO_ROOTS, '"error":{"code":-32600,"message":"...","data":{"requiredCapabilities":{"roots":{}}}}')
    ],
    ("ask-session", "legacy", "http"): [
        (SHARED, NO_ROOTS, '"error":{"code":-32601,"message":"this client does not support roots/list"}')
    ],
}
RUNS = [
    pytest.param(path, revision, kind, era, id=f"{path.stem}-{revision}-{BINDINGS[kind]}-{era}")
    for path in sorted(FOLDER.glob("*.txt"))
    for revision in transcript.revisions_of(path.read_text(encoding="utf-8"))
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


def text_of(path, era, kind):
    text = path.read_text(encoding="utf-8")
    for _, old, new in (*REPLACED.get((path.stem, era), ()), *REPLACED.get((path.stem, era, kind), ())):
        assert old in text
        text = text.replace(old, new)
    return text


async def play(path, revision, kind, era):
    async with server_over(BINDINGS[kind]) as target:
        # As `bridge` does: any client may send the next request over HTTP; a channel has one client here.
        backs = Backs(lambda: Back(target, config=BackConfig(era=era)), shared=kind == "http")
        try:
            await transcript.Transcript(text_of(path, era, kind), revision).run_against(GatewayServer(backs), kind)
        finally:
            await backs.close()


@pytest.mark.parametrize(("path", "revision", "kind", "era"), RUNS)
def test_a_server_behind_a_gateway_matches_the_transcript(path, revision, kind, era):
    asyncio.run(play(path, revision, kind, era))


def test_the_table_of_differences_names_transcripts():
    assert {key[0] for key in (*DIFFERENT, *REPLACED)} <= {path.stem for path in FOLDER.glob("*.txt")}
