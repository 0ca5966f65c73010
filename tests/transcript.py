"""Play a transcript against the real server of ``examples/everything.py``, over any channel and in any revision.

The steps are those of a conversation file. The server runs by itself, so these are the only ``*`` steps:

    * init {"elicitation":{}}     does the handshake, or adds these capabilities to each request, depending on the era
    * save NAME result.path       stores a value of the last line as ``$NAME``

``$M`` stands for the ``_meta`` member that a modern request needs, comma included, and for nothing in a session; ``$MT`` for the
same with the progress token ``"t"``. ``$R`` stands for the members that only a modern result has, ``$C`` for those of a cacheable
one. ``<?`` matches lines in any order within a block of ``<?`` lines.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import sys
import tempfile
from pathlib import Path

from conversation import DEFINED, Mismatch, Player, matches
from http_lines import HttpLines
from http_server import serve_asgi
from twopipes._channels.memory import memory_pair
from twopipes._channels.pipes import pipe_pair
from twopipes._channels.sockets import connect_tcp, connect_unix, listen_tcp, listen_unix

EVERYTHING = Path(__file__).parent.parent / "examples" / "everything.py"
CHANNELS = ("memory", "pipes", "unix", "tcp", "http")
PATIENCE = 30.0  # a limit for a hang; nothing here takes a second


def fresh_server():
    """Load the server of the example again: its tools change it."""
    spec = importlib.util.spec_from_file_location("everything", EVERYTHING)
    module = importlib.util.module_from_spec(spec)
    sys.modules["everything"] = module  # its annotations are looked up there
    spec.loader.exec_module(module)
    return module.server


class Transcript(Player):
    """One run of a file, in one revision, over one channel."""

    def __init__(self, text: str, revision: str) -> None:
        super().__init__(text)
        self.revision = revision
        self.modern = revision >= "2026"
        self.capabilities = "{}"
        self.received = b""
        self.wanted: list[str] = []

    async def run(self, kind: str) -> None:
        """Play the file against a new server."""
        await self.run_against(fresh_server(), kind)

    async def run_against(self, server, kind: str) -> None:
        """Play the file against a server, over a channel or over HTTP."""
        async with asyncio.timeout(PATIENCE):
            if kind in {"memory", "pipes"}:
                ours, theirs = memory_pair() if kind == "memory" else pipe_pair()
                serving = asyncio.create_task(server._serve_channel(theirs))
                await self._play(ours)
                await serving
            elif kind == "http":
                with serve_asgi(server.asgi()) as port:
                    await self._play(HttpLines(f"http://127.0.0.1:{port}/mcp"))
            elif kind == "unix":
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "s"
                    async with await listen_unix(path, server._serve_channel):
                        await self._play(await connect_unix(path))
            else:
                async with await listen_tcp(0, server._serve_channel) as listener:
                    await self._play(await connect_tcp("127.0.0.1", listener.port))

    async def _play(self, channel):
        self.channel = channel
        async with channel:
            for number, line in enumerate(self.text.splitlines(), 1):
                kind, _, rest = line.partition(" ")
                if not line.strip() or kind.startswith(("#", "@everything")):
                    continue
                try:
                    if kind != "<?" and self.wanted:
                        await self._any_order()
                    await self._act(kind, rest.strip())
                except Mismatch as problem:
                    raise Mismatch(f"line {number}: {line}\n{problem}") from None
            if self.wanted:
                await self._any_order()
            await channel.close_write()
            if (line := await self._line()) is not None:
                raise Mismatch(f"was written too: {line.decode()}")

    async def _act(self, kind, rest):
        match kind:
            case ">":
                self.channel.write(self._bytes(rest) + b"\n")
                await self.channel.drain()
            case "<":
                line = await self._line()
                self._compare(rest, line)
            case "<?":
                self.wanted.append(rest)
            case "*" if rest.startswith("init"):
                await self._init(rest.partition(" ")[2] or "{}")
            case "*" if rest.startswith("save "):
                self.act_save(rest.partition(" ")[2])
            case "@define":
                name, _, value = rest.partition(" ")
                self.saved[name] = value
            case _:
                raise Mismatch(f"no such step: {kind}")

    async def _init(self, capabilities):
        self.capabilities = capabilities
        if not self.modern:
            self.saved["REV"] = self.revision
            await self._act(
                ">",
                '{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"$REV","capabilities":'
                + capabilities
                + ',"clientInfo":{"name":"transcript","version":"1"}}}',
            )
            await self._act("<", '{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"$REV","...":"..."}}')
            await self._act(">", '{"jsonrpc":"2.0","method":"notifications/initialized"}')

    async def _any_order(self):
        wanted, self.wanted = self.wanted, []
        while wanted:
            line = await self._line()
            for pattern in wanted:
                if line is not None and matches(json.loads(self._bytes(pattern)), json.loads(line)):
                    wanted.remove(pattern)
                    break
            else:
                raise Mismatch(f"was written instead:\n  {line.decode() if line else 'the end'}")

    def _compare(self, expected, line):
        if line is None:
            raise Mismatch("the server closed the connection")
        self.kept.append(line)
        if not matches(json.loads(self._bytes(expected)), json.loads(line)):
            raise Mismatch(f"was written instead:\n  {line.decode()}")

    async def _line(self):
        while b"\n" not in self.received:
            chunk = await self.channel.read()
            if not chunk:
                return None
            self.received += chunk
        line, _, self.received = self.received.partition(b"\n")
        return line

    def _bytes(self, text):
        version = '"io.modelcontextprotocol/protocolVersion":"2026-07-28"'
        meta = f'"_meta":{{{version},"io.modelcontextprotocol/clientCapabilities":{self.capabilities}'
        era = {
            "M": meta + "}," if self.modern else "",
            "MT": meta + ',"progressToken":"t"},' if self.modern else '"_meta":{"progressToken":"t"},',
            "R": ',"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":"..."}' if self.modern else "",
            "C": ',"ttlMs":"...","cacheScope":"..."' if self.modern else "",
        }
        for name, value in {**self.saved, **era, **DEFINED}.items():
            text = re.sub(r"\$" + re.escape(name) + r"(?![\w+])", lambda _, value=value: value, text)
        return text.encode()


def is_played(revision: str, kind: str) -> bool:
    """Whether a revision has a binding: the first one has another HTTP, which we do not speak."""
    return kind != "http" or revision >= "2025-03-26"


def revisions_of(text: str) -> list[str]:
    """Return the revisions that a transcript names in its ``@everything`` line."""
    (line,) = [line for line in text.splitlines() if line.startswith("@everything")]
    return line.split()[1:]
