"""Connect to a server that listens on a named pipe of Windows, as if it were a socket."""

from __future__ import annotations

import io
import time

from processes.launching import NET
from twopipes._channels.named_pipe import NamedPipe, open_pipe


class PipeSocket:
    """A named pipe with those methods of a socket that a ``Peer`` uses."""

    def __init__(self, path: str) -> None:
        self._pipe = _opened(path)
        self.sendall = self._pipe.sendall

    def makefile(self, _mode: str, *, buffering: int) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._pipe), buffering)

    def shutdown(self, how: int) -> None:
        """Send EOF, and end our own reads."""
        self._pipe.shutdown(how)
        self._pipe.wake()

    def close(self) -> None:
        self._pipe.close()


class _Reader(io.RawIOBase):
    def __init__(self, pipe: NamedPipe) -> None:
        self._pipe = pipe

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        data = self._pipe.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _opened(path: str) -> NamedPipe:
    """Connect, also if the server is about to accept another client."""
    deadline = time.monotonic() + NET
    while True:
        try:
            return open_pipe(path)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
