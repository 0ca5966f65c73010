"""The memory of a server and of the processes that it started, where the system reports it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

if sys.platform == "win32":
    import _winapi
    import ctypes
    from ctypes import wintypes

    _QUERY_AND_READ = 0x0400 | 0x0010

    class _Counters(ctypes.Structure):
        _fields_ = (
            ("cb", wintypes.DWORD),
            ("PageFaultCount", wintypes.DWORD),
            ("PeakWorkingSetSize", ctypes.c_size_t),
            ("WorkingSetSize", ctypes.c_size_t),
            ("Other", ctypes.c_size_t * 6),
        )

    def resident_bytes(pid: int) -> int | None:
        """Return the working set of a process, without those that it started; ``None`` if it is unknown."""
        counters = _Counters(cb=ctypes.sizeof(_Counters))
        query = ctypes.WinDLL("kernel32").K32GetProcessMemoryInfo
        query.argtypes = (wintypes.HANDLE, ctypes.POINTER(_Counters), wintypes.DWORD)
        try:
            handle = _winapi.OpenProcess(_QUERY_AND_READ, False, pid)
        except OSError:
            return None
        try:
            return int(counters.WorkingSetSize) if query(handle, ctypes.byref(counters), counters.cb) else None
        finally:
            _winapi.CloseHandle(handle)

else:

    def resident_bytes(pid: int) -> int | None:
        """Return the resident memory of a process and of its session, which are the same for a server; ``None`` if it is unknown.

        A wrapper such as ``npx`` is small, and the server is its child. Pages that they share count more than once.
        """
        members = [each for each in _pids() if each == pid or _session_of(each) == pid]
        sizes = [size for each in members if (size := _size_of(each)) is not None]
        return sum(sizes) if sizes else None

    def _pids() -> list[int]:
        with suppress(OSError):  # only Linux has these files
            return [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return []

    def _session_of(pid: int) -> int | None:
        try:
            return os.getsid(pid)
        except OSError:
            return None  # it has exited

    def _size_of(pid: int) -> int | None:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return None
