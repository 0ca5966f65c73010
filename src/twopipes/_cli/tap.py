"""``twopipes tap``: record the messages between a host and a server. The host waits for it to start, so it imports little."""

from __future__ import annotations

import os
import sys

from twopipes._tools.exit_codes import CANNOT_EXECUTE, NOT_FOUND, exit_code_help
from twopipes._tools.usage import UsageError, read_words, report_error
from twopipes._trace.recorder import default_path, header_for, names_to_redact

if sys.platform != "win32":
    from twopipes._process.relay import Relay, exit_like, write_stderr
    from twopipes._trace.tap_recorder import TapRecorder
else:
    from twopipes._process.windows_relay import WindowsRelay, write_stderr
    from twopipes._trace.recorder import Recorder

TYPE_CHECKING = False  # importing typing would take longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from twopipes._trace.recorder import Recorder

_USAGE = "usage: twopipes tap [-o FILE] [--redact KEY]... [--quiet] -- CMD... | [--http PORT] URL"
_HELP = f"""\
usage: twopipes tap [-o FILE] [--redact KEY]... [--quiet] -- CMD...
       twopipes tap [-o FILE] [--redact KEY]... [--quiet] [--http PORT] URL

Starts a server and passes everything on between it and the host: bytes, ends of
streams, signals and the exit code. Records the messages in a file, which
`twopipes view` shows as a conversation. Put it in front of a server's command
in the configuration of a host.

With a URL, the tap is a reverse proxy on this machine: clients connect to its
port, and it forwards their requests to the server at the URL. It runs until
Ctrl-C or SIGTERM. Needs: pip install "twopipes[http]"

options:
  --http PORT        with a URL: the port to listen on, on 127.0.0.1; by default
                     a free one, which is named on stderr
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
  twopipes tap --http 9000 https://example.com/mcp

{exit_code_help("tap")}"""

# Seconds that a slow disk may delay the exit. The host has seen the end of the output by then.
_CLOSE_TIMEOUT = 3.0
_SCHEMES = ("http://", "https://")


def tap(arguments: Sequence[str]) -> int:
    """Run the command. Returns only if no server was started; otherwise this process exits as the server did."""
    with_value = ("-o", "--output", "--redact", "--trace", "--http")
    options, plain, command = read_words(arguments, _USAGE, _HELP, with_value=with_value, switches=("-q", "--quiet"))
    if "--trace" in options:
        raise UsageError(f"tap has no --trace; use -o FILE to name the file to record to. {_USAGE}")
    url, plain, command = _find_url(plain, command)
    if url is None and "--http" in options:
        raise UsageError(f"--http needs the URL of a server; to record a command, leave it out. {_USAGE}")
    if url is None and command is None:
        raise UsageError(f"put the command of the server after --. {_USAGE}")
    if plain and "--redact" not in options:
        raise UsageError(f"unknown argument {plain[0]}. {_USAGE}")
    redact = [*options.get("--redact", ()), *plain]  # also accept several: --redact token password
    output = [None, *options.get("-o", ()), *options.get("--output", ())][-1]
    is_quiet = "-q" in options or "--quiet" in options
    if url is not None:
        from twopipes._cli.tap_http import tap_http  # loads asyncio, which a host would wait for

        return tap_http(url, options.get("--http", [None])[-1], output, redact, is_quiet=is_quiet)
    if not command or not command[0]:
        raise UsageError(f"no server given; put its command after --. {_USAGE}")
    return _relay(command, output, redact, is_quiet=is_quiet)


def _find_url(plain: list[str], command: list[str] | None) -> tuple[str | None, list[str], list[str] | None]:
    """Return the URL of the server, which may also come after ``--``, and the other words."""
    if command is not None:
        is_url = len(command) == 1 and command[0].startswith(_SCHEMES)
        return (command[0], plain, None) if is_url else (None, plain, command)
    urls = [word for word in plain if word.startswith(_SCHEMES)]
    if not urls:
        return None, plain, None
    return urls[0], [word for word in plain if word != urls[0]], None


def _relay(command: list[str], output: str | None, redact: list[str], *, is_quiet: bool) -> int:
    try:
        relay = _start_relay(command)
    except (OSError, ValueError) as error:
        code, reason = _start_error(command, error)
        return report_error(reason, code)
    recorder = None
    try:
        path = os.path.abspath(output or default_path(os.path.basename(command[0])))
        recorder = _open_recorder(path, command, names_to_redact(redact))
        if not is_quiet:
            write_stderr(f"twopipes tap: recording to {path}\n")
    except (OSError, RuntimeError) as error:  # the server runs anyway
        write_stderr(f"twopipes tap: nothing is recorded: {error}\n")
    status = relay.run(_NoRecorder() if recorder is None else recorder)
    if recorder is not None:
        recorder.close(_CLOSE_TIMEOUT)
    return exit_like(status)


def _report_loss(sentence: str) -> None:
    write_stderr(f"twopipes tap: {sentence}\n")


if sys.platform != "win32":

    def _start_relay(command: list[str]) -> Relay:
        return Relay(command)

    def _open_recorder(path: str, command: list[str], names: Sequence[str]) -> Recorder:
        header = header_for("tap", argv=command, redact=names)
        return TapRecorder(path, header, names, on_loss=_report_loss, patience=_CLOSE_TIMEOUT)

else:

    def _start_relay(command: list[str]) -> WindowsRelay:
        return WindowsRelay(command)

    def _open_recorder(path: str, command: list[str], names: Sequence[str]) -> Recorder:
        # In this process: without fork, another one would take as long to start as the server itself.
        return Recorder(path, header_for("tap", argv=command, redact=names), names, on_loss=_report_loss)

    def exit_like(status: int) -> NoReturn:
        os._exit(status)


class _NoRecorder:
    """Records nothing."""

    def chunk(self, kind: Any, data: bytes, /) -> None:
        pass

    def event(self, name: Any, /, **facts: Any) -> None:
        pass


def _start_error(command: list[str], error: Exception) -> tuple[int, str]:
    """Return the exit code that a shell would return, and why the command cannot be started."""
    from twopipes._process.lookup import look_up  # needed only for an error message

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
