"""A cache of the eras of known servers, so that the era of each is detected only once (DE-07).

A probe costs one round trip with most servers, seconds with one that does not respond, and a process with one that exits because of
it. The result is kept for the lifetime of this process and, on request, in a file. It is only a hint, because a server may be
replaced: a caller that finds it wrong calls :meth:`EraCache.forget` and probes again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from msgspec import DecodeError, Struct
from msgspec import json as msgspec_json

from twopipes._process.user_files import read_trusted, replace_private, state_path

_FORMAT: Final = 1
# Bytes. A full cache takes about a fifth of this, so a longer file is not ours.
_MAX_FILE_SIZE: Final = 1024 * 1024


class EraRecord(Struct, frozen=True):
    """The era of one server.

    Attributes:
        era: The era in which it was opened.
        revision: The revision that was negotiated.
        probed: Its reaction to the probe: it ``answered`` as a modern server does, ``refused`` with an error or an invalid result,
            stayed ``silent``, or ``died``. ``skipped``: it was not probed, because the caller chose the era.
    """

    era: Literal["modern", "legacy"]
    revision: str
    probed: Literal["answered", "refused", "silent", "died", "skipped"]


class _Entry(Struct, frozen=True):
    """A record, or ``None`` for one that was forgotten, and the wall-clock time when it was learnt, in seconds."""

    learnt: float
    verdict: EraRecord | None = None


class _File(Struct, frozen=True):
    format: int
    verdicts: dict[str, _Entry]


class EraCache:
    """Remembers eras in memory and, with a path, in a file.

    Every method may be called from any thread. With a path, each call reads the file, and changes write it; call them in a thread
    if the event loop must not wait for a disk. They never fail: a file that is missing, damaged, inaccessible or owned by another
    user counts as empty, and records that cannot be written stay in memory. If two processes write at the same moment, one may lose
    a record, which costs it a probe.

    Args:
        path: The file: :meth:`default_path` or any other. Its folder is created when needed. By default there is no file.
        max_entries: The number of servers to remember. The oldest record is forgotten first.
        lifetime: Seconds after which a server is probed again. Without this, a legacy server that was upgraded to the modern era
            would never be probed, because the legacy handshake still works.
        clock: The wall clock; a file outlives every monotonic clock.
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

    @staticmethod
    def default_path() -> Path | None:
        """Return the cache file of this user, or ``None`` if the user has no home folder."""
        try:
            return Path(state_path()) / "verdicts.json"
        except RuntimeError:
            return None

    def recall(self, identity: str) -> EraRecord | None:
        """Return the record of a server; ``None`` means that it must be probed."""
        with self._lock:
            self._load()
            entry = self._entries.get(identity)
            return None if entry is None or self._is_old(entry) else entry.verdict

    def remember(self, identity: str, record: EraRecord) -> None:
        """Store the record of a server and replace the previous one."""
        self._learn(identity, record)

    def forget(self, identity: str) -> None:
        """Forget the record of a server."""
        self._learn(identity, None)

    def _learn(self, identity: str, record: EraRecord | None) -> None:
        with self._lock:
            self._load()
            known = self._entries.pop(identity, None)
            now = self._clock()
            # A later record never gets an earlier time, even if the clock was set back meanwhile.
            learnt = now if known is None or self._is_old(known) else max(now, known.learnt)
            # Keep an entry for a forgotten record too: if the file cannot be written, it still has the old one.
            self._entries[identity] = _Entry(learnt, record)
            self._trim()
            self._write()

    def _is_old(self, entry: _Entry) -> bool:
        # abs(), because an entry from the future comes from a wrong clock.
        return abs(self._clock() - entry.learnt) >= self._lifetime

    def _trim(self) -> None:
        known = [(name, entry) for name, entry in self._entries.items() if not self._is_old(entry)]
        known.sort(key=lambda item: item[1].learnt)
        self._entries = dict(known[-self._max_entries :])

    def _load(self) -> None:
        """Load newer entries from the file, which other processes write too."""
        if self.path is None:
            return
        with suppress(OSError, ValueError, DecodeError, RecursionError):
            found = msgspec_json.decode(read_trusted(self.path, _MAX_FILE_SIZE), type=_File)
            if found.format != _FORMAT:
                return
            for name, entry in found.verdicts.items():
                known = self._entries.get(name)
                if known is None or known.learnt < entry.learnt or (self._is_old(known) and not self._is_old(entry)):
                    self._entries[name] = entry
            self._trim()

    def _write(self) -> None:
        """Replace the file atomically."""
        if self.path is None:
            return
        known = {name: entry for name, entry in self._entries.items() if entry.verdict is not None}
        with suppress(OSError, ValueError):
            raw = msgspec_json.format(msgspec_json.encode(_File(_FORMAT, known)), indent=1) + b"\n"
            replace_private(self.path, raw)


PROCESS_WIDE: Final = EraCache()
"""The default cache, shared by all clients of this process."""
