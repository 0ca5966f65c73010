"""Open files below a folder, and never one outside of it, whatever changes in the folder meanwhile (RS-08).

A path that is checked first and opened later can be swapped in between. On POSIX systems every step of a path is therefore opened
relative to the step before it, without following links; a link is read and its target is walked in the same way, from the top. On
Windows the file is opened first, and the system is then asked where the open file really is.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

# Links, and ".." in links, on one path. Linux allows 40 links.
_MAX_LINKS = 40
# Steps of one path; no file system allows many more.
_MAX_STEPS = 2048


class Opened(NamedTuple):
    """A file or folder that is open, by its descriptor; for a folder on Windows, which has none, by its path."""

    handle: int | str
    status: os.stat_result

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file: not a pipe or a device, which could be read endlessly."""
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.status.st_mode)


@contextmanager
def open_beneath(root: str, parts: Sequence[str], *, spellings: Sequence[str] = ()) -> Iterator[Opened]:
    """Open a file or folder below another one, and close it at the end.

    ``root`` is an absolute path without links; ``parts`` are names. A link to one of the ``spellings`` of the root leads inside.
    Raises OSError if there is no such file, it cannot be opened, or its path leads out of the folder.
    """
    handle = _open(root, list(parts), (root, *spellings))
    try:
        yield Opened(handle, os.stat(handle))
    finally:
        if isinstance(handle, int):
            os.close(handle)


if sys.platform != "win32":
    # O_PATH, where it exists: the folders on the path need not be readable.
    _STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    # Non-blocking, because opening a pipe would wait for a writer.
    _LAST = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    # The errors of opening a link with O_NOFOLLOW: as a folder, on most systems, on FreeBSD.
    _MAY_BE_LINK = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)

    def _open(root: str, parts: list[str], spellings: Sequence[str]) -> int | str:
        for _ in range(_MAX_LINKS):
            if len(parts) > _MAX_STEPS:
                break
            found = _walk(root, parts)
            if isinstance(found, int):
                return found
            position, target = found
            parts = [*_follow(parts[:position], target, spellings), *parts[position + 1 :]]
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def _walk(root: str, parts: list[str]) -> int | tuple[int, str]:
        """Open the end of a path, or return the position and the target of the first link on it."""
        here = os.open(root, (_STEP if parts else _LAST | os.O_DIRECTORY))
        is_open = False
        try:
            for position, name in enumerate(parts):
                if name == "..":
                    return position, name
                is_last = position == len(parts) - 1
                try:
                    following = os.open(name, _LAST if is_last else _STEP, dir_fd=here)
                except OSError as error:
                    if error.errno not in _MAY_BE_LINK:
                        raise
                    return position, _target(name, here, error)
                os.close(here)
                here = following
            is_open = True
            return here
        finally:
            if not is_open:
                os.close(here)

    def _target(name: str, folder: int, error: OSError) -> str:
        try:
            return os.readlink(name, dir_fd=folder)
        except OSError:
            raise error from None  # it is not a link, so the first error is the right one

    def _follow(before: list[str], target: str, spellings: Sequence[str]) -> list[str]:
        """Return the path to the target of a link; ``before`` is the path of the folder that contains the link."""
        if target.startswith("/"):
            root = next((each for each in spellings if target == each or target.startswith(each.rstrip("/") + "/")), None)
            if root is None:
                raise OSError(errno.EXDEV, "the link leads out of the folder")
            before, target = [], target[len(root) :]
        parts = [part for part in target.split("/") if part not in {"", "."}]
        # The path before contains no link, so ".." simply removes its last name.
        while parts and parts[0] == "..":
            if not before:
                raise OSError(errno.EXDEV, "the link leads out of the folder")
            before, parts = before[:-1], parts[1:]
        return [*before, *parts]

else:  # pragma: no cover - there is no such system in the tests
    import ctypes
    import msvcrt
    from ctypes import wintypes

    _LONGEST = 32_768  # characters of a path

    def _open(root: str, parts: list[str], spellings: Sequence[str]) -> int | str:
        if any(":" in part for part in parts):
            raise FileNotFoundError(errno.ENOENT, "a stream or a drive is not a file of the folder")
        path = os.path.join(root, *parts)
        if os.path.isdir(path):
            # A folder has no descriptor here. Only names are read from it.
            _check(os.path.realpath(path, strict=True), spellings)
            return path
        opened = os.open(path, os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT)
        try:
            _check(_path_of(opened), spellings)
        except BaseException:
            os.close(opened)
            raise
        return opened

    def _path_of(descriptor: int) -> str:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        name = kernel.GetFinalPathNameByHandleW
        name.argtypes = (wintypes.HANDLE, wintypes.LPWSTR, wintypes.DWORD, wintypes.DWORD)
        name.restype = wintypes.DWORD
        buffer = ctypes.create_unicode_buffer(_LONGEST)
        if not 0 < name(msvcrt.get_osfhandle(descriptor), buffer, _LONGEST, 0) < _LONGEST:
            raise ctypes.WinError(ctypes.get_last_error())
        return buffer.value.removeprefix("\\\\?\\")

    def _check(path: str, spellings: Sequence[str]) -> None:
        found = os.path.normcase(path.removeprefix("\\\\?\\"))
        inside = (os.path.normcase(each.removeprefix("\\\\?\\")).rstrip("\\") for each in spellings)
        if not any(found == each or found.startswith(each + "\\") for each in inside):
            raise FileNotFoundError(errno.ENOENT, "the path leads out of the folder")
