"""What a child learns of our environment unless it is told otherwise: where things are, and no secrets.

An environment holds the tokens of everything the user ever set up, and a server is somebody else's program. So a child gets
only what nearly every program needs in order to find its files and speak the user's language. Whoever wants more names it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Literal

from twopipes.errors import LocalProtocolError

__all__ = ["EnvironmentPolicy", "check_environment", "environment_of"]

EnvironmentPolicy = Literal["minimal", "inherit", "explicit"]

# Who the user is, where programs and files are, and how to speak: without these, wrappers such as npx and uv find neither their
# programs nor their caches, and a server writes its text in the wrong encoding. Proxies are left out: their URLs hold passwords.
SAFE_ON_POSIX = frozenset(
    {
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        # A user who moved these folders does not want a second set in the old place.
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    }
)
SAFE_PREFIX_ON_POSIX = "LC_"
# Without SYSTEMROOT, Windows gives a process neither sockets nor random numbers.
SAFE_ON_WINDOWS = frozenset(
    {
        "ALLUSERSPROFILE",
        "APPDATA",
        "COMMONPROGRAMFILES",
        "COMSPEC",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "NUMBER_OF_PROCESSORS",
        "OS",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "PROGRAMFILES(X86)",
        "PUBLIC",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "USERDOMAIN",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
    }
)
# A value that begins so is a function that a shell exported. Another shell would run what it reads there.
SHELL_FUNCTION = "()"


def is_safe(name: str, value: str, *, windows: bool = sys.platform == "win32") -> bool:
    """Whether a variable of ours goes to every child."""
    if value.startswith(SHELL_FUNCTION):
        return False
    if windows:
        return name.upper() in SAFE_ON_WINDOWS
    return name in SAFE_ON_POSIX or name.startswith(SAFE_PREFIX_ON_POSIX)


def environment_of(
    policy: EnvironmentPolicy,
    given: Mapping[str, str],
    *,
    ours: Mapping[str, str] | None = None,
    windows: bool = sys.platform == "win32",
) -> dict[str, str]:
    """Return the whole environment of a child.

    Args:
        policy: What lies underneath: the safe part of ours (``minimal``), all of ours (``inherit``), nothing (``explicit``).
        given: Laid over it.
        ours: Our own environment, ``os.environ`` unless given.
        windows: Whether names are the same in any case.
    """
    ours = os.environ if ours is None else ours
    if policy == "explicit":
        found = {}
    elif policy == "inherit":
        found = dict(ours)
    else:
        found = {name: value for name, value in ours.items() if is_safe(name, value, windows=windows)}
    if not windows:
        return found | dict(given)
    # Two spellings of one name would both be handed over, and the system would pick one.
    return {name.upper(): value for name, value in found.items()} | {name.upper(): value for name, value in given.items()}


def check_environment(given: Mapping[Any, Any]) -> None:
    """Refuse what no system can hand over. The message never holds a value.

    Raises:
        LocalProtocolError: A name or a value is not a string, or holds what cannot stand there.
    """
    for name, value in given.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise LocalProtocolError(
                f"{str(name).partition('=')[0]!r} cannot be the name of an environment variable: it must be a string, "
                "not empty, without '=' and NUL"
            )
        if not isinstance(value, str):
            raise LocalProtocolError(
                f"the environment variable {name} must be a string, not {type(value).__name__}; write str(...) around its value"
            )
        if "\0" in value:
            raise LocalProtocolError(
                f"the value of the environment variable {name} holds a NUL byte, which no system can hand over"
            )
