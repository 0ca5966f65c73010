"""The file of a trace: taken from nobody, readable by its owner, and made of whole lines even when the disk is full."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable
from contextlib import suppress

from twopipes._process.private_file import open_private

__all__ = ["TraceFile"]

_FLAGS = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
# Milliseconds between two looks whether a reader that sleeps is still waited for.
_LOOK = 100
# How many earlier recordings of one name are kept beside it before somebody is asked to tidy up.
_NUMBERS = 10_000


class TraceFile:
    """A file to append whole lines to.

    A file that is there already is the recording of somebody else, who may still be writing: it is moved out of the way, as
    ``x-1.jsonl``, and goes on under that name. What is no regular file (a FIFO, a device) is written to as it is.

    Args:
        path: Where.
        is_given_up: Asked now and then while a reader on the other side of a FIFO takes nothing.

    Attributes:
        path: Where it is. The numbered name, where the system lets nobody move an open file.
        error: Why the last write was not complete.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: str, *, is_given_up: Callable[[], bool] = lambda: False) -> None:
        self.error: OSError | None = None
        self.path, self._fd = _open(path)
        self._is_given_up = is_given_up
        self._is_regular = stat.S_ISREG(os.fstat(self._fd).st_mode)
        self._size = os.fstat(self._fd).st_size
        self._is_torn = False

    def write(self, data: bytes) -> int:
        """Appends lines.

        Returns:
            How many bytes of them are in the file now: all, or so many that the last of them ends a line. Then :attr:`error` says
            why.
        """
        self.error = None
        try:
            if self._is_torn:
                self._write_all(memoryview(b"\n"))
                self._is_torn = False
        except OSError as error:
            self.error = error
            return 0
        view = memoryview(data)
        written = 0
        try:
            while written < len(view):
                written += self._write_some(view[written:])
        except OSError as error:
            self.error = error
            whole = data.rfind(b"\n", 0, written) + 1
            if whole < written:
                self._mend(whole)
            written = whole
        self._size += written
        return written

    def close(self) -> None:
        """Closes it."""
        with suppress(OSError):  # a disk on the other side of a network may only now say that it is full
            os.close(self._fd)

    def _mend(self, whole: int) -> None:
        """Takes back the torn line at the end."""
        self._is_torn = True
        if self._is_regular:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size + whole)
                self._is_torn = False

    def _write_all(self, view: memoryview) -> None:
        while view:
            size = self._write_some(view)
            self._size += size
            view = view[size:]

    def _write_some(self, view: memoryview) -> int:
        while True:
            try:
                return os.write(self._fd, view)
            except BlockingIOError:
                if self._is_given_up():
                    raise
            if sys.platform != "win32":  # nothing is opened there so that it would not wait by itself
                poll = select.poll()
                poll.register(self._fd, select.POLLOUT)
                poll.poll(_LOOK)


def _open(path: str, *, windows: bool = sys.platform == "win32") -> tuple[str, int]:
    while True:
        try:
            return path, os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if not _is_regular(path):
                # A link is followed: /dev/stdout is one.
                return path, open_private(path, _FLAGS)
        numbered, fd = _number(path)
        try:
            os.replace(path, numbered)
        except FileNotFoundError:
            # Somebody else has moved it in the meantime.
            os.close(fd)
            os.unlink(numbered)
        except OSError:
            if windows:
                return numbered, fd  # whoever has it open keeps the name
            os.close(fd)
            os.unlink(numbered)
            raise
        else:
            os.close(fd)


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True  # gone again: the next look will tell


def _number(path: str) -> tuple[str, int]:
    """A free name beside it, reserved."""
    stem, ending = os.path.splitext(path)
    for number in range(1, _NUMBERS):
        numbered = f"{stem}-{number}{ending}"
        with suppress(FileExistsError):
            return numbered, os.open(numbered, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    raise FileExistsError(f"there are {_NUMBERS} recordings beside it already; move some away")
