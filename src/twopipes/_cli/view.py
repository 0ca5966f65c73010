"""``twopipes view``: show a trace as a conversation, in the terminal or as an HTML page."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence

from twopipes._cli.command_parser import CommandParser, add_list_option, discard_stdout, milliseconds
from twopipes._cli.trace_file import load_conversation, open_trace
from twopipes._tools.exit_codes import OK
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError
from twopipes._tools.view.html import write_page
from twopipes._tools.view.render import Choice, Renderer
from twopipes._trace.conversation import Conversation
from twopipes._trace.findings import Judge
from twopipes._trace.format import Event
from twopipes._trace.wording import Rendered

# Seconds between two looks at a trace that is still being written.
_PAUSE = 0.1

_USAGE = """\
twopipes view FILE [-f] [--method M] [--id ID] [--errors] [--slow MS]
                     [--full] [--color WHEN] [--html OUT.html]"""
_DESCRIPTION = """\
Shows a trace as a conversation: requests with their responses and how long they
took, notifications, requests without a response, lines of stderr, and every
breach of a rule of the protocol, with the id of the rule."""
_EXAMPLES = [
    "twopipes view session.jsonl",
    "twopipes view -f session.jsonl          (while `twopipes tap` writes it)",
    "twopipes view --errors session.jsonl    (only what went wrong)",
    "twopipes view --method 'tools/*' --slow 500 session.jsonl",
    "twopipes view --html session.html session.jsonl",
]


def view(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    try:
        options = _parser().parse_args(list(arguments))
        if options.html is not None:
            return _write_page(options)
        return _show(options)
    except BrokenPipeError:
        discard_stdout()
        return OK


def _parser() -> CommandParser:
    parser = CommandParser("view", usage=_USAGE, description=_DESCRIPTION, examples=_EXAMPLES)
    parser.add_argument("file", metavar="FILE", help="a trace, as written by tap, --trace or connect(trace=...)")
    parser.add_argument("-f", "--follow", action="store_true", help="wait for more, until the trace ends or Ctrl-C")
    chosen = parser.add_argument_group("what to show (messages that match all of these)")
    add_list_option(chosen, "--method", "M", "this method, or 'tools/*'; may be repeated")
    add_list_option(chosen, "--id", "ID", "the request with this id; may be repeated")
    chosen.add_argument("--errors", action="store_true", help="errors, missing responses and broken rules")
    chosen.add_argument("--slow", type=milliseconds, metavar="MS", help="requests that took at least this long, such as 500 or 2s")
    shown = parser.add_argument_group("how to show it")
    shown.add_argument("--full", action="store_true", help="show whole messages as indented JSON")
    shown.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        metavar="WHEN",
        default="auto",
        help="always, never, or auto (default): if stdout is a terminal",
    )
    shown.add_argument("--html", metavar="OUT.html", help="write an HTML page instead; it loads nothing else")
    return parser


def _show(options: Namespace) -> int:
    choice = Choice(methods=tuple(options.method), ids=tuple(options.id), errors=options.errors, slow=options.slow)
    terminal = Terminal(colour={"auto": None, "always": True, "never": False}[options.color])
    if options.follow:
        return _follow(options, choice, terminal)
    trace = open_trace(options.file)
    conversation = load_conversation(trace)
    renderer = Renderer(conversation, choice, width=_width(terminal), is_full=options.full, escape=visible)
    judging = Judge(conversation)
    findings = [judging.look(item) for item in conversation.items]
    for found in findings:
        renderer.know(found)
    writer = _LineWriter(terminal)
    writer.write(renderer.header())
    for item, found in zip(conversation.items, findings, strict=True):
        writer.write(renderer.show(item, found))
    writer.write(renderer.summary())
    terminal.flush()
    return OK


def _follow(options: Namespace, choice: Choice, terminal: Terminal) -> int:
    has_ended = False

    def wait() -> bool:
        if has_ended:
            return False
        terminal.flush()
        time.sleep(_PAUSE)
        return True

    try:
        trace = open_trace(options.file, follow=wait)
    except KeyboardInterrupt:
        return OK
    conversation = Conversation(trace.header)
    renderer = Renderer(conversation, choice, width=_width(terminal), is_full=options.full, escape=visible)
    judging = Judge(conversation)
    writer = _LineWriter(terminal)
    try:
        writer.write(renderer.header())
        for entry in trace:
            shown = len(conversation.items)
            conversation.feed(entry)
            # One entry can complete several items: the end of a stream also ends the partial line on it.
            for item in conversation.items[shown:]:
                writer.write(renderer.show(item, judging.look(item)))
            if isinstance(entry, Event) and entry.name == "exit" and trace.header.recorder == "tap":
                has_ended = True  # a tap has one server, and writes this entry last
        for item in conversation.finish():
            writer.write(renderer.show(item, judging.look(item)))
    except KeyboardInterrupt:
        conversation.finish()
    writer.write(renderer.summary())
    terminal.flush()
    return OK


def _width(terminal: Terminal) -> int | None:
    return terminal.width if terminal.is_terminal else None


class _LineWriter:
    """Writes styled lines. Caches the escape codes of each style, because a trace has many lines."""

    def __init__(self, terminal: Terminal) -> None:
        self._write = terminal.stream.write
        self._rich = terminal.rich
        self._codes: dict[str, tuple[str, str]] = {}

    def write(self, lines: Iterable[Rendered]) -> None:
        """Write lines with every piece escaped: recorded text must not control the terminal."""
        for line in lines:
            text = ""
            for piece in (piece for piece in line if piece.text):
                before, after = self._codes.get(piece.style) or self._look_up(piece.style)
                text += before + visible(piece.text) + after
            self._write(text + "\n")

    def _look_up(self, style: str) -> tuple[str, str]:
        self._codes[style] = ("", "") if self._rich is None else self._rich.escape_codes(style)
        return self._codes[style]


def _write_page(options: Namespace) -> int:
    trace = open_trace(options.file)
    try:
        write_page(trace, options.html)
    except OSError as error:
        raise UsageError(f"{options.html} cannot be written: {error.strerror or error}") from error
    sys.stderr.write(f"wrote {visible(options.html)}\n")
    return OK
