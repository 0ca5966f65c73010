"""Enforce a policy with Landlock, a security module of Linux, for machines without bubblewrap. See docs/decisions/0045."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from twopipes._process.process_group import Launch
from twopipes._process.sandbox.engine import Unusable
from twopipes._process.sandbox.view import View

assert sys.platform == "linux"  # no other system imports this

from twopipes._process.sandbox.engine import readable_descriptor

# Linux 6.12. Earlier versions cannot keep a server from sending signals to other processes, or from using abstract sockets.
_NEEDED_ABI: Final = 6
# Starts the launcher without the user's settings of Python, which are meant for the server.
_BOOT: Final = (
    "import sys; sys.path += sys.argv[2:]; from twopipes._process.sandbox.landlock_launcher import main; main(int(sys.argv[1]))"
)


def find() -> Landlock:
    """Return Landlock if the kernel and the installed binding support what is needed.

    Raises:
        Unusable: They do not.
    """
    binding = importlib.util.find_spec("py_landlock")
    if binding is None or binding.origin is None:
        raise Unusable("the binding for Landlock is not installed")
    if not sys.executable:
        raise Unusable("Landlock needs a Python interpreter, and sys.executable is empty")
    from py_landlock import LandlockError, get_abi_version  # the extra `landlock`

    try:
        abi = get_abi_version()
    except LandlockError as error:
        raise Unusable(f"Landlock does not work here: {error}") from error
    if abi < _NEEDED_ABI:
        raise Unusable(f"this kernel has version {abi} of Landlock, and version {_NEEDED_ABI} is needed (Linux 6.12)")
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    return Landlock((ours, os.path.dirname(os.path.dirname(binding.origin))))


class Landlock(Struct, frozen=True):
    """Landlock, with the folders from which its launcher imports."""

    packages: tuple[str, ...]

    def launch(self, view: View, argv: Sequence[str]) -> Launch:
        """Return the command that starts a server which can use only this."""
        policy = {
            "read": sorted({os.path.realpath(each) for each in view.read}),
            "write": sorted({os.path.realpath(each) for each in view.write}),
            "network": view.network,
        }
        descriptor = readable_descriptor("landlock policy", json.dumps([policy, list(argv)]).encode())
        command = [sys.executable, "-I", "-S", "-c", _BOOT, str(descriptor), *self.packages]
        return Launch(command, inherited=(descriptor,))
