"""The resources and the descendants of this process, read from ``/proc``."""

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
    """The resources of this process at one moment."""

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
    """Yield the kind of each open descriptor, without the number of a pipe."""
    for path in (PROC / "self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor that the folder itself is read with
            yield str(path.readlink()).partition("[")[0]


def _trim() -> None:
    """Return free memory to the system: how much the allocator keeps depends on the order of the calls."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # not every libc has malloc_trim
    if trim is not None:
        trim(0)


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int((PROC / "self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    """A process that was started by this one or by a descendant."""

    pid: int
    group: int
    parent: int
    state: str

    def __str__(self) -> str:
        return f"process {self.pid} of group {self.group} ({self.state})"


def processes() -> Iterator[tuple[Process, Path]]:
    """Yield every process, with its folder in ``/proc``."""
    for path in PROC.glob("[0-9]*"):
        with suppress(OSError):
            state, parent, group = (path / "stat").read_text().rpartition(")")[2].split()[:3]
            yield Process(int(path.name), int(group), int(parent), state), path


def marked(mark: str) -> list[Process]:
    """Return every process that inherited a mark in its environment, orphans included."""
    found = []
    for process, path in processes():
        with suppress(OSError):
            if mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(process)
    return found


def our_children() -> list[Process]:
    """Return the children of this process, including zombies, which have no environment any more."""
    return [process for process, _ in processes() if process.parent == os.getpid()]
