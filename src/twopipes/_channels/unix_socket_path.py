"""Bind a listening Unix socket to its path: private from the start, replacing a dead socket but never a live one.

``bind`` creates the file with the mode that the umask allows. Changing the umask would affect every thread of the process;
changing the mode afterwards leaves a moment in which others may connect; changing the mode of the unbound socket works only on
Linux. So the socket is created in a folder with mode 0700, gets its mode there, and is already listening when a hard link makes
it visible under its name. The link fails if the name is taken, so nothing is ever replaced by accident.

Replacing a dead socket takes several steps: look at it, try it, remove it, create the new one. Servers that do this at the same
time, and one that removes its own file while closing, exclude each other by a lock on the folder.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from twopipes.errors import ListenFailed

# How often to try again if programs that do not use the lock create or remove the name at the same time.
ATTEMPTS = 5
# Seconds. The lock is held for a few system calls only; after this time something is wrong.
PATIENCE = 5.0
_RETRY_AFTER = 0.005


class Placed(NamedTuple):
    """A socket file that was created here: its path, and its identity."""

    path: Path
    device: int
    inode: int

    def remove(self) -> None:
        """Remove the file, unless it is gone or another server has created its own there."""
        try:
            with _locked(self.path.parent):
                found = self.path.lstat()
                if (found.st_dev, found.st_ino) == (self.device, self.inode):
                    self.path.unlink()
        except OSError:
            # Gone or not accessible. Closing must not fail because of it: the next server replaces the dead socket.
            pass


def bind_privately(sock: socket.socket, path: str, *, backlog: int) -> Placed:
    """Bind ``sock`` so that it appears at ``path``, listening, with mode 0600. Raises ``ListenFailed`` if the path is in use."""
    place = Path(path)
    private = place.with_name(f".{os.urandom(3).hex()}")
    private.mkdir(mode=0o700)
    inside, aside = private / "s", private / "dead"
    try:
        # The umask may have removed even our own permissions.
        private.chmod(0o700)
        sock.bind(str(inside))
        inside.chmod(0o600)
        sock.listen(backlog)
        made = inside.lstat()
        with _locked(place.parent):
            for _ in range(ATTEMPTS):
                try:
                    os.link(inside, place)
                except FileExistsError:
                    _set_dead_socket_aside(place, aside, sock.family)
                else:
                    return Placed(place, made.st_dev, made.st_ino)
        raise ListenFailed(f"cannot listen on unix:{place}: several servers are starting on that path; try again")
    finally:
        for leftover in (inside, aside):
            leftover.unlink(missing_ok=True)
        private.rmdir()


def _set_dead_socket_aside(place: Path, aside: Path, family: int) -> None:
    """Move the socket of a dead server at ``place`` out of the way, or raise with the reason why that is not possible."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ListenFailed(
            f"cannot listen on unix:{place}: a file that is not a socket is in the way. Remove it, or choose another path"
        )
    if _is_live(place, family):
        raise ListenFailed(f"cannot listen on unix:{place}: another server is listening there. Stop it, or choose another path")
    # A program that does not use the lock may have created a live socket there since we looked: then it is restored.
    try:
        place.rename(aside)
    except FileNotFoundError:
        return
    moved = aside.lstat()
    if (moved.st_dev, moved.st_ino) != (found.st_dev, found.st_ino):
        os.link(aside, place)
        raise ListenFailed(f"cannot listen on unix:{place}: another server has just started there")


if sys.platform != "win32":
    import fcntl

    @contextmanager
    def _locked(folder: Path) -> Iterator[None]:
        """Exclude other servers that create or remove a socket in a folder. A lock on the folder leaves no file behind."""
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise OSError(errno.EWOULDBLOCK, f"another process holds the lock on the folder {folder}") from None
                _pause()
            try:
                yield
            finally:
                # Closing is not enough: a process that was forked meanwhile has the descriptor as well.
                fcntl.flock(opened, fcntl.LOCK_UN)
        finally:
            os.close(opened)

else:  # pragma: no cover - there are no Unix sockets

    def _locked(_folder: Path) -> AbstractContextManager[None]:
        return nullcontext()


def _pause() -> None:
    time.sleep(_RETRY_AFTER)


def _is_live(place: Path, family: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(place))
        except OSError as error:
            # Only a refused connection shows that there is no server. A full queue (EAGAIN) or a missing permission does not.
            return error.errno not in {errno.ECONNREFUSED, errno.ENOENT}
    return True
