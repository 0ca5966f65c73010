"""Questions of a server, asked at the terminal: a form field by field, consent to visit a URL, a line in the model's place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from twopipes._cli.arguments import InvalidValue, Pair
from twopipes._cli.form_fields import Field, fields_of
from twopipes._cli.keyboard import Keyboard
from twopipes._client.input_handlers import Elicitation, Sampling
from twopipes._protocol.types import ElicitResult, Implementation
from twopipes._tools.terminal import visible
from twopipes.errors import UserRefused

__all__ = ["Answers", "TerminalPrompter"]

DECLINE, CANCEL = ":decline", ":cancel"
_HOW_TO_LEAVE = f"{DECLINE} says no, {CANCEL} or Ctrl-D gives no answer"

Say = Callable[..., object]


class _Left(Exception):
    """The user does not answer: ``decline`` or ``cancel``."""

    def __init__(self, action: str) -> None:
        self.action = action


class Answers:
    """Answers that were given beforehand, by the names of fields.

    Args:
        pairs: As they were typed.
    """

    def __init__(self, pairs: Sequence[Pair] = ()) -> None:
        self._pairs = {pair.key: pair for pair in pairs}

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def to(self, field: Field) -> Pair | None:
        """The answer to a field, if there is one."""
        return self._pairs.get(field.name)


class TerminalPrompter:
    """Asks the user.

    Args:
        say: Writes a line for the user.
        prompt: Writes the sign that an answer is waited for.
        keyboard: Where answers come from; ``None`` if nobody sits there, and only what was given beforehand is answered.
        answers: What was given beforehand.
        attention: Entered while a question is open.
        sample: What to answer in the model's place; ``-`` asks for it.
        quiet: Whether to say nothing of a form that was answered beforehand. What needs the user, or went wrong, is said.
    """

    def __init__(
        self,
        say: Say,
        prompt: Callable[[str], object],
        keyboard: Keyboard | None,
        *,
        answers: Answers | None = None,
        attention: Callable[[], AbstractContextManager[object]],
        sample: str | None = None,
        quiet: bool = False,
    ) -> None:
        self._say = say
        self._prompt = prompt
        self._keyboard = keyboard
        self._answers = answers or Answers()
        self._attention = attention
        self._text = sample
        self._is_quiet = quiet
        # A server may ask several things at once; a person answers one after the other.
        self._turn = asyncio.Lock()

    async def elicit(self, question: Elicitation) -> ElicitResult:
        """Fills a form in, or not (EL-06, EL-14)."""
        return await self._ask(question, self._form)

    async def visit(self, question: Elicitation) -> ElicitResult:
        """Asks for the consent to visit a URL; it is shown whole, and never opened from here (EL-14)."""
        return await self._ask(question, self._consent)

    async def sample(self, sampling: Sampling) -> str:
        """A line in the model's place.

        Raises:
            UserRefused: The user said no.
        """
        if self._text is not None and self._text != "-":
            return self._text
        async with self._turn:
            with self._attention():
                self._begin(sampling.server, "asks for an answer of the model")
                if sampling.system_prompt:
                    self._say_lines("  system: ", sampling.system_prompt)
                for message in sampling.messages:
                    self._say_lines(f"  {message.role}: ", message.text or f"[{', '.join(block.type for block in message.blocks)}]")
                self._say((f"  Type it on one line, at most {sampling.max_tokens} tokens; {DECLINE} says no.", "dim"))
                try:
                    return await self._line()
                except _Left:
                    raise UserRefused from None

    async def _ask(self, question: Elicitation, ask: Callable[[Elicitation], Awaitable[ElicitResult]]) -> ElicitResult:
        async with self._turn:
            with self._attention():
                try:
                    return await ask(question)
                except _Left as left:
                    self._say((f"  {'Declined' if left.action == 'decline' else 'No answer given'}.", "yellow"))
                    return question.decline() if left.action == "decline" else question.cancel()

    async def _form(self, question: Elicitation) -> ElicitResult:
        fields = fields_of(question.schema)
        if self._is_quiet and (known := self._answered_beforehand(fields)) is not None:
            return ElicitResult("accept", known)
        self._begin(question.server, "asks", question.message)
        if self._keyboard is not None:
            self._say((f"  {_HOW_TO_LEAVE}.", "dim"))
            self._keyboard.forget()
        while True:
            content = {field.name: await self._field(field) for field in fields}
            content = {name: value for name, value in content.items() if value is not None}
            if self._is_settled(fields, content) or await self._agrees(fields, content):
                return ElicitResult("accept", content)

    def _answered_beforehand(self, fields: Sequence[Field]) -> dict[str, Any] | None:
        """The whole form, filled in without the user; ``None`` where that does not work, and has to be told."""
        content: dict[str, Any] = {}
        for field in fields:
            pair = self._answers.to(field)
            if pair is None and (self._keyboard is not None or (field.is_required and not field.has_default)):
                return None
            try:
                value = field.default if pair is None else field.answered(pair)
            except InvalidValue:
                return None
            if value is not None:
                content[field.name] = value
        return content if fields else None

    def _is_settled(self, fields: Sequence[Field], content: Mapping[str, Any]) -> bool:
        """Whether the user has seen all of it when answering, or nobody is there to look at it again."""
        if not fields:
            return False
        return self._keyboard is None or (len(fields) == 1 and bool(content)) or all(map(self._answers.to, fields))

    async def _field(self, field: Field) -> Any:
        pair = self._answers.to(field)
        if pair is not None:
            try:
                value = field.answered(pair)
            except InvalidValue as misfit:
                self._say((f"  --answer {pair.key}: {visible(str(misfit))}", "red"))
                if self._keyboard is None:
                    raise _Left("cancel") from None
            else:
                self._say(f"  {visible(field.title)}: ", (visible(field.shown(value)), "bold"))
                return value
        if self._keyboard is None:
            if field.is_required and not field.has_default:
                wanted = f"--answer {field.name}=VALUE" + (f" ({field.hint})" if field.hint else "")
                self._say((f"  {visible(field.title)} must be answered; give {visible(wanted)}", "red"))
                raise _Left("cancel")
            return field.default
        hint = f" ({field.hint})" if field.hint else ""
        self._say(
            "  ", (visible(field.title), "bold cyan"), f"  {visible(field.note)}" if field.note else "", (visible(hint), "dim")
        )
        for line in field.lines():
            self._say(f"    {visible(line)}")
        while True:
            try:
                return field.read(await self._line())
            except InvalidValue as misfit:
                self._say((f"    {visible(str(misfit))}", "red"))

    async def _agrees(self, fields: Sequence[Field], content: Mapping[str, Any]) -> bool:
        """Whether the user wants to send what was answered; if not, everything is asked again."""
        if len(fields) > 1:
            told = [f"{field.title} = {field.shown(content[field.name])}" for field in fields if field.name in content]
            self._say("  ", (visible(", ".join(told)) or "nothing answered", "bold"))
        while True:
            self._say(("  Send this? y sends it, e asks again, n declines" + (" (Enter for y)" if fields else ""), "dim"))
            match (await self._line()).strip().casefold():
                case "" if fields:
                    return True
                case "y" | "yes":
                    return True
                case "e" | "edit":
                    return False
                case "n" | "no":
                    raise _Left("decline")
                case _:
                    continue

    async def _consent(self, question: Elicitation) -> ElicitResult:
        self._begin(question.server, "asks you to visit a page", question.message)
        self._say("  ", (visible(question.url or ""), "bold underline"))
        self._say(("  It is not opened for you. y if you agree to go there, n to decline", "dim"))
        if self._keyboard is not None:
            self._keyboard.forget()
        while True:
            match (await self._line()).strip().casefold():
                case "y" | "yes":
                    return question.accept()  # EL-11
                case "n" | "no":
                    raise _Left("decline")
                case _:
                    self._say(("    y or n, please", "red"))

    async def _line(self) -> str:
        if self._keyboard is None:
            raise _Left("cancel")
        self._prompt("  > ")
        line = await self._keyboard.line()
        if line is None:
            self._say("")
            raise _Left("cancel")
        if line.strip() in {DECLINE, CANCEL}:
            raise _Left(line.strip().removeprefix(":"))
        return line

    def _begin(self, server: Implementation | None, what: str, message: str = "") -> None:
        # EL-14: who asks.
        name = visible((server.title or server.name) if server is not None else "The server")
        self._say()
        self._say((name, "bold"), f" {what}", ":" if message else "")
        if message:
            self._say_lines("  ", message)

    def _say_lines(self, head: str, text: str) -> None:
        for line in text.split("\n"):
            self._say(f"{head}{visible(line)}")
