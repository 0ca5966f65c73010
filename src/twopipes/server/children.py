"""The children that tools have started and that still run when the server ends: they are ended with it.

A host that goes away does not know them, and nobody else will end them. They are known where the system lists them, which Linux
does. A child in a session of its own (``start_new_session=True``) was meant to outlive us, and does.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

__all__ = ["Children"]


class Children:
    """The children of this process, but those that it had when this was made: whoever launched us may have left us some."""

    def __init__(self) -> None:
        self._before = _children()

    def end(self) -> None:
        """Asks every one of them to end, and does not wait. From any thread."""
        if sys.platform != "win32":
            for pid in _children() - self._before:
                with suppress(OSError):  # it has ended meanwhile
                    if os.getsid(pid) == os.getsid(0):
                        os.kill(pid, signal.SIGTERM)


def _children() -> set[int]:
    found: set[int] = set()
    if sys.platform == "linux":
        with suppress(OSError):  # no /proc here, or a kernel without the list
            for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - numbers, not paths
                with suppress(OSError), open(f"/proc/self/task/{thread}/children", "rb") as file:  # noqa: PTH123 - likewise
                    found.update(map(int, file.read().split()))
    return found
