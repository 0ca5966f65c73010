"""The default key that seals ``requestState``: one per user, which outlives the process.

In the modern era a client sends its answers back in a sealed state. With a random key per process, a restart between a question and
its answer would lose what the user typed. So the key is a file in the user's state folder that only the user can read. It is made
when the first question needs it: most servers never ask, and touch no file.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from twopipes._server.log import logger
from twopipes._session.state_token import StateSealer

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE: Final = "TWOPIPES_STATE_KEY"
_KEY_BYTES: Final = 32
_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700


def default_sealer(name: str) -> StateSealer:
    """Return the sealer for the server called ``name``, with the key of the environment, or else the user's."""
    given = os.environ.get(VARIABLE)
    return StateSealer(os.fsencode(given) if given else functools.partial(_key_for, name))


def _key_for(name: str) -> bytes | None:
    """Return the user's key for one server; another server of the same user cannot use its states (MR-16)."""
    try:
        # The key comes first and has a fixed length, so that different pairs of key and name cannot be equal.
        return _user_key(key_path()) + name.encode("utf-8", "backslashreplace")
    except (OSError, RuntimeError) as error:
        logger.warning(
            "Warning: the key for answers that outlive this process cannot be stored (%s). After a restart, users will be asked "
            "again. Set %s to at least 16 secret characters to avoid this",
            error,
            VARIABLE,
        )
        return None


def key_path() -> Path:
    """Return the path of the user's key."""
    from pathlib import Path  # most servers never ask

    from twopipes._process.user_files import state_path  # likewise

    return Path(state_path()) / "state.key"


def _user_key(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        return _read(path)
    path.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE_FOLDER)
    _make(path)
    return _read(path)  # ours, or that of a process which was faster


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if sys.platform != "win32" and (status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077):
            raise PermissionError(f"{path} belongs to another user or can be read by others; remove it")
        key = file.read(_KEY_BYTES + 1)
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} is damaged; remove it")
    return key


def _make(path: Path) -> None:
    """Write a new key atomically, unless there is one already."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(_KEY_BYTES))
        with suppress(FileExistsError):
            if sys.platform == "win32":
                draft.rename(path)  # on Windows this does not replace a file
            else:
                path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
