"""Answer the questions of a server at the terminal: forms, consent to visit a URL, and sampling requests."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, TextIO

from twopipes._cli.arguments import InvalidValue, Pair
from twopipes._cli.form_fields import Field, fields_of
from twopipes._client.input_handlers import Elicitation, Sampling
from twopipes._protocol.types import ElicitResult, Implementation
from twopipes._tools.terminal import Terminal, visible
from twopipes.errors import UserRefused

if sys.platform != "win32":
    import termios

DECLINE, CANCEL = ":decline", ":cancel"


class _NoAnswer(Exception):
    """The user gave no answer: ``decline`` or ``cancel``."""

    def __init__(self, action: str) -> None:
        self.action = action


class TerminalPrompter:
    """Asks the user; without a keyboard, only the values of ``--answer`` and ``--sample`` are used.

    ``attention`` is entered while a question is open. If ``quiet``, a form that ``answers`` fill in completely is not shown.
    """

    def __init__(
        self,
        terminal: Terminal,
        keyboard: Keyboard | None,
        *,
        answers: Mapping[str, Pair],
        attention: Callable[[], AbstractContextManager[object]],
        sample: str | None = None,
        quiet: bool = False,
    ) -> None:
        self._terminal = terminal
        self._say = terminal.say
        self._keyboard = keyboard
        self._answers = answers
        self._attention = attention
        self._text = sample
        self._is_quiet = quiet
        # A server may ask several questions at once; the user answers one after another.
        self._turn = asyncio.Lock()

    async def elicit(self, question: Elicitation) -> ElicitResult:
        """Ask the user to fill in a form (EL-06, EL-14)."""
        return await self._ask(question, self._form)

    async def visit(self, question: Elicitation) -> ElicitResult:
        """Ask the user whether to visit a URL. It is shown in full and never opened (EL-14)."""
        return await self._ask(question, self._consent)

    async def sample(self, sampling: Sampling) -> str:
        """Ask the user for a line in place of the model."""
        if self._text is not None and self._text != "-":
            return self._text
        async with self._turn:
            with self._attention():
                self._show_question(sampling.server, "asks for a response of the model")
                if sampling.system_prompt:
                    self._say_lines("  system: ", sampling.system_prompt)
                for message in sampling.messages:
                    self._say_lines(f"  {message.role}: ", message.text or f"[{', '.join(block.type for block in message.blocks)}]")
                self._say((f"  Type one line, at most {sampling.max_tokens} tokens; {DECLINE} to decline.", "dim"))
                try:
                    return await self._line()
                except _NoAnswer:
                    raise UserRefused from None

    async def _ask(self, question: Elicitation, ask: Callable[[Elicitation], Awaitable[ElicitResult]]) -> ElicitResult:
        async with self._turn:
            with self._attention():
                try:
                    return await ask(question)
                except _NoAnswer as no_answer:
                    declined = no_answer.action == "decline"
                    self._say(("  Declined." if declined else "  Cancelled.", "yellow"))
                    return question.decline() if declined else question.cancel()

    async def _form(self, question: Elicitation) -> ElicitResult:
        fields = fields_of(question.schema)
        if self._is_quiet and (known := self._answered_beforehand(fields)) is not None:
            return ElicitResult("accept", known)
        self._show_question(question.server, "asks", question.message)
        if self._keyboard is not None:
            self._say((f"  {DECLINE} to decline, {CANCEL} or Ctrl-D to cancel.", "dim"))
            self._keyboard.discard()
        while True:
            content = {field.name: await self._field(field) for field in fields}
            content = {name: value for name, value in content.items() if value is not None}
            # No confirmation if the user has seen everything, or if there is no user.
            is_settled = (
                self._keyboard is None or (len(fields) == 1 and content) or all(each.name in self._answers for each in fields)
            )
            if (fields and is_settled) or await self._agrees(fields, content):
                return ElicitResult("accept", content)

    def _answered_beforehand(self, fields: Sequence[Field]) -> dict[str, Any] | None:
        """Fill in a form without the user; ``None`` if that is impossible, so that the form must be shown."""
        content: dict[str, Any] = {}
        for field in fields:
            pair = self._answers.get(field.name)
            if pair is None and (self._keyboard is not None or (field.is_required and not field.has_default)):
                return None
            try:
                value = field.default if pair is None else field.answered(pair)
            except InvalidValue:
                return None
            if value is not None:
                content[field.name] = value
        return content if fields else None

    async def _field(self, field: Field) -> Any:
        pair = self._answers.get(field.name)
        if pair is not None:
            try:
                value = field.answered(pair)
            except InvalidValue as error:
                self._say((f"  --answer {pair.key}: {visible(str(error))}", "red"))
                if self._keyboard is None:
                    raise _NoAnswer("cancel") from None
            else:
                self._say(f"  {visible(field.title)}: ", (visible(field.shown(value)), "bold"))
                return value
        if self._keyboard is None:
            if field.is_required and not field.has_default:
                wanted = f"--answer {field.name}=VALUE" + (f" ({field.hint})" if field.hint else "")
                self._say((f"  {visible(field.title)} is required; use {visible(wanted)}", "red"))
                raise _NoAnswer("cancel")
            return field.default
        note, hint = f"  {visible(field.note)}" if field.note else "", f" ({visible(field.hint)})" if field.hint else ""
        self._say("  ", (visible(field.title), "bold cyan"), note, (hint, "dim"))
        for line in field.lines():
            self._say(f"    {visible(line)}")
        while True:
            try:
                return field.read(await self._line())
            except InvalidValue as error:
                self._say((f"    {visible(str(error))}", "red"))

    async def _agrees(self, fields: Sequence[Field], content: Mapping[str, Any]) -> bool:
        """Return whether the user agrees to send the form; otherwise it is asked again."""
        if len(fields) > 1:
            values = [f"{field.title} = {field.shown(content[field.name])}" for field in fields if field.name in content]
            self._say("  ", (visible(", ".join(values)) or "no values", "bold"))
        while True:
            self._say(("  Send this? y to send, e to edit, n to decline" + (" (Enter for y)" if fields else ""), "dim"))
            answer = (await self._line()).strip().casefold()
            if answer in {"y", "yes"} or (fields and not answer):
                return True
            if answer in {"e", "edit"}:
                return False
            if answer in {"n", "no"}:
                raise _NoAnswer("decline")

    async def _consent(self, question: Elicitation) -> ElicitResult:
        self._show_question(question.server, "asks you to visit a page", question.message)
        self._say("  ", (visible(question.url or ""), "bold underline"))
        self._say(("  The page is not opened automatically. y to agree to visit it, n to decline", "dim"))
        if self._keyboard is not None:
            self._keyboard.discard()
        while True:
            answer = (await self._line()).strip().casefold()
            if answer in {"y", "yes"}:
                return question.accept()  # EL-11
            if answer in {"n", "no"}:
                raise _NoAnswer("decline")
            self._say(("    Type y or n", "red"))

    async def _line(self) -> str:
        if self._keyboard is None:
            raise _NoAnswer("cancel")
        self._terminal.stream.write("  > ")
        self._terminal.flush()
        line = await self._keyboard.line()
        if line is None:
            self._say("")
            raise _NoAnswer("cancel")
        if line.strip() in {DECLINE, CANCEL}:
            raise _NoAnswer(line.strip().removeprefix(":"))
        return line

    def _show_question(self, server: Implementation | None, what: str, message: str = "") -> None:
        # EL-14: show which server asks.
        name = visible((server.title or server.name) if server is not None else "The server")
        self._say()
        self._say((name, "bold"), f" {what}", ":" if message else "")
        if message:
            self._say_lines("  ", message)

    def _say_lines(self, head: str, text: str) -> None:
        for line in text.split("\n"):
            self._say(f"{head}{visible(line)}")


class Keyboard:
    """Lines that the user types. Waiting for one can be cancelled, and does not block the event loop.

    ``by_threads`` reads in a daemon thread instead of the event loop, as Windows needs.
    """

    def __init__(self, stream: TextIO | None = None, *, by_threads: bool = sys.platform == "win32") -> None:
        self._stream = stream or sys.stdin
        self._by_threads = by_threads
        self._typed = bytearray()

    def discard(self) -> None:
        """Discard what was typed before the question appeared."""
        self._typed.clear()
        if sys.platform != "win32":
            termios.tcflush(self._stream.fileno(), termios.TCIFLUSH)

    async def line(self) -> str | None:
        """Return the next line without its end; ``None`` for Ctrl-D."""
        if self._by_threads:
            return await self._line_by_thread()
        descriptor = self._stream.fileno()
        while b"\n" not in self._typed:
            await _readable(descriptor)
            chunk = os.read(descriptor, 4096)
            if not chunk:
                self._typed.clear()
                return None
            self._typed += chunk
        line, _, rest = bytes(self._typed).partition(b"\n")
        self._typed = bytearray(rest)
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _line_by_thread(self) -> str | None:
        # A daemon thread: it cannot be woken, and must not keep an interrupted program alive.
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()

        def read() -> None:
            line = self._stream.readline()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, future, line)

        threading.Thread(target=read, daemon=True).start()
        line = await future
        return line.rstrip("\r\n") if line else None


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _settle, future, None)
    try:
        await future
    finally:
        loop.remove_reader(descriptor)


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
