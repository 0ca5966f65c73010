"""The ``twopipes`` command. One file a command; a command imports only what it needs."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in twopipes/__init__.py: a host waits for some of the commands
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_USAGE = """\
usage: twopipes COMMAND ...

begin
  new NAME               a project with a server, its tests and a README
  install HOST -- CMD... put a server into the configuration of a host

serve
  run FILE[:NAME]        serve the Server object found in a file or a module
  mock FILE              a server that answers from a recording

talk to a server
  list -- CMD...         what a server offers
  call TOOL -- CMD...    call a tool
  read URI -- CMD...     read a resource
  prompt NAME -- CMD...  get a prompt

see what happens
  tap -- CMD...          in front of a server: record what it and its host say to each other
  view FILE              a recording as a conversation, in the terminal or as an HTML page
  replay FILE -- CMD...  say the recorded client's part to a server, and compare the answers
  doctor -- CMD...       find out why a server does not connect
  check -- CMD...        does a server, or a client, keep the rules of the protocol?

  twopipes COMMAND --help
  twopipes --version
"""

# Where each command lives: a module of this package and a function in it. Loaded when it is asked for and not before, because
# a host waits for some of them.
_COMMANDS = {
    "new": ("new", "new"),
    "install": ("install", "install"),
    "run": ("run", "run"),
    "mock": ("mock", "mock"),
    "list": ("client_commands", "list_everything"),
    "call": ("client_commands", "call"),
    "read": ("client_commands", "read"),
    "prompt": ("client_commands", "prompt"),
    "tap": ("tap", "tap"),
    "view": ("view", "view"),
    "replay": ("replay", "replay"),
    "doctor": ("doctor", "doctor"),
    "check": ("check", "check"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    match words:
        case ["--version" | "-V"]:
            from twopipes._version import __version__  # noqa: PLC0415 - as below

            sys.stdout.write(f"twopipes {__version__}\n")
            return 0
        case [] | ["--help" | "-h"]:
            sys.stdout.write(_USAGE)
            return 0
        case [name, *rest] if name in _COMMANDS:
            from importlib import import_module  # noqa: PLC0415 - each command loads its own

            module, function = _COMMANDS[name]
            return int(getattr(import_module(f"twopipes._cli.{module}"), function)(rest))
        case [unknown, *_]:
            sys.stderr.write(f"Error: there is no command {unknown!r}; see twopipes --help\n")
            return 2
        case _:  # pragma: no cover - a list is empty or has a first word
            return 2
