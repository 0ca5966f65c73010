"""Files that we write for a user: private to their owner, and the folder for state that is neither documents nor settings."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress

_WRITABLE_BY_OTHERS = 0o022


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file with mode 0600, even if it exists with another mode or is behind a link.

    Anything but a regular file (a FIFO, a device, a terminal) is opened unchanged. Windows has no such modes.

    Raises:
        OSError: The file cannot be opened, or belongs to another user, who could read what is written to it.
    """
    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o600)
    try:
        if sys.platform != "win32":
            _make_private(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


if sys.platform != "win32":

    def _make_private(descriptor: int, path: str | os.PathLike[str]) -> None:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not found.st_mode & 0o077:
            return
        if found.st_uid != os.geteuid():
            raise PermissionError(
                errno.EPERM, "the file belongs to another user, who could read it; choose another file", os.fspath(path)
            )
        with suppress(PermissionError):  # a file system without modes, such as FAT on a USB stick
            os.fchmod(descriptor, 0o600)


def read_trusted(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return the contents of a regular file that only this user can write.

    Raises:
        OSError: It cannot be read, or another user could have written it.
        ValueError: It is longer than ``limit`` bytes.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        if not _is_trusted(os.fstat(file.fileno())):
            raise PermissionError(errno.EPERM, "another user could have written this file", os.fspath(path))
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise ValueError(f"{os.fspath(path)} is longer than {limit} bytes")
    return raw


def replace_private(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a private file atomically: readers see the old contents or the new ones. Creates its folder.

    Raises:
        OSError: It cannot be written; the old file is unchanged.
    """
    path = os.fspath(path)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        with open(draft, "xb", opener=open_private) as file:
            file.write(data)
        os.replace(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


def _open_at_once(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a named pipe in place of the file would block for ever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))


def _is_trusted(status: os.stat_result) -> bool:
    """Whether this is a regular file that only this user can write."""
    if not stat.S_ISREG(status.st_mode):
        return False
    return sys.platform == "win32" or (status.st_uid == os.geteuid() and not status.st_mode & _WRITABLE_BY_OTHERS)


def state_path() -> str:
    """Return the folder of twopipes in the user's state folder. Raises ``RuntimeError`` if the home folder is unknown."""
    if sys.platform == "win32":
        folder = os.environ.get("LOCALAPPDATA") or os.path.join(_home(), "AppData", "Local")
    else:
        folder = os.environ.get("XDG_STATE_HOME", "")
        # The XDG specification says that relative paths are ignored.
        if not os.path.isabs(folder):
            folder = os.path.join(_home(), ".local", "state")
    return os.path.join(folder, "twopipes")


def _home() -> str:
    home = os.path.expanduser("~")
    if home == "~":
        raise RuntimeError("the home folder of this user is unknown; set HOME")
    return home
