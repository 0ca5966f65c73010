"""Detect the death of the process that launched us.

A stdio server sees EOF on stdin when its host exits. But EOF never arrives while another process holds the write end of the pipe:
a child of the host that inherited it, a wrapper, a debugger. Then the server would run forever, which is the most frequent
complaint about MCP servers. So the parent process is watched as well.
"""

from __future__ import annotations

import asyncio
import os
import sys

# Seconds between two polls, where the kernel cannot notify us. An orphan may live that much longer.
POLL = 1.0
# No parent in this pid namespace (0), or init (1), which does not exit.
IMMORTAL = 1


async def watch_parent(pid: int | None = None, *, poll: float = POLL) -> int:
    """Wait until the process that launched us has exited; return its process id.

    On Linux the kernel reports the exit through a pidfd. Elsewhere, and where pidfds are refused, this polls.

    It never returns if there is nothing to watch: the parent is process 1 (we were launched by init, or orphaned before the first
    look), or is outside of our pid namespace (0). Only the direct parent is watched: the exit of a wrapper that stays
    (``npx``, ``uv run``, ``sh -c``) ends us, and so does that of one that starts us and exits on purpose.

    Cancelling is safe and leaks no descriptor; no thread is used.

    Args:
        pid: The parent when the program started: ``os.getppid()``, called as early as possible. If the parent is another process
            by now, this returns at once. By default the current parent.
        poll: Seconds between two polls.
    """
    if pid is None:
        pid = os.getppid()
    if pid <= IMMORTAL:
        await asyncio.get_running_loop().create_future()
    if sys.platform == "win32":
        await _watch_handle(pid, poll)
    elif sys.platform != "linux" or not await _watch_pidfd(pid):
        while os.getppid() == pid:
            await asyncio.sleep(poll)
    return pid


if sys.platform == "linux":

    async def _watch_pidfd(pid: int) -> bool:
        """Wait for the process to exit. Return False if this kernel or this sandbox does not give us a pidfd."""
        try:
            fd = os.pidfd_open(pid)
        except (AttributeError, OSError):
            # Also if the process is gone; the caller's check of getppid() then detects that.
            return False
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(fd, ended.set)
        try:
            # While it is our parent its number cannot have been reused, so the pidfd refers to the right process.
            if os.getppid() == pid:
                await ended.wait()
        finally:
            loop.remove_reader(fd)
            os.close(fd)
        return True


if sys.platform == "win32":

    async def _watch_handle(pid: int, poll: float) -> None:
        import _winapi  # exists on Windows only

        # Windows reports the parent's number even if the parent has exited and the number was reused. An open handle
        # keeps the number from being reused.
        try:
            handle = _winapi.OpenProcess(_winapi.SYNCHRONIZE, False, pid)
        except PermissionError:
            # It runs, but we may not watch it.
            await asyncio.get_running_loop().create_future()
        except OSError:
            pass  # it has exited
        else:
            try:
                while _winapi.WaitForSingleObject(handle, 0) != _winapi.WAIT_OBJECT_0:
                    await asyncio.sleep(poll)
            finally:
                _winapi.CloseHandle(handle)
