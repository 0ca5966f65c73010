"""What a server may ask of the user, the model and the program at this end, and who answers it.

A legacy server asks by requests, a modern one by a result that wants answers; the callbacks are the same. What was not given is
not declared, so a server that asks for it all the same breaks a rule.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from twopipes._client.form_check import form_errors
from twopipes._protocol.input_requests import conversation_fault
from twopipes._protocol.types import (
    ClientCapabilities,
    CreateMessageParams,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitParams,
    ElicitRequest,
    ElicitResult,
    ElicitSchema,
    ElicitValue,
    Implementation,
    InputRequest,
    InputRequiredResult,
    ListRootsResult,
    Result,
    Root,
    TextContent,
)
from twopipes._session.ledger import Call
from twopipes.errors import QuestionFailed, RemoteProtocolError, TwopipesError
from twopipes.settings import Limits

__all__ = ["Elicitation", "InputHandlers", "Sampling"]


class Elicitation:
    """A question to the user: show who asks and what, offer to decline and to cancel (EL-14).

    Attributes:
        message: What the user is asked.
        mode: ``form`` or ``url``.
        schema: The form as JSON Schema, in form mode.
        url: Where the user should go, in url mode: show it whole, and open it only with consent.
        server: Who asks, by its own account.
        params: The question as it came.
    """

    def __init__(self, params: ElicitParams, server: Implementation | None) -> None:
        self.params = params
        self.server = server
        self.message = params.message
        self.mode: Literal["form", "url"] = params.mode or "form"  # EL-07
        self.schema: Mapping[str, Any] = params.requested_schema or {}
        self.url = params.url

    def __repr__(self) -> str:
        return f"<Elicitation {self.mode} {self.message!r}>"

    @property
    def form(self) -> ElicitSchema | None:
        """The form with types; see :attr:`twopipes._protocol.input_requests.ElicitParams.form`."""
        return self.params.form

    def defaults(self) -> dict[str, ElicitValue]:
        """The values that the server proposes, for the fields that have one (EL-05)."""
        fields: Mapping[str, Any] = self.schema.get("properties", {})
        return {name: schema["default"] for name, schema in fields.items() if isinstance(schema, Mapping) and "default" in schema}

    def accept(self, content: Mapping[str, ElicitValue] | None = None) -> ElicitResult:
        """The user agrees: with this content laid over the defaults, or, in url mode, to go there (EL-11)."""
        if self.mode == "url":
            return ElicitResult("accept")
        return ElicitResult("accept", {**self.defaults(), **(content or {})})

    def decline(self) -> ElicitResult:
        """The user says no."""
        return ElicitResult("decline")

    def cancel(self) -> ElicitResult:
        """The user gave no answer."""
        return ElicitResult("cancel")


class Sampling:
    """A request to the model at this end. ``max_tokens`` is a ceiling (SA-09); the rest of the wishes may be ignored.

    Attributes:
        params: What is asked: the messages, the system prompt, the limits.
        server: Who asks, by its own account.
    """

    def __init__(self, params: CreateMessageParams, server: Implementation | None) -> None:
        self.params = params
        self.server = server
        self.messages = params.messages
        self.max_tokens = params.max_tokens
        self.system_prompt = params.system_prompt


OnElicit = Callable[[Elicitation], ElicitResult | Mapping[str, Any] | Awaitable[ElicitResult | Mapping[str, Any] | None] | None]
OnSample = Callable[[Sampling], CreateMessageResult | str | Awaitable[CreateMessageResult | str]]
Place = str | Path | Root
Roots = Iterable[Place] | Callable[[], Iterable[Place] | Awaitable[Iterable[Place]]]


class InputHandlers:
    """The callbacks of one client.

    Args:
        on_elicit: Answers forms: a mapping accepts, ``None`` cancels; or ``question.accept(...)``, ``.decline()``, ``.cancel()``.
        on_elicit_url: Answers requests to visit a URL.
        on_sample: Asks the model; a string is what it said. Raise ``UserRefused`` for a no.
        sample_tools: Whether ``on_sample`` can hand tools to the model.
        roots: The places the server may look at: paths, ``file://`` URIs or ``Root``; or a function that returns them.
        limits: ``max_in_flight`` is how many questions one result may ask; those of a legacy server are counted by its session.
    """

    def __init__(
        self,
        *,
        on_elicit: OnElicit | None = None,
        on_elicit_url: OnElicit | None = None,
        on_sample: OnSample | None = None,
        sample_tools: bool = False,
        roots: Roots | None = None,
        limits: Limits,
    ) -> None:
        self._on_elicit = on_elicit
        self._on_elicit_url = on_elicit_url
        self._on_sample = on_sample
        self._sample_tools = sample_tools
        self.roots = roots
        self._limits = limits
        self.server: Implementation | None = None

    @property
    def capabilities(self) -> ClientCapabilities:
        """What is declared: what was given, and nothing else (CP-02)."""
        modes = {"form": self._on_elicit, "url": self._on_elicit_url}
        elicitation: dict[str, Any] = {mode: {} for mode, callback in modes.items() if callback is not None}
        return ClientCapabilities(
            elicitation=elicitation or None,
            sampling=None if self._on_sample is None else {"tools": {}} if self._sample_tools else {},
            roots=None if self.roots is None else {"listChanged": True},
        )

    async def answer_call(self, call: Call, method: str | None) -> Result:
        """Answers a request of a legacy server; the session has judged whether it may ask.

        Args:
            call: What it asks.
            method: The request of ours that led to it, if that is known.

        Raises:
            QuestionFailed: A callback broke.
            TwopipesError: Whatever of ours a callback raised, such as ``UserRefused``.
        """
        return await self._ask(call.method, call.params, method)

    async def answer_all(self, asking: InputRequiredResult, method: str) -> dict[str, Result]:
        """Answers everything that a result asks for, all at once (MR-05).

        Raises:
            RemoteProtocolError: The server asks for what was not declared, or too much; there is no way to tell it (CON-04).
            QuestionFailed: A callback broke, so there is no answer, and the request is not sent again (MR-19).
            TwopipesError: Whatever of ours a callback raised, such as ``UserRefused``.
        """
        asked = asking.input_requests or {}
        most = self._limits.max_in_flight
        if most is not None and len(asked) > most:
            raise RemoteProtocolError(f"the server answered {method} with {len(asked):,} questions; at most {most:,} are answered")
        for request in asked.values():
            self._check(request, method)
        tasks = {key: asyncio.ensure_future(self._answer_input(request, method)) for key, request in asked.items()}
        try:
            return {key: await task for key, task in tasks.items()}
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _check(self, request: InputRequest, method: str) -> None:
        declared = self.capabilities
        match request:
            case ElicitRequest():
                mode = request.params.mode or "form"
                allowed, what = declared.allows("elicitation", mode), f"an elicitation of mode {mode}"
            case CreateMessageRequest():
                tools = request.params.tools is not None
                allowed = declared.allows("sampling", "tools") if tools else declared.allows("sampling")
                what = "sampling with tools" if tools else "sampling"
                if fault := conversation_fault(request.params.messages):
                    raise RemoteProtocolError(f"the server answered {method} with a conversation that makes no sense: {fault}")
            case _:
                allowed, what = declared.allows("roots"), "the roots"
        if not allowed:
            raise RemoteProtocolError(f"the server answered {method} by asking for {what}, which this client did not declare")

    async def _answer_input(self, request: InputRequest, method: str) -> Result:
        name = {ElicitRequest: "elicitation/create", CreateMessageRequest: "sampling/createMessage"}.get(
            type(request), "roots/list"
        )
        return await self._ask(name, request.params, method)

    async def _ask(self, name: str, params: Any, method: str | None) -> Result:
        try:
            return await self._answer(name, params)
        except TwopipesError:
            raise
        except Exception as error:
            raise QuestionFailed(name, method, repr(error)) from error

    async def _answer(self, name: str, params: Any) -> Result:
        match name:
            case "elicitation/create":
                return await self._elicit(params)
            case "sampling/createMessage":
                return await self._sample(params)
            case _:
                return ListRootsResult(await self.list_roots())

    async def _elicit(self, params: ElicitParams) -> ElicitResult:
        question = Elicitation(params, self.server)
        callback = self._on_elicit_url if question.mode == "url" else self._on_elicit
        assert callback is not None
        answer = callback(question)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is None:
            return question.cancel()
        if isinstance(answer, Mapping):
            answer = question.accept(answer)
        if not isinstance(answer, ElicitResult):
            raise TypeError(
                f"on_elicit returned {answer!r}; a mapping, None or question.accept(...), .decline(), .cancel() are answers"
            )
        if answer.action != "accept" or question.mode != "form":
            return ElicitResult(answer.action)  # EL-06: content goes along with an accepted form alone
        if wrong := form_errors(question.schema, answer.content or {}):
            raise ValueError(f"on_elicit filled the form in wrongly: {'; '.join(wrong)}")  # EL-16
        return answer

    async def _sample(self, params: CreateMessageParams) -> CreateMessageResult:
        callback = self._on_sample
        assert callback is not None
        answer = callback(Sampling(params, self.server))
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str):
            return CreateMessageResult("assistant", TextContent(answer), "unnamed", "endTurn")
        if isinstance(answer, CreateMessageResult):
            return answer
        raise TypeError(f"on_sample returned {answer!r}; a string or a CreateMessageResult is an answer")

    async def list_roots(self) -> list[Root]:
        """The roots, each with a ``file://`` URI (RT-01)."""
        given = self.roots() if callable(self.roots) else self.roots
        if inspect.isawaitable(given):
            given = await given
        return [_root(place) for place in given or ()]


def _root(place: Place) -> Root:
    if isinstance(place, Root):
        root = place
    elif isinstance(place, str) and "://" in place:
        root = Root(place)
    else:
        root = Root(Path(place).absolute().as_uri(), Path(place).name or None)
    if not root.uri.startswith("file://"):
        raise ValueError(f"{root.uri!r} cannot be a root: its URI begins with file:// (RT-01)")
    return root
