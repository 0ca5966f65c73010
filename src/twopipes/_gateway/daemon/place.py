"""Where the processes that keep servers listen: a private folder of the user with one socket for each of them."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress

from twopipes._process.user_files import state_path
from twopipes._version import __version__

# The version of the messages between the relay and the daemon (messages.py).
PROTOCOL = 1
SUFFIX = ".sock"
# In the name of the socket of one process, before its number.
OWN = "-p"
# Characters of the machine's name. A Unix socket's path is limited to about 100 bytes.
_MAX_NODE = 16


def folder_path() -> str:
    """Return the folder of the sockets. Raises ``RuntimeError`` if the home folder is unknown."""
    return os.path.join(state_path(), "share")


def socket_path() -> str:
    """Return the socket of the daemon of this version.

    After an upgrade the relays start a new daemon, and the old one serves its sessions to their end. The name of the machine is
    part of it, because several machines may share a home folder.
    """
    return os.path.join(folder_path(), f"{PROTOCOL}-{__version__}{_ending()}")


def own_socket_path() -> str:
    """Return the socket of this process, if it keeps a server for its own host."""
    return os.path.join(folder_path(), f"{PROTOCOL}{OWN}{os.getpid()}{_ending()}")


def remove_dead_sockets(folder: str) -> None:
    """Remove the sockets of processes that were killed while they kept a server for their own host."""
    for name in os.listdir(folder):
        pid = name.removesuffix(_ending()).partition(OWN)[2]
        if name.endswith(_ending()) and pid.isdecimal() and not _exists(int(pid)):
            with suppress(OSError):  # another process does the same
                os.unlink(os.path.join(folder, name))


if sys.platform == "win32":

    def _exists(pid: int) -> bool:
        import _winapi  # exists on Windows only

        try:
            handle = _winapi.OpenProcess(_winapi.SYNCHRONIZE, False, pid)
        except PermissionError:
            return True  # of another user; the number was reused
        except OSError:
            return False
        try:  # a process that has exited can be opened as long as another process holds a handle of it
            return _winapi.WaitForSingleObject(handle, 0) == _winapi.WAIT_TIMEOUT
        finally:
            _winapi.CloseHandle(handle)

else:

    def _exists(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass  # of another user; the number was reused
        return True


def socket_paths() -> list[str]:
    """Return the sockets of all processes of this user on this machine: also of other versions, and of dead ones."""
    folder = folder_path()
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    check_folder(folder)
    return [os.path.join(folder, name) for name in sorted(names) if name.endswith(_ending())]


def make_folder() -> str:
    """Create the folder, private to this user, and return it. Raises ``OSError`` if others could use it."""
    folder = folder_path()
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    else:
        os.chmod(folder, 0o700)  # the umask may have removed our own permissions
    check_folder(folder)
    return folder


def check_folder(folder: str) -> None:
    """Raise ``OSError`` unless the folder belongs to this user and only this user can open it.

    On Windows the folder of a user's local data is private, and it has no modes.
    """
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "this is not a folder; remove it", folder)
    if sys.platform != "win32":
        if found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the folder belongs to another user; remove it", folder)
        if found.st_mode & 0o077:
            raise PermissionError(errno.EPERM, f"other users can open the folder; run: chmod 700 {folder}", folder)


def _ending() -> str:
    if sys.platform == "win32":
        name = os.environ.get("COMPUTERNAME", "")  # the folder belongs to one machine in any case
    else:
        name = os.uname().nodename
    node = "".join(each if each.isalnum() else "-" for each in name[:_MAX_NODE])
    return f"-{node}{SUFFIX}"
