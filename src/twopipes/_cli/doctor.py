"""``twopipes doctor``: start a server step by step and report why it does not connect."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from twopipes._cli import command_parser as parsing
from twopipes._cli.server_options import ServerTarget, servers_of
from twopipes._process.command import ServerCommand
from twopipes._tools.doctor.codes import Diagnosis
from twopipes._tools.doctor.diagnose import diagnose
from twopipes._tools.doctor.display import TerminalReport
from twopipes._tools.doctor.examination import DoctorTimeouts, Examination
from twopipes._tools.doctor.observations import Observations
from twopipes._tools.exit_codes import FAILED, INTERRUPTED, OK, TERMINATED
from twopipes._tools.terminal import Terminal
from twopipes._tools.usage import UsageError

if TYPE_CHECKING:
    from twopipes._tools.doctor.http_observations import HttpObservations

T = TypeVar("T")

_USAGE = """\
twopipes doctor [options] -- CMD...
       twopipes doctor [options] URL
       twopipes doctor [options] --config FILE [--server NAME]"""
_DESCRIPTION = """\
Finds out why a server does not connect.

Starts the server several times, one process after another, as a host does:
without a shell and with a minimal environment. Reports how the command is
found, how long each step takes, what the server writes to stdout that is not a
message, which revisions of the protocol it supports, what it offers, how it
exits, and which processes it leaves behind. For every problem, shows a likely
cause and a fix. No tool is called.

For a URL, examines the name of the host, the connection, TLS, the responses of
HTTP, both eras of the protocol, what the server offers, and whether events
arrive.
"""
_EXAMPLES = [
    "twopipes doctor -- python server.py",
    "twopipes doctor -- npx -y @modelcontextprotocol/server-everything",
    "twopipes doctor --config ~/.config/host/mcp.json --server weather",
    "twopipes doctor --format json -- uvx mcp-server-time",
    "twopipes doctor https://example.com/mcp",
]
_NOTES = "\nAll diagnosis codes: docs/howto/a-server-that-will-not-connect.md\n"


def doctor(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    words, command = parser.split_server(arguments)
    options = parser.parse_args(words)
    if options.config and options.config.startswith("~"):  # in a place where no shell expands it
        options.config = str(Path(options.config).expanduser())
    servers = servers_of(options, command)
    try:
        return _examine(servers, options)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; no process is left running\n")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output is gone
        sys.stderr.close()
        return FAILED


def _parser() -> parsing.CommandParser:
    parser = parsing.CommandParser("doctor", usage=_USAGE, description=_DESCRIPTION, examples=_EXAMPLES, notes=_NOTES)
    which = parser.add_argument_group("which server", "Its command after --, its URL, or:")
    parsing.add_config_options(which, default="default: all of them")
    parsing.add_url_options(parser)
    parsing.add_start_options(parser)
    limits = parser.add_argument_group("time limits")
    parsing.add_timeout_option(limits, "default 15", default=15.0)
    for name, read, default, text in (
        ("--total", parsing.positive_duration, 120.0, "the longest examination"),
        ("--grace", parsing.duration, 3.0, "time to exit after the end of input or a signal"),
        ("--slow", parsing.duration, 5.0, "report a first response that takes longer"),
    ):
        limits.add_argument(name, metavar="SECONDS", type=read, default=default, help=f"{text} (default {default:g})")
    parsing.add_renamed_option(parser, "--patience", new="--timeout")
    parser.add_argument("--quick", action="store_true", help="skip the three oldest revisions; each needs a process of its own")
    parsing.add_format_option(parser)
    # The doctor examines how a server starts, so it cannot examine one that is running already.
    parser.set_defaults(unix=None, tcp=None)
    return parser


def _examine(servers: Sequence[ServerTarget], options: Any) -> int:
    timeouts = DoctorTimeouts(
        answer=options.timeout, grace=options.grace, total=options.total, slow=options.slow, quick=options.quick
    )
    terminal = None if options.format == "json" else Terminal()
    as_json: list[dict[str, Any]] = []
    is_healthy = True
    for number, server in enumerate(servers):
        if terminal is not None and number:
            TerminalReport(terminal).separate()
        try:
            seen, found = (
                _examine_url(server, timeouts, terminal) if server.is_url else _examine_command(server, timeouts, terminal)
            )
        except asyncio.CancelledError:
            sys.stderr.write("ended by a signal; no process is left running\n")
            return TERMINATED
        is_healthy = is_healthy and all(each.severity == "note" for each in found)
        as_json.append({"server": server.name, "diagnoses": found, "observations": seen})
    if terminal is None:
        text = msgspec.json.format(msgspec.json.encode({"format": 1, "servers": as_json}), indent=2)
        sys.stdout.write(text.decode() + "\n")
        sys.stdout.flush()
    return OK if is_healthy else FAILED


def _examine_command(
    server: ServerTarget, timeouts: DoctorTimeouts, terminal: Terminal | None
) -> tuple[Observations, list[Diagnosis]]:
    command = server.target
    assert isinstance(command, ServerCommand)  # there are no options for sockets
    report = None if terminal is None else TerminalReport(terminal)
    if report is not None:
        report.heading(server.description, command.environment)
    try:
        seen = asyncio.run(_run_until_signal(Examination(command, timeouts, report).run()))
    finally:
        if report is not None:
            report.quiet()
    found = diagnose(seen)
    if report is not None:
        report.conclude(found)
    return seen, found


def _examine_url(
    server: ServerTarget, timeouts: DoctorTimeouts, terminal: Terminal | None
) -> tuple[HttpObservations, list[Diagnosis]]:
    try:
        from twopipes._tools.doctor.diagnose_http import diagnose_http
        from twopipes._tools.doctor.display_http import HttpReport
        from twopipes._tools.doctor.http_examination import HttpExamination
    except ModuleNotFoundError as error:
        raise UsageError(f'{error.name} is not installed; run: pip install "twopipes[http]"') from error
    report = None if terminal is None else HttpReport(terminal)
    if report is not None:
        report.title(server.description)
    try:
        seen = asyncio.run(_run_until_signal(HttpExamination(str(server.target), timeouts, server.all_headers, report).run()))
    finally:
        if report is not None:
            report.quiet()
    found = diagnose_http(seen)
    if report is not None:
        report.conclude(found)
    return seen, found


async def _run_until_signal(examination: Coroutine[Any, Any, T]) -> T:
    """Run the examination. A signal that would end this process cancels it, so that the server is stopped first."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if task is not None:
            with suppress(NotImplementedError):  # Windows has no signal handlers
                loop.add_signal_handler(number, task.cancel)
    return await examination
