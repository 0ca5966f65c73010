"""The contenders: servers and clients, each with the interpreter of its own clean environment."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver import Era, Served

HERE = Path(__file__).parent
VENV = HERE.parent / ".venv"
OURS = VENV / "bench" / "ours"
PEERS = VENV / "peers"


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A server or a client under test."""

    name: str
    era: Era
    # Where it is installed: `ours` (also for what is written by hand), or the name of a peer.
    home: str
    script: str
    # The same with one tool, for the cold start.
    one_tool: str | None = None
    # What `import` costs its users.
    imports: str | None = None
    # Its answers are the questions.
    echoes: bool = False
    # Does not have a tool of this kind, or cannot do more than one thing at a time.
    lacks: frozenset[str] = frozenset()
    # A thousand calls take it a second or more: it gets fewer, and the results say how many.
    slow: bool = False
    # Calls until it runs as fast as it can. V8 compiles what is used often, and until then a server is four times slower; to
    # measure it before would flatter everybody else.
    warm_up: int = 100
    # Reading a long line costs it the square of the length: the longest are tried once, or not at all.
    quadratic: bool = False

    @property
    def folder(self) -> Path:
        """The environment it is installed in."""
        return OURS if self.home == "ours" else PEERS / self.home

    def missing(self) -> str | None:
        """Return why it cannot be measured here."""
        if self.home == "npm" and shutil.which("node") is None:
            return "node is not installed"
        there = self.folder / ("bin/python" if self.home != "npm" else "node_modules")
        if there.exists():
            return None
        return f"{self.home} is not installed: `make bench` could not reach its registry, or was not used"

    @property
    def python(self) -> str:
        """The interpreter."""
        return str(self.folder / "bin" / "python")

    def command(self, script: str | None = None) -> list[str]:
        """The command that starts it."""
        path = HERE / (script or self.script)
        if self.home != "npm":
            return [self.python, str(path)]
        # A module is looked for beside the script that wants it, not where node was started.
        beside = self.folder / f"bench_{path.name}"
        if not beside.exists() or beside.read_bytes() != path.read_bytes():
            beside.write_bytes(path.read_bytes())
        return [shutil.which("node") or "node", str(beside)]

    def start(self, noise: Path, *, one_tool: bool = False) -> Served:
        """Start it as a server."""
        command = self.command(self.one_tool if one_tool else None)
        return Served(command, stderr=noise / f"{self.name}.stderr", era=self.era, echoes=self.echoes)


def _both_eras(*, name: str, **rest: Any) -> tuple[Contender, Contender]:
    return Contender(name=name, era="legacy", **rest), Contender(name=f"{name} modern", era="modern", **rest)


SERVERS = (
    *_both_eras(
        name="twopipes",
        home="ours",
        script="servers/ours.py",
        one_tool="servers/one_tool/ours.py",
        imports="from twopipes import Server",
    ),
    *_both_eras(
        name="official",
        home="official-2",
        script="servers/official.py",
        one_tool="servers/one_tool/official.py",
        imports="from mcp.server import MCPServer",
        slow=True,
    ),
    Contender(
        name="fastmcp",
        era="legacy",
        home="fastmcp-4",
        script="servers/fastmcp_server.py",
        one_tool="servers/one_tool/fastmcp_server.py",
        imports="from fastmcp import FastMCP",
        slow=True,
    ),
    *_both_eras(
        name="typescript",
        home="npm",
        script="servers/typescript_tools.mjs",
        one_tool="servers/one_tool/typescript_one_tool.mjs",
        lacks=frozenset({"pause_def"}),
        warm_up=8_000,
        quadratic=True,
    ),
    Contender(
        name="by hand, asyncio", era="legacy", home="ours", script="servers/hand_asyncio.py", imports="import asyncio, msgspec"
    ),
    Contender(
        name="by hand, blocking",
        era="legacy",
        home="ours",
        script="servers/hand_blocking.py",
        imports="import msgspec",
        lacks=frozenset({"pause", "pause_def"}),
    ),
    Contender(
        name="raw pipe",
        era="legacy",
        home="ours",
        script="servers/raw_pipe.py",
        imports="pass",
        echoes=True,
        lacks=frozenset({"pause", "pause_def", "swallow", "produce", "weather", "echo_def"}),
    ),
)

CLIENTS = (
    *_both_eras(name="twopipes", home="ours", script="clients/ours.py"),
    Contender(name="twopipes blocking", era="legacy", home="ours", script="clients/ours_blocking.py"),
    *_both_eras(name="official", home="official-2", script="clients/official.py", slow=True),
    *_both_eras(name="typescript", home="npm", script="clients/typescript_calls.mjs", warm_up=20_000),
)

# For figures that take long: the stateless era of ours and of the official SDK is enough.
BUSY_SERVERS = tuple(each for each in SERVERS if each.name != "typescript modern")
# Drives every client: the fastest server that there is.
FAST_SERVER = next(each for each in SERVERS if each.name == "by hand, blocking")


def servers(*, era: Era | None = None, need: str | None = None, among: Iterable[Contender] = SERVERS) -> list[Contender]:
    """The servers of an era that have a tool."""
    return [each for each in among if (era is None or each.era == era) and need not in each.lacks]
