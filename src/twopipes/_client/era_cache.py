"""What is known of the servers that were met before, so that the era of each is found out once (DE-07).

A probe costs a round trip with most servers, seconds with a silent one, and the process with one that dies of it. So the answer is
kept for as long as this process lives and, where the user asks for it, in a file. A verdict is a hint and no promise: a server may
be replaced behind it, so whoever acts on one that proves wrong calls :meth:`EraCache.forget` and probes again.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from msgspec import DecodeError, Struct
from msgspec import json as msgspec_json

from twopipes._process.state_folder import state_folder

__all__ = ["PROCESS_WIDE", "EraCache", "EraRecord", "default_path"]

_FORMAT: Final = 1
_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_WRITABLE_BY_OTHERS: Final = 0o022
# Bytes. A full file has about a fifth of it; a longer one is not ours.
_LONGEST_FILE: Final = 1024 * 1024


class EraRecord(Struct, frozen=True):
    """What a server turned out to be.

    Attributes:
        era: Which of the two it speaks with us.
        revision: The revision that was agreed on.
        probed: What it did when it was probed: it ``answered`` in a way that proves the modern era, ``refused`` with an error or
            something unusable, stayed ``silent``, or ``died``. ``skipped``: nobody probed it, because the caller knew.
    """

    era: Literal["modern", "legacy"]
    revision: str
    probed: Literal["answered", "refused", "silent", "died", "skipped"]


class _Entry(Struct, frozen=True):
    """A verdict, or the memory that there is none any more, and when that was learnt (seconds of the wall clock)."""

    learnt: float
    verdict: EraRecord | None = None


class _File(Struct, frozen=True):
    format: int
    verdicts: dict[str, _Entry]


def default_path() -> Path | None:
    """Where the verdicts of this user lie, or ``None`` if nobody knows where the user is at home."""
    try:
        return state_folder() / "verdicts.json"
    except RuntimeError:
        return None


class EraCache:
    """Remembers verdicts, in memory and, with a path, in a file.

    Every method may be called from any thread. With a file they read it, and those that change something write it, so a caller
    with an event loop that must not wait for a disk calls them in a thread. None of them ever fails: a file that is missing,
    damaged, out of reach or somebody else's counts as empty, and what cannot be written is remembered in memory. Of two processes
    that write at the same moment one may lose its verdict, which costs it a probe.

    Args:
        path: The file: :func:`default_path` or any other. Its folder is made when it is first needed. In memory only by default.
        max_entries: Servers to remember; the one that was judged first is forgotten first.
        lifetime: Seconds after which a server is probed again. A legacy server that learnt the modern era would otherwise never
            be asked, because the old way still works.
        clock: The wall clock, because a file outlives every other one.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        max_entries: int = 1_000,
        lifetime: float = 7 * 24 * 3600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._max_entries = max_entries
        self._lifetime = lifetime
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def recall(self, identity: str) -> EraRecord | None:
        """What is known of a server; ``None`` means: probe it."""
        with self._lock:
            self._refresh()
            entry = self._entries.get(identity)
            return None if entry is None else entry.verdict

    def remember(self, identity: str, verdict: EraRecord) -> None:
        """Keeps what was found out about a server, in place of what was known before."""
        self._learn(identity, verdict)

    def forget(self, identity: str) -> None:
        """The verdict about a server proved wrong, or nobody wants it kept."""
        self._learn(identity, None)

    def _learn(self, identity: str, verdict: EraRecord | None) -> None:
        with self._lock:
            self._refresh()
            known = self._entries.pop(identity, None)
            now = self._clock()
            # What is learnt later is never older, also where the clock was put back meanwhile.
            learnt = now if known is None else max(now, known.learnt)
            # A verdict that is gone leaves a trace in memory: the file may still have it, if that cannot be written.
            self._entries[identity] = _Entry(learnt, verdict)
            self._trim()
            self._write()

    def _refresh(self) -> None:
        """Takes from the file what is newer there, because other processes write it too, and lets go of what is too old."""
        now = self._clock()
        # In both directions: what was learnt in the future was learnt by a wrong clock.
        known = {name: entry for name, entry in self._entries.items() if abs(now - entry.learnt) < self._lifetime}
        for name, entry in self._read().items():
            if abs(now - entry.learnt) < self._lifetime and (name not in known or known[name].learnt < entry.learnt):
                known[name] = entry
        self._entries = known
        self._trim()

    def _trim(self) -> None:
        if len(self._entries) > self._max_entries:
            newest = sorted(self._entries.items(), key=lambda item: item[1].learnt)[-self._max_entries :]
            self._entries = dict(newest)

    def _read(self) -> dict[str, _Entry]:
        if self.path is None:
            return {}
        with suppress(OSError, ValueError, DecodeError, RecursionError):
            # Not blocking: a named pipe in the place of the file would hold us for ever.
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
            try:
                if not _is_trusted(os.fstat(descriptor)):
                    return {}
                with open(descriptor, "rb", closefd=False) as file:
                    raw = file.read(_LONGEST_FILE + 1)
            finally:
                os.close(descriptor)
            if len(raw) <= _LONGEST_FILE:
                found = msgspec_json.decode(raw, type=_File)
                return found.verdicts if found.format == _FORMAT else {}
        return {}

    def _write(self) -> None:
        """Puts the file in its place, whole or not at all."""
        if self.path is None:
            return
        told = {name: entry for name, entry in self._entries.items() if entry.verdict is not None}
        with suppress(OSError, ValueError):
            raw = msgspec_json.format(msgspec_json.encode(_File(_FORMAT, told)), indent=1) + b"\n"
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE_FOLDER)
            draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.{os.urandom(4).hex()}")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            descriptor = os.open(draft, flags, _PRIVATE_FILE)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(raw)
                draft.replace(self.path)
            finally:
                draft.unlink(missing_ok=True)


def _is_trusted(status: os.stat_result) -> bool:
    """Tells whether a file is a plain one that nobody but this user writes."""
    if not stat.S_ISREG(status.st_mode):
        return False
    return sys.platform == "win32" or (status.st_uid == os.geteuid() and not status.st_mode & _WRITABLE_BY_OTHERS)


PROCESS_WIDE: Final = EraCache()
"""The memory of this process: what one client found out, the next one knows."""
