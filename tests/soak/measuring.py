"""What a process holds, and who was started by it: read from ``/proc``."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
MIB = 1024 * 1024


@dataclass(frozen=True)
class Snapshot:
    """What this process holds at one moment."""

    descriptors: tuple[str, ...]
    threads: int
    tasks: int
    resident: int

    @classmethod
    def take(cls) -> Snapshot:
        """Measure after a garbage collection."""
        gc.collect()
        _trim()
        return cls(tuple(sorted(_descriptors())), threading.active_count(), len(asyncio.all_tasks()), resident())

    def __str__(self) -> str:
        memory = f"{self.resident / MIB:.1f} MiB resident"
        return f"{len(self.descriptors)} descriptors, {self.threads} threads, {self.tasks} tasks, {memory}"


def _descriptors() -> Iterator[str]:
    """Return the kind of each open descriptor, without the number of a pipe."""
    for path in (PROC / "self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that the folder itself is read with
            yield str(path.readlink()).partition("[")[0]


def _trim() -> None:
    """Has the allocator give back what is free: how much of it lies between things in use depends on the order of the calls."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # not every libc has it
    if trim is not None:
        trim(0)


def resident() -> int:
    """The bytes that this process has in memory."""
    return int((PROC / "self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    """A process that was started here, by us or by one of ours."""

    pid: int
    group: int
    parent: int
    state: str

    def __str__(self) -> str:
        return f"process {self.pid} of group {self.group} ({self.state})"


def processes() -> Iterator[tuple[Process, Path]]:
    """Everybody, and the folder where more is told."""
    for path in PROC.glob("[0-9]*"):
        with suppress(OSError):
            state, parent, group = (path / "stat").read_text().rpartition(")")[2].split()[:3]
            yield Process(int(path.name), int(group), int(parent), state), path


def marked(mark: str) -> list[Process]:
    """Everybody who inherited a variable of the environment, also those whom nobody knows as a child."""
    found = []
    for process, path in processes():
        with suppress(OSError):
            if mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(process)
    return found


def our_children() -> list[Process]:
    """The children of this process; a zombie has no environment any more, and is found here."""
    return [process for process, _ in processes() if process.parent == os.getpid()]
