"""``twopipes doctor``: starts a server step by step and says why it does not connect."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from twopipes._cli.server_options import CommandParser, PointedAt, servers_of, split_command
from twopipes._process.command import ServerCommand
from twopipes._tools.usage import UsageError

if TYPE_CHECKING:
    from twopipes._tools.doctor.examination import Examination
    from twopipes._tools.doctor.observations import Observations

__all__ = ["doctor"]

_HEALTHY = 0
_PROBLEMS = 1
_MISTAKE = 2
_INTERRUPTED = 130
_TERMINATED = 143

_DESCRIPTION = """\
Find out why a server does not connect.

Starts the server several times, one process after another, as a host does:
without a shell and with a minimal environment. Reports how the command is found,
how long each step takes, what the server writes to stdout that is not a message,
which revisions of the protocol it speaks, what it offers, how it exits, and which
processes it leaves behind. For every problem, shows a likely cause and a fix. No
tool is called.
"""
_EPILOG = """\
examples:
  twopipes doctor -- python server.py
  twopipes doctor -- npx -y @modelcontextprotocol/server-everything
  twopipes doctor --config ~/.config/host/mcp.json --server weather
  twopipes doctor --output json -- uvx mcp-server-time

exit codes:
  0  healthy: there may be notes, but no problem
  1  problems were found
  2  the command line cannot be understood
130  interrupted; 143 ended by SIGTERM: either way nothing is left running

The codes of all diagnoses: docs/howto/a-server-that-will-not-connect.md
"""


def doctor(arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    words, command = split_command(arguments)
    try:
        options = _parser().parse_args(words)
        if options.config and options.config.startswith("~"):
            from pathlib import Path  # noqa: PLC0415 - a shell would have done it

            options.config = str(Path(options.config).expanduser())
        servers = servers_of(options, command)
    except UsageError as mistake:
        sys.stderr.write(f"Error: {' '.join(str(mistake).split())}\n")
        return _MISTAKE
    except SystemExit as leaving:  # argparse has printed its help
        return int(leaving.code or 0)
    try:
        return _examine(servers, options)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing is left running\n")
        return _INTERRUPTED
    except BrokenPipeError:  # whoever read this has seen enough
        sys.stderr.close()
        return _PROBLEMS


def _parser() -> CommandParser:
    parser = CommandParser(
        "twopipes doctor",
        usage="twopipes doctor [options] -- CMD...\n       twopipes doctor [options] --config FILE [--server NAME]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    which = parser.add_argument_group("which server", "Its command after --, or one of:")
    which.add_argument("--config", metavar="FILE", help="a host's configuration file, with mcpServers (or VS Code's servers) in it")
    which.add_argument("--server", metavar="NAME", help="which server of that file; all of them unless given")
    how = parser.add_argument_group("how it is started")
    how.add_argument(
        "--env",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="an environment variable for it; without a value, ours",
    )
    how.add_argument("--inherit-env", action="store_true", help="give it all of our environment")
    how.add_argument("--cwd", metavar="FOLDER", help="the folder it starts in")
    waits = parser.add_argument_group("how long anything may take, in seconds")
    waits.add_argument("--timeout", metavar="SECONDS", type=_seconds, default=120.0, help="for the whole examination (default 120)")
    waits.add_argument(
        "--patience", metavar="SECONDS", type=_seconds, default=15.0, help="for the response to the handshake (default 15)"
    )
    waits.add_argument(
        "--grace", metavar="SECONDS", type=_seconds, default=3.0, help="to exit at the end of input, and after a signal (default 3)"
    )
    waits.add_argument(
        "--slow", metavar="SECONDS", type=_seconds, default=5.0, help="a first response that takes longer is slow (default 5)"
    )
    parser.add_argument("--quick", action="store_true", help="do not try the three oldest revisions, each of which needs a process")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="text for people, json for programs")
    # A server that listens runs already: what the doctor looks at is over.
    parser.set_defaults(unix=None, tcp=None)
    return parser


def _seconds(text: str) -> float:
    from argparse import ArgumentTypeError  # noqa: PLC0415 - loaded by then

    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a number of seconds")
    return number


def _examine(servers: Sequence[PointedAt], options: Any) -> int:
    # Nothing of this is needed for --help.
    from twopipes._tools.doctor.diagnose import diagnose  # noqa: PLC0415
    from twopipes._tools.doctor.display import TerminalReport  # noqa: PLC0415
    from twopipes._tools.doctor.examination import DoctorTimeouts, Examination  # noqa: PLC0415
    from twopipes._tools.terminal import Terminal  # noqa: PLC0415

    patience = DoctorTimeouts(
        answer=options.patience, grace=options.grace, total=options.timeout, slow=options.slow, quick=options.quick
    )
    as_json = options.output == "json"
    teller = TerminalReport(Terminal(sys.stderr if as_json else sys.stdout))
    reports: list[dict[str, Any]] = []
    is_healthy = True
    for number, server in enumerate(servers):
        command = server.target
        if not isinstance(command, ServerCommand):  # pragma: no cover - sockets are no option here
            continue
        if not as_json:
            if number:
                teller.separate()
            teller.heading(server.description, command.environment)
        examination = Examination(command, patience=patience, listener=Silent() if as_json else teller)
        try:
            seen = asyncio.run(_until_asked_to_end(examination))
        except asyncio.CancelledError:
            sys.stderr.write("ended by a signal; nothing is left running\n")
            return _TERMINATED
        finally:
            teller.quiet()
        found = diagnose(seen)
        is_healthy = is_healthy and all(each.severity == "note" for each in found)
        if as_json:
            reports.append({"server": server.name, "diagnoses": found, "observations": seen})
        else:
            teller.conclude(found)
    if as_json:
        _write_json(reports)
    return _HEALTHY if is_healthy else _PROBLEMS


async def _until_asked_to_end(examination: Examination) -> Observations:
    """Runs it; a signal that would end us ends the server first, which would not hear of it otherwise."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if task is not None:
            with suppress(NotImplementedError):  # Windows has no such thing
                loop.add_signal_handler(number, task.cancel)
    return await examination.run()


class Silent:
    """Hears of each step and says nothing: what is told as JSON is told in the end."""

    def resolved(self, resolution: object) -> None:
        """As :class:`~twopipes._tools.doctor.examination.Listener`."""

    def begins(self, purpose: object, revision: object) -> None:
        """As above."""

    def tried(self, attempt: object) -> None:
        """As above."""


def _write_json(reports: Sequence[dict[str, Any]]) -> None:
    import msgspec  # noqa: PLC0415 - as above

    text = msgspec.json.format(msgspec.json.encode({"format": 1, "servers": reports}), indent=2)
    sys.stdout.write(text.decode() + "\n")
    sys.stdout.flush()
