"""The processes of a server, found by the variable that the doctor put into their environment. Linux only."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from twopipes._tools.doctor.observations import Process

MARK = "TWOPIPES_DOCTOR"
"""The environment variable that every process of an attempt inherits, whatever its group, session or parent."""

_SHOWN = 120
_KIB = 1024


def marked_processes(mark: str) -> tuple[Process, ...]:
    """Return the running processes with this mark; on other systems than Linux, none."""
    return _find(f"{MARK}={mark}".encode()) if sys.platform == "linux" else ()


def _find(wanted: bytes) -> tuple[Process, ...]:
    found = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        if pid == os.getpid():
            continue
        # The process may have exited, or belong to another user.
        with suppress(OSError, ValueError):
            folder = Path(f"/proc/{pid}")
            if wanted in (folder / "environ").read_bytes().split(b"\0") and _is_running(folder):
                found.append(Process(pid=pid, command=_command(folder), peak=_peak(folder)))
    return tuple(found)


def kill_marked(mark: str) -> None:
    """Kill the processes with this mark, as a last resort for those that have left the process group."""
    if sys.platform != "win32":  # the end of the job object kills them there
        for process in marked_processes(mark):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)


def _is_running(folder: Path) -> bool:
    return (folder / "stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}


def _command(folder: Path) -> str:
    words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    return b" ".join(words).decode("utf-8", "replace")[:_SHOWN]


def _peak(folder: Path) -> int | None:
    for line in (folder / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * _KIB
    return None
