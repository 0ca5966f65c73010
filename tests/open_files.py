"""Which files of a folder are open."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

GENERIC_READ = 0x80000000
OPEN_EXISTING = 3
FILE_FLAG_BACKUP_SEMANTICS = 0x02000000  # folders, too
NOT_SHARED = 0
ERROR_SHARING_VIOLATION = 32


def open_files(folder: Path) -> set[Path]:
    """Return the files and folders below a folder that this process has open; on Windows, that any process has open.

    Descriptors are not counted: other threads open and close them, and Wine keeps some for later.
    """
    return {each for each in folder.rglob("*") if is_open(each)}


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateFileW.restype = wintypes.HANDLE
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
    _INVALID = wintypes.HANDLE(-1).value

    def is_open(path: Path) -> bool:
        """Return whether a handle of the file is open: then it cannot be opened for ourselves alone."""
        handle = _kernel.CreateFileW(str(path), GENERIC_READ, NOT_SHARED, None, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, None)
        if handle == _INVALID:
            error = ctypes.get_last_error()
            if error != ERROR_SHARING_VIOLATION:
                raise ctypes.WinError(error)
            return True
        _kernel.CloseHandle(handle)
        return False

else:

    def is_open(path: Path) -> bool:
        """Return whether a descriptor of the file is open."""
        with suppress(OSError):  # a link that leads nowhere
            wanted = path.stat()
            return any(os.path.samestat(wanted, each) for each in map(_status_of, os.listdir("/dev/fd")) if each)
        return False

    def _status_of(descriptor: str) -> os.stat_result | None:
        with suppress(OSError):  # the one that listed the others is closed by now
            return os.fstat(int(descriptor))
        return None
