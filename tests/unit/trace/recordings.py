"""Recordings for tests: written by hand, or made of the transcripts of the example server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from transcript import Transcript, revisions_of
from twopipes._trace.conversation import Conversation, read_conversation
from twopipes._trace.format import Event, Header, Line, encode

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "conversations" / "everything").glob("*.txt"))
VERSION = "2026-07-28"
CLIENT = {"name": "c", "version": "1"}
SERVER = {"name": "s", "version": "1"}
SPAWN = Event(at=0.0, name="spawn", pid=4242)
INITIALIZED = {"method": "notifications/initialized"}


def meta(**members):
    """The ``_meta`` of a modern request."""
    capabilities = members.pop("capabilities", {})
    return {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": CLIENT,
        **members,
    }


def modern(request_id, method, *, _meta=None, **params):
    """A request of the stateless wire."""
    return {"id": request_id, "method": method, "params": {"_meta": _meta or meta(), **params}}


def done(request_id, **result):
    """A complete result of the stateless wire."""
    own = {"io.modelcontextprotocol/serverInfo": SERVER}
    return {"id": request_id, "result": {"resultType": "complete", "_meta": own, **result}}


def call(request_id, method, **params):
    """A request of a session."""
    return {"id": request_id, "method": method, "params": params}


def note(method, **params):
    return {"method": method, "params": params}


def handshake(revision="2025-11-25", client=None, server=None):
    """The opening of a session, as arguments of :func:`recording`."""
    asks = call("init", "initialize", protocolVersion=revision, capabilities=client or {}, clientInfo=CLIENT)
    answers = {"protocolVersion": revision, "capabilities": {"tools": {}} if server is None else server, "serverInfo": SERVER}
    return [(">", asks), ("<", {"id": "init", "result": answers}), (">", INITIALIZED)]


DISCOVERY = [
    (">", modern("d", "server/discover")),
    ("<", done("d", supportedVersions=[VERSION], capabilities={"tools": {}, "logging": {}}, ttlMs=0, cacheScope="public")),
]


def entries(*steps, spawn=True):
    """Entries of a trace, a tenth of a second apart: ``(">", message)``, ``("!", "stderr")``, an event, or any entry."""
    made = [SPAWN] if spawn else []
    for number, step in enumerate(steps, 1):
        at = number / 10
        if not isinstance(step, tuple):
            made.append(step)
            continue
        kind, said = step
        if isinstance(said, dict):
            said = json.dumps({"jsonrpc": "2.0", **said}, ensure_ascii=False, separators=(",", ":"))
        elif isinstance(said, list):
            said = json.dumps([{"jsonrpc": "2.0", **one} for one in said], ensure_ascii=False)
        made.append(Line(at, kind, said if isinstance(said, bytes) else said.encode()))
    return made


def recording(*steps, header=None, **options) -> Conversation:
    """The conversation of such entries."""
    return read_conversation(entries(*steps, **options), header)


HEADER = Header(
    version=1, started="2026-07-30T10:00:00Z", recorder="tap", recorder_version="0", argv=("python", "server.py"), platform="linux"
)


def write_trace(path, steps, header=HEADER, **options):
    """A trace in a file."""
    path.write_bytes(b"".join(map(encode, [header, *entries(*steps, **options)])))
    return path


class Recorded(Transcript):
    """A transcript that is recorded while it is played."""

    def __init__(self, text, revision):
        super().__init__(text, revision)
        self.entries = [SPAWN]

    async def _act(self, kind, rest):
        if kind == ">":
            self.entries.append(Line(len(self.entries) / 100, ">", self._bytes(rest)))
        await super()._act(kind, rest)

    async def _line(self):
        line = await super()._line()
        if line is not None:
            self.entries.append(Line(len(self.entries) / 100, "<", line))
        return line


def played(path, revision):
    """The entries of one transcript, played in one revision."""
    recorded = Recorded(path.read_text(encoding="utf-8"), revision)
    asyncio.run(recorded.run("memory"))
    return recorded.entries


def transcripts():
    """Each transcript in each of its revisions."""
    return [(path, revision) for path in TRANSCRIPTS for revision in revisions_of(path.read_text(encoding="utf-8"))]
