"""The death of the process that launched us.

A server over stdio learns from the end of its input that its host is gone. That end never comes while anybody else holds
the other side of the pipe: a child of the host that inherited it, a wrapper, a debugger. Then the server stays for ever, which is
the most voiced complaint about servers. So the process that launched us is watched as well.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["POLL", "watch_parent"]

# Seconds between two looks, where the system cannot tell by itself. An orphan may live that much longer.
POLL = 1.0
# No parent in this namespace (0), or the one that outlives everybody (1).
IMMORTAL = 1


async def watch_parent(pid: int | None = None, *, poll: float = POLL) -> int:
    """Return when the process that launched us has ended; the value is its process id.

    On Linux the system tells, through a pidfd; elsewhere, and where that is refused, this looks every ``poll`` seconds.

    It never returns where nothing can be watched: the parent is process 1 (launched by init, or orphaned before the first
    look), or lies outside of our pid namespace (0). It watches only the direct parent: a wrapper that starts us and stays
    (``npx``, ``uv run``, ``sh -c``) is the one whose end counts, and one that starts us and leaves on purpose ends us.

    Cancelling is safe and leaves no descriptor behind; there is no thread.

    Args:
        pid: The parent as it was when the program started: ``os.getppid()``, asked as early as possible. If another process
            is the parent by now, this returns at once. By default, who is the parent now.
        poll: Seconds.
    """
    if pid is None:
        pid = os.getppid()
    if pid <= IMMORTAL:
        await asyncio.get_running_loop().create_future()
    if sys.platform == "win32":
        await _watch_a_handle(pid, poll)
    elif sys.platform != "linux" or not await _watch_a_pidfd(pid):
        while os.getppid() == pid:
            await asyncio.sleep(poll)
    return pid


if sys.platform == "linux":

    async def _watch_a_pidfd(pid: int) -> bool:
        """Return True when the process has ended, False when this kernel or this sandbox has no pidfd for us."""
        try:
            fd = os.pidfd_open(pid)
        except (AttributeError, OSError):
            # Also when there is no such process any more: the question who is the parent now answers that.
            return False
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        try:
            # While it is our parent it has not ended, and nobody else has its number: the pidfd is the right one.
            if os.getppid() != pid:
                return True
            loop.add_reader(fd, _settle, ended)
            try:
                await ended
            finally:
                loop.remove_reader(fd)
        finally:
            os.close(fd)
        return True

    def _settle(ended: asyncio.Future[None]) -> None:
        if not ended.done():
            ended.set_result(None)


if sys.platform == "win32":

    async def _watch_a_handle(pid: int, poll: float) -> None:
        # Windows tells the number of whoever launched us, even when it has ended and the number belongs to somebody else.
        # A handle that was opened in time keeps the number from being given away.
        with _open_process(pid) as has_ended:
            while not has_ended():
                await asyncio.sleep(poll)

    @contextmanager
    def _open_process(pid: int) -> Iterator[Callable[[], bool]]:
        import _winapi  # noqa: PLC0415

        try:
            handle = _winapi.OpenProcess(_winapi.SYNCHRONIZE, False, pid)
        except PermissionError:
            # It is there, and it is not ours to watch.
            yield lambda: False
            return
        except OSError:
            yield lambda: True
            return
        try:
            yield lambda: _winapi.WaitForSingleObject(handle, 0) == _winapi.WAIT_OBJECT_0
        finally:
            _winapi.CloseHandle(handle)
