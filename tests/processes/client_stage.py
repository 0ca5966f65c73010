"""Launch real servers with the real client, read their notes, and check that no process remains."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import sys
import textwrap
import threading
import uuid
from contextlib import suppress
from pathlib import Path

from processes.children import end, is_running
from processes.misbehaving import SPEAK
from systems import WINDOWS
from twopipes._client.connect import connect
from twopipes._client.era_cache import EraCache
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import SIGKILL, SIGTERM
from twopipes._process.shutdown import CloseStdin, ShutdownPlan, ShutdownReport, Signal, Wait
from twopipes.settings import RestartPolicy, Timeouts
from twopipes.types import ClientOptions

# Seconds. A limit for a hang, not an assertion.
NET = 60.0
# These never expire, even on a busy machine.
PATIENT = Timeouts(connect=NET, probe=NET, request=NET, total=NET, shutdown=NET)
# Seconds for timeouts that are meant to expire.
SOON = 0.05
NO_RESTART = RestartPolicy(when="never")
AT_ONCE = RestartPolicy(first_delay=0.0)
# For servers that ignore EOF and SIGTERM.
IMPATIENT = ShutdownPlan((CloseStdin(), Wait(SOON), Signal(SIGTERM), Wait(SOON), Signal(SIGKILL)))
# For servers that exit on SIGTERM. On Windows a Ctrl-Break takes its place, which needs a console that both share.
FIRM = IMPATIENT if WINDOWS else ShutdownPlan((CloseStdin(), Wait(SOON), Signal(SIGTERM), Wait(NET), Signal(SIGKILL)))
FIRM_STEPS = ["close stdin", "wait", "SIGTERM", *(["wait", "SIGKILL"] if WINDOWS else [])]


def staged(test):
    """Run an async test; afterwards no task or thread may remain, and asyncio may have reported nothing."""

    @functools.wraps(test)
    def run(stage, **given):
        stage.run(test(stage, **given))

    return run


class Stage:
    """One folder, one program at a time in it, and the notes of all its processes.

    Attributes:
        folder: The folder of all files.
        memory: The era cache of the clients.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.memory = EraCache()
        self._mark = f"TWOPIPES_STAGE={uuid.uuid4().hex}"
        (folder / "speak.py").write_text(SPEAK, encoding="utf-8")

    def write(self, program: str) -> Path:
        path = self.folder / "server.py"
        path.write_text(textwrap.dedent(program).lstrip(), encoding="utf-8")
        return path

    def command(self, program: str, *, wrapper=None, **options) -> ServerCommand:
        """Return the command of a program; ``wrapper`` may change its words."""
        argv = [sys.executable, "-S", str(self.write(program))]
        name, _, value = self._mark.partition("=")
        env = {name: value, **options.pop("env", {})}
        return ServerCommand(argv if wrapper is None else wrapper(argv), env=env, **options)

    def connect(self, program: str | ServerCommand, **options):
        """``connect()`` to a program, with long timeouts unless the test sets others."""
        options = {"timeouts": PATIENT, "options": ClientOptions(era_cache=self.memory), "restart": NO_RESTART, **options}
        return connect(self.command(program) if isinstance(program, str) else program, **options)

    # The notes of the servers

    @property
    def lives(self) -> list[list[dict]]:
        """The messages that each process received, in the order of their starts."""
        lives: list[list[dict]] = []
        for note in self._notes():
            if "started" in note:
                lives.append([])
            elif "received" in note:
                lives[-1].append(note["received"])
        return lives

    @property
    def received(self) -> list[dict]:
        """The messages that all processes received."""
        return [message for life in self.lives for message in life]

    def methods(self, life: int = 1) -> list[str]:
        """The methods that one process received."""
        return [message["method"] for message in self.lives[life - 1]]

    @property
    def pids(self) -> list[int]:
        """The ids of all processes that wrote a note."""
        return [note.get("started", note.get("grandchild")) for note in self._notes() if "received" not in note]

    def _notes(self) -> list[dict]:
        with suppress(FileNotFoundError):
            complete, _, _ = (self.folder / "notes").read_text().rpartition("\n")  # a process may be writing
            return [json.loads(line) for line in complete.splitlines()]
        return []

    async def until(self, condition) -> None:
        """Wait until a condition is true; the test has a timeout."""
        while not condition():
            await asyncio.sleep(0.005)

    # The gate

    def open_the_gate(self) -> None:
        """Let the processes that wait there pass, and all later ones."""
        (self.folder / "gate").touch()

    # The end

    def run(self, body) -> None:
        reported: list[dict] = []
        threads = set(threading.enumerate())

        async def bounded():
            asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
            async with asyncio.timeout(NET):
                await body
            for _ in range(3):  # let cancelled tasks end
                await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(bounded())
        gc.collect()  # reports exceptions that were never retrieved
        assert not reported
        for thread in set(threading.enumerate()) - threads:
            thread.join(NET)  # one of a pipe may be about to end
        assert set(threading.enumerate()) <= threads

    def left(self) -> list[int]:
        """Return all processes that were launched here and still run, by their environment; also unknown ones."""
        if sys.platform == "win32":  # where the environment of a process cannot be read
            return [pid for pid in self.pids if is_running(pid)]
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if self._mark.encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def check_that_no_process_remains(self) -> None:
        left = self.left()
        for pid in left:
            end(pid)
        assert not left


def steps_of(report: ShutdownReport | None) -> list[str]:
    """Return the steps that ended a server, in order, without the last wait, which a fast exit skips."""
    assert report is not None
    assert not report.left_behind
    steps = ["wait" if isinstance(taken.step, Wait) else str(taken.step) for taken in report.steps]
    return steps[:-1] if steps[-1:] == ["wait"] else steps
