"""The options that put servers into a sandbox, for commands that start them for a host. It imports little: the host waits."""

from __future__ import annotations

import os

from twopipes._tools.usage import UsageError

TYPE_CHECKING = False  # importing typing would slow down the start
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SANDBOX_WITH_VALUE = ("--sandbox-read", "--sandbox-write")
SANDBOX_SWITCHES = ("--sandbox", "--sandbox-network")
SANDBOX_HELP = """\
  --sandbox          run the server in a sandbox: it can read its own program
                     and its working folder, and has no network; only on Linux
  --sandbox-read PATH
                     let it also read this file or folder; implies --sandbox
  --sandbox-write PATH
                     let it also change this file or folder; implies --sandbox
  --sandbox-network  let it use the network; implies --sandbox
"""


def sandbox_in(given: Mapping[str, Sequence[str]]) -> dict[str, Any] | None:
    """Return the arguments of ``Sandbox`` that the options stand for; ``None`` without any of them.

    Raises:
        UsageError: A path does not exist.
    """
    if not any(option in given for option in (*SANDBOX_SWITCHES, *SANDBOX_WITH_VALUE)):
        return None
    return {
        "read": _paths("--sandbox-read", given),
        "write": _paths("--sandbox-write", given),
        "network": "--sandbox-network" in given,
    }


def _paths(option: str, given: Mapping[str, Sequence[str]]) -> list[str]:
    paths = [os.path.abspath(os.path.expanduser(each)) for each in given.get(option, ())]
    for path in paths:
        if not os.path.exists(path):
            raise UsageError(f"{option}: {path} does not exist; create it, or remove the option")
    return paths
