"""One who stays awake: a process that kills a group when we are killed and can do nothing any more.

``lifeline`` has the kernel tell a child of our death, one child, on Linux, by way of a program that may not be there. A process of
our own reaches everything that the child started, on every POSIX system, and costs less time than to try whether the other way is
open.
"""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["Guardian"]

if sys.platform != "win32":
    from twopipes.process.sibling import Sibling

    class Guardian:
        """Kills a process group as soon as this process ends without having dismissed it. Posted by making one.

        Args:
            group: The number of the group, whose leader was not waited for yet.

        Raises:
            OSError: There is no room for one more process, or for a few more descriptors.
        """

        def __init__(self, group: int) -> None:
            def watch(ear: int) -> None:
                os.read(ear, 1)  # nothing ever comes there but the end
                os.killpg(group, signal.SIGKILL)

            self._sibling = Sibling(watch)

        def dismiss(self) -> None:
            """The group is gone, or no longer ours to kill."""
            self._sibling.kill()
