"""Where a user's programs keep what should outlive them, and is neither a document nor a setting."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["state_folder"]


def state_folder() -> Path:
    """The folder of twopipes below the user's state folder. Whether it is there is another question.

    Raises:
        RuntimeError: Nobody knows where this user is at home.
    """
    if sys.platform == "win32":
        given = os.environ.get("LOCALAPPDATA")
        folder = Path(given) if given else Path.home() / "AppData" / "Local"
    else:
        given = os.environ.get("XDG_STATE_HOME")
        # A relative one is to be ignored, says the standard that the variable comes from.
        folder = Path(given) if given and Path(given).is_absolute() else Path.home() / ".local" / "state"
    return folder / "twopipes"
