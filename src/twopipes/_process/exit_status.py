"""How a process ended: by a code of its own, or by a signal."""

from __future__ import annotations

import os
import signal

from msgspec import Struct

__all__ = ["SIGKILL", "SIGTERM", "ExitStatus", "signal_name"]

# Windows has neither by name; there these numbers mean "please end" and "end" (see windows.py).
SIGTERM = 15
SIGKILL = 9


def signal_name(number: int) -> str:
    """Return ``SIGTERM`` for 15; for a number that has no name, as many real-time signals, ``signal 42``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return {SIGTERM: "SIGTERM", SIGKILL: "SIGKILL"}.get(number, f"signal {number}")


class ExitStatus(Struct, frozen=True, kw_only=True):
    """How a child ended. Both are ``None`` where somebody else waited for it first and took the answer."""

    code: int | None = None
    signal: int | None = None

    @classmethod
    def from_wait(cls, status: int) -> ExitStatus:
        """Read what ``os.waitpid`` returns."""
        code = os.waitstatus_to_exitcode(status)
        return cls(signal=-code) if code < 0 else cls(code=code)

    @property
    def signal_name(self) -> str | None:
        """``SIGKILL`` for 9, ``None`` where no signal ended it."""
        return None if self.signal is None else signal_name(self.signal)

    def describe(self) -> str:
        """Return ``exit code 3``, ``signal SIGKILL`` or ``an unknown exit status``."""
        if self.signal is not None:
            name = signal_name(self.signal)
            return name if name.startswith("signal ") else f"signal {name}"
        return "an unknown exit status" if self.code is None else f"exit code {self.code}"
