"""A forked process that runs one function. Fork while the program has only one thread."""

from __future__ import annotations

import os
import select
import signal
import sys

TYPE_CHECKING = False  # type checkers treat it as true; `twopipes tap` imports this module, and importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

if sys.platform != "win32":

    class HelperProcess:
        """Runs a function in a forked process and holds a pipe to it. Creating the object starts the process.

        Only SIGKILL reaches it, and no signal that is sent to our group. The function must return at EOF of the pipe, which the
        kernel delivers when our process exits for any reason. Its argument is the read end of the pipe. All descriptors but this
        one and those in ``keep_open`` are closed in it.
        """

        def __init__(self, work: Callable[[int], object], *, keep_open: Iterable[int] = ()) -> None:
            control_r, self._control_w = os.pipe()
            # The helper holds exit_w and never writes to it, so exit_r becomes readable (EOF) when the helper exits.
            self._exit_r, exit_w = os.pipe()
            try:
                self._pid = os.fork()
            except OSError:
                for each in (control_r, self._control_w, self._exit_r, exit_w):
                    os.close(each)
                raise
            if self._pid == 0:
                _run_and_exit(work, control_r, {control_r, exit_w, *keep_open})
            os.close(control_r)
            os.close(exit_w)

        def send(self, data: bytes) -> None:
            """Write all of the data; block while the pipe is full. Raises ``BrokenPipeError`` if the helper has exited."""
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._control_w, rest) :]

        def close_pipe(self) -> None:
            """Close our end of the pipe. The helper reads EOF."""
            if self._control_w >= 0:
                os.close(self._control_w)
                self._control_w = -1

        def wait(self, seconds: float) -> bool:
            """Wait at most ``seconds`` for the helper to exit, then kill it. Return whether it exited by itself."""
            poll = select.poll()
            poll.register(self._exit_r, select.POLLIN)
            has_exited = bool(poll.poll(seconds * 1000))
            self.kill()
            return has_exited

        def kill(self) -> None:
            """Kill the helper."""
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            os.close(self._exit_r)
            self.close_pipe()

    def _run_and_exit(work: Callable[[int], object], control_r: int, keep_open: set[int]) -> None:
        """Run the function in the fork. Never return into the code of the parent."""
        try:
            # A signal to the parent's process group must not stop the helper, which cleans up after the parent.
            os.setsid()
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            first = 0
            for each in sorted(keep_open):
                os.closerange(first, each)
                first = each + 1
            os.closerange(first, os.sysconf("SC_OPEN_MAX"))
            work(control_r)
        finally:
            os._exit(0)
