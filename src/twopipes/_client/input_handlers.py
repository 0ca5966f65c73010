"""Answers the questions of a server to the user, the model and the client: elicitation, sampling and roots.

A legacy server asks with requests, a modern one with an ``input_required`` result; the callbacks are the same. A client declares
only what it has callbacks for, so a server that asks for anything else breaks a rule.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from twopipes._client.form_check import form_errors
from twopipes._protocol.sampling import conversation_fault
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
    ListRootsRequest,
    ListRootsResult,
    Result,
    Root,
    TextContent,
)
from twopipes._session.ledger import Call, SentRequest
from twopipes.errors import QuestionFailed, RemoteProtocolError, TwopipesError
from twopipes.settings import Limits

T = TypeVar("T")


class Elicitation:
    """A question to the user. Show it together with the server that asks, and let the user decline or cancel (EL-14).

    Attributes:
        message: The question.
        mode: ``form`` or ``url``.
        schema: The form as JSON Schema, in form mode.
        url: The page to visit, in url mode. Show it completely, and open it only with the user's consent.
        server: The server that asks, as it reports itself.
        params: The params of the request.
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
        """The form as typed objects."""
        return self.params.form

    def defaults(self) -> dict[str, ElicitValue]:
        """Return the values that the server proposes, for the fields that have one (EL-05)."""
        fields: Mapping[str, Any] = self.schema.get("properties", {})
        return {name: schema["default"] for name, schema in fields.items() if isinstance(schema, Mapping) and "default" in schema}

    def accept(self, content: Mapping[str, ElicitValue] | None = None) -> ElicitResult:
        """Accept: with this content in addition to the defaults, or, in url mode, to visit the page (EL-11)."""
        if self.mode == "url":
            return ElicitResult("accept")
        return ElicitResult("accept", {**self.defaults(), **(content or {})})

    def decline(self) -> ElicitResult:
        """Decline: the user refused."""
        return ElicitResult("decline")

    def cancel(self) -> ElicitResult:
        """Cancel: the user did not answer."""
        return ElicitResult("cancel")


class Sampling:
    """A request to the client's model. ``max_tokens`` is an upper limit (SA-09); other preferences may be ignored.

    Attributes:
        params: The params of the request: the messages, the system prompt, the limits.
        server: The server that asks, as it reports itself.
    """

    def __init__(self, params: CreateMessageParams, server: Implementation | None) -> None:
        self.params = params
        self.server = server
        self.messages = params.messages
        self.max_tokens = params.max_tokens
        self.system_prompt = params.system_prompt


Place = str | Path | Root
OnElicit = Callable[[Elicitation], ElicitResult | Mapping[str, Any] | Awaitable[ElicitResult | Mapping[str, Any] | None] | None]
OnSample = Callable[[Sampling], CreateMessageResult | str | Awaitable[CreateMessageResult | str]]
_METHODS = {ElicitRequest: "elicitation/create", CreateMessageRequest: "sampling/createMessage", ListRootsRequest: "roots/list"}
Roots = Iterable[Place] | Callable[[], Iterable[Place] | Awaitable[Iterable[Place]]]


class QuestionHandler(Protocol):
    """Answers the questions of one server."""

    server: Implementation | None  # the server that asks

    async def answer_call(self, call: Call, causes: Sequence[SentRequest]) -> Result:
        """Answer a request of a legacy server, to which one of these requests of ours may have led."""

    async def answer_all(self, asking: InputRequiredResult, method: str) -> Mapping[str, Result]:
        """Answer all questions of a result of this method."""


class InputHandlers(Struct, eq=False, kw_only=True):
    """The callbacks of one client that answer questions; see :func:`twopipes.connect`."""

    on_elicit: OnElicit | None
    on_elicit_url: OnElicit | None
    on_sample: OnSample | None
    sample_tools: bool
    roots: Roots | None
    limits: Limits
    server: Implementation | None = None  # the server that asks

    @property
    def capabilities(self) -> ClientCapabilities:
        """The capabilities for which there are callbacks, and no others (CP-02)."""
        modes = {"form": self.on_elicit, "url": self.on_elicit_url}
        elicitation: dict[str, Any] = {mode: {} for mode, callback in modes.items() if callback is not None}
        return ClientCapabilities(
            elicitation=elicitation or None,
            sampling=None if self.on_sample is None else {"tools": {}} if self.sample_tools else {},
            roots=None if self.roots is None else {"listChanged": True},
        )

    async def answer_call(self, call: Call, causes: Sequence[SentRequest]) -> Result:
        """Answer a request of a legacy server, to which one of these requests of ours may have led."""
        return await self._answer(call.method, call.params, causes[0].method if len(causes) == 1 else None)

    async def answer_all(self, asking: InputRequiredResult, method: str) -> dict[str, Result]:
        """Answer all questions of a result, at the same time (MR-05). If a callback fails, nothing is sent again (MR-19)."""
        asked = asking.input_requests or {}
        limit = self.limits.max_in_flight
        # The server cannot be notified of an error here (CON-04). The session counts the questions of a legacy server.
        if limit is not None and len(asked) > limit:
            raise RemoteProtocolError(f"the server answered {method} with {len(asked):,} questions; the limit is {limit:,}")
        for request in asked.values():
            self._check(request, method)
        return await answer_together(
            {key: self._answer(_METHODS[type(request)], request.params, method) for key, request in asked.items()}
        )

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
                    raise RemoteProtocolError(f"the server answered {method} with an invalid conversation: {fault}")
            case _:
                allowed, what = declared.allows("roots"), "the roots"
        if not allowed:
            raise RemoteProtocolError(f"the server answered {method} by asking for {what}, which this client did not declare")

    async def _answer(self, name: str, params: Any, method: str | None) -> Result:
        try:
            match name:
                case "elicitation/create":
                    return await self._elicit(params)
                case "sampling/createMessage":
                    return await self._sample(params)
                case _:
                    given = await _awaited(self.roots()) if callable(self.roots) else self.roots
                    return ListRootsResult([_root(place) for place in given or ()])
        except TwopipesError:
            raise
        except Exception as error:
            raise QuestionFailed(name, method, repr(error)) from error

    async def _elicit(self, params: ElicitParams) -> ElicitResult:
        question = Elicitation(params, self.server)
        callback = self.on_elicit_url if question.mode == "url" else self.on_elicit
        assert callback is not None
        answer = await _awaited(callback(question))
        if answer is None:
            return question.cancel()
        if isinstance(answer, Mapping):
            answer = question.accept(answer)
        if not isinstance(answer, ElicitResult):
            raise TypeError(
                f"on_elicit must return a mapping, None or question.accept(...), .decline(), .cancel(), but returned {answer!r}"
            )
        if answer.action != "accept" or question.mode != "form":
            return ElicitResult(answer.action)  # EL-06: only an accepted form has content
        if wrong := form_errors(question.schema, answer.content or {}):
            raise ValueError(f"on_elicit returned invalid content for the form: {'; '.join(wrong)}")  # EL-16
        return answer

    async def _sample(self, params: CreateMessageParams) -> CreateMessageResult:
        assert self.on_sample is not None
        answer = await _awaited(self.on_sample(Sampling(params, self.server)))
        if isinstance(answer, str):
            return CreateMessageResult("assistant", TextContent(answer), "unnamed", "endTurn")
        if isinstance(answer, CreateMessageResult):
            return answer
        raise TypeError(f"on_sample must return a string or a CreateMessageResult, but returned {answer!r}")


async def _awaited(outcome: Any) -> Any:
    return await outcome if inspect.isawaitable(outcome) else outcome


def _root(place: Place) -> Root:
    """Return a root with a ``file://`` URI (RT-01)."""
    if isinstance(place, Root):
        root = place
    elif isinstance(place, str) and "://" in place:
        root = Root(place)
    else:
        root = Root(Path(place).absolute().as_uri(), Path(place).name or None)
    if not root.uri.startswith("file://"):
        raise ValueError(f"{root.uri!r} cannot be a root: its URI must begin with file:// (RT-01)")
    return root


async def answer_together(answering: Mapping[str, Coroutine[Any, Any, T]]) -> dict[str, T]:
    """Answer several questions at the same time. If one fails, the others are cancelled."""
    tasks = {key: asyncio.ensure_future(answer) for key, answer in answering.items()}
    try:
        return {key: await task for key, task in tasks.items()}
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
