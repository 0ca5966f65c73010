"""``twopipes view``: a recording as a conversation, in the terminal or as an HTML page."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING

from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError

if TYPE_CHECKING:
    import argparse

    from twopipes._tools.view.render import Choice, Rendered
    from twopipes._trace.conversation import Conversation
    from twopipes._trace.reader import Trace

__all__ = ["view"]

# Seconds between two looks at a recording that is being made.
_PAUSE = 0.1
# What a shell says of a program that Ctrl-C ended.
_INTERRUPTED = 130

_USAGE = "twopipes view FILE [-f] [--method M] [--id ID] [--errors] [--slow MS] [--full] [--html OUT.html]"
_DESCRIPTION = """\
Shows a recording as a conversation: what was asked, what was answered and how long it took, what was told meanwhile, what never
got an answer, what stderr said, and where somebody broke a rule of the protocol (with its id)."""
_EXAMPLES = """\
examples:
  twopipes view session.jsonl
  twopipes view -f session.jsonl            while `twopipes tap -o session.jsonl -- ...` is running
  twopipes view --errors session.jsonl      what went wrong, and nothing else
  twopipes view --method 'tools/*' --slow 500 session.jsonl
  twopipes view --html session.html session.jsonl

exit codes:
  0    it was shown (whatever it shows), or Ctrl-C ended -f
  2    the file cannot be read or is no recording, or an option is wrong
  130  Ctrl-C came while it was being read"""


def view(arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    try:
        options = _parser().parse_args(list(arguments))
        if options.html is not None:
            return _write_page(options)
        return _show(options)
    except UsageError as mistake:
        sys.stderr.write(f"Error: {visible(' '.join(str(mistake).split()))}\n")
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read this has seen enough (`| head`). What is still in the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    from twopipes._cli.server_options import CommandParser  # noqa: PLC0415 - argparse, for those who read options with it

    parser = CommandParser("twopipes view", usage=_USAGE, description=_DESCRIPTION, epilog=_EXAMPLES)
    parser.add_argument("file", metavar="FILE", help="a recording, as tap, connect(trace=...) or run --trace writes it")
    parser.add_argument("-f", "--follow", action="store_true", help="wait for more, until the recording ends or Ctrl-C")
    chosen = parser.add_argument_group("what to show (all of these must fit)")
    chosen.add_argument(
        "--method", action="append", default=[], metavar="M", help="this method; * stands for anything; may be repeated"
    )
    chosen.add_argument("--id", action="append", default=[], metavar="ID", help="the request with this id; may be repeated")
    chosen.add_argument("--errors", action="store_true", help="what went wrong: errors, no answer, broken rules")
    chosen.add_argument("--slow", type=float, metavar="MS", help="what took at least so many milliseconds")
    shown = parser.add_argument_group("how to show it")
    shown.add_argument("--full", action="store_true", help="every message whole, as indented JSON")
    shown.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="auto: if a terminal is there")
    shown.add_argument("--html", metavar="OUT.html", help="write a page for a browser instead; it needs nothing but itself")
    return parser


def _show(options: argparse.Namespace) -> int:
    from twopipes._tools.view.render import Choice, Renderer  # noqa: PLC0415 - likewise
    from twopipes._trace.findings import Judge  # noqa: PLC0415 - a wrong option is told before

    choice = Choice(
        methods=tuple(options.method),
        ids=tuple(options.id),
        errors=options.errors,
        slow=None if options.slow is None else options.slow / 1000,
    )
    terminal = Terminal(colour={"auto": None, "always": True, "never": False}[options.color])
    if options.follow:
        return _follow(options, choice, terminal)
    trace = _read(options.file, None)
    conversation = _conversation(trace)
    renderer = Renderer(conversation, choice, width=_width(terminal), is_full=options.full, escape=visible)
    judging = Judge(conversation)
    findings = [judging.look(item) for item in conversation.items]
    for found in findings:
        renderer.know(found)
    pen = _Pen(terminal)
    pen.write(renderer.header())
    for item, found in zip(conversation.items, findings, strict=True):
        pen.write(renderer.show(item, found))
    pen.write(renderer.summary())
    terminal.flush()
    return 0


def _follow(options: argparse.Namespace, choice: Choice, terminal: Terminal) -> int:
    from twopipes._tools.view.render import Renderer  # noqa: PLC0415 - likewise
    from twopipes._trace.conversation import Conversation  # noqa: PLC0415 - as above
    from twopipes._trace.findings import Judge  # noqa: PLC0415 - likewise
    from twopipes._trace.format import Event  # noqa: PLC0415 - likewise

    has_ended = False

    def wait() -> bool:
        if has_ended:
            return False
        terminal.flush()
        time.sleep(_PAUSE)
        return True

    try:
        trace = _read(options.file, wait)
    except KeyboardInterrupt:
        return 0
    conversation = Conversation(trace.header)
    renderer = Renderer(conversation, choice, width=_width(terminal), is_full=options.full, escape=visible)
    judging = Judge(conversation)
    pen = _Pen(terminal)
    try:
        pen.write(renderer.header())
        for entry in trace:
            shown = len(conversation.items)
            conversation.feed(entry)
            # One entry can end several things: the end of a stream also ends the line that was begun on it.
            for item in conversation.items[shown:]:
                pen.write(renderer.show(item, judging.look(item)))
            if isinstance(entry, Event) and entry.name == "exit" and trace.header.recorder == "tap":
                has_ended = True  # a tap has one server, and says this last
        for item in conversation.finish():
            pen.write(renderer.show(item, judging.look(item)))
    except KeyboardInterrupt:
        conversation.finish()
    pen.write(renderer.summary())
    terminal.flush()
    return 0


def _width(terminal: Terminal) -> int | None:
    return terminal.width if terminal.is_terminal else None


class _Pen:
    """Writes lines of pieces. A recording has many: what a style is in the codes of this terminal is looked up once."""

    def __init__(self, terminal: Terminal) -> None:
        if isinstance(terminal.stream, TextIOWrapper):
            terminal.stream.reconfigure(errors="backslashreplace")  # a terminal that has no such character gets its number
        self._write = terminal.stream.write
        console = terminal.rich
        has_colours = console is not None and console.is_terminal and not console.no_color and console.color_system is not None
        self._console = console if has_colours else None
        self._codes: dict[str, tuple[str, str]] = {"": ("", "")}

    def write(self, lines: Iterable[Rendered]) -> None:
        """Writes them, each piece escaped, whoever wrote it: what is on the wire must not steer the terminal."""
        for line in lines:
            text = ""
            for piece in (piece for piece in line if piece.text):
                before, after = self._codes.get(piece.style) or self._look_up(piece.style)
                text += before + visible(piece.text) + after
            self._write(text + "\n")

    def _look_up(self, style: str) -> tuple[str, str]:
        codes = ("", "")
        if self._console is not None:
            from rich.color import ColorSystem  # noqa: PLC0415 - the extra `cli`
            from rich.style import Style  # noqa: PLC0415 - likewise

            systems = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "windows": ColorSystem.WINDOWS}
            system = systems.get(self._console.color_system, ColorSystem.TRUECOLOR)
            before, _, after = Style.parse(style).render("|", color_system=system).partition("|")
            codes = before, after
        self._codes[style] = codes
        return codes


def _conversation(trace: Trace) -> Conversation:
    from twopipes._trace.conversation import read_conversation  # noqa: PLC0415 - as above

    try:
        return read_conversation(trace, trace.header)
    except OSError as error:
        raise UsageError(f"{trace.path} cannot be read: {error.strerror or error}") from error


def _read(path: str, follow: Callable[[], bool] | None) -> Trace:
    from twopipes._trace.reader import read  # noqa: PLC0415 - as above

    try:
        return read(path, follow=follow)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path} is no recording: {error}; record one with twopipes tap -o FILE -- CMD...") from error


def _write_page(options: argparse.Namespace) -> int:
    from twopipes._tools.view.html import write_page  # noqa: PLC0415 - as above

    trace = _read(options.file, None)
    try:
        write_page(trace, options.html)
    except OSError as error:
        raise UsageError(f"{options.html} cannot be written: {error.strerror or error}") from error
    sys.stderr.write(f"wrote {visible(options.html)}\n")
    return 0
