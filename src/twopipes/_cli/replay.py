"""``twopipes replay``: send recorded requests to a live server and show which responses differ."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, json

from twopipes._cli import command_parser as parsing
from twopipes._cli.interrupts import run_interruptibly
from twopipes._cli.replay_run import ReplayEnd, ReplayTimeouts, run_replay
from twopipes._cli.server_options import message_of, the_server
from twopipes._cli.trace_file import load_conversation, open_trace
from twopipes._tools.exit_codes import FAILED, OK
from twopipes._tools.replay.compare import Finding, Report, compare
from twopipes._tools.replay.script import Replay
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError
from twopipes._trace.conversation import Conversation, RecordedConnection
from twopipes.errors import TwopipesError

_USAGE = """\
twopipes replay FILE [--ignore NAME]... [options] -- CMD...
       twopipes replay FILE [--ignore NAME]... [options] URL
       twopipes replay FILE [--ignore NAME]... [options] --unix PATH
       twopipes replay FILE [--ignore NAME]... [options] --tcp HOST:PORT"""
_DESCRIPTION = """\
Sends the messages of the recorded client to a server, and shows where its
responses differ from the recorded ones. Calls every tool that the recorded
client called, with the same arguments.

A message is sent when everything that the recorded server sent before it has
arrived. Values that a server generates itself are replaced: the ids of its
requests, requestState, cursors. Notifications are compared as sets, per request
if they belong to one.

Not compared: the values of requestState, nextCursor, elicitationId and progress
tokens; the name and version of the server, except in the result of
server/discover; pings; and responses to requests that the client had cancelled."""
_EXAMPLES = [
    "twopipes replay session.jsonl -- python server.py",
    "twopipes replay session.jsonl --ignore timestamp -- python server.py",
    "twopipes replay session.jsonl --ignore result.content.0.text -- node index.js",
    "twopipes replay session.jsonl http://127.0.0.1:8000/mcp",
]
# Limits of the text output. JSON contains everything.
_MAX_VALUE = 300  # characters of a value
_MAX_DIFFERENCES = 20  # of one finding
_MAX_STDERR = 10  # lines
# Seconds to wait for a response, unless the recorded server took longer.
_DEFAULT_TIMEOUT = 30.0

_TITLES = {
    "answer differs": "the response differs",
    "no answer": "no response",
    "additional answer": "a response that is not in the trace",
    "question differs": "the request of the server differs",
    "no question": "the server did not send this request",
    "additional question": "a request of the server that is not in the trace",
    "notifications differ": "the notifications differ",
    "noise": "output that is not a message",
    "not sent": "not sent",
}


def replay(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    words, command = parser.split_server(arguments)
    options = parser.parse_args(words)
    options.config = options.server = None
    conversation, connection = _load(options)
    server = the_server(options, command)
    plan = Replay(conversation, connection, ignore=options.ignore)
    seconds = _DEFAULT_TIMEOUT if options.timeout is None else options.timeout
    timeouts = ReplayTimeouts(seconds, is_exact=options.timeout is not None)

    async def work() -> int:
        try:
            end = await run_replay(plan, server, timeouts)
        except TwopipesError as error:
            raise UsageError(message_of(error)) from error
        try:
            report = compare(plan)
        except RecursionError as error:
            raise UsageError(f"cannot compare the responses with {options.file}: one is nested too deeply") from error
        if options.format == "json":
            sys.stdout.write(json.encode(_json_report(report, end)).decode() + "\n")
        else:
            _show(Terminal(), report, end, server.description)
        return OK if report.is_same else FAILED

    return run_interruptibly(work, on_interrupt=lambda number: _print_note("interrupted") if number == 1 else None)


def _parser() -> parsing.CommandParser:
    parser = parsing.CommandParser("replay", usage=_USAGE, description=_DESCRIPTION, examples=_EXAMPLES)
    parser.add_argument("file", metavar="FILE", help="a trace, as written by tap, --trace or connect(trace=...)")
    text = "do not compare members with this name, or at this path, such as result.content.0.text (* matches one step)"
    parsing.add_list_option(parser, "--ignore", "NAME", text)
    parsing.add_timeout_option(parser, f"default {_DEFAULT_TIMEOUT:g}, or three times as long as the recorded server took")
    parser.add_argument("--connection", metavar="N", type=int, help="the connection to replay (default: the first)")
    parsing.add_format_option(parser)
    which = parser.add_argument_group("which server", "Its command after --, its URL, or one of:")
    parsing.add_socket_options(which)
    parsing.add_url_options(parser)
    parsing.add_start_options(parser)
    return parser


def _load(options: Namespace) -> tuple[Conversation, RecordedConnection]:
    trace = open_trace(options.file)
    conversation = load_conversation(trace)
    connections = [each for each in conversation.connections if any(call.direction == ">" for call in each.calls)]
    if not connections:
        raise UsageError(f"{options.file} contains no request of a client; there is nothing to replay")
    numbers = ", ".join(str(each.number) for each in connections)
    if options.connection is None:
        if len(connections) > 1:
            _print_note(f"the trace has {len(connections)} connections ({numbers}); replaying the first; see --connection")
    else:
        connections = [each for each in connections if each.number == options.connection]
        if not connections:
            raise UsageError(f"{options.file} has no connection {options.connection}; it has {numbers}")
    if trace.header.redacted:
        _print_note(f"values were redacted in the trace ({', '.join(trace.header.redacted)}); the server gets the placeholders")
    if not connections[0].is_complete:
        _print_note("the trace is incomplete; a difference may be caused by that")
    return conversation, connections[0]


def _print_note(text: str) -> None:
    sys.stderr.write(f"twopipes replay: {visible(text)}\n")


def _json_report(report: Report, end: ReplayEnd) -> dict[str, Any]:
    return {
        "same": report.is_same,
        "requests": report.requests,
        "sent": report.sent,
        "answers": report.answers,
        "answers_same": report.same,
        "findings": report.findings,
        "ended": end.reason if report.is_cut_short else None,
        "stderr": end.stderr,
    }


def _show(terminal: Terminal, report: Report, end: ReplayEnd, description: str) -> None:
    for finding in report.findings:
        _show_finding(terminal, finding)
    if report.is_cut_short:
        terminal.say((f"{visible(description)}: {visible(end.reason)}", "bold red"))
        if left := report.requests - report.sent:
            terminal.say(f"  {_count(left, 'recorded request')} could not be sent")
        if end.stderr:
            terminal.say("  the last lines of its stderr:")
            for line in end.stderr[-_MAX_STDERR:]:
                terminal.say(f"    {visible(line)}")
        terminal.say()
    sent = f"{report.sent} of {_count(report.requests, 'request')} sent"
    same = f"{report.same} of {_count(report.answers, 'response')} the same"
    verdict = "No difference" if report.is_same else _count(len(report.findings), "difference") if report.findings else "Incomplete"
    terminal.say((f"{verdict}: {sent}, {same}.", "green" if report.is_same else "red"))
    terminal.flush()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _show_finding(terminal: Terminal, finding: Finding) -> None:
    reason = f" ({visible(finding.reason)})" if finding.reason else ""
    terminal.say((visible(finding.subject), "bold"), ": ", (_TITLES[finding.kind], "red"), reason)
    for difference in finding.differences[:_MAX_DIFFERENCES]:
        name = f"  ({visible(difference.name)})" if difference.name else ""
        terminal.say(f"  {visible(difference.path)}", (name, "dim"))
        terminal.say(("    recorded  ", "dim"), _shown(difference.recorded))
        terminal.say(("    live      ", "dim"), _shown(difference.live))
    if len(finding.differences) > _MAX_DIFFERENCES:
        terminal.say(f"  ... and {len(finding.differences) - _MAX_DIFFERENCES} more; --format json shows all")
    terminal.say()


def _shown(value: Any) -> str:
    if value is UNSET:
        return "(nothing)"
    text = json.encode(value).decode()
    if len(text) > _MAX_VALUE:
        text = f"{text[:_MAX_VALUE]}... ({len(text):,} characters)"
    return visible(text)
