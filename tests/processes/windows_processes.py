"""Processes of Windows: which run, and how to wait for them."""

from __future__ import annotations

import _winapi
import ctypes
from contextlib import contextmanager, suppress
from ctypes import wintypes

TH32CS_SNAPPROCESS = 2
SYNCHRONIZE_AND_TERMINATE = 0x00100001


class _Entry(ctypes.Structure):
    _fields_ = (
        ("dwSize", wintypes.DWORD),
        ("cntUsage", wintypes.DWORD),
        ("th32ProcessID", wintypes.DWORD),
        ("th32DefaultHeapID", ctypes.c_size_t),
        ("th32ModuleID", wintypes.DWORD),
        ("cntThreads", wintypes.DWORD),
        ("th32ParentProcessID", wintypes.DWORD),
        ("pcPriClassBase", ctypes.c_long),
        ("dwFlags", wintypes.DWORD),
        ("szExeFile", ctypes.c_wchar * 260),
    )


_kernel = ctypes.WinDLL("kernel32")
_kernel.CreateToolhelp32Snapshot.restype = wintypes.HANDLE
for _function in (_kernel.Process32FirstW, _kernel.Process32NextW):
    _function.argtypes = (wintypes.HANDLE, ctypes.POINTER(_Entry))


def children_of(parent: int) -> set[int]:
    """Return the processes that a process has started and that still run."""
    listed = _kernel.CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0)
    entry = _Entry(dwSize=ctypes.sizeof(_Entry))
    found = set()
    more = _kernel.Process32FirstW(listed, ctypes.byref(entry))
    while more:
        # A console has a process of its own.
        if entry.th32ParentProcessID == parent and entry.szExeFile.lower() != "conhost.exe":
            found.add(entry.th32ProcessID)
        more = _kernel.Process32NextW(listed, ctypes.byref(entry))
    _winapi.CloseHandle(listed)
    return {pid for pid in found if is_running(pid)}


@contextmanager
def opened(pid: int):
    """Yield a handle of a process. Raises ``OSError`` if it does not exist."""
    handle = _winapi.OpenProcess(SYNCHRONIZE_AND_TERMINATE, False, pid)
    try:
        yield handle
    finally:
        _winapi.CloseHandle(handle)


def wait(handle: int, seconds: float) -> bool:
    """Return whether a process exits in time."""
    return _winapi.WaitForSingleObject(handle, int(seconds * 1000)) == _winapi.WAIT_OBJECT_0


def is_running(pid: int) -> bool:
    with suppress(OSError), opened(pid) as handle:
        return not wait(handle, 0)
    return False


def ends(pid: int, seconds: float) -> bool:
    """Return whether a process exits in time, or has exited."""
    with suppress(OSError), opened(pid) as handle:
        return wait(handle, seconds)
    return True


def kill(pid: int) -> None:
    with suppress(OSError), opened(pid) as handle:
        _winapi.TerminateProcess(handle, 1)
