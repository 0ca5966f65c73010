"""The environment of a child: by default only what nearly every program needs, and no secrets.

Our environment holds every token the user has set up, and a server is a third-party program. So a child gets only the variables
that programs need to find their files and the user's language. Callers that need more name it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Literal

from twopipes.errors import LocalProtocolError

EnvironmentPolicy = Literal["minimal", "inherit", "explicit"]

# User, paths and locale: without these, wrappers such as npx and uv find neither their programs nor their caches, and a server
# writes its text in the wrong encoding. Proxies are left out: their URLs may contain passwords.
SAFE_ON_POSIX = {
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    *("LANG", "LANGUAGE"),
    # Without these, a user who moved the folders would get a second set in the default place.
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"),
}
SAFE_PREFIX_ON_POSIX = "LC_"
# Without SYSTEMROOT, a Windows process gets neither sockets nor random numbers.
SAFE_ON_WINDOWS = {
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "TEMP", "TMP", "USERDOMAIN", "USERNAME", "USERPROFILE"),
    *("ALLUSERSPROFILE", "COMMONPROGRAMFILES", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PUBLIC"),
    *("COMSPEC", "PATH", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "WINDIR"),
    *("NUMBER_OF_PROCESSORS", "OS", "PROCESSOR_ARCHITECTURE"),
}
# A value that begins like this is a function exported by a shell. Another shell would execute it.
SHELL_FUNCTION = "()"


def environment_of(
    policy: EnvironmentPolicy,
    given: Mapping[str, str],
    *,
    ours: Mapping[str, str] | None = None,
    windows: bool = sys.platform == "win32",
) -> dict[str, str]:
    """Return the complete environment of a child.

    Args:
        policy: The base: the safe part of ours (``minimal``), all of ours (``inherit``) or nothing (``explicit``).
        given: Variables added to the base.
        ours: Our own environment; ``os.environ`` by default.
        windows: Whether names are case-insensitive.
    """
    ours = os.environ if ours is None else ours
    if policy == "explicit":
        found = {}
    elif policy == "inherit":
        found = dict(ours)
    else:
        safe = {name for name in ours if name.upper() in SAFE_ON_WINDOWS} if windows else SAFE_ON_POSIX
        found = {
            name: value
            for name, value in ours.items()
            if (name in safe or (name.startswith(SAFE_PREFIX_ON_POSIX) and not windows)) and not value.startswith(SHELL_FUNCTION)
        }
    if not windows:
        return found | dict(given)
    # Two spellings of one name would both be passed on, and the system would pick one.
    return {name.upper(): value for name, value in [*found.items(), *given.items()]}


def check_environment(given: Mapping[Any, Any]) -> None:
    """Raise ``LocalProtocolError`` for an environment that no system can pass on. The message never contains a value."""
    for name, value in given.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise LocalProtocolError(
                f"{str(name).partition('=')[0]!r} is not a valid name of an environment variable: it must be a non-empty string "
                "without '=' and NUL"
            )
        if not isinstance(value, str):
            raise LocalProtocolError(
                f"the environment variable {name} must be a string, not {type(value).__name__}; convert it with str(...)"
            )
        if "\0" in value:
            raise LocalProtocolError(
                f"the value of the environment variable {name} contains a NUL byte, which no system can pass on"
            )
