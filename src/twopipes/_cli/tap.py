"""``twopipes tap``: record the messages between a host and a server. The host waits for it to start, so it imports little."""

from __future__ import annotations

import os
import sys

from twopipes._tools.exit_codes import CANNOT_EXECUTE, NOT_FOUND, OK, exit_code_help
from twopipes._tools.usage import UsageError, report_error
from twopipes._trace.recorder import default_path, header_for, names_to_redact

if sys.platform != "win32":
    from twopipes._process.relay import Relay, exit_like, write_stderr
    from twopipes._trace.tap_recorder import TapRecorder

TYPE_CHECKING = False  # importing typing would take longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_USAGE = "usage: twopipes tap [-o FILE] [--redact KEY]... [--quiet] -- CMD..."
_HELP = f"""\
{_USAGE}

Starts a server and passes everything on between it and the host: bytes, ends of
streams, signals and the exit code. Records the messages in a file, which
`twopipes view` shows as a conversation. Put it in front of a server's command
in the configuration of a host.

options:
  -o, --output FILE  the file to write; by default a new one in the user's state
                     folder, which is named on stderr. An existing file is kept
                     under another name
  --redact KEY       do not write the values of members with this name; may be
                     repeated
  -q, --quiet        write nothing to stderr, unless recorded messages are lost
  -h, --help         show this help

examples:
  twopipes tap -- python server.py
  twopipes tap -o session.jsonl --redact api_key -- npx -y some-server

{exit_code_help("tap")}"""

# Seconds that a slow disk may delay the exit. The host has seen the end of the output by then.
_CLOSE_TIMEOUT = 3.0


class Options:
    """The parsed command line."""

    def __init__(self) -> None:
        self.output: str | None = None
        self.redact: list[str] = []
        self.is_quiet = False
        self.command: list[str] = []


def tap(arguments: Sequence[str]) -> int:
    """Run the command. Returns only if no server was started; otherwise this process exits as the server did."""
    words = list(arguments)
    own = words[: words.index("--")] if "--" in words else words
    if "--help" in own or "-h" in own:
        sys.stdout.write(_HELP)
        return OK
    options = _parse(words)
    if sys.platform == "win32":
        raise UsageError("twopipes tap needs a POSIX system; connect(..., trace=FILE) and run --trace FILE record here")
    else:  # noqa: RET506 - so that type checkers skip it on Windows
        return _relay(options)


def _parse(words: list[str]) -> Options:
    options = Options()
    if "--" not in words:
        raise UsageError(f"put the command of the server after --. {_USAGE}")
    cut = words.index("--")
    own, options.command = words[:cut], words[cut + 1 :]
    if not options.command or not options.command[0]:
        raise UsageError(f"no server given; put its command after --. {_USAGE}")
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
                # Also accept several: --redact token password
                while own and not own[0].startswith("-"):
                    options.redact.append(own.pop(0))
            else:
                options.output = value
        elif name == "--trace":
            raise UsageError(f"tap has no --trace; use -o FILE to name the file to record to. {_USAGE}")
        else:
            raise UsageError(f"unknown option {word}. {_USAGE}")
    return options


if sys.platform != "win32":

    def _relay(options: Options) -> int:  # noqa: RET503 - the last call does not return
        try:
            relay = Relay(options.command)
        except (OSError, ValueError) as error:
            code, reason = _start_error(options.command, error)
            return report_error(reason, code)
        recorder = _recorder(options)
        status = relay.run(_NoRecorder() if recorder is None else recorder)
        if recorder is not None:
            recorder.close()
        exit_like(status)

    def _recorder(options: Options) -> TapRecorder | None:
        """Return the recorder; ``None`` if it cannot write. The server runs anyway."""
        try:
            path = os.path.abspath(options.output or default_path(_name_of(options.command)))
            redact = names_to_redact(options.redact)
            recorder = TapRecorder(
                path,
                header_for("tap", argv=options.command, redact=redact),
                redact,
                on_loss=lambda sentence: write_stderr(f"twopipes tap: {sentence}\n"),
                patience=_CLOSE_TIMEOUT,
            )
        except (OSError, RuntimeError) as error:
            write_stderr(f"twopipes tap: nothing is recorded: {error}\n")
            return None
        if not options.is_quiet:
            write_stderr(f"twopipes tap: recording to {path}\n")
        return recorder


def _name_of(command: list[str]) -> str:
    return os.path.basename(command[0])


class _NoRecorder:
    """Records nothing."""

    def chunk(self, kind: Any, data: bytes, /) -> None:
        pass

    def event(self, name: Any, /, **facts: Any) -> None:
        pass


def _start_error(command: list[str], error: Exception) -> tuple[int, str]:
    """Return the exit code that a shell would return, and why the command cannot be started."""
    from twopipes._process.lookup import look_up  # noqa: PLC0415 - needed only for an error message

    name = command[0]
    if not isinstance(error, OSError):
        return CANNOT_EXECUTE, f"{name!r} cannot be started: {error}"
    found = look_up(name, os.environ, os.getcwd())
    if found.found is not None:
        detail = "the interpreter in its first line is missing" if isinstance(error, FileNotFoundError) else error.strerror
        return CANNOT_EXECUTE, f"{found.found} cannot be executed: {detail}"
    if found.unfit is not None:
        kind = "it is a folder" if os.path.isdir(found.unfit) else "it has no execute permission"
        return CANNOT_EXECUTE, f"{found.unfit} cannot be executed: {kind}"
    if found.folders:
        return NOT_FOUND, f"command {name!r} not found in {os.pathsep.join(found.folders)}; give its full path, or fix PATH"
    return NOT_FOUND, f"file {name!r} not found in {os.getcwd()}"
