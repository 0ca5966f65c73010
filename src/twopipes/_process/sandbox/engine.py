"""What the engines have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Protocol

from twopipes._process.process_group import Launch
from twopipes._process.sandbox.view import View


class Unusable(Exception):
    """An engine is not installed, or does not work here. The message says why."""


class Engine(Protocol):
    """Enforces policies."""

    def launch(self, view: View, argv: Sequence[str]) -> Launch:
        """Return the command that starts a server which can see only this."""


if sys.platform == "linux":

    def readable_descriptor(name: str, data: bytes) -> int:
        """Return a descriptor from which a child can read the data. Unlike a pipe, it holds any amount."""
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            os.lseek(descriptor, 0, os.SEEK_SET)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor
