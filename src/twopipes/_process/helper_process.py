"""A process of ours beside us that does one thing: a fork, so it is made while we have one thread only."""

from __future__ import annotations

import os
import select
import signal
import sys

TYPE_CHECKING = False  # what type checkers read as true; a host waits for us, and typing takes longer than all the rest here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Sibling"]

if sys.platform != "win32":

    class Sibling:
        """Runs a function in a process of its own, with a pipe to it. Made by making one.

        No signal but SIGKILL reaches it, and none that is sent to our group. It has to end at the end of the pipe, which comes at
        the latest when we end, in whatever way. It holds open nothing that others wait to see closed.

        Args:
            work: Gets the descriptor to read.
            keeps: Descriptors that it needs beside that.

        Raises:
            OSError: There is no room for one more process, or for a few more descriptors.
        """

        def __init__(self, work: Callable[[int], object], *, keeps: Iterable[int] = ()) -> None:
            ear, self._rope = os.pipe()
            self._end, breath = os.pipe()
            try:
                self._pid = os.fork()
            except OSError:
                for each in (ear, self._rope, self._end, breath):
                    os.close(each)
                raise
            if self._pid == 0:
                _live(work, ear, {ear, breath, *keeps})
            os.close(ear)
            os.close(breath)

        def send(self, data: bytes) -> None:
            """Write all of it, and wait if the other side does not keep up.

            Raises:
                BrokenPipeError: The other side has ended.
            """
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._rope, rest) :]

        def hang_up(self) -> None:
            """End the pipe."""
            if self._rope >= 0:
                os.close(self._rope)
                self._rope = -1

        def wait(self, seconds: float) -> bool:
            """Wait for its end, for so long at most; return whether it came by itself. It is over in any case."""
            poll = select.poll()
            # Nothing is ever written there.
            poll.register(self._end, select.POLLIN)
            has_ended = bool(poll.poll(seconds * 1000))
            self.kill()
            return has_ended

        def kill(self) -> None:
            """End it, now."""
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            os.close(self._end)
            self.hang_up()

    def _live(work: Callable[[int], object], ear: int, keeps: set[int]) -> None:
        """All that a sibling does. It never returns into the code that it is a copy of."""
        try:
            # Whoever kills our whole group does not mean the ones who have to clear up after that.
            os.setsid()
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            first = 0
            for each in sorted(keeps):
                os.closerange(first, each)
                first = each + 1
            os.closerange(first, os.sysconf("SC_OPEN_MAX"))
            work(ear)
        finally:
            os._exit(0)
