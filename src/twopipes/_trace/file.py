"""The file of a trace: private to its owner, never overwrites another recording, has whole lines even on a full disk."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable
from contextlib import suppress

from twopipes._process.user_files import open_private

_FLAGS = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
# Milliseconds between two checks whether to give up a slow reader of a FIFO.
_POLL_INTERVAL = 100
# The most earlier recordings of one name that are kept.
_MAX_NUMBER = 10_000


class TraceFile:
    """A file to append whole lines to.

    An existing file is another recording, which may still be written to. It is renamed to ``x-1.jsonl`` and continues under
    that name. If the path is not a regular file (a FIFO, a device), it is opened as it is. ``is_given_up`` is called now and then
    while the reader of a FIFO does not read.

    Attributes:
        path: The path. On Windows, where an open file cannot be renamed, it may be the numbered name.
        error: Why the last write was not complete.
    """

    def __init__(self, path: str, *, is_given_up: Callable[[], bool] = lambda: False) -> None:
        self.error: OSError | None = None
        self.path, self._fd = _open(path)
        self._is_given_up = is_given_up
        self._is_regular = stat.S_ISREG(os.fstat(self._fd).st_mode)
        self._size = os.fstat(self._fd).st_size
        self._is_torn = False

    def write(self, data: bytes) -> int:
        """Append lines. Return the number of bytes written: all, or up to the end of a line and :attr:`error` has the reason."""
        self.error = None
        try:
            if self._is_torn:
                self._size += self._write_some(memoryview(b"\n"))
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
                self._remove_torn_line(whole)
            written = whole
        self._size += written
        return written

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # a network disk may report only now that it is full
            os.close(self._fd)

    def _remove_torn_line(self, whole: int) -> None:
        """Truncate the incomplete line at the end."""
        self._is_torn = True
        if self._is_regular:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size + whole)
                self._is_torn = False

    def _write_some(self, view: memoryview) -> int:
        while True:
            try:
                return os.write(self._fd, view)
            except BlockingIOError:
                if self._is_given_up():
                    raise
            if sys.platform != "win32":  # there is no O_NONBLOCK on Windows
                poll = select.poll()
                poll.register(self._fd, select.POLLOUT)
                poll.poll(_POLL_INTERVAL)


def _open(path: str, *, windows: bool = sys.platform == "win32") -> tuple[str, int]:
    while True:
        try:
            return path, os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if not _is_regular(path):
                # A link is followed: /dev/stdout is one.
                return path, open_private(path, _FLAGS)
        numbered = _reserve_number(path)
        try:
            os.replace(path, numbered)
        except OSError as error:
            if windows and not isinstance(error, FileNotFoundError):
                return numbered, os.open(numbered, _FLAGS)  # another process has the file open
            os.unlink(numbered)
            # If it does not exist any more, another process has renamed it in the meantime.
            if not isinstance(error, FileNotFoundError):
                raise


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True  # removed in the meantime: try to create it again


def _reserve_number(path: str) -> str:
    """Create an empty file with the next free number and return its path. It is closed: Windows replaces no open file."""
    stem, ending = os.path.splitext(path)
    for number in range(1, _MAX_NUMBER):
        numbered = f"{stem}-{number}{ending}"
        with suppress(FileExistsError):
            os.close(os.open(numbered, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600))
            return numbered
    raise FileExistsError(f"there are already {_MAX_NUMBER} recordings of {path}; move some away")
