"""A configuration file of somebody else: read as it is, and replaced as a whole, with what was there kept beside it."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from twopipes._tools.install.values import Refused

__all__ = ["HostFile", "read_file", "write_file"]

_MARK = b"\xef\xbb\xbf"
# A file that we make can hold secrets, and its host runs as the same user.
_FOR_THE_USER_ALONE = 0o600


class HostFile(NamedTuple):
    """A file as it was found."""

    path: Path  # links followed
    data: bytes | None  # None where there is none yet
    text: str
    has_mark: bool  # a byte order mark in front

    def encoded(self, text: str) -> bytes:
        """A text as this file has it."""
        return (_MARK if self.has_mark else b"") + text.encode()


def read_file(path: Path) -> HostFile:
    """The file behind a path, whether it is there yet or not.

    Raises:
        Refused: It cannot be read, or is no text.
    """
    try:
        real = path.expanduser().resolve()
    except (OSError, RuntimeError) as error:  # links that lead to themselves
        raise Refused(f"{path} cannot be read: {error}") from error
    try:
        data = real.read_bytes()
    except FileNotFoundError:
        return HostFile(real, None, "", has_mark=False)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    has_mark = data.startswith(_MARK)
    try:
        return HostFile(real, data, data.removeprefix(_MARK).decode(), has_mark)
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is no text in UTF-8, so that nothing was changed; save it as UTF-8 first") from error


def write_file(file: HostFile, text: str, *, shared: bool = False) -> Path | None:
    """Puts the text in the place of what was found, all at once, and returns where that is kept now.

    Mode and owner stay. Somebody who reads the file meanwhile sees the old one or the new one.

    Args:
        file: As it was read.
        text: What it is to say.
        shared: Whether a new file is for others as well, as one of a project is.

    Raises:
        Refused: It has changed since, or cannot be written. It is as it was.
    """
    path = file.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.data is not None and not os.access(path, os.W_OK):
            raise Refused(f"{path} is write-protected; nothing was changed")
        status = path.stat() if file.data is not None else None
        temporary = _written_beside(path, file.encoded(text), status, shared=shared)
        backup = None
        try:
            if file.data is not None:
                backup = _backup(path, file.data, status)
            _check_unchanged(file)
            temporary.replace(path)
        except BaseException:
            for left in (temporary, backup):
                if left is not None:
                    left.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Refused(f"{error.filename or path} cannot be written: {error.strerror}; nothing was changed") from error
    return backup


def _check_unchanged(file: HostFile) -> None:
    try:
        now = file.path.read_bytes()
    except FileNotFoundError:
        now = None
    if now != file.data:
        raise Refused(f"{file.path} has changed meanwhile; nothing was changed. Is its host running? Try again")


def _backup(path: Path, data: bytes, status: os.stat_result | None) -> Path:
    moment = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    number = 1
    while True:
        backup = path.with_name(f"{path.name}.backup-{moment}{'' if number == 1 else f'-{number}'}")
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FOR_THE_USER_ALONE)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        _as_before(backup, status)
        return backup


def _written_beside(path: Path, data: bytes, status: os.stat_result | None, *, shared: bool) -> Path:
    # In the same folder, because only within one file system a file can take the place of another at once.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    temporary = Path(name)
    if status is None and shared:
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
    _as_before(temporary, status)
    return temporary


def _as_before(path: Path, status: os.stat_result | None) -> None:
    if status is None:
        return
    path.chmod(stat.S_IMODE(status.st_mode))
    if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (path.stat().st_uid, path.stat().st_gid):
        with suppress(PermissionError):  # only root can give files away; a group of ours, we can
            os.chown(path, status.st_uid, status.st_gid)
