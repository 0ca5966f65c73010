"""``twopipes tap``: in front of a server, passes everything on and writes it down. A host waits for it, so little is imported."""

from __future__ import annotations

import os
import sys

from twopipes._tools.usage import UsageError
from twopipes._trace.recorder import default_path, header_for, names_to_redact

if sys.platform != "win32":
    from twopipes._process.relay import Relay, exit_like, write_stderr
    from twopipes._trace.tap_recorder import TapRecorder

TYPE_CHECKING = False  # what type checkers read as true; importing typing would cost a host more than all the rest here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["tap"]

_USAGE = "usage: twopipes tap [-o FILE] [--redact KEY]... [--quiet] -- CMD..."
_HELP = f"""\
{_USAGE}

Starts a server and passes everything on between it and whoever started this: bytes, the ends of streams, signals and the exit
code. What is said is written to a file, which `twopipes view` shows as a conversation. Put it before a server's command in the
configuration of a host.

options
  -o, --output FILE  where to write; otherwise a fresh file in the user's state folder, named on stderr. A file that is there
                     already is kept under another name
  --redact KEY       blank the values of members with this name before they are written; can be given several times
  -q, --quiet        say nothing on stderr; what is lost of the recording is still said

examples
  twopipes tap -- python server.py
  twopipes tap -o session.jsonl --redact api_key -- npx -y some-server

exit codes
  that of the server; if a signal ended it, this ends by the same one
  2    the command line is wrong
  126  the server's command cannot be executed
  127  there is no such command
"""

CANNOT_EXECUTE = 126
NOT_FOUND = 127
# Seconds that a slow disk may hold up the end. The host has seen the end of the output by then.
PATIENCE = 3.0


class Options:
    """What was asked for."""

    def __init__(self) -> None:
        self.output: str | None = None
        self.redact: list[str] = []
        self.is_quiet = False
        self.command: list[str] = []


def tap(arguments: Sequence[str]) -> int:
    """Runs the command. It returns only where no server was started: otherwise the process ends as the server did."""
    words = list(arguments)
    own = words[: words.index("--")] if "--" in words else words
    if "--help" in own or "-h" in own:
        sys.stdout.write(_HELP)
        return 0
    try:
        options = _read(words)
    except UsageError as mistake:
        sys.stderr.write(f"Error: {mistake}\n")
        return 2
    if sys.platform == "win32":
        sys.stderr.write("Error: twopipes tap needs a POSIX system; connect(..., trace=FILE) and run --trace FILE record here\n")
        return 2
    else:  # noqa: RET505 - so that type checkers see that it is not for the other system
        return _stand_between(options)


def _read(words: list[str]) -> Options:
    options = Options()
    if "--" not in words:
        raise UsageError(f"the command of the server goes behind --: {_USAGE}")
    cut = words.index("--")
    own, options.command = words[:cut], words[cut + 1 :]
    if not options.command or not options.command[0]:
        raise UsageError(f"which server? Its command goes behind --: {_USAGE}")
    while own:
        word = own.pop(0)
        name, equals, value = word.partition("=")
        if word in {"-q", "--quiet"}:
            options.is_quiet = True
        elif name in {"-o", "--output", "--redact"}:
            if not equals:
                if not own:
                    raise UsageError(f"{name} needs a value. {_USAGE}")
                value = own.pop(0)
            if name == "--redact":
                options.redact.append(value)
                # The plural as well: --redact token password
                while own and not own[0].startswith("-"):
                    options.redact.append(own.pop(0))
            else:
                options.output = value
        elif name == "--trace":
            raise UsageError(f"tap has no --trace; -o FILE names the file to record to. {_USAGE}")
        else:
            raise UsageError(f"{word} is not understood. {_USAGE}")
    return options


if sys.platform != "win32":

    def _stand_between(options: Options) -> int:  # noqa: RET503 - the last call does not return
        try:
            relay = Relay(options.command)
        except (OSError, ValueError) as error:
            code, why = _why(options.command, error)
            sys.stderr.write(f"Error: {why}\n")
            return code
        recorder = _recorder(options)
        status = relay.run(_Blind() if recorder is None else recorder)
        if recorder is not None:
            recorder.close()
        exit_like(status)

    def _recorder(options: Options) -> TapRecorder | None:
        """Who writes it down; nobody where there is no place for it. The wire comes first."""
        try:
            path = os.path.abspath(options.output or default_path(_name_of(options.command)))
            redact = names_to_redact(options.redact)
            recorder = TapRecorder(
                path,
                header_for("tap", argv=options.command, redact=redact),
                redact,
                on_loss=lambda sentence: write_stderr(f"twopipes tap: {sentence}\n"),
                patience=PATIENCE,
            )
        except (OSError, RuntimeError) as error:
            write_stderr(f"twopipes tap: nothing is recorded: {error}\n")
            return None
        if not options.is_quiet:
            write_stderr(f"twopipes tap: recording to {path}\n")
        return recorder


def _name_of(command: list[str]) -> str:
    return os.path.basename(command[0])


class _Blind:
    """Sees nothing."""

    def chunk(self, kind: Any, data: bytes, /) -> None:
        pass

    def event(self, name: Any, /, **facts: Any) -> None:
        pass


def _why(command: list[str], error: Exception) -> tuple[int, str]:
    """The exit code that a shell would give, and what is wrong with the command."""
    from twopipes._process.lookup import look_up  # noqa: PLC0415 - where all is well, the system searches by itself

    name = command[0]
    if not isinstance(error, OSError):
        return CANNOT_EXECUTE, f"{name!r} cannot be started: {error}"
    found = look_up(name, os.environ, os.getcwd())
    if found.found is not None:
        detail = "the interpreter in its first line is missing" if isinstance(error, FileNotFoundError) else error.strerror
        return CANNOT_EXECUTE, f"{found.found} cannot be executed: {detail}"
    if found.unfit is not None:
        kind = "it is a folder" if os.path.isdir(found.unfit) else "the permission is missing"
        return CANNOT_EXECUTE, f"{found.unfit} cannot be executed: {kind}"
    if found.folders:
        return NOT_FOUND, f"there is no command {name!r}; searched: {os.pathsep.join(found.folders)}. Give its path, or mend PATH"
    return NOT_FOUND, f"there is no file {name!r}, seen from {os.getcwd()}"
