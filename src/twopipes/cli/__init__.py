"""The ``twopipes`` command. One file a command; a command imports only what it needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

_USAGE = """\
usage: twopipes COMMAND ...

commands:
  run FILE[:NAME] [--unix PATH | --tcp HOST:PORT] [--trace FILE] [-- ARGUMENT ...]
                 serve the Server object found in a file or a module

  twopipes --version
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    match words:
        case ["--version" | "-V"]:
            from importlib.metadata import version  # noqa: PLC0415 - as below

            sys.stdout.write(f"twopipes {version('twopipes')}\n")
            return 0
        case [] | ["--help" | "-h"]:
            sys.stdout.write(_USAGE)
            return 0
        case ["run", *rest]:
            from twopipes.cli.run import run  # noqa: PLC0415 - each command loads its own

            return run(rest)
        case [unknown, *_]:
            sys.stderr.write(f"Error: there is no command {unknown!r}; see twopipes --help\n")
            return 2
        case _:  # pragma: no cover - a list is empty or has a first word
            return 2
