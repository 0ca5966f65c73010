"""Where a user's programs keep what should outlive them, and is neither a document nor a setting."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in twopipes/__init__.py: a tap asks for this at its start, and needs no pathlib
if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["state_folder", "state_path"]


def state_folder() -> Path:
    """The folder of twopipes below the user's state folder. Whether it is there is another question.

    Raises:
        RuntimeError: Nobody knows where this user is at home.
    """
    from pathlib import Path  # noqa: PLC0415 - see above

    return Path(state_path())


def state_path() -> str:
    """The same as a string.

    Raises:
        RuntimeError: Nobody knows where this user is at home.
    """
    if sys.platform == "win32":
        folder = os.environ.get("LOCALAPPDATA") or os.path.join(_home(), "AppData", "Local")
    else:
        folder = os.environ.get("XDG_STATE_HOME", "")
        # A relative one is to be ignored, says the standard that the variable comes from.
        if not os.path.isabs(folder):
            folder = os.path.join(_home(), ".local", "state")
    return os.path.join(folder, "twopipes")


def _home() -> str:
    home = os.path.expanduser("~")
    if home == "~":
        raise RuntimeError("nobody knows where this user is at home")
    return home
