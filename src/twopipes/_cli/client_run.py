"""One conversation with a server, for a command: connect, ask, and turn whatever happens into an exit code."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import Raw
from msgspec import json as msgspec_json

from twopipes._cli.arguments import read_pair
from twopipes._cli.display import ResultPrinter, Saver
from twopipes._cli.interrupts import run_interruptibly
from twopipes._cli.keyboard import Keyboard
from twopipes._cli.raw_results import RawResults, tee_target
from twopipes._cli.reporter import Reporter
from twopipes._cli.server_options import connect_options, message_of, the_server
from twopipes._cli.terminal_questions import Answers, TerminalPrompter
from twopipes._client.client import Client
from twopipes._client.connect import connect
from twopipes._client.results import CallResult
from twopipes._error_tail import left_behind
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError
from twopipes.errors import (
    CAPABILITY_MISSING,
    ChannelBroken,
    ConnectionLost,
    LocalProtocolError,
    McpError,
    OpeningFailed,
    RemoteProtocolError,
    RequestTimedOut,
    ServerExited,
    StartFailed,
    TwopipesError,
)
from twopipes.settings import RestartPolicy, Timeouts

__all__ = ["EXIT_CODES", "Conversation", "exit_code_for", "run_client_command"]

OK, REFUSED, USAGE, UNREACHABLE, LOST = 0, 1, 2, 3, 4

EXIT_CODES = """\
exit codes:
  0    it worked
  1    the server answered with an error, or the tool failed
  2    a mistake on the command line, such as an argument that the tool does not have
  3    the server could not be started or reached
  4    no answer in time, or the server died, or its answer makes no sense
  130  interrupted by Ctrl-C
"""

_HOW_TO_DECLARE = {
    "elicitation": "It wants to ask you something: run it at a terminal, or answer with --answer KEY=VALUE.",
    "sampling": "It wants to ask a model: answer in its place with --sample TEXT, or --sample - at a terminal.",
    "roots": "It wants to know where it may look: give --root PATH.",
}

T = TypeVar("T")
Body = Callable[["Conversation"], Awaitable[int]]

# Waits for whatever it takes; the patience of the user is measured by the conversation, which knows of questions.
_NO_LIMIT = Timeouts(request=None, total=None)
_PATIENCE = Timeouts().request


class Conversation:
    """A server within reach, and the user.

    Attributes:
        options: What the user wants.
        client: The server.
        printer: Shows results, on stdout.
        reporter: Says everything else, on stderr.
    """

    client: Client

    def __init__(self, options: argparse.Namespace, reporter: Reporter, *, name: str) -> None:
        self.options = options
        self.reporter = reporter
        folder = getattr(options, "save", None)
        self._saver = None if folder is None else Saver(folder, name)
        self.printer = ResultPrinter.on(sys.stdout, self._saver)
        self.wants_json = options.output == "json"
        self.raw_results = RawResults()
        self._patience: asyncio.Timeout | None = None
        self._open_questions = 0
        self.seconds = _PATIENCE if options.timeout is None else options.timeout or None

    async def ask(self, method: Callable[..., Awaitable[T]], *arguments: Any, **options: Any) -> T:
        """Awaits a call of the client, for as long as anything is heard of it; the user's own time does not count.

        Raises:
            RequestTimedOut: Nothing was heard. The server was told that the answer is not wanted any more.
        """
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.seconds) as self._patience:
                return await method(*arguments, timeouts=_NO_LIMIT, on_progress=self._progress, **options)
        except TimeoutError as error:
            if isinstance(error, TwopipesError) or self._patience is None or not self._patience.expired():
                raise
            waited = asyncio.get_running_loop().time() - began
            raise _SilentServer(self.seconds or 0.0, waited) from None
        finally:
            self._patience = None
            self.reporter.done()

    @contextmanager
    def attention(self) -> Iterator[None]:
        """While the user is asked something: no bar on the screen, and no clock runs."""
        self._open_questions += 1
        self._start_clock()
        try:
            with self.reporter.paused():
                yield
        finally:
            self._open_questions -= 1
            self._start_clock()

    def answer(self, value: Raw | dict[str, Any] | None) -> None:
        """Writes what a program wants: JSON, and nothing else."""
        self.printer.raw(msgspec_json.encode(value))

    def failed(self, result: CallResult) -> None:
        """Shows what a tool said that failed, on stderr: it is not what was asked for."""
        ResultPrinter.on(sys.stderr, self._saver).result(result)

    def complain(self, error: TwopipesError, *, about: str = "") -> None:
        """Says what went wrong, on stderr.

        Args:
            error: What it was.
            about: The method that failed, where more than one was sent.
        """
        text = message_of(error)
        if isinstance(error, ServerExited | OpeningFailed) and not self.reporter.quiet:
            text = text.removesuffix(left_behind(error.stderr, error.stray_stdout))  # the user has seen it coming
        self.reporter.say(("Error: ", "bold red"), _shown(f"{about} failed: {text}" if about else text))
        if isinstance(error, McpError):
            _show_urls(error, self.reporter)
            _show_what_is_missing(error, self.reporter)

    def _progress(self, params: Any) -> None:
        self._start_clock()
        self.reporter.progress(params)

    def _start_clock(self) -> None:
        if self._patience is not None and self.seconds is not None and not self._patience.expired():
            now = asyncio.get_running_loop().time()
            self._patience.reschedule(None if self._open_questions else now + self.seconds)


class _SilentServer(TwopipesError):
    """Nothing was heard of the server for as long as the user wanted to wait."""

    def __init__(self, seconds: float, waited: float) -> None:
        super().__init__(seconds, waited)
        self.seconds = seconds
        self.waited = waited

    def __str__(self) -> str:
        return (
            f"nothing was heard of the server for {self.seconds:g} s; the request was given up after {self.waited:.3g} s. "
            "--timeout SECONDS waits longer"
        )


def run_client_command(options: argparse.Namespace, command: Sequence[str] | None, body: Body, *, name: str = "") -> int:
    """Connects to the server that the options name, has the body ask it, and returns the exit code.

    Args:
        options: What the parser read.
        command: The words behind ``--``.
        body: Asks, and shows what is answered.
        name: What files are called that come of it.

    Raises:
        UsageError: The options make no sense. Nothing was started.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a text of the server must not break what shows it
    server = the_server(options, command)
    reporter = Reporter(Terminal(sys.stderr), quiet=options.quiet)
    conversation = Conversation(options, reporter, name=name)
    target = tee_target(server.target, conversation.raw_results) if conversation.wants_json else server.target
    settings = {**connect_options(options), **_callbacks(options, conversation)}

    async def work() -> int:
        return await _carry_out(lambda: connect(target, **settings), conversation, body)

    def on_interrupt(number: int) -> None:
        reporter.done()
        if reporter.terminal.is_terminal:
            sys.stderr.write("\n")  # behind the ^C that the terminal has shown
        if number == 1:
            reporter.say(("Interrupted: the server is told, and ended. Ctrl-C again ends it at once.", "yellow"))
        else:
            reporter.say(("Ending the server at once.", "yellow"))

    return run_interruptibly(work, on_interrupt=on_interrupt)


async def _carry_out(connecting: Callable[[], Any], conversation: Conversation, body: Body) -> int:
    reached = False
    code: int | None = None
    try:
        async with connecting() as conversation.client:
            reached = True
            code = await _shown_to_the_end(body(conversation))
    except asyncio.CancelledError:
        if code is None:
            raise
        # The user has the answer, and did not want to wait until the server is gone.
    except (UsageError, LocalProtocolError) as mistake:
        conversation.reporter.say(("Error: ", "bold red"), _shown(str(mistake)))
        return USAGE
    except TwopipesError as error:
        _complain(error, conversation)
        return exit_code_for(error, reached=reached)
    return code


async def _shown_to_the_end(body: Awaitable[int]) -> int:
    try:
        code = await body
        sys.stdout.flush()
    except SystemExit:
        raise BrokenPipeError from None  # what rich makes of one, and an event loop does not understand
    return code


def exit_code_for(error: TwopipesError, *, reached: bool) -> int:
    """The exit code for an error.

    Args:
        error: What went wrong.
        reached: Whether the connection was open by then.
    """
    match error:
        case StartFailed() | OpeningFailed():
            return UNREACHABLE
        case ServerExited() if error.phase != "serving":
            return UNREACHABLE
        case ServerExited() | ConnectionLost() | RequestTimedOut() | ChannelBroken() | RemoteProtocolError() | _SilentServer():
            return LOST if reached else UNREACHABLE
        case McpError():
            return REFUSED
        case _:
            return LOST


def _complain(error: TwopipesError, conversation: Conversation) -> None:
    conversation.complain(error)
    if isinstance(error, McpError) and conversation.wants_json and conversation.raw_results.error is not None:
        conversation.answer({"error": conversation.raw_results.error})
        sys.stdout.flush()


def _show_urls(error: McpError, reporter: Reporter) -> None:
    """A server of 2025-11-25 may want the user to visit pages first (ER-11)."""
    asked = error.data.get("elicitations") if isinstance(error.data, dict) else None
    for each in asked if isinstance(asked, list) else ():
        if isinstance(each, dict) and isinstance(each.get("url"), str):
            reporter.say(f"  {visible(str(each.get('message', 'Visit')))}: ", (visible(each["url"]), "underline"))


def _show_what_is_missing(error: McpError, reporter: Reporter) -> None:
    """A server that needs something of its client says what (ER-10); here is how to give it."""
    needed = error.data.get("requiredCapabilities") if isinstance(error.data, dict) else None
    for name, how in _HOW_TO_DECLARE.items():
        if error.code == CAPABILITY_MISSING and isinstance(needed, dict) and name in needed:
            reporter.say(f"  {how}")


def _shown(text: str) -> str:
    return "\n".join(visible(line) for line in text.split("\n"))


def _callbacks(options: argparse.Namespace, conversation: Conversation) -> dict[str, Any]:
    reporter = conversation.reporter
    found: dict[str, Any] = {
        "on_log": reporter.log,
        "on_stderr": reporter.stderr,
        "on_stray_output": reporter.stray,
        # A server that dies under a command is what its user wants to know.
        "restart": RestartPolicy(when="never"),
    }
    if not hasattr(options, "answer"):
        return found
    answers = Answers([read_pair(word, what="answer") for word in options.answer])
    is_attended = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if options.sample == "-" and not is_attended:
        raise UsageError("--sample - asks at the terminal, and there is none; give the text")

    def prompt(sign: str) -> None:
        sys.stderr.write(sign)
        sys.stderr.flush()

    questioner = TerminalPrompter(
        reporter.terminal.say,
        prompt,
        Keyboard() if is_attended else None,
        answers=answers,
        attention=conversation.attention,
        sample=options.sample,
        quiet=options.quiet,
    )
    # CP-02: what nobody can answer is not declared.
    if is_attended or answers:
        found["on_elicit"] = questioner.elicit
    if is_attended:
        found["on_elicit_url"] = questioner.visit
    if options.sample is not None:
        found["on_sample"] = questioner.sample
    if options.root:
        found["roots"] = options.root
    return found
