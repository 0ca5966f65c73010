"""Run one client command: connect to a server, send requests, and turn the outcome into an exit code."""

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
from twopipes._cli.raw_results import RawResults, observed_target
from twopipes._cli.reporter import Reporter
from twopipes._cli.server_options import connect_options, message_of, the_server
from twopipes._cli.terminal_questions import Keyboard, TerminalPrompter
from twopipes._client.client import Client
from twopipes._client.connect import connect
from twopipes._client.results import CallResult
from twopipes._codes import CAPABILITY_MISSING
from twopipes._error_text import output_excerpt
from twopipes._tools.exit_codes import FAILED, NO_RESPONSE, UNREACHABLE
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError
from twopipes.errors import LocalProtocolError, McpError, OpeningFailed, ServerExited, StartFailed, TwopipesError
from twopipes.settings import RestartPolicy, Timeouts

_HOW_TO_DECLARE = {
    "elicitation": "The server needs input from you: run this at a terminal, or use --answer KEY=VALUE.",
    "sampling": "The server needs the response of a model: use --sample TEXT, or --sample - at a terminal.",
    "roots": "The server needs to know which folders it may access: use --root PATH.",
}

T = TypeVar("T")
Body = Callable[["Conversation"], Awaitable[int]]

# The conversation measures the timeout itself, because the time that the user needs for answers does not count.
_NO_LIMIT = Timeouts(request=None, total=None)
_DEFAULT_TIMEOUT = Timeouts().request


class Conversation:
    """A connected server, and the output of the command."""

    client: Client  # the connected client

    def __init__(self, options: argparse.Namespace, reporter: Reporter, *, name: str) -> None:
        self.options = options  # the parsed options
        self.reporter = reporter  # writes everything else to stderr
        folder = getattr(options, "save", None)
        self._saver = None if folder is None else Saver(folder, name)
        self.printer = ResultPrinter.on(sys.stdout, self._saver)  # writes results to stdout
        self.wants_json = options.format == "json"
        self.raw_results = RawResults()  # the results as the server sent them, if the output is JSON
        self._timeout: asyncio.Timeout | None = None
        self._open_questions = 0
        self.seconds = _DEFAULT_TIMEOUT if options.timeout is None else options.timeout or None

    async def request(self, method: Callable[..., Awaitable[T]], *arguments: Any, **options: Any) -> T:
        """Await a call of the client. Progress restarts the timeout, and questions to the user suspend it."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.seconds) as self._timeout:
                return await method(*arguments, timeouts=_NO_LIMIT, on_progress=self._progress, **options)
        except TimeoutError as error:
            if isinstance(error, TwopipesError) or self._timeout is None or not self._timeout.expired():
                raise
            waited = asyncio.get_running_loop().time() - began
            raise TwopipesError(
                f"no response from the server for {self.seconds:g} s; the request was cancelled after {waited:.3g} s. "
                "To wait longer, use --timeout SECONDS"
            ) from None
        finally:
            self._timeout = None
            self.reporter.done()

    @contextmanager
    def attention(self) -> Iterator[None]:
        """Hide the progress bar and suspend the timeout while the user answers a question."""
        self._open_questions += 1
        self._restart_timeout()
        try:
            with self.reporter.paused():
                yield
        finally:
            self._open_questions -= 1
            self._restart_timeout()

    def write_json(self, value: Raw | dict[str, Any] | None) -> None:
        """Write JSON to stdout."""
        self.printer.raw(msgspec_json.encode(value))

    def print_failure(self, result: CallResult) -> None:
        """Write the content of a failed tool call to stderr."""
        ResultPrinter.on(sys.stderr, self._saver).result(result)

    def print_error(self, error: TwopipesError, *, about: str = "") -> None:
        """Write an error to stderr."""
        text = message_of(error)
        if isinstance(error, ServerExited | OpeningFailed) and not self.reporter.quiet:
            text = text.removesuffix(output_excerpt(error.stderr, error.stray_stdout))  # was shown when it arrived
        text = f"{about} failed: {text}" if about else text
        self.reporter.say(("Error: ", "bold red"), "\n".join(map(visible, text.split("\n"))))
        if isinstance(error, McpError):
            _show_needs(error, self.reporter)

    def _progress(self, params: Any) -> None:
        self._restart_timeout()
        self.reporter.progress(params)

    def _restart_timeout(self) -> None:
        if self._timeout is not None and self.seconds is not None and not self._timeout.expired():
            now = asyncio.get_running_loop().time()
            self._timeout.reschedule(None if self._open_questions else now + self.seconds)


def run_client_command(options: argparse.Namespace, command: Sequence[str] | None, body: Body, *, name: str = "") -> int:
    """Connect to the server that the options name, run the body, and return the exit code."""
    server = the_server(options, command)
    reporter = Reporter(Terminal(sys.stderr), quiet=options.quiet)
    conversation = Conversation(options, reporter, name=name)
    is_observed = conversation.wants_json
    target = observed_target(server, conversation.raw_results) if is_observed else server.target
    settings = {**connect_options(options), **({} if is_observed else server.connect_options), **_callbacks(options, conversation)}

    def on_interrupt(number: int) -> None:
        reporter.done()
        if reporter.terminal.is_terminal:
            sys.stderr.write("\n")  # after the ^C that the terminal shows
        first = "Interrupted: cancelling the request and stopping the server. Press Ctrl-C again to kill it."
        reporter.say((first if number == 1 else "Killing the server.", "yellow"))

    return run_interruptibly(lambda: _run(lambda: connect(target, **settings), conversation, body), on_interrupt=on_interrupt)


async def _run(connecting: Callable[[], Any], conversation: Conversation, body: Body) -> int:
    connected = False
    code: int | None = None
    try:
        async with connecting() as conversation.client:
            connected = True
            code = await body(conversation)
            sys.stdout.flush()
    except SystemExit:
        raise BrokenPipeError from None  # rich turns a broken pipe into SystemExit, which would end the event loop
    except asyncio.CancelledError:
        if code is None:
            raise
        # The result was shown; the user interrupted only the shutdown of the server.
    except LocalProtocolError as error:
        raise UsageError(str(error)) from error
    except TwopipesError as error:
        conversation.print_error(error)
        if isinstance(error, McpError) and conversation.wants_json and conversation.raw_results.error is not None:
            conversation.write_json({"error": conversation.raw_results.error})
            sys.stdout.flush()
        return exit_code_for(error, connected=connected)
    return code


def exit_code_for(error: TwopipesError, *, connected: bool) -> int:
    """Return the exit code for an error."""
    if isinstance(error, McpError):
        return FAILED
    is_opening = isinstance(error, StartFailed | OpeningFailed) or (isinstance(error, ServerExited) and error.phase != "serving")
    return UNREACHABLE if is_opening or not connected else NO_RESPONSE


def _show_needs(error: McpError, reporter: Reporter) -> None:
    """Show the pages that the user has to visit first (ER-11), and the options for missing capabilities (ER-10)."""
    data = error.data if isinstance(error.data, dict) else {}
    pages, needed = data.get("elicitations"), data.get("requiredCapabilities")
    for each in pages if isinstance(pages, list) else ():
        if isinstance(each, dict) and isinstance(each.get("url"), str):
            reporter.say(f"  {visible(str(each.get('message', 'Visit')))}: ", (visible(each["url"]), "underline"))
    if error.code == CAPABILITY_MISSING and isinstance(needed, dict):
        for name, how in _HOW_TO_DECLARE.items():
            if name in needed:
                reporter.say(f"  {how}")


def _callbacks(options: argparse.Namespace, conversation: Conversation) -> dict[str, Any]:
    reporter = conversation.reporter
    found: dict[str, Any] = {
        "on_log": reporter.log,
        "on_stderr": reporter.stderr,
        "on_stray_output": reporter.stray,
        # The user should see that the server exited.
        "restart": RestartPolicy(when="never"),
    }
    if not hasattr(options, "answer"):
        return found
    answers = {pair.key: pair for pair in (read_pair(word, what="answer") for word in options.answer)}
    is_interactive = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if options.sample == "-" and not is_interactive:
        raise UsageError("--sample - needs a terminal; write --sample TEXT")

    questioner = TerminalPrompter(
        reporter.terminal,
        Keyboard() if is_interactive else None,
        answers=answers,
        attention=conversation.attention,
        sample=options.sample,
        quiet=options.quiet,
    )
    # CP-02: declare only what can be answered.
    if is_interactive or answers:
        found["on_elicit"] = questioner.elicit
    if is_interactive:
        found["on_elicit_url"] = questioner.visit
    if options.sample is not None:
        found["on_sample"] = questioner.sample
    if options.root:
        found["roots"] = options.root
    return found
