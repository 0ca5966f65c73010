"""Read a configuration file of a host, and replace it atomically with a backup beside it."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from twopipes._host.files.values import Refused

_BOM = b"\xef\xbb\xbf"
# A new file can contain secrets, and the host runs as the same user.
_PRIVATE_MODE = 0o600


class HostFile(NamedTuple):
    """A file as it was read."""

    path: Path  # with symlinks resolved
    data: bytes | None  # None if the file does not exist
    text: str
    has_bom: bool  # begins with a byte order mark

    def encoded(self, text: str) -> bytes:
        """Encode a text as in this file."""
        return (_BOM if self.has_bom else b"") + text.encode()


def read_file(path: Path) -> HostFile:
    """Read the file at a path, whether it exists or not."""
    try:
        real = path.expanduser().resolve()
    except (OSError, RuntimeError) as error:  # a loop of symlinks
        raise Refused(f"{path} cannot be read: {error}") from error
    try:
        data = real.read_bytes()
    except FileNotFoundError:
        return HostFile(real, None, "", has_bom=False)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    has_bom = data.startswith(_BOM)
    try:
        return HostFile(real, data, data.removeprefix(_BOM).decode(), has_bom)
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is not UTF-8 text; save it as UTF-8 first. Nothing was changed") from error


def write_file(file: HostFile, text: str, *, shared: bool = False) -> Path | None:
    """Replace a file atomically and return the path of the backup; ``None`` if the file is new.

    Mode and owner are kept. A concurrent reader sees the old file or the new one.
    """
    path = file.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.data is not None and not os.access(path, os.W_OK):
            raise Refused(f"{path} is write-protected. Nothing was changed")
        status = path.stat() if file.data is not None else None
        temporary = _write_temporary(path, file.encoded(text), status, shared=shared)
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
        raise Refused(f"{error.filename or path} cannot be written: {error.strerror}. Nothing was changed") from error
    return backup


def _check_unchanged(file: HostFile) -> None:
    if read_file(file.path).data != file.data:
        raise Refused(f"{file.path} changed while it was being edited; quit the host and try again. Nothing was changed")


def _backup(path: Path, data: bytes, status: os.stat_result | None) -> Path:
    moment = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    number = 1
    while True:
        backup = path.with_name(f"{path.name}.backup-{moment}{'' if number == 1 else f'-{number}'}")
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_MODE)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        _copy_permissions(backup, status)
        return backup


def _write_temporary(path: Path, data: bytes, status: os.stat_result | None, *, shared: bool) -> Path:
    # In the same folder, because a rename is atomic only within one file system.
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
    _copy_permissions(temporary, status)
    return temporary


def _copy_permissions(path: Path, status: os.stat_result | None) -> None:
    if status is None:
        return
    path.chmod(stat.S_IMODE(status.st_mode))
    if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (path.stat().st_uid, path.stat().st_gid):
        with suppress(PermissionError):  # only root can change the owner; the group may work
            os.chown(path, status.st_uid, status.st_gid)
