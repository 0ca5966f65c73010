"""Tools of a fake server that ask the client something, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from twopipes._tools.check.fake_server import ClientMessage, FakeServer
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.questions import ELICIT, ROOTS, SAMPLE, declares, members
from twopipes._tools.check.verdict import Skip

Questions = Mapping[str, tuple[str, Any]]
QuestionSource = Questions | Callable[[Mapping[str, Any]], Questions]
"""The method and the params of each question, by key; or a function of the client capabilities that returns them."""

# Calls that are not retries, after which the tool stops asking. A client that drops the state would repeat the call endlessly.
_MOST_CALLS = 4


class Round(Struct, frozen=True, kw_only=True):
    """The questions of one round, and in modern revisions the ``requestState``; ``None`` for no state."""

    questions: QuestionSource
    state: str | None = "fake state"


class Exchange(Struct, frozen=True, eq=False):
    """A line of the client and the line of the server that it answers, to quote both."""

    sent: Sequence[bytes]
    message: ClientMessage

    @property
    def received(self) -> Sequence[bytes]:
        """The line of the client."""
        return self.message.received


class Reply(Struct, frozen=True, eq=False, kw_only=True):
    """The answer of a client to one question.

    Attributes:
        method: The method of the question.
        params: The params of the question.
        result: The result; ``None`` for an error and for no answer.
        error: The error, in a session.
        about: The lines to quote; ``None`` if there was no answer.
    """

    method: str
    params: Any
    result: Any = None
    error: Any = None
    about: Exchange | None = None

    @property
    def code(self) -> Any:
        """The code of the error."""
        return members(self.error).get("code")

    @property
    def summary(self) -> str:
        """A short description for a ``why``."""
        if self.error is not None:
            return f"error {self.code}: {str(members(self.error).get('message'))[:100]}"
        return "no answer" if self.about is None else "a result"


class AskingTool:
    """A tool that asks the client before it returns: by requests, or by results of type ``input_required``.

    Args:
        fake: The fake server that gets the tool.
        name: The name of the tool.
        *rounds: The rounds of questions, in order.
        undeclared: Whether to ask for capabilities that the client did not declare.

    Attributes:
        calls: The calls that are not retries.
        retries: The calls with answers or a state, in order.
        replies: The answers, by the key of the question.
        asked: The questions of each round, in order.
        stop: Called before each further round; the tool returns once it is true.
    """

    def __init__(self, fake: FakeServer, name: str, *rounds: Round, undeclared: bool = False) -> None:
        self.fake = fake
        self.name = name
        self.rounds: Sequence[Round] = rounds
        self.undeclared = undeclared
        self.calls: list[ClientMessage] = []
        self.retries: list[ClientMessage] = []
        self.replies: dict[str, Reply] = {}
        self.asked: list[Questions] = []
        self.stop: Callable[[], bool] = lambda: False
        self._why_not = ""
        self._questions_of: dict[int, bytes] = {}  # the line with the question, by the number of the client's line that answers it
        fake.add_tool(name, self._play)

    @property
    def state(self) -> str | None:
        """The state of the first round."""
        return self.rounds[0].state

    def reply(self, key: str) -> Reply:
        """Return the answer to a question, after the client has exited.

        Raises:
            Skip: The question was not asked.
        """
        self.require()
        if key not in self.replies:
            raise Skip(f"the client was not asked for {key!r}, which it did not declare")
        return self.replies[key]

    def answered(self, key: str) -> Reply:
        """Return the answer to a question, if it is a result.

        Raises:
            Skip: There is no result.
        """
        reply = self.reply(key)
        if not isinstance(reply.result, dict):
            raise Skip(f"the client answered {reply.method} with {reply.summary}, not with a result")
        return reply

    def require(self) -> None:
        """Check that something was asked.

        Raises:
            Skip: The client did not call the tool, or cannot be asked.
        """
        if not self.calls:
            raise Skip(f"the client did not call the tool {self.name!r}, which asks")
        if not self.asked:
            raise Skip(self._why_not or "the client was not asked")

    def retry(self, number: int = 0) -> ClientMessage:
        """Return a retry by its index.

        Raises:
            Skip: The client did not send it.
        """
        self.require()
        if number >= len(self.retries):
            raise Skip("the client did not send the call again")
        return self.retries[number]

    def about(self, message: ClientMessage) -> Exchange:
        """Return a line of the client with the question that it answers."""
        return Exchange([self._questions_of[message.number]] if message.number in self._questions_of else (), message)

    def _note_question(self, message: ClientMessage, mark: bytes) -> None:
        asked = next((line for line in reversed(message.connection.sent_lines) if mark in line), None)
        if asked is not None:
            self._questions_of[message.number] = asked

    def _questions(self, number: int, message: ClientMessage) -> Questions:
        wanted = self.rounds[number].questions
        found = wanted(message.connection.client_capabilities) if callable(wanted) else wanted
        return {
            key: each for key, each in found.items() if self.undeclared or declares(message.connection.client_capabilities, *each)
        }

    async def _play(self, message: ClientMessage) -> Any:
        return self._play_a_round(message) if message.is_modern else await self._play_a_session(message)

    def _play_a_round(self, message: ClientMessage) -> Any:
        if message.params.keys() & {"inputResponses", "requestState"}:
            self.retries.append(message)
            self._note_question(message, b'"input_required"')
            number = len(self.retries)
            brought = members(message.params.get("inputResponses"))
            for key in self.asked[-1] if self.asked else ():
                if key in brought:
                    method, params = self.asked[-1][key]
                    self.replies[key] = Reply(method=method, params=params, result=brought[key], about=self.about(message))
        else:
            self.calls.append(message)
            number = 0
            if len(self.calls) > _MOST_CALLS:
                return text("Enough.")
        if number >= len(self.rounds) or self.stop():
            return text("Done.")
        questions = self._questions(number, message)
        state = self.rounds[number].state
        if not questions and (self._was_to_ask(number, message) or state is None):
            self._why_not = "the client did not declare what it would be asked for"
            return text("Nothing to ask.")
        self.asked.append(questions)
        for key, (method, params) in questions.items():
            self.replies.setdefault(key, Reply(method=method, params=params))
        asked = {key: _entry(method, params) for key, (method, params) in questions.items()}
        return {
            "resultType": "input_required",
            **({"inputRequests": asked} if asked else {}),
            **({} if state is None else {"requestState": state}),
        }

    def _was_to_ask(self, number: int, message: ClientMessage) -> bool:
        wanted = self.rounds[number].questions
        return bool(wanted(message.connection.client_capabilities) if callable(wanted) else wanted)

    async def _play_a_session(self, message: ClientMessage) -> Any:
        self.calls.append(message)
        for number in range(len(self.rounds)):
            questions = self._questions(number, message)
            if not questions:
                self._why_not = "the client did not declare what it would be asked for"
                continue
            self.asked.append(questions)
            for key, (method, params) in questions.items():
                response = await self.fake.ask(method, params)
                if response is None:
                    self.replies[key] = Reply(method=method, params=params)
                    continue
                self._note_question(response, f'"{method}"'.encode())
                self.replies[key] = Reply(
                    method=method,
                    params=params,
                    result=response.members.get("result"),
                    error=response.members.get("error"),
                    about=self.about(response),
                )
        return text("Done.")


def _entry(method: str, params: Any) -> dict[str, Any]:
    return {"method": method, **({} if params is None else {"params": params})}


def form(message: str, fields: Mapping[str, Any], *, required: Sequence[str] = (), **more: Any) -> tuple[str, dict[str, Any]]:
    """Return a form question to the user."""
    schema = {"type": "object", "properties": dict(fields), **({"required": list(required)} if required else {})}
    return ELICIT, {"message": message, "requestedSchema": schema, **more}


def sampling(prompt: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """Return a sampling request to the model."""
    return SAMPLE, {"messages": [{"role": "user", "content": {"type": "text", "text": prompt}}], "maxTokens": 100, **more}


def easy_questions(prefix: str = "") -> Questions:
    """Return one simple question of each kind. The tool leaves out those that the client did not declare."""
    name = {"name": {"type": "string", "title": "Name"}}
    return {
        f"{prefix}who": form("Who are you?", name, required=["name"]),
        f"{prefix}say": sampling("Say hello."),
        f"{prefix}where": (ROOTS, None),
    }
