"""``twopipes replay``: says the recorded client's part to a live server, and shows what it answers otherwise than it did."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, json

from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError
from twopipes.errors import StartFailed, TwopipesError

if TYPE_CHECKING:
    import argparse

    from twopipes._cli.replay_run import Ended
    from twopipes._tools.replay.compare import Finding, Report
    from twopipes._trace.conversation import Conversation, RecordedConnection
    from twopipes._trace.matching import Difference

__all__ = ["replay"]

_USAGE = "twopipes replay FILE [--ignore NAME]... [--timeout SECONDS] [--output json] -- CMD..."
_DESCRIPTION = """\
Sends the recorded client's messages to a server, and shows where its answers differ from those of the recording. Every tool
that the recorded client called is called again, with the same arguments.

Each message is sent when all that the recorded server had said before it has come. What a server makes up anew each time is put
in its place: the ids of its questions, requestState, cursors. Notifications are compared as sets, per request where they belong
to one. Not compared are the values of requestState, nextCursor, elicitationId and progress tokens, the server's name and version
in results other than that of server/discover, pings, and answers to requests that the client had cancelled."""
_EPILOG = """\
examples:
  twopipes replay session.jsonl -- python server.py
  twopipes replay session.jsonl --ignore timestamp --ignore result.content.0.text -- node build/index.js

exit codes:
  0    the answers are the same
  1    something differs: an answer, a question, a notification; or the server ended in the middle
  2    the command line is wrong, the recording cannot be read, or the server cannot be started
  130  interrupted by Ctrl-C"""

DIFFERS = 1
MISTAKEN = 2
# Characters of a value that a person is shown. A program gets all of them.
_SHOWN = 300
# Differences of one thing that a person is shown.
_LISTED = 20
# Lines of stderr that a person is shown.
_LAST_WORDS = 10
# Seconds to wait for an answer, unless the recording shows that it takes longer.
PATIENCE = 30.0

_TITLES = {
    "answer differs": "the answer differs",
    "no answer": "no answer",
    "additional answer": "an answer that the recording does not have",
    "question differs": "the server's question differs",
    "no question": "the server did not ask this",
    "additional question": "the server asks what the recording does not have",
    "notifications differ": "the notifications differ",
    "noise": "noise",
    "not sent": "not sent",
}


def replay(arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit code: 0 for the same, 1 for a difference, 2 for what the user can mend."""
    from twopipes._cli.server_options import split_command, the_server  # noqa: PLC0415 - argparse, for those who read options with it

    words, command = split_command(arguments)
    try:
        options = _parser().parse_args(words)
        options.config = options.server = None
        conversation, connection = _recording(options)
        pointed_at = the_server(options, command)
        return _run(options, conversation, connection, pointed_at.target, pointed_at.description)
    except (UsageError, StartFailed) as mistake:
        return _mistaken(mistake)


def _mistaken(mistake: Exception) -> int:
    sys.stderr.write(f"Error: {visible(' '.join(str(mistake).split()))}\n")
    return MISTAKEN


def _parser() -> argparse.ArgumentParser:
    from twopipes._cli.server_options import CommandParser  # noqa: PLC0415 - as above

    parser = CommandParser("twopipes replay", usage=_USAGE, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("file", metavar="FILE", help="a recording: of twopipes tap, connect(trace=) or server.run(trace=)")
    parser.add_argument(
        "--ignore",
        metavar="NAME",
        action="append",
        default=[],
        help="do not compare members with this name; or, by a path such as result.content.0.text, the one in that place"
        " (* for any one step)",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        help=f"wait so long for an answer (default {PATIENCE:g}, or three times what the recorded server took)",
    )
    parser.add_argument("--connection", metavar="N", type=int, help="which one, if the recording has several; the first otherwise")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="for people, or for programs")
    which = parser.add_argument_group("which server", "Its command behind --, or one of:")
    which.add_argument("--unix", metavar="PATH", help="the Unix socket it listens on")
    which.add_argument("--tcp", metavar="HOST:PORT", help="the TCP port it listens on")
    how = parser.add_argument_group("how it is started")
    how.add_argument("--env", metavar="NAME[=VALUE]", action="append", default=[], help="a variable for it; without a value, ours")
    how.add_argument("--inherit-env", action="store_true", help="give it all of our environment, not only what all programs need")
    how.add_argument("--cwd", metavar="FOLDER", help="the folder it starts in")
    return parser


def _seconds(text: str) -> float:
    import argparse  # noqa: PLC0415 - as above

    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return number


def _recording(options: argparse.Namespace) -> tuple[Conversation, RecordedConnection]:
    from twopipes._trace.conversation import read_conversation  # noqa: PLC0415 - once the options are good
    from twopipes._trace.reader import read  # noqa: PLC0415 - likewise

    try:
        trace = read(options.file)
        conversation = read_conversation(trace, trace.header)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{options.file} cannot be read as a recording: {reason}") from error
    spoken = [connection for connection in conversation.connections if any(call.direction == ">" for call in connection.calls)]
    if not spoken:
        raise UsageError(f"{options.file} holds no request of a client, so there is nothing to replay")
    if options.connection is None:
        if len(spoken) > 1:
            numbers = ", ".join(str(connection.number) for connection in spoken)
            _remark(f"the recording has {len(spoken)} connections ({numbers}); this replays the first; see --connection")
    else:
        numbers = ", ".join(str(connection.number) for connection in spoken)
        spoken = [connection for connection in spoken if connection.number == options.connection]
        if not spoken:
            raise UsageError(f"{options.file} has no connection {options.connection}; it has {numbers}")
    if trace.header.redacted:
        _remark(f"the recording was made with values left out ({', '.join(trace.header.redacted)}); the server gets the blanks")
    if not spoken[0].is_complete:
        _remark("the recording says that something is missing in it; what differs may be that")
    return conversation, spoken[0]


def _remark(text: str) -> None:
    sys.stderr.write(f"twopipes replay: {visible(text)}\n")


def _run(
    options: argparse.Namespace, conversation: Conversation, connection: RecordedConnection, target: Any, description: str
) -> int:
    from twopipes._cli.interrupts import run_interruptibly  # noqa: PLC0415 - asyncio, once everything else is good
    from twopipes._cli.replay_run import ReplayTimeouts, run_replay  # noqa: PLC0415 - likewise
    from twopipes._cli.server_options import message_of  # noqa: PLC0415 - likewise
    from twopipes._tools.replay.compare import compare  # noqa: PLC0415 - likewise
    from twopipes._tools.replay.script import Replay  # noqa: PLC0415 - likewise

    plan = Replay(conversation, connection, ignore=options.ignore)
    patience = ReplayTimeouts(PATIENCE if options.timeout is None else options.timeout, is_exact=options.timeout is not None)

    async def work() -> int:
        try:
            ended = await run_replay(plan, target, patience)
        except TwopipesError as error:
            raise UsageError(message_of(error)) from error
        report = compare(plan)
        if options.output == "json":
            sys.stdout.write(json.encode(_for_programs(report, ended)).decode() + "\n")
        else:
            _show(Terminal(), report, ended, description)
        return 0 if report.is_same else DIFFERS

    return run_interruptibly(work, on_interrupt=lambda number: _remark("interrupted") if number == 1 else None)


class _Told(Struct, kw_only=True):
    """What programs get."""

    same: bool
    requests: int
    sent: int
    answers: int
    answers_same: int
    findings: tuple[Finding, ...]
    ended: str | None  # how the server ended, if it did so in the middle
    stderr: list[str]


def _for_programs(report: Report, ended: Ended) -> _Told:
    return _Told(
        same=report.is_same,
        requests=report.requests,
        sent=report.sent,
        answers=report.answers,
        answers_same=report.same,
        findings=report.findings,
        ended=ended.how if report.is_cut_short else None,
        stderr=ended.stderr,
    )


def _show(terminal: Terminal, report: Report, ended: Ended, description: str) -> None:
    for finding in report.findings:
        _show_finding(terminal, finding)
    if report.is_cut_short:
        terminal.say((f"{visible(description)}: {visible(ended.how)}", "bold red"))
        left = report.requests - report.sent
        if left:
            terminal.say(f"  {_count(left, 'request')} of the recording could not be sent any more")
        if ended.stderr:
            terminal.say("  its last words on stderr:")
            for line in ended.stderr[-_LAST_WORDS:]:
                terminal.say(f"    {visible(line)}")
        terminal.say()
    counted = (
        f"{report.sent} of {_count(report.requests, 'request')} sent, {report.same} of {_count(report.answers, 'answer')} the same"
    )
    if report.is_same:
        terminal.say((f"No difference: {counted}.", "green"))
    else:
        found = len(report.findings)
        terminal.say((f"{_count(found, 'difference') if found else 'Not the whole recording'}: {counted}.", "red"))
    terminal.flush()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _show_finding(terminal: Terminal, finding: Finding) -> None:
    reason = f" ({visible(finding.reason)})" if finding.reason else ""
    terminal.say((visible(finding.subject), "bold"), ": ", (_TITLES[finding.kind], "red"), reason)
    for difference in finding.differences[:_LISTED]:
        _show_difference(terminal, difference)
    if len(finding.differences) > _LISTED:
        terminal.say(f"  ... and {len(finding.differences) - _LISTED} more; --output json has them all")
    terminal.say()


def _show_difference(terminal: Terminal, difference: Difference) -> None:
    name = f"  ({visible(difference.name)})" if difference.name else ""
    terminal.say(f"  {visible(difference.path)}", (name, "dim"))
    terminal.say(("    recorded  ", "dim"), _shown(difference.recorded))
    terminal.say(("    live      ", "dim"), _shown(difference.live))


def _shown(value: Any) -> str:
    if value is UNSET:
        return "(nothing)"
    text = json.encode(value).decode()
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]}... ({len(text):,} characters)"
    return visible(text)
