"""``twopipes check``: check a server or a client against the rules of the protocol."""

from __future__ import annotations

import json
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import DecodeError
from msgspec.json import decode

from twopipes._cli import command_parser as parsing
from twopipes._cli.interrupts import run_interruptibly
from twopipes._cli.server_options import message_of, the_server, variables
from twopipes._cli.trace_file import load_conversation, open_trace
from twopipes._protocol.revisions import ALL
from twopipes._rules.table import chosen
from twopipes._tools.check.client_run import CommandDriver, PersonDriver, check_client, check_one
from twopipes._tools.check.http.drivers import URL_PLACEHOLDER, HttpCommandDriver
from twopipes._tools.check.messages import ProbeTimeouts
from twopipes._tools.check.passive import check_conversation
from twopipes._tools.check.probe import Permissions
from twopipes._tools.check.report import FORMATS, Format, exit_code, rendered
from twopipes._tools.check.rule_pages import explained, listed
from twopipes._tools.check.scenario import ScenarioTimeouts
from twopipes._tools.check.server_run import check_server
from twopipes._tools.check.server_source import target_for
from twopipes._tools.check.verdict import CheckResult
from twopipes._tools.exit_codes import OK, UNREACHABLE
from twopipes._tools.terminal import visible
from twopipes._tools.usage import UsageError, report_error
from twopipes._trace.format import Line
from twopipes._trace.recorder import Recorder, header_for
from twopipes.errors import ChannelBroken, LocalProtocolError, StartFailed

_USAGE = """\
twopipes check [options] -- CMD...
       twopipes check [options] URL | --unix PATH | --tcp HOST:PORT
       twopipes check --client [options] -- CMD... {server}|{url} ...
       twopipes check --client --print SCENARIO [options]
       twopipes check --trace-file FILE [--client]
       twopipes check --list [--format json|markdown] | --explain ID"""
_DESCRIPTION = """\
Checks a server or a client against the rules of the specification, in every
revision that it supports.

Starts the server several times and sends valid and invalid requests. Calls only
tools that declare readOnlyHint, or that you name with --allow-tool or --call.

Runs a client once for each scenario. {server} in its command is replaced by the
command of a fake server, {url} by the URL of one. The client should list, call,
read and prompt whatever that server offers."""
_EXAMPLES = [
    "twopipes check -- python server.py",
    "twopipes check --only FR,JR-06 --revision 2025-11-25 -- node build/index.js",
    'twopipes check --call \'search:{"query": "cats"}\' -- uvx some-server',
    "twopipes check --write junit:report.xml -- python server.py",
    "twopipes check http://127.0.0.1:8000/mcp",
    "twopipes check --client -- python client.py {server}",
    "twopipes check --client -- python client.py {url}",
    "twopipes check --explain FR-04",
]


def check(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    words, command = parser.split_server(arguments)
    options = parser.parse_args(words)
    options.write = [_report_file(text) for text in options.write]
    options.subject = _subject(command)
    try:
        return _dispatch(options, command)
    except LocalProtocolError as error:
        raise UsageError(message_of(error)) from error
    except (StartFailed, ChannelBroken) as error:
        return report_error(message_of(error), UNREACHABLE)


def _dispatch(options: Namespace, command: list[str] | None) -> int:
    wanted = chosen(
        *([name for each in given for name in each.split(",") if name.strip()] for given in (options.only, options.skip))
    )
    if options.list:
        if options.format not in {"text", "json", "markdown"}:
            raise UsageError(f"--list has no format {options.format}; use text, json or markdown")
        sys.stdout.write(listed(wanted, options.format, side="client" if options.client else None))
        return OK
    if options.explain:
        sys.stdout.write(explained(options.explain))
        return OK
    if options.trace_file:
        conversation = load_conversation(open_trace(options.trace_file))
        side: Any = "client" if options.client else "server"
        return _report(options, check_conversation(conversation, name=options.trace_file, side=side, wanted=wanted))
    if options.client:
        return _run(options, lambda recorder: _check_client(options, command, wanted, recorder))
    if options.print:
        raise UsageError("--print shows the command of a fake server for a client; give it with --client")
    return _run(options, lambda recorder: _check_server(options, command, wanted, recorder), command=command)


def _parser() -> parsing.CommandParser:
    parser = parsing.CommandParser("check", usage=_USAGE, description=_DESCRIPTION, examples=_EXAMPLES)
    what = parser.add_argument_group("what to check", "A server by its command after --, by its URL, or one of:")
    parsing.add_socket_options(what)
    what.add_argument("--client", action="store_true", help="a client; see above for {server} and {url} in its command")
    text = "with --client: show the command of a fake server, to configure in a host"
    what.add_argument("--print", metavar="SCENARIO", help=text)
    text = "a trace: only what it shows of the server (or, with --client, the client)"
    what.add_argument("--trace-file", metavar="FILE", help=text)
    which = parser.add_argument_group("which rules")
    which.add_argument("--revision", metavar="DATE", choices=ALL, help=f"check only this revision: {', '.join(ALL)}")
    parsing.add_list_option(which, "--only", "ID|SECTION,...", "only these, such as FR-04, or all of FR")
    parsing.add_list_option(which, "--skip", "ID|SECTION,...", "all but these")
    which.add_argument("--list", action="store_true", help="list the rules (with --client, also the scenarios) and exit")
    which.add_argument("--explain", metavar="ID|SECTION", help="explain a rule, or the rules of a section, and exit")
    safe = parser.add_argument_group("tools to call besides those that declare readOnlyHint")
    parsing.add_list_option(safe, "--allow-tool", "NAME", "this tool, with generated arguments, valid and invalid ones")
    parsing.add_list_option(safe, "--call", "NAME:{JSON}", "this tool, with these arguments")
    parsing.add_url_options(parser)
    parsing.add_start_options(parser)
    limits = parser.add_argument_group("time limits")
    parsing.add_timeout_option(limits, "default 10, and 20 for the first")
    text = "the request timeout of the client, if it has one; needed to distinguish a slow client from one that hangs"
    limits.add_argument("--gives-up-after", metavar="SECONDS", type=parsing.positive_duration, help=text)
    report = parser.add_argument_group("report")
    text = "text (default), json, markdown, junit and sarif for CI, or badge: data for shields.io"
    parsing.add_format_option(report, FORMATS, help=text)
    parsing.add_list_option(report, "--write", "FORMAT:FILE", "also write the report in this format; may be repeated")
    report.add_argument("--strict", action="store_true", help="fail on a broken SHOULD as well")
    report.add_argument("--trace", metavar="FILE", help="record all messages in this file, for twopipes view")
    return parser


async def _check_server(options: Namespace, command: list[str] | None, wanted: set[str], recorder: Recorder | None) -> CheckResult:
    options.config = options.server = None
    permissions, timeouts = _permissions(options), ProbeTimeouts()
    if (seconds := options.timeout) is not None:
        timeouts = ProbeTimeouts(start=max(seconds, timeouts.start), response=seconds, long=max(seconds, timeouts.long))
    server = the_server(options, command)
    target = target_for(server.target, headers=server.all_headers, timeouts=timeouts, observer=recorder)
    return await check_server(
        target, revisions=_revisions(options), wanted=wanted, permissions=permissions, on_progress=_progress(options)
    )


async def _check_client(options: Namespace, command: list[str] | None, wanted: set[str], recorder: Recorder | None) -> CheckResult:
    if options.unix or options.tcp:
        raise UsageError("a client cannot be reached at a socket; put its command after --")
    revisions, on_run = _revisions(options), None if recorder is None else _recording(recorder)
    if options.print:
        if command is not None:
            raise UsageError("--print is for a host that you start yourself; leave out the command after --")
        return await check_one(options.print, PersonDriver(_show_server), revisions=revisions, wanted=wanted, on_run=on_run)
    if not command:
        raise UsageError(
            "no client given; put its command after --, with {server} for the server's command, or {url} for its URL: "
            "-- python client.py {server}"
        )
    over_http = any(URL_PLACEHOLDER in word for word in command)
    driver = (HttpCommandDriver if over_http else CommandDriver)(command, env=variables(options.env), cwd=options.cwd)
    return await check_client(
        driver,
        revisions=revisions,
        wanted=wanted,
        timeouts=_scenario_timeouts(options.timeout, options.gives_up_after),
        on_progress=_progress(options),
        on_run=on_run,
    )


def _show_server(words: list[str]) -> None:
    entry = {"twopipes-check": {"command": words[0], "args": words[1:]}}
    sys.stderr.write(f"Configure this server in the host and start the host:\n\n  {shlex.join(words)}\n\n")
    sys.stderr.write(f"or, in a configuration file:\n\n  {json.dumps({'mcpServers': entry})}\n\n")
    sys.stderr.write("The report is written when the host disconnects. Press Ctrl-C to stop.\n")
    sys.stderr.flush()


def _run(options: Namespace, work: Callable[[Recorder | None], Any], *, command: Sequence[str] | None = None) -> int:
    async def run() -> int:
        try:
            with _recorder(options, command) as recorder:
                outcome = await work(recorder)
        finally:
            if _shows_progress(options):
                sys.stderr.write("\r\x1b[K")  # erase the progress line
        return _report(options, outcome)

    return run_interruptibly(run, on_interrupt=lambda number: _print_note("interrupted") if number == 1 else None)


def _report(options: Namespace, outcome: CheckResult) -> int:
    for form, file in options.write:
        try:
            with open(file, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(rendered(outcome, form, strict=options.strict, subject=options.subject))
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    sys.stdout.write(rendered(outcome, options.format, strict=options.strict, subject=options.subject))
    sys.stdout.flush()
    if not outcome.revisions and not options.trace_file:
        return UNREACHABLE
    return exit_code(outcome, strict=options.strict)


def _report_file(text: str) -> tuple[Format, str]:
    form, _, file = text.partition(":")
    for known in FORMATS:
        if form == known and file:
            if not os.path.isdir(os.path.dirname(file) or "."):
                raise UsageError(f"--write {text}: the folder {os.path.dirname(file)} does not exist; create it first")
            return known, file
    raise UsageError(f"--write {text}: write FORMAT:FILE, such as junit:report.xml; formats: {', '.join(FORMATS)}")


def _subject(command: Sequence[str] | None) -> str | None:
    """Return the file that a command runs, relative to the current folder; ``None`` if it names none in it."""
    words = list(command or ())
    for word in [*words[1:], *words[:1]]:  # the program itself last: it is often an interpreter
        path = os.path.relpath(word) if os.path.isfile(word) else ""
        if path and not path.startswith("..") and not os.path.isabs(path):
            return path.replace(os.sep, "/")
    return None


@contextmanager
def _recorder(options: Namespace, command: Sequence[str] | None) -> Iterator[Recorder | None]:
    if not options.trace:
        yield None
        return
    target = f"unix:{options.unix}" if options.unix else f"tcp://{options.tcp}" if options.tcp else ""
    try:
        header = header_for("check", argv=command or (), target=target)
        # Some lines of the check are 64 MiB long, and both sides of them wait for the disk.
        recorder = Recorder(options.trace, header, on_loss=_print_note, max_queued=256 * 1024 * 1024, must_open=True)
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
        for connection in fake.connections:
            for entry in connection.entries:
                if isinstance(entry, Line):
                    recorder.line(entry.kind, entry.data, is_whole=entry.is_whole, connection=count)
            count += 1

    return record


def _permissions(options: Namespace) -> Any:
    calls: dict[str, dict[str, Any]] = {}
    for each in options.call:
        name, colon, text = each.partition(":")
        try:
            arguments = decode(text or "{}")
        except DecodeError as error:
            raise UsageError(f"--call {each}: the text after the colon is not JSON: {error}") from error
        if not name or not colon or not isinstance(arguments, dict):
            raise UsageError(f'--call {each}: write NAME:{{JSON}}, such as echo:{{"text": "hello"}}')
        calls[name] = arguments
    return Permissions(tools=frozenset(options.allow_tool), calls=calls)


def _revisions(options: Namespace) -> Sequence[str]:
    return (options.revision,) if options.revision else ALL


def _scenario_timeouts(seconds: float | None, limit: float | None) -> Any:
    known = ScenarioTimeouts()
    client, stimulus = (known.client, known.stimulus) if seconds is None else (seconds, seconds)
    # A client that hangs must be seen to hang for longer than its own timeout.
    return ScenarioTimeouts(client=client + (limit or 0.0), stimulus=stimulus, limit=limit)


def _shows_progress(options: Namespace) -> bool:
    return options.format == "text" and not options.print and sys.stderr.isatty()


def _progress(options: Namespace) -> Callable[[str], None] | None:
    if not _shows_progress(options):
        return None

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{visible(text)}")
        sys.stderr.flush()

    return show


def _print_note(text: str) -> None:
    sys.stderr.write(f"twopipes check: {visible(text)}\n")
