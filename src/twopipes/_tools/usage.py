"""User mistakes, and what every command needs to read its command line.

``run``, ``tap`` and ``mock`` import this module while a host waits for the server, so it imports little.
"""

from __future__ import annotations

import sys

from twopipes._tools.exit_codes import USAGE


class UsageError(Exception):
    """A mistake that the user can fix. The message says how, on one line."""


class HelpShown(Exception):
    """The help of a command was printed; there is nothing more to do."""


def report_error(error: object, exit_code: int = USAGE) -> int:
    """Write an error to stderr on one line, and return the exit code."""
    from twopipes._tools.terminal import visible  # noqa: PLC0415 - keeps the start of run, tap and mock light

    sys.stderr.write(f"Error: {visible(' '.join(str(error).split()))}\n")
    return exit_code


def split_target(target: str) -> tuple[str, str]:
    """Split ``FILE:NAME``. The name may be missing, and the drive of a Windows path has a colon of its own."""
    drive = target[:2] if target[1:2] == ":" and target[2:3] in {"\\", "/"} else ""
    file, _, name = target.removeprefix(drive).partition(":")
    return drive + file, name
