"""Applies changes of the configuration file to a hub while it runs. Only servers whose entries changed are restarted.

The file is looked at once a second. That needs no library, works on every file system, and sees what a watch on the file itself
would miss: an editor that replaces the file, and a link that points to another one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from twopipes._gateway.hub.member import ReportLevel
from twopipes._gateway.hub.server import HubServer
from twopipes._host.config import ServerConfig
from twopipes.errors import TwopipesError

# Seconds between two looks. A change is applied when two looks in a row see the same file, because it may be half written.
_INTERVAL: Final = 1.0


class Stamp(NamedTuple):
    """What tells one version of a file from another."""

    device: int
    inode: int
    size: int
    changed: int


class Reloader:
    """Watches the configuration file of a hub.

    Args:
        hub: The hub.
        file: The file. Links are followed.
        read: Reads it, in a thread. Raises ``ConfigError`` if it cannot be used.
        seen: The file that the hub was made from, as :func:`stamp_of` found it before it was read.
        interval: Seconds between two looks.
    """

    def __init__(
        self,
        hub: HubServer,
        file: str | os.PathLike[str],
        read: Callable[[], Mapping[str, ServerConfig]],
        *,
        seen: Stamp | None,
        interval: float = _INTERVAL,
    ) -> None:
        self._hub = hub
        self._file = os.fspath(file)
        self._read = read
        self._applied = seen
        self._interval = interval

    async def run(self) -> None:
        """Apply changes until this is cancelled."""
        previous = self._applied
        while True:
            await asyncio.sleep(self._interval)
            now = await asyncio.to_thread(stamp_of, self._file)
            if now == previous and now != self._applied:
                self._applied = now
                await self._apply(is_there=now is not None)
            previous = now

    async def _apply(self, *, is_there: bool) -> None:
        if not is_there:
            self._report("warning", "cannot be found any more; the servers stay as they are")
            return
        try:
            wanted = await asyncio.to_thread(self._read)
            done = await self._change(wanted)
        except (TwopipesError, OSError) as error:
            self._report("error", f"has changed, but cannot be used; the servers stay as they are: {error}")
            return
        if done:
            self._report("info", f"has changed: {'; '.join(done)}")

    async def _change(self, wanted: Mapping[str, ServerConfig]) -> list[str]:
        """Make the hub have these servers. Return what was done, as sentences."""
        members = dict(self._hub.members)
        removed = [name for name in members if name not in wanted]
        # A server that failed may have failed because of something that was fixed together with the file.
        is_other = {name: each.config != wanted.get(name) or each.state == "failed" for name, each in members.items()}
        changed = [name for name in wanted if is_other.get(name)]
        added = [name for name in wanted if name not in members]
        ending = [self._hub.remove(name) for name in removed]
        await asyncio.gather(*ending, *(self._hub.replace(name, wanted[name]) for name in changed))
        for name in added:  # after those that ended: a renamed entry may need the same port
            self._hub.add(name, wanted[name])
        self._hub.arrange(list(wanted))
        done = {"added": added, "restarted": changed, "removed": removed}
        return [f"{verb} {', '.join(map(repr, names))}" for verb, names in done.items() if names]

    def _report(self, level: ReportLevel, text: str) -> None:
        self._hub.reports.add(level, f"{self._file} {text}")


def stamp_of(file: str | os.PathLike[str]) -> Stamp | None:
    """Return what identifies the present version of a file; ``None`` if it cannot be found."""
    try:
        found = os.stat(os.path.expanduser(file))
    except OSError:
        return None
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
