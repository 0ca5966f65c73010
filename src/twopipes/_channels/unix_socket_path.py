"""Putting a listening Unix socket at its path: private from its first moment, over a dead one, never over a live one.

``bind`` creates the file with whatever mode the umask leaves. Changing the umask would change it for every thread of the
process; changing the mode afterwards leaves a moment in which others may connect; changing the mode of the unbound socket
works on Linux alone. So the socket is made in a folder of mode 0700 that nobody else can look into, gets its mode there, and
already listens when a hard link shows it under its name. The link fails if the name is taken, so nothing is ever replaced
by accident.

To replace a dead socket takes several steps: look at it, try it, remove it, put the new one there. Servers that do this at the
same time, and one that is closing and removes its own file, take turns by a lock on the folder.
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

__all__ = ["Placed", "bind_privately"]

# How often to try again when a name that was free is taken, or the other way round, because of programs that take no lock.
ATTEMPTS = 5
# Seconds. Who has the lock needs it for a few system calls; after this time something is wrong with it.
PATIENCE = 5.0
_LOOK_AGAIN = 0.005


class Placed(NamedTuple):
    """A socket file that was made here: its path, and what tells it from another file at the same path."""

    path: Path
    device: int
    inode: int

    def remove(self) -> None:
        """Remove the file, unless it is gone or another server has put its own there."""
        try:
            with _locked(self.path.parent):
                found = self.path.lstat()
                if (found.st_dev, found.st_ino) == (self.device, self.inode):
                    self.path.unlink()
        except OSError:
            # Gone, or out of reach. Closing must not fail for it: the next server finds a dead socket and replaces it.
            pass


def bind_privately(sock: socket.socket, path: str, *, backlog: int) -> Placed:
    """Bind ``sock`` so that it appears at ``path``, listening, with mode 0600.

    Raises:
        ListenFailed: A live socket or another file is at that path.
        OSError: The folder does not exist or cannot be written to.
    """
    place = Path(path)
    private = place.with_name(f".{os.urandom(3).hex()}")
    private.mkdir(mode=0o700)
    inside, aside = private / "s", private / "dead"
    try:
        # The umask may have left even less than that, and we have to get in ourselves.
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
        raise ListenFailed(f"cannot listen on unix:{place}: several servers are being started on that path")
    finally:
        for leftover in (inside, aside):
            leftover.unlink(missing_ok=True)
        private.rmdir()


def _set_dead_socket_aside(place: Path, aside: Path, family: int) -> None:
    """Move the socket that a dead server left at ``place`` out of the way, or say why that cannot be done."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ListenFailed(
            f"cannot listen on unix:{place}: there is a file that is not a socket. Remove it yourself, or choose another path"
        )
    if _is_live(place, family):
        raise ListenFailed(f"cannot listen on unix:{place}: a server is listening there already. Stop it, or choose another path")
    # A program that takes no lock may have put a live socket there since we looked: then it is put back.
    try:
        place.rename(aside)
    except FileNotFoundError:
        return
    moved = aside.lstat()
    if (moved.st_dev, moved.st_ino) != (found.st_dev, found.st_ino):
        os.link(aside, place)
        raise ListenFailed(f"cannot listen on unix:{place}: another server has just been started there")


if sys.platform != "win32":
    import fcntl

    @contextmanager
    def _locked(folder: Path) -> Iterator[None]:
        """Excludes other servers that put a socket into a folder, or remove one. A lock on the folder leaves no file behind.

        Raises:
            OSError: The folder cannot be opened or locked, or another process has kept the lock for too long.
        """
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise OSError(errno.EWOULDBLOCK, f"another process keeps the folder {folder} locked") from None
                _pause()
            try:
                yield
            finally:
                # Not by closing alone: a process that was forked meanwhile has the descriptor as well.
                fcntl.flock(opened, fcntl.LOCK_UN)
        finally:
            os.close(opened)

else:  # pragma: no cover - there are no Unix sockets

    def _locked(_folder: Path) -> AbstractContextManager[None]:
        return nullcontext()


def _pause() -> None:
    time.sleep(_LOOK_AGAIN)


def _is_live(place: Path, family: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(place))
        except OSError as error:
            # Only a refusal shows that nobody is behind it. A full queue (EAGAIN) or a missing permission does not.
            return error.errno not in {errno.ECONNREFUSED, errno.ENOENT}
    return True
