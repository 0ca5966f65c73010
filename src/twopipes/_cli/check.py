"""``twopipes check``: does a server, or a client, keep the rules of the protocol?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from twopipes._tools.terminal import visible
from twopipes._tools.usage import UsageError
from twopipes.errors import ChannelBroken, LocalProtocolError, StartFailed, TwopipesError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from twopipes._tools.check.outcome import CheckResult
    from twopipes._trace.recorder import Recorder

__all__ = ["check"]

# Bytes that may wait for the disk: some lines of the check are 64 MiB long, and both sides of them are kept.
_ROOM = 256 * 1024 * 1024

_USAGE = """\
twopipes check [options] -- CMD...
       twopipes check [options] --unix PATH | --tcp HOST:PORT
       twopipes check --client [options] -- CMD... {server} ...
       twopipes check --client --print SCENARIO [options]
       twopipes check --trace-file FILE [--client]
       twopipes check --list [--format json|markdown] | --explain ID"""
_DESCRIPTION = """\
Checks a server, or a client, against the rules of the specification, in all the revisions that it speaks.

Starts the server several times and sends valid and invalid requests. Calls only tools that declare readOnlyHint, or that you
name with --allow-tool or --call. A client is run once for each scenario, with {server} in its command replaced by the command
of a fake server; it should list, call, read and prompt whatever it finds there."""
_EPILOG = """\
examples:
  twopipes check -- python server.py
  twopipes check --only FR,JR-06 --revision 2025-11-25 -- node build/index.js
  twopipes check --call 'search:{"query": "cats"}' --format junit -- uvx some-server > report.xml
  twopipes check --client -- python client.py {server}
  twopipes check --explain FR-04

exit codes:
  0    every rule that binds was kept, as far as it could be tried
  1    a MUST was broken; with --strict, or a SHOULD
  2    a mistake on the command line
  3    it could not be started or reached, or it speaks no revision that we know
  130  interrupted by Ctrl-C"""

BROKEN, MISTAKEN, UNREACHABLE = 1, 2, 3


def check(arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    from twopipes._cli.server_options import split_command  # noqa: PLC0415 - argparse, for those who read options with it

    words, command = split_command(arguments)
    try:
        options = _parser().parse_args(words)
        return _dispatched(options, command)
    except (UsageError, LocalProtocolError) as mistake:
        return _failed(mistake, MISTAKEN)
    except (StartFailed, ChannelBroken) as error:
        return _failed(error, UNREACHABLE)


def _failed(error: Exception, code: int) -> int:
    from twopipes._cli.server_options import message_of  # noqa: PLC0415 - as above

    text = message_of(error) if isinstance(error, TwopipesError) else str(error)
    sys.stderr.write(f"Error: {visible(' '.join(text.split()))}\n")
    return code


def _dispatched(options: argparse.Namespace, command: list[str] | None) -> int:
    if options.list:
        return _list(options)
    if options.explain:
        return _explain(options.explain)
    if options.trace_file:
        return _told(options, _of_trace(options))
    wanted = _wanted(options)
    if options.client:
        return _run(options, lambda recorder: _client(options, command, wanted, recorder))
    if options.print:
        raise UsageError("--print shows the command of a posing server for a client; give it with --client")
    return _run(options, lambda recorder: _server(options, command, wanted, recorder), command=command)


def _parser() -> argparse.ArgumentParser:
    from twopipes._cli.server_options import CommandParser  # noqa: PLC0415 - as above
    from twopipes._protocol.revisions import ALL  # noqa: PLC0415 - likewise
    from twopipes._tools.check.report import FORMATS  # noqa: PLC0415 - as below

    parser = CommandParser("twopipes check", usage=_USAGE, description=_DESCRIPTION, epilog=_EPILOG)
    what = parser.add_argument_group("what is checked", "A server by its command behind --, or one of:")
    what.add_argument("--unix", metavar="PATH", help="a server that listens on a Unix socket")
    what.add_argument("--tcp", metavar="HOST:PORT", help="a server that listens on a TCP port")
    what.add_argument("--client", action="store_true", help="a client: {server} in its command is where a server's command goes")
    what.add_argument("--print", metavar="SCENARIO", help="with --client: show a command for a host that you configure yourself")
    what.add_argument("--trace-file", metavar="FILE", help="a recording: what it shows by itself of the server (or --client)")
    which = parser.add_argument_group("which rules")
    which.add_argument("--revision", metavar="DATE", choices=ALL, help=f"in this revision alone: {', '.join(ALL)}")
    which.add_argument("--only", metavar="ID|SECTION,...", action="append", default=[], help="these alone: FR-04, or all of FR")
    which.add_argument("--skip", metavar="ID|SECTION,...", action="append", default=[], help="all but these")
    which.add_argument("--list", action="store_true", help="show the table of rules (with --client, scenarios too), and end")
    which.add_argument("--explain", metavar="ID|SECTION", help="show all about a rule, or those of a section, and end")
    safe = parser.add_argument_group("which tools may be called, in addition to those that declare readOnlyHint")
    safe.add_argument(
        "--allow-tool",
        metavar="NAME",
        action="append",
        default=[],
        help="this tool, with made-up arguments: valid and invalid ones",
    )
    safe.add_argument("--call", metavar="NAME:{JSON}", action="append", default=[], help="this tool, with these arguments")
    how = parser.add_argument_group("how it is started")
    how.add_argument("--env", metavar="NAME[=VALUE]", action="append", default=[], help="a variable for it; without a value, ours")
    how.add_argument("--inherit-env", action="store_true", help="give a server all of our environment")
    how.add_argument("--cwd", metavar="FOLDER", help="the folder it starts in")
    how.add_argument(
        "--timeout", metavar="SECONDS", type=float, help="wait so long for an answer (default 10, and 20 for the first)"
    )
    how.add_argument(
        "--gives-up-after",
        metavar="SECONDS",
        type=float,
        help="a client is set to wait so long for an answer at most; without it, nobody can tell patience from a hang",
    )
    told = parser.add_argument_group("how it is told")
    told.add_argument("--format", choices=FORMATS, default="text", help="for people, for programs, for CI, for a page")
    told.add_argument("--strict", action="store_true", help="a broken SHOULD counts for the exit code, too")
    told.add_argument("--trace", metavar="FILE", help="record everything that is said there, for twopipes view")
    return parser


def _wanted(options: argparse.Namespace) -> set[str]:
    from twopipes._rules.table import chosen  # noqa: PLC0415 - the whole table, once the options are good

    return chosen(_names(options.only), _names(options.skip))


def _names(given: Sequence[str]) -> list[str]:
    return [name for each in given for name in each.split(",") if name.strip()]


# The three ways


async def _server(
    options: argparse.Namespace, command: list[str] | None, wanted: set[str], recorder: Recorder | None
) -> CheckResult:
    from twopipes._cli.server_options import the_server  # noqa: PLC0415 - as above
    from twopipes._tools.check.server_run import check_server  # noqa: PLC0415 - asyncio, once everything else is good
    from twopipes._tools.check.server_source import target_for  # noqa: PLC0415 - likewise

    options.config = options.server = None
    permissions = _permissions(options)
    target = target_for(the_server(options, command).target, timeouts=_probe_timeouts(options.timeout), observer=recorder)
    return await check_server(
        target, revisions=_revisions(options), wanted=wanted, permissions=permissions, on_progress=_progress(options)
    )


async def _client(
    options: argparse.Namespace, command: list[str] | None, wanted: set[str], recorder: Recorder | None
) -> CheckResult:
    from twopipes._cli.server_options import variables  # noqa: PLC0415 - as above
    from twopipes._tools.check.client_run import CommandDriver, check_client  # noqa: PLC0415 - asyncio, as above

    if options.unix or options.tcp:
        raise UsageError("a client cannot be reached at a socket; put its command behind --")
    if options.print:
        if command is not None:
            raise UsageError("--print is for a host that you start yourself; leave out the command behind --")
        return await _with_a_person(options, wanted, recorder)
    if not command:
        raise UsageError(
            "which client? Put its command behind --, with {server} where the server's goes: -- python client.py {server}"
        )
    return await check_client(
        CommandDriver(command, env=variables(options.env), cwd=options.cwd),
        revisions=_revisions(options),
        wanted=wanted,
        timeouts=_scenario_timeouts(options.timeout, options.gives_up_after),
        on_progress=_progress(options),
        on_run=None if recorder is None else _recording(recorder),
    )


async def _with_a_person(options: argparse.Namespace, wanted: set[str], recorder: Recorder | None) -> CheckResult:
    import json  # noqa: PLC0415 - for the one command that is shown
    import shlex  # noqa: PLC0415 - likewise

    from twopipes._tools.check.client_run import PersonDriver, check_one  # noqa: PLC0415 - as above

    def show(words: list[str]) -> None:
        entry = {"twopipes-check": {"command": words[0], "args": words[1:]}}
        sys.stderr.write(f"Configure this server in the host, and start the host:\n\n  {shlex.join(words)}\n\n")
        sys.stderr.write(f"or, where it reads a file of servers:\n\n  {json.dumps({'mcpServers': entry})}\n\n")
        sys.stderr.write("The report comes when the host has disconnected; Ctrl-C to give up.\n")
        sys.stderr.flush()

    return await check_one(
        options.print,
        PersonDriver(show),
        revisions=_revisions(options),
        wanted=wanted,
        on_run=None if recorder is None else _recording(recorder),
    )


def _of_trace(options: argparse.Namespace) -> CheckResult:
    from twopipes._tools.check.passive import check_conversation  # noqa: PLC0415 - as above
    from twopipes._trace.conversation import read_conversation  # noqa: PLC0415 - likewise
    from twopipes._trace.reader import read  # noqa: PLC0415 - likewise

    try:
        trace = read(options.trace_file)
        conversation = read_conversation(trace, trace.header)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{options.trace_file} cannot be read as a recording: {reason}") from error
    side: Any = "client" if options.client else "server"
    return check_conversation(conversation, name=options.trace_file, side=side, wanted=_wanted(options))


# What they need


def _run(options: argparse.Namespace, work: Callable[[Recorder | None], Any], *, command: Sequence[str] | None = None) -> int:
    from twopipes._cli.interrupts import run_interruptibly  # noqa: PLC0415 - asyncio, once the options are good

    async def run() -> int:
        try:
            with _recorder(options, command) as recorder:
                outcome = await work(recorder)
        finally:
            if _shows_progress(options):
                sys.stderr.write("\r\x1b[K")  # what was done last is of no interest any more
        return _told(options, outcome)

    return run_interruptibly(run, on_interrupt=lambda number: _remark("interrupted") if number == 1 else None)


def _told(options: argparse.Namespace, outcome: CheckResult) -> int:
    from twopipes._tools.check.report import exit_code, rendered  # noqa: PLC0415 - as above

    sys.stdout.write(rendered(outcome, options.format, strict=options.strict))
    sys.stdout.flush()
    if not outcome.revisions and not options.trace_file:
        return UNREACHABLE
    return exit_code(outcome, strict=options.strict)


@contextmanager
def _recorder(options: argparse.Namespace, command: Sequence[str] | None) -> Iterator[Recorder | None]:
    if not options.trace:
        yield None
        return
    from twopipes._trace.recorder import Recorder, header_for  # noqa: PLC0415 - for those who want it

    target = f"unix:{options.unix}" if options.unix else f"tcp://{options.tcp}" if options.tcp else ""
    try:
        header = header_for("check", argv=command or (), target=target)
        recorder = Recorder(options.trace, header, on_loss=_remark, max_queued=_ROOM, must_open=True)
    except OSError as error:
        raise UsageError(f"{options.trace} cannot be written: {error.strerror or error}") from error
    try:
        yield recorder
    finally:
        recorder.close()


def _recording(recorder: Recorder) -> Callable[[Any], None]:
    count = 0

    def record(fake: Any) -> None:
        nonlocal count
        from twopipes._trace.format import Line  # noqa: PLC0415 - as above

        for connection in fake.connections:
            for entry in connection.entries:
                if isinstance(entry, Line):
                    recorder.line(entry.kind, entry.data, is_whole=entry.is_whole, connection=count)
            count += 1

    return record


def _permissions(options: argparse.Namespace) -> Any:
    from msgspec import DecodeError  # noqa: PLC0415 - as above
    from msgspec.json import decode  # noqa: PLC0415 - likewise

    from twopipes._tools.check.probe import Permissions  # noqa: PLC0415 - likewise

    calls: dict[str, dict[str, Any]] = {}
    for each in options.call:
        name, colon, text = each.partition(":")
        try:
            arguments = decode(text or "{}")
        except DecodeError as error:
            raise UsageError(f"--call {each}: what is behind the colon is no JSON: {error}") from error
        if not name or not colon or not isinstance(arguments, dict):
            raise UsageError(f'--call {each}: write NAME:{{JSON}}, such as echo:{{"text": "hello"}}')
        calls[name] = arguments
    return Permissions(tools=frozenset(options.allow_tool), calls=calls)


def _revisions(options: argparse.Namespace) -> Sequence[str]:
    from twopipes._protocol.revisions import ALL  # noqa: PLC0415 - as above

    return (options.revision,) if options.revision else ALL


def _probe_timeouts(seconds: float | None) -> Any:
    from twopipes._tools.check.conversation import ProbeTimeouts  # noqa: PLC0415 - as above

    known = ProbeTimeouts()
    return (
        known
        if seconds is None
        else ProbeTimeouts(start=max(seconds, known.start), response=seconds, long=max(seconds, known.long))
    )


def _scenario_timeouts(seconds: float | None, limit: float | None) -> Any:
    from twopipes._tools.check.fake_server import ScenarioTimeouts  # noqa: PLC0415 - as above

    known = ScenarioTimeouts()
    client, stimulus = (known.client, known.stimulus) if seconds is None else (seconds, seconds)
    # A client that hangs has to be seen to hang for longer than it may.
    return ScenarioTimeouts(client=client + (limit or 0.0), stimulus=stimulus, limit=limit)


def _shows_progress(options: argparse.Namespace) -> bool:
    return options.format == "text" and not options.print and sys.stderr.isatty()


def _progress(options: argparse.Namespace) -> Callable[[str], None] | None:
    if not _shows_progress(options):
        return None

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{visible(text)}")
        sys.stderr.flush()

    return show


def _remark(text: str) -> None:
    sys.stderr.write(f"twopipes check: {visible(text)}\n")


# The table


def _list(options: argparse.Namespace) -> int:
    from twopipes._tools.check.rule_pages import listed  # noqa: PLC0415 - as above

    if options.format == "junit":
        raise UsageError("--list has no form for JUnit; take text, json or markdown")
    sys.stdout.write(listed(_wanted(options), options.format, side="client" if options.client else None))
    return 0


def _explain(name: str) -> int:
    from twopipes._tools.check.explain import explained  # noqa: PLC0415 - as above

    sys.stdout.write(explained(name))
    return 0
