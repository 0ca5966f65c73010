"""The folder for a user's state files, which are neither documents nor settings."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # type checkers treat it as true; `twopipes tap` imports this module and does not need pathlib
if TYPE_CHECKING:
    from pathlib import Path


def state_folder() -> Path:
    """Return the folder of twopipes in the user's state folder. It may not exist yet.

    Raises:
        RuntimeError: The home folder of this user is unknown.
    """
    from pathlib import Path  # noqa: PLC0415 - see above

    return Path(state_path())


def state_path() -> str:
    """Return the folder of :func:`state_folder` as a string.

    Raises:
        RuntimeError: The home folder of this user is unknown.
    """
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
