"""Short programs that behave well or badly, and helpers to start them with twopipes itself."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import textwrap
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from processes.launching import NET
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._process.exit_status import SIGKILL, ExitStatus

if sys.platform == "win32":
    from processes import windows_processes

# How a child that we have killed ends.
KILLED = ExitStatus(code=137) if sys.platform == "win32" else ExitStatus(signal=SIGKILL)

# Echoes every line, and exits on EOF.
POLITE = """
    import sys
    for line in sys.stdin:
        print(line, end="", flush=True)
"""
# Ignores EOF and SIGTERM.
STUBBORN = """
    import signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        time.sleep(3600)
"""
# Ignores EOF, but exits on SIGTERM.
DEAF = """
    import time
    print("ready", flush=True)
    time.sleep(3600)
"""
# Exits on EOF, but its grandchild holds all three pipes and ignores SIGTERM.
FORKS_A_GRANDCHILD = """
    import os, signal, sys
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(1, b"%d\\n" % os.getpid())
        while True:
            signal.pause()
    sys.stdin.read()
"""
SILENT = """
    import sys
    sys.stdin.read()
"""
EXITS_AT_ONCE = """
    import sys
    print("nothing works here", file=sys.stderr)
    sys.exit(3)
"""
CLOSES_STDOUT = """
    import os, sys
    os.close(1)
    sys.stdin.read()
"""
# Writes endlessly until EOF, which it sees at once, because a thread reads its stdin.
FLOODS_STDERR = """
    import os, sys, threading
    def watch():
        sys.stdin.read()
        os._exit(0)
    threading.Thread(target=watch, daemon=True).start()
    piece = b"".join(b"%07d all is well, nothing to see\\n" % number for number in range(2000))
    while True:
        os.write(2, piece)
"""
FLOODS_STDOUT = """
    import sys
    print("x" * 10_000_000, flush=True)
    sys.stdin.read()
"""


def program(text: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(text), *arguments]


def command(text: str, *arguments: str, **options) -> ServerCommand:
    return ServerCommand(program(text, *arguments), **options)


@asynccontextmanager
async def started(given: ServerCommand | str, **options):
    """Yield a child, and make sure that it has exited afterwards."""
    child = await Child.start(command(given) if isinstance(given, str) else given, **options)
    try:
        yield child
    finally:
        child.kill_now()
        await child.shut_down()


async def line_of(child: Child) -> str:
    """Return the next line, or the part of it that arrived before EOF."""
    found = b""
    while not found.endswith(b"\n") and (chunk := await child.channel.read()):
        found += chunk
    return found.decode().rstrip("\r\n")


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    if sys.platform == "win32":
        return windows_processes.is_running(pid)
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def group_of(number: int) -> list[int]:
    """Return the running members of a process group."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        with suppress(OSError):  # it has ended meanwhile
            state, _, group = (path / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(group) == number and state not in {"Z", "X"}:
                found.append(int(path.name))
    return found


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


@contextmanager
def no_thread_left():
    before = threads()
    yield
    assert threads() <= before


def run(body) -> None:
    """Run a test's coroutine; the timeout only catches a hang."""

    async def bounded():
        async with asyncio.timeout(60):
            await body

    with no_thread_left():
        asyncio.run(bounded())


def end_group(number: int) -> None:
    """Kill a whole group, including members that are forked meanwhile."""
    if group_of(number):
        with suppress(ProcessLookupError):
            os.killpg(number, signal.SIGKILL)


def end(pid: int) -> None:
    """Kill a process of the test if it still runs."""
    if sys.platform == "win32":
        windows_processes.kill(pid)
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@contextmanager
def watching(pid):
    """Expect the process to exit by itself at the end of the block. It is not a child of this process, so waitpid does not work."""
    if sys.platform == "win32":
        with windows_processes.opened(pid) as handle:
            yield
            assert windows_processes.wait(handle, NET), f"process {pid} still runs"
        return
    fd = os.pidfd_open(pid)
    try:
        yield
        assert select.select([fd], [], [], NET)[0], f"process {pid} still runs"
    finally:
        os.close(fd)
