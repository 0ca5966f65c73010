"""The processes of a server as the system shows them: whoever carries the mark that the doctor put into their environment."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from twopipes._tools.doctor.observations import Process

__all__ = ["MARK", "end_marked", "marked"]

MARK = "TWOPIPES_DOCTOR"
"""The variable that every process of an attempt inherits, whatever group, session or parent it has by then."""

_SHOWN = 120
_KIB = 1024


def marked(mark: str) -> tuple[Process, ...]:
    """The living processes that carry the mark; none where the system does not tell, as everywhere but on Linux."""
    return _look_for(f"{MARK}={mark}".encode()) if sys.platform == "linux" else ()


def _look_for(wanted: bytes) -> tuple[Process, ...]:
    found = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        if pid == os.getpid():
            continue
        # Gone by now, or of another user.
        with suppress(OSError, ValueError):
            folder = Path(f"/proc/{pid}")
            if wanted in (folder / "environ").read_bytes().split(b"\0") and _lives(folder):
                found.append(Process(pid=pid, command=_command(folder), peak=_peak(folder)))
    return tuple(found)


def end_marked(mark: str) -> None:
    """Kills what carries the mark: the last resort for what has left its group."""
    if sys.platform != "win32":  # where nobody is found anyway, and the end of the job takes whoever is left
        for process in marked(mark):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)


def _lives(folder: Path) -> bool:
    return (folder / "stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}


def _command(folder: Path) -> str:
    words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    return b" ".join(words).decode("utf-8", "replace")[:_SHOWN]


def _peak(folder: Path) -> int | None:
    for line in (folder / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * _KIB
    return None
