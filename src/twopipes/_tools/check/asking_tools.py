"""Tools of a fake server that ask the client something, and the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from twopipes._protocol.revisions import CLIENT_CAPABILITIES
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.messages import ClientMessage, members
from twopipes._tools.check.questions import ELICIT, ROOTS, SAMPLE, declares
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
    """The answer of a client to one question."""

    method: str  # of the question
    params: Any  # of the question
    result: Any = None  # None for an error and for no answer
    error: Any = None  # in a session
    about: Exchange | None = None  # the lines to quote; None if there was no answer

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
    """

    def __init__(self, fake: FakeServer, name: str, *rounds: Round, undeclared: bool = False) -> None:
        self.fake = fake
        self.name = name
        self.rounds: Sequence[Round] = rounds
        self.undeclared = undeclared
        self.calls: list[ClientMessage] = []  # those that are not retries
        self.retries: list[ClientMessage] = []  # the calls with answers or a state, in order
        self.replies: dict[str, Reply] = {}  # by the key of the question
        self.asked: list[Questions] = []  # the questions of each round, in order
        self.stop: Callable[[], bool] = lambda: False  # called before each further round; the tool returns once it is true
        self._why_not = ""
        self._questions_of: dict[int, bytes] = {}  # the line with the question, by the number of the client's line that answers it
        fake.add_tool(name, self._play)

    @property
    def state(self) -> str | None:
        """The state of the first round."""
        return self.rounds[0].state

    def reply(self, key: str) -> Reply:
        """Return the answer to a question, after the client has exited; raise Skip if it was not asked."""
        self.require()
        if key not in self.replies:
            raise Skip(f"the client was not asked for {key!r}, which it did not declare")
        return self.replies[key]

    def answered(self, key: str) -> Reply:
        """Return the answer to a question; raise Skip if it is not a result."""
        reply = self.reply(key)
        if not isinstance(reply.result, dict):
            raise Skip(f"the client answered {reply.method} with {reply.summary}, not with a result")
        return reply

    def require(self) -> None:
        """Raise Skip if nothing was asked: the client did not call the tool, or cannot be asked."""
        if not self.calls:
            raise Skip(f"the client did not call the tool {self.name!r}, which asks")
        if not self.asked:
            raise Skip(self._why_not or "the client was not asked")

    def retry(self, number: int = 0) -> ClientMessage:
        """Return a retry by its index; raise Skip if the client did not send it."""
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

    def _questions(self, number: int, message: ClientMessage) -> Questions | None:
        """Return the questions of a round; ``None`` if there are some, and the client declares none of them."""
        declared = message.connection.client_capabilities
        wanted = self.rounds[number].questions
        every = wanted(declared) if callable(wanted) else wanted
        found = {key: each for key, each in every.items() if self.undeclared or declares(declared, *each)}
        if every and not found:
            self._why_not = "the client did not declare what it would be asked for"
            return None
        return found

    async def _play(self, message: ClientMessage) -> Any:
        return self._play_a_round(message) if message.is_modern else await self._play_a_session(message)

    def _play_a_round(self, message: ClientMessage) -> Any:
        number = 0
        if message.params.keys() & {"inputResponses", "requestState"}:
            self._take_retry(message)
            number = len(self.retries)
        else:
            self.calls.append(message)
        if len(self.calls) > _MOST_CALLS or number >= len(self.rounds) or self.stop():
            return text("Done.")
        questions, state = self._questions(number, message), self.rounds[number].state
        if questions is None or (not questions and state is None):
            return text("Nothing to ask.")
        self.asked.append(questions)
        for key, (method, params) in questions.items():
            self.replies.setdefault(key, Reply(method=method, params=params))
        asked = {key: {"method": method, **_if("params", params)} for key, (method, params) in questions.items()}
        return {"resultType": "input_required", **_if("inputRequests", asked or None), **_if("requestState", state)}

    def _take_retry(self, message: ClientMessage) -> None:
        self.retries.append(message)
        self._note_question(message, b'"input_required"')
        answers = members(message.params.get("inputResponses"))
        for key, (method, params) in self.asked[-1].items() if self.asked else ():
            if key in answers:
                self.replies[key] = Reply(method=method, params=params, result=answers[key], about=self.about(message))

    async def _play_a_session(self, message: ClientMessage) -> Any:
        self.calls.append(message)
        for number in range(len(self.rounds)):
            questions = self._questions(number, message) or {}
            self.asked += [questions] if questions else []
            for key, (method, params) in questions.items():
                self.replies[key] = Reply(method=method, params=params)
                response = await self.fake.ask(method, params)
                if response is not None:
                    self._note_question(response, f'"{method}"'.encode())
                    outcome = {name: response.members.get(name) for name in ("result", "error")}
                    self.replies[key] = Reply(method=method, params=params, about=self.about(response), **outcome)
        return text("Done.")


def _if(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}


def form(message: str, fields: Mapping[str, Any], *, required: Sequence[str] = (), **more: Any) -> tuple[str, dict[str, Any]]:
    """Return a form question to the user."""
    schema = {"type": "object", "properties": dict(fields), **_if("required", list(required) or None)}
    return ELICIT, {"message": message, "requestedSchema": schema, **more}


def sampling(prompt: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """Return a sampling request to the model."""
    return SAMPLE, {"messages": [{"role": "user", "content": {"type": "text", "text": prompt}}], "maxTokens": 100, **more}


QUESTIONS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "roots": (ROOTS, {}),
    "sampling": sampling("Say hello."),
    "elicitation": form("Who are you?", {"name": {"type": "string", "title": "Name"}}, required=["name"]),
}
"""By capability: the method and the params of a question that a client with this capability can answer."""


def easy_questions(prefix: str = "") -> Questions:
    """Return one simple question of each kind. The tool leaves out those that the client did not declare."""
    keys = {"who": "elicitation", "say": "sampling", "where": "roots"}
    return {prefix + key: QUESTIONS[capability] for key, capability in keys.items()}


def elicitation_modes(client_capabilities: Mapping[str, Any]) -> set[str]:
    """Return the modes of elicitation that a client declares. An empty capability means forms (CP-04)."""
    declared = client_capabilities.get("elicitation")
    if not isinstance(declared, dict):
        return set()
    return {mode for mode in ("form", "url") if mode in declared} or ({"form"} if not declared else set())


def question_for(client_capabilities: Mapping[str, Any], revision: str) -> tuple[str, dict[str, Any]] | None:
    """Return a question that a client declares to answer; ``None`` if it declares none."""
    for capability, question in QUESTIONS.items():
        is_declared = isinstance(client_capabilities.get(capability), dict) and CLIENT_CAPABILITIES[capability].has(revision)
        if is_declared and (capability != "elicitation" or "form" in elicitation_modes(client_capabilities)):
            return question
    return None


@asynccontextmanager
async def open_call(fake: FakeServer) -> AsyncIterator[ClientMessage]:
    """Wait for a call of a tool, and delay the responses to all calls until the end of the block."""
    done = asyncio.Event()

    async def wait(_message: ClientMessage) -> None:
        await done.wait()

    fake.on["tools/call"] = wait
    try:
        yield await fake.wait_for("tools/call")
    finally:
        done.set()
