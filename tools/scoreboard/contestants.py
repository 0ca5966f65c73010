"""The contestants: servers and clients, where they are installed, and which tools may be called."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PROJECT = Path(__file__).resolve().parents[2]
SCRIPTS = PROJECT / "tests" / "interop" / "peers"
# Where the Makefile installs the peers, each with a stamp file when it is complete.
INSTALLED = PROJECT / ".venv" / "peers"
# The placeholder that `twopipes check --client` replaces by the command of a fake server.
PLACE = "{server}"

# Permitted calls of the tools of `examples/everything.py` and its counterparts: they change only the server itself.
FIXTURES = (
    *(
        f"--allow-tool={name}"
        for name in ("fail", "boom", "log", "whoami", "ask", "ask_url", "sample", "roots_tool", "mutate", "touch", "blocks")
    ),
    '--call=echo:{"text": "hello"}',
    '--call=slow:{"steps": 3, "seconds": 0.01}',
    '--call=structured:{"city": "Bern"}',
    '--call=numbers:{"count": 3}',
)
# The tours wait five seconds for a response, and at most ten if something extends the wait.
GIVES_UP = "--gives-up-after=10"
EVERYTHING = (
    '--call=echo:{"message": "hello"}',
    '--call=get-sum:{"a": 1, "b": 2}',
    '--call=trigger-long-running-operation:{"duration": 0.3, "steps": 3}',
    '--call=get-structured-content:{"location": "Chicago"}',
    '--call=trigger-sampling-request:{"prompt": "Hi"}',
    *(f"--allow-tool={name}" for name in ("get-tiny-image", "trigger-elicitation-request", "get-roots-list")),
)


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A server or a client to check.

    Attributes:
        key: A short name for files and notes.
        name: What it is, for people.
        side: Which check it gets.
        home: Where it is installed: ``ours``, or the name of a peer.
        package: The package whose version is shown.
        command: Its words, given a temporary folder of its own.
        options: For ``twopipes check``, given the same folder.
    """

    key: str
    name: str
    side: Literal["server", "client"]
    home: str
    package: str
    command: Callable[[Path], list[str]]
    options: Callable[[Path], Sequence[str]] = lambda _folder: ()

    def missing(self) -> str | None:
        """Return why it cannot be checked on this machine."""
        if self.home == "ours":
            return None
        if self.home == "npm" and shutil.which("node") is None:
            return "node is not installed"
        if self.package == "mcp-server-git" and shutil.which("git") is None:
            return "git is not installed"
        if not (INSTALLED / self.home / "installed").exists():
            return f"{self.home} is not installed: `make scoreboard` could not reach its registry, or was not used"
        return None

    @property
    def version(self) -> str:
        """The installed version of its package."""
        if self.home == "ours":
            from twopipes._version import __version__  # noqa: PLC0415 - of what stands here

            return __version__
        if self.home == "npm":
            told = json.loads((INSTALLED / "npm" / "node_modules" / self.package / "package.json").read_text())
            return str(told["version"])
        (found,) = (INSTALLED / self.home).glob(f"lib/python*/site-packages/{self.package.replace('-', '_')}-*.dist-info")
        return found.name.removesuffix(".dist-info").rpartition("-")[2]


# Commands


def _python(home: str, *words: str) -> Callable[[Path], list[str]]:
    interpreter = sys.executable if home == "ours" else str(INSTALLED / home / "bin" / "python")
    return lambda _folder: [interpreter, *words]


def _node(script: str, *words: str) -> Callable[[Path], list[str]]:
    def command(_folder: Path) -> list[str]:
        # A module is looked for beside the script that wants it, not where node was started.
        beside = INSTALLED / "npm" / script
        beside.write_bytes((SCRIPTS / script).read_bytes())
        return [_found("node"), str(beside), *words]

    return command


def _published(package: str, *words: str) -> list[str]:
    script = INSTALLED / "npm" / "node_modules" / "@modelcontextprotocol" / package / "dist" / "index.js"
    return [_found("node"), str(script), *words]


def _found(program: str) -> str:
    return shutil.which(program) or program


def _script(name: str) -> str:
    return str(SCRIPTS / name)


def _with_a_note(folder: Path) -> Sequence[str]:
    (folder / "note.txt").write_text("The first note.\n")
    calls = {"list_directory": {"path": str(folder)}, "read_text_file": {"path": str(folder / "note.txt")}}
    return [
        *(f"--call={name}:{json.dumps(arguments)}" for name, arguments in calls.items()),
        "--allow-tool=list_allowed_directories",
    ]


def _with_a_commit(folder: Path) -> Sequence[str]:
    (folder / "note.txt").write_text("The first note.\n")
    person = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    for step in (("init", "-q"), ("add", "note.txt"), ("commit", "-q", "-m", "The first commit")):
        subprocess.run([_found("git"), *person, *step], cwd=folder, check=True)
    here = json.dumps({"repo_path": str(folder)})
    return [f"--call=git_status:{here}", f"--call=git_log:{here}"]


# The table

_2, _1, _FASTMCP, _NPM = "official-2", "official-1", "fastmcp-4", "npm"


def _twin(key: str, name: str, home: str, package: str, command: Callable[[Path], list[str]]) -> Contestant:
    return Contestant(
        key=key, name=name, side="server", home=home, package=package, command=command, options=lambda _folder: FIXTURES
    )


def _tour(key: str, name: str, home: str, package: str, command: Callable[[Path], list[str]]) -> Contestant:
    return Contestant(
        key=key, name=name, side="client", home=home, package=package, command=command, options=lambda _folder: (GIVES_UP,)
    )


CONTESTANTS = (
    _twin("twopipes", "twopipes", "ours", "twopipes", _python("ours", str(PROJECT / "examples" / "everything.py"))),
    _twin("official-2", "official Python SDK 2", _2, "mcp", _python(_2, _script("official_2_twin.py"))),
    _twin("official-1", "official Python SDK 1", _1, "mcp", _python(_1, _script("official_1_twin.py"))),
    _twin("fastmcp", "FastMCP", _FASTMCP, "fastmcp", _python(_FASTMCP, _script("fastmcp_twin.py"))),
    _twin("typescript", "TypeScript SDK", _NPM, "@modelcontextprotocol/server", _node("typescript_twin.mjs")),
    Contestant(
        key="everything",
        name="`server-everything`",
        side="server",
        home="npm",
        package="@modelcontextprotocol/server-everything",
        command=lambda _folder: _published("server-everything", "stdio"),
        options=lambda _folder: EVERYTHING,
    ),
    Contestant(
        key="filesystem",
        name="`server-filesystem`",
        side="server",
        home="npm",
        package="@modelcontextprotocol/server-filesystem",
        command=lambda folder: _published("server-filesystem", str(folder)),
        options=_with_a_note,
    ),
    Contestant(
        key="time",
        name="`mcp-server-time`",
        side="server",
        home="published",
        package="mcp-server-time",
        command=_python("published", "-m", "mcp_server_time", "--local-timezone", "UTC"),
        options=lambda _folder: ('--call=get_current_time:{"timezone": "UTC"}',),
    ),
    Contestant(
        key="git",
        name="`mcp-server-git`",
        side="server",
        home="published",
        package="mcp-server-git",
        command=_python("published", "-m", "mcp_server_git"),
        options=_with_a_commit,
    ),
    _tour("twopipes-client", "twopipes", "ours", "twopipes", _python("ours", _script("twopipes_touring.py"), PLACE)),
    _tour("official-2-client", "official Python SDK 2", _2, "mcp", _python(_2, _script("official_2_touring.py"), PLACE)),
    _tour("official-1-client", "official Python SDK 1", _1, "mcp", _python(_1, _script("official_1_touring.py"), PLACE)),
    _tour("fastmcp-client", "FastMCP", _FASTMCP, "fastmcp", _python(_FASTMCP, _script("fastmcp_touring.py"), PLACE)),
    _tour("typescript-client", "TypeScript SDK", _NPM, "@modelcontextprotocol/client", _node("typescript_touring.mjs", PLACE)),
)
