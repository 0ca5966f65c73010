"""A sandbox for the commands of a page: its own home folder, our `python` and `twopipes`, and no settings of this machine.

The folder is laid out as a file system is (`usr/local/bin`, `home/ada`, `tmp`), so what a command says about its paths is made
presentable by taking the front of them away.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import random
import re
import select
import shutil
import signal
import site
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from console_pages import ROOT

# Seconds. The longest that any command of a page may take: a net, not a measure.
BOUND = 300.0
# Seconds between two looks at what a command has said so far, while somebody waits to press Ctrl-C.
_LOOK = 0.05
COLUMNS = 100
# What this program and the shell set for one command, and not the page.
_OURS = {"COLUMNS", "PYTHONUNBUFFERED", "PWD", "OLDPWD", "SHLVL", "_"}
_STEERING = re.compile(r"\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")
# The commands of ours that serve.
_SERVE = re.compile(r"twopipes (?:run|dev|tap|keep|bridge|hub|mock) (?!status|logs|stop)")
_ADDRESS = re.compile(r" --(?:http|unix|tcp) ")
_LISTENS = "listens on|connect to"
_PROGRAM = "#!{python}\nimport sys\nfrom twopipes._cli import main\nsys.exit(main())\n"
# Makes the terminal its own, as a shell would have it, so that it can be typed at; then becomes the shell.
_WITH_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
# Runs the Python of a page as its tests do, and says before each block which one it is.
_PYTHON_OF_A_PAGE = """
import ast, asyncio, inspect, json, sys
blocks = json.load(sys.stdin)
names = {"__name__": "documentation"}
with asyncio.Runner() as loop:
    for number, source in enumerate(blocks):
        print(f"\\x1e{number}", flush=True)
        code = compile(source, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        outcome = eval(code, names)
        if code.co_flags & inspect.CO_COROUTINE:
            loop.run(asyncio.wait_for(outcome, 60))
        sys.stdout.flush()
"""


class Said(NamedTuple):
    """The output of a command, and its exit code."""

    lines: list[str]
    code: int


class CommandFailed(Exception):
    """A command failed without a block that shows it, or did not end."""


class Sandbox:
    """A machine for one page.

    Args:
        root: An empty folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.home = self.root / "home" / "ada"
        self._local = self.root / "usr" / "local"
        self._state = self.root / "state"
        for folder in (self.home, self.root / "tmp", self._state):
            folder.mkdir(parents=True)
        self._install()
        self.folder = self.home
        self._last_code = 0
        self._shells: list[subprocess.Popen[bytes]] = []
        self._replaced: dict[str, str] = {}
        self._environment = {
            "HOME": str(self.home),
            "USER": "ada",
            "LOGNAME": "ada",
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "PATH": f"{self._local}/bin:/usr/bin:/bin",
            "TMPDIR": str(self.root / "tmp"),
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
            "NO_COLOR": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def _install(self) -> None:
        """Make a Python with our packages, faster than a virtual environment."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        programs, packages = self._local / "bin", self._local / "lib" / version / "site-packages"
        programs.mkdir(parents=True)
        packages.mkdir(parents=True)
        (self._local / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
        (packages / "ours.pth").write_text("".join(f"import site; site.addsitedir({each!r})\n" for each in site.getsitepackages()))
        for each in ("python", "python3", version):
            (programs / each).symlink_to(base)
        program = programs / "twopipes"
        program.write_text(_PROGRAM.format(python=programs / "python3"))
        program.chmod(0o755)
        self._base = base

    # What the mark of a block asks for

    def enter(self, folder: str) -> None:
        """Change to a folder of the home; create it if it is missing."""
        self.folder = self.home / folder
        self.folder.mkdir(parents=True, exist_ok=True)

    def copy(self, what: str) -> None:
        """Copy files of the repository into the folder of the commands."""
        for each in what.split(","):
            pattern, _, other_name = each.strip().partition(" as ")
            found = sorted(ROOT.glob(pattern.strip()))
            if not found:
                raise CommandFailed(f"no file matches {pattern}")
            for file in found:
                target = self.folder / (other_name.strip() or file.name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target) if file.is_file() else shutil.copytree(file, target)

    def set(self, variable: str) -> None:
        """Set an environment variable for the following commands."""
        name, _, value = variable.partition("=")
        self._environment[name] = value

    def add_launchers(self, names: Sequence[str]) -> None:
        """Add programs that start the `server.py` of the folder in which they are run."""
        for name in names:
            program = self._local / "bin" / name
            program.write_text("#!/bin/sh\nexec python server.py\n")
            program.chmod(0o755)

    def replace(self, text: str, other: str) -> None:
        """Replace a text of the following commands, and show it in their output all the same."""
        self._replaced[text] = other.format(root=self.root, port=_free_port())

    # Running

    def serve(self, command: str) -> Said:
        """Start a command that serves until the page ends, and return its output so far, once it listens or fails."""
        out = self._state / f"served-{len(self._shells)}"
        with out.open("wb") as file:
            shell = self._start(self._typed(command), file.fileno(), stdin=subprocess.DEVNULL, env=self._environment)
        deadline = time.monotonic() + BOUND
        while not re.search(_LISTENS, text := out.read_text(errors="replace")):
            if code := shell.poll():
                return Said(self.presentable(text), code)
            if code == 0 or time.monotonic() > deadline:
                raise CommandFailed(f"{command!r} does not listen; its output:\n{text}")
            time.sleep(_LOOK)
        return Said(self.presentable(text), 0)

    def run_hidden(self, command: str) -> None:
        """Run a command that must succeed and whose output is not shown."""
        said = self.run(command)
        if said.code != 0:
            raise CommandFailed(f"{command!r} ended with {said.code}:\n" + "\n".join(said.lines))

    def run(self, command: str, *, terminal: int = 0, types: Sequence[str] = (), interrupt: str = "") -> Said:
        """Run a command in a shell, and return its stdout and stderr together."""
        script = self._script(command)
        if terminal:
            text, code = self._at_a_terminal(script, terminal, types)
        else:
            text, code = self._into_a_file(script, interrupt)
        self._last_code = code
        self._take_over()
        return Said(self.presentable(text), code)

    def python(self, sources: Sequence[str]) -> list[list[str]]:
        """Return what each Python block of a page prints, run from the root of the repository."""
        from json import dumps  # noqa: PLC0415 - pages without such blocks do without

        done = subprocess.run(
            [self._local / "bin" / "python", "-c", _PYTHON_OF_A_PAGE],
            input=dumps(list(sources)),
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            timeout=BOUND,
        )
        if done.returncode:
            raise CommandFailed(f"the Python of the page ended with {done.returncode}; tests/test_docs.py says where")
        pieces = re.split(r"^\x1e\d+\n", done.stdout, flags=re.MULTILINE)
        return [self.presentable(piece) for piece in pieces[1:]]

    def close(self) -> None:
        """End all processes that a page left running."""
        for shell in self._shells:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()

    def presentable(self, text: str) -> list[str]:
        """Return the output as lines, without paths of this machine and terminal control codes."""
        text = on_the_screen(text)
        for written, used in self._replaced.items():
            text = text.replace(used, written)
        text = text.replace(str(self.root), "")
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        text = text.replace(str(self._base), f"/usr/local/bin/{version}")
        text = re.sub(r"\bLinux (\d+\.\d+)[^\s,]*", r"Linux \1", text)
        lines = [line.rstrip() for line in text.split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _script(self, command: str) -> str:
        """Return the command for a shell that restores the previous exit code, and saves its folder and variables."""
        leave = f"code=$?; pwd > {self._state}/folder; env -0 > {self._state}/variables; exit $code"
        # Found whatever the PATH of the page is.
        program = f'twopipes() {{ "{self._local}/bin/twopipes" "$@"; }}'
        return f"trap '{leave}' EXIT\n{program}\n(exit {self._last_code})\n{self._typed(command)}"

    def _typed(self, command: str) -> str:
        """Return the command with its replaced texts."""
        for written, used in self._replaced.items():
            command = command.replace(written, used)
        return command

    def _take_over(self) -> None:
        """Read what the shell saved; an interrupted one saves nothing."""
        folder, variables = self._state / "folder", self._state / "variables"
        if folder.exists():
            self.folder = Path(folder.read_text().rstrip("\n"))
        if variables.exists():
            left = dict(each.split("=", 1) for each in variables.read_text().split("\0") if "=" in each)
            self._environment = {name: value for name, value in left.items() if name not in _OURS} | {"COLUMNS": str(COLUMNS)}

    def _into_a_file(self, script: str, interrupt: str) -> tuple[str, int]:
        # A file and not a pipe: what a page leaves running in the background may hold it as long as it likes.
        out = self._state / "said"
        # Unbuffered, because what goes to stdout and to stderr is read in one.
        environment = {**self._environment, "PYTHONUNBUFFERED": "1"}
        with out.open("wb") as file:
            shell = self._start(script, file.fileno(), stdin=subprocess.DEVNULL, env=environment)
        deadline = time.monotonic() + BOUND
        while interrupt and shell.poll() is None and time.monotonic() < deadline:
            if re.search(interrupt, out.read_text(errors="replace")):
                os.killpg(shell.pid, signal.SIGINT)
                break
            time.sleep(_LOOK)
        try:
            code = shell.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"this did not end within {BOUND:g} s: {script.splitlines()[-1]}") from None
        return out.read_text(encoding="utf-8", errors="replace"), code if code >= 0 else 128 - code

    def _at_a_terminal(self, script: str, columns: int, types: Sequence[str]) -> tuple[str, int]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environment = {**self._environment, "COLUMNS": str(columns)}
        try:
            shell = self._start(script, theirs, stdin=theirs, env=environment, terminal=True)
        finally:
            os.close(theirs)
        waiting = list(types)
        said, typed_at = "", -1
        deadline = time.monotonic() + BOUND
        try:
            while True:
                if not select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    raise CommandFailed(f"nothing more came within {BOUND:g} s; so far:\n{said}")
                try:
                    data = os.read(ours, 65536)
                except OSError:  # the other side is closed
                    break
                if not data:
                    break
                said += data.decode("utf-8", "replace")
                if waiting and len(said) > typed_at and _STEERING.sub("", said).endswith("> "):
                    typed_at = len(said)
                    os.write(ours, f"{waiting.pop(0)}\n".encode())
        finally:
            os.close(ours)
        if waiting:
            raise CommandFailed(f"no prompt for {waiting}; the output was:\n{said}")
        code = shell.wait(BOUND)
        return said, code if code >= 0 else 128 - code

    def _start(self, script: str, out: int, *, stdin: int, env: dict[str, str], terminal: bool = False) -> subprocess.Popen[bytes]:
        shell = subprocess.Popen(
            [*((sys.executable, "-c", _WITH_A_TERMINAL) if terminal else ()), "/bin/sh", "-c", script],
            stdin=stdin,
            stdout=out,
            stderr=out,
            cwd=self.folder,
            env=env,
            start_new_session=True,
        )
        self._shells.append(shell)
        return shell


def _free_port() -> int:
    """Return a port that is free, below those that systems give to outgoing connections."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


def serves(command: str) -> str:
    """Return where a command serves: at an ``address``, on ``stdio``, or nowhere (an empty string)."""
    if not _SERVE.match(command):
        return ""
    return "address" if _ADDRESS.search(command.partition(" -- ")[0]) else "stdio"


def on_the_screen(text: str) -> str:
    """Return what remains visible of output that moves the cursor, such as a progress bar."""
    lines: list[list[str]] = [[]]
    row = column = 0
    for piece in re.split(r"(\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])|[\r\n])", text):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row, column = row + 1, 0
            if row == len(lines):
                lines.append([])
        elif steering := _STEERING.fullmatch(piece):
            number = int(steering[1]) if (steering[1] or "").isdigit() else None
            if steering[2] == "A":
                row = max(0, row - (number or 1))
            elif steering[2] == "K":
                lines[row] = [] if number == 2 else lines[row][:column]
        else:
            line = lines[row]
            line.extend(" " * (column - len(line)))
            line[column : column + len(piece)] = piece
            column += len(piece)
    return "\n".join("".join(line) for line in lines)
