"""How a process ended: with an exit code or by a signal."""

from __future__ import annotations

import os
import signal

from msgspec import Struct

# Windows has no such signals; windows.py maps these numbers to Ctrl-Break and to ending the job.
SIGTERM = 15
SIGKILL = 9


def signal_name(number: int) -> str:
    """Return ``SIGTERM`` for 15, or ``signal 42`` for a number without a name, such as most real-time signals."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return {SIGTERM: "SIGTERM", SIGKILL: "SIGKILL"}.get(number, f"signal {number}")


class ExitStatus(Struct, frozen=True, kw_only=True):
    """How a child ended. Both fields are ``None`` if other code reaped the child and took its status."""

    code: int | None = None
    signal: int | None = None

    @classmethod
    def from_wait(cls, status: int) -> ExitStatus:
        """Convert a wait status from ``os.waitpid``."""
        code = os.waitstatus_to_exitcode(status)
        return cls(signal=-code) if code < 0 else cls(code=code)

    @property
    def signal_name(self) -> str | None:
        """``SIGKILL`` for 9; ``None`` if the process was not ended by a signal."""
        return None if self.signal is None else signal_name(self.signal)

    def describe(self) -> str:
        """Return ``exit code 3``, ``signal SIGKILL`` or ``an unknown exit status``."""
        if self.signal is not None:
            name = signal_name(self.signal)
            return name if name.startswith("signal ") else f"signal {name}"
        return "an unknown exit status" if self.code is None else f"exit code {self.code}"
