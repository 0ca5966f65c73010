"""The ``twopipes`` command. Each command is a function of a module here, and imports only what it needs."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

from twopipes._tools.exit_codes import INTERRUPTED, OK
from twopipes._tools.usage import HelpShown, UsageError, report_error

TYPE_CHECKING = False  # importing typing would slow down the start of run, tap and mock
if TYPE_CHECKING:
    from collections.abc import Sequence

_HELP = """\
usage: twopipes COMMAND ...

start a project:
  new NAME                create a project with a server, tests and a README
  install HOST -- CMD...  add a server to the configuration of a host
  pack [SOURCE]           make a bundle that a host installs with one click

serve:
  run FILE[:NAME]         serve the Server object in a file; --http 8000 for HTTP
  dev FILE[:NAME]         the same, restarted when its code changes
  mock FILE               serve the responses of a recorded trace
  keep -- CMD...          keep a server running for a host: quick answers,
                          restarts, no orphans
  bridge -- CMD... | URL  serve a server over HTTP, stdio or a socket, in each era
  hub FILE                serve all servers of a configuration file as one server

use a server (a URL instead of -- CMD... names one over HTTP):
  list -- CMD...          list its tools, resources and prompts
  call TOOL -- CMD...     call a tool
  read URI -- CMD...      read a resource
  prompt NAME -- CMD...   get a prompt

debug and test:
  tap -- CMD... | URL     record the messages between a host and a server
  view FILE               show a trace in the terminal or as an HTML page
  replay FILE -- CMD...   send recorded requests again, compare the responses
  doctor -- CMD... | URL  find out why a server does not connect
  check -- CMD... | URL   check a server or a client against the protocol

Run `twopipes COMMAND --help` for the options of a command, or
`twopipes --version`.
"""

# The module and the function of each command. A module is imported only when its command runs, because a host waits for some.
COMMANDS = {
    "new": ("new", "new"),
    "install": ("install", "install"),
    "pack": ("pack", "pack"),
    "run": ("run", "run"),
    "dev": ("dev", "dev"),
    "mock": ("mock", "mock"),
    "keep": ("keep", "keep"),
    "bridge": ("bridge", "bridge"),
    "hub": ("hub", "hub"),
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
    """Run the command line and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            _write_any_text(stream)
    try:
        return _run(words)
    except UsageError as error:
        return report_error(error)
    except HelpShown:
        return OK
    except KeyboardInterrupt:  # before a command handles it
        return INTERRUPTED


def _write_any_text(stream: TextIOWrapper) -> None:
    # Texts of servers contain any character, and a code page of Windows does not. What goes to a file or another program is the
    # same there as on other systems.
    if sys.platform == "win32" and not stream.isatty() and "PYTHONIOENCODING" not in os.environ:
        stream.reconfigure(encoding="utf-8", newline="\n")
    stream.reconfigure(errors="backslashreplace")


def _run(words: list[str]) -> int:
    if not words or words in (["--help"], ["-h"]):
        sys.stdout.write(_HELP)
        return OK
    if words in (["--version"], ["-V"]):
        from twopipes._version import __version__  # keeps the start of run, tap and mock light

        sys.stdout.write(f"twopipes {__version__}\n")
        return OK
    name, *rest = words
    if name not in COMMANDS:
        raise UsageError(f"unknown command {name!r}; see twopipes --help")
    from importlib import import_module  # not needed for --help

    module, function = COMMANDS[name]
    return int(getattr(import_module(f"twopipes._cli.{module}"), function)(rest))
