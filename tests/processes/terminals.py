"""A user at a terminal, for tests: reads the output, types, presses Ctrl-C."""

from __future__ import annotations

import codecs
import os
import select
import subprocess
import sys
import time
from typing import Any

from processes.launching import NET

if sys.platform != "win32":
    import pty

# Takes the terminal as its controlling one, as a shell does, so that Ctrl-C sends a signal; then becomes the program.
_AT_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
CTRL_C, CTRL_D = "\x03", "\x04"


class Person:
    """The user of a program.

    Args:
        command: The program.
    """

    def __init__(self, command: list[str], *, env: dict[str, str], **options: Any) -> None:
        self._terminal, theirs = pty.openpty()
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self.seen = ""
        self._read = 0
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _AT_A_TERMINAL, *command],
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env={**env, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
                **options,
            )
        finally:
            os.close(theirs)

    def sees(self, text: str) -> str:
        """Wait until a text appears after the text seen before, and return the output up to its end."""
        deadline = time.monotonic() + NET
        while (found := self.seen.find(text, self._read)) < 0:
            if not self._look(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} never appeared; this did: {self.seen!r}")
        before, self._read = self._read, found + len(text)
        return self.seen[before : self._read]

    def types(self, *lines: str) -> None:
        for line in lines:
            os.write(self._terminal, f"{line}\n".encode())

    def answers(self, *lines: str) -> None:
        """Type each line when its prompt appears."""
        for line in lines:
            self.sees("  > ")
            self.types(line)

    def presses(self, key: str) -> None:
        os.write(self._terminal, key.encode())

    def exit_code(self) -> int:
        """Read to the end of the output, and return the exit code of the program."""
        deadline = time.monotonic() + NET
        while self._look(deadline - time.monotonic()):
            pass
        return self.process.wait(NET)

    def _look(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self._terminal], [], [], seconds)[0]:
            raise AssertionError(f"nothing more appeared; this did: {self.seen!r}")
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += self._text.decode(data)
        return bool(data)

    def dispose(self) -> None:
        """Kill the program if it still runs, and close the terminal."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._terminal)
