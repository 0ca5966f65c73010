"""A program that restricts itself and then becomes the server: the process keeps its id, its group and its exit status.

It runs in an interpreter of its own, because a restricted process can never be unrestricted again, and code between fork and exec
must not take locks.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import sys
from typing import Any, Final, NoReturn

assert sys.platform == "linux"  # no other system imports this

from py_landlock import AccessFs, Landlock, LandlockError

from twopipes._process.sandbox.socket_filter import deny_sockets

# What a shell reports for a command that cannot be executed.
_FAILED: Final = 126
_READ_FILE: Final = AccessFs.EXECUTE | AccessFs.READ_FILE
_WRITE_FILE: Final = _READ_FILE | AccessFs.WRITE_FILE | AccessFs.TRUNCATE
_READ: Final = _READ_FILE | AccessFs.READ_DIR
_MAKE: Final = AccessFs.MAKE_DIR | AccessFs.MAKE_FIFO | AccessFs.MAKE_REG | AccessFs.MAKE_SOCK | AccessFs.MAKE_SYM
_WRITE: Final = _READ | _WRITE_FILE | _MAKE | AccessFs.REFER | AccessFs.REMOVE_DIR | AccessFs.REMOVE_FILE
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Landlock itself keeps one process from reading the memory and the environment of another.
_ALWAYS_READABLE: Final = ("/proc",)
_PR_CAPBSET_DROP: Final = 24
_MAX_CAPABILITY: Final = 63


def main(descriptor: int) -> NoReturn:
    """Read the policy and the command from a descriptor, and run the command."""
    try:
        with open(descriptor, "rb") as file:
            policy, argv = json.load(file)
        restrict(policy)
        os.execv(argv[0], argv)  # noqa: S606 - the command of the user
    except (LandlockError, OSError) as error:
        sys.stderr.write(f"Error: the sandbox could not be set up: {error}\n")
        sys.exit(_FAILED)


def restrict(policy: dict[str, Any]) -> None:
    """Restrict this process and all that it will start. There is no way back."""
    rules = Landlock()
    for path in (*policy["read"], *_ALWAYS_READABLE):
        rules.add_path_rule(path, access=_READ if os.path.isdir(path) else _READ_FILE)
    for path in policy["write"]:
        rules.add_path_rule(path, access=_WRITE if os.path.isdir(path) else _WRITE_FILE)
    for path in filter(_is_device, _DEVICES):
        rules.add_path_rule(path, access=AccessFs.READ_FILE | AccessFs.WRITE_FILE)
    if policy["network"]:
        rules.allow_all_network()
    _drop_capabilities()
    rules.apply()
    deny_sockets(except_internet=policy["network"])


def _is_device(path: str) -> bool:
    return os.path.exists(path) and stat.S_ISCHR(os.stat(path).st_mode)


def _drop_capabilities() -> None:
    """Keep a server of root from getting its capabilities: with them it could change the kernel. Other users have none."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in range(_MAX_CAPABILITY + 1):
        prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
