"""Files that we write for a user: private to their owner, and the folder for state that is neither documents nor settings."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file with mode 0600, even if it exists with another mode or is behind a link.

    Anything but a regular file (a FIFO, a device, a terminal) is opened unchanged. Windows has no such modes.

    Raises:
        OSError: The file cannot be opened, or belongs to another user, who could read what is written to it.
    """
    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)
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
