"""What a handler can say and ask while it works: progress, log, questions to the client."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, overload

from msgspec import Struct

from twopipes._protocol.types import (
    LOGGING_LEVELS,
    ClientCapabilities,
    CreateMessageParams,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitParams,
    ElicitRequest,
    ElicitResult,
    Implementation,
    InputRequest,
    ListRootsRequest,
    LoggingLevel,
    ModelPreferences,
    Result,
    Root,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
)
from twopipes._server.checks import check_conversation
from twopipes._session.ledger import Call
from twopipes.errors import LocalProtocolError, TwopipesError

if TYPE_CHECKING:
    import asyncio

    from twopipes._server.connection import ServerConnection

__all__ = ["CancelToken", "ClientView", "Context", "Elicited", "Next", "is_no_failure"]

T = TypeVar("T")
# Progress reports of one call: so many at once, and so many in a second after that. Nobody can look faster.
BURST = 50
PER_SECOND = 20.0

# Seconds between the last progress of a call and its response. Clients in TypeScript handle a response before a notification that
# they have read together with it, and lose the notification (see docs/decisions/0022).
GAP: Final = 0.001

# What a thread may say while the event loop is busy or the client does not read; of more, the newest are kept.
_MOST_HELD: Final = 1000


class ClientView(Struct, frozen=True):
    """Who asks: the client of this very request.

    Attributes:
        capabilities: What it can do; on the stateless wire each request says so anew.
        info: Its name and version, for logs only.
        revision: The revision in which it asked.
    """

    capabilities: ClientCapabilities
    info: Implementation | None
    revision: str


class Elicited(Struct, Generic[T], frozen=True):
    """What the user did with a question.

    Attributes:
        action: ``accept``, ``decline`` or ``cancel``.
        content: The form as the type that was asked for; ``None`` unless it was accepted, and for a URL.
    """

    action: Literal["accept", "decline", "cancel"]
    content: T | None = None

    @property
    def accepted(self) -> bool:
        """Whether the user said yes."""
        return self.action == "accept"


class CancelToken:
    """Tells a handler that its answer is no longer wanted. A function that blocks can poll it, from any thread."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        # Made when somebody waits: an event is four objects, and most calls are neither cancelled nor asked whether they are.
        self._event: threading.Event | None = None

    def __bool__(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Says so."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until it is said, or for so many seconds; returns whether it was. For threads; do not call it in a coroutine."""
        with _making_an_event:
            if self._event is None:
                self._event = threading.Event()
        # Asked after the event is there: whoever sets the flag from here on sees it.
        return self._is_set or self._event.wait(seconds)


_making_an_event = threading.Lock()


class Pace:
    """How often something may be said: in bursts, but not for long (PR-02).

    Attributes:
        pause: Seconds from one to the next once a burst is over.
    """

    __slots__ = ("_allowance", "_last", "pause")

    def __init__(self) -> None:
        self.pause = 1 / PER_SECOND
        self._allowance = float(BURST)
        self._last: float | None = None

    def allows(self, now: float) -> bool:
        """Whether one more may be said now; if so, it counts as said."""
        if self._last is not None:
            self._allowance = min(float(BURST), self._allowance + (now - self._last) / self.pause)
        self._last = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True


class _Done:
    """Something that has happened already and may be awaited all the same, to give the peer time to read."""

    __slots__ = ("_wait",)

    def __init__(self, wait: Callable[[], Awaitable[None]] | None) -> None:
        self._wait = wait

    def __await__(self) -> Generator[Any, None, None]:
        if self._wait is not None:
            yield from self._wait().__await__()


class Context:
    """One request, as its handler sees it. Ask for one by annotating a parameter: ``ctx: Context``.

    Attributes:
        call: The request itself.
        client: Who asks.
        cancelled: True once the answer is no longer wanted.
        lifespan: What the server's lifespan gave.
        waits: How many answers of the client its handler waits for now.
        is_begun: Whether its handler has had its first turn.
        task: Where its handler runs, once it has been started.
        has_progressed: Whether progress was sent for it, so that its response keeps a distance.
        is_closed: Whether nothing can be reported or asked for it any more.
        is_beside: Whether it takes no place among the handlers that work, because the protocol itself has the answer.
    """

    is_beside: bool = False
    is_begun: bool = False
    has_progressed: bool = False
    is_closed: bool = False
    task: asyncio.Task[None] | None = None
    waits: int = 0
    postponed: tuple[float, float | None, str | None] | None = None
    _pace: Pace | None = None
    _held: deque[tuple[Callable[..., bool], tuple[Any, ...]]] | None = None
    _asking: bool = False
    _scheduled: bool = False
    _telling: bool = False

    # What most calls never need stands above, where it costs nothing to make a context.
    def __init__(self, call: Call, connection: ServerConnection, lifespan: Any) -> None:
        self.call = call
        self.cancelled = CancelToken()
        self.lifespan = lifespan
        self._connection = connection
        self._loop = connection.loop
        self._keys: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._pending: dict[str, InputRequest] = {}
        self._futures: dict[str, asyncio.Future[Any]] = {}

    def __repr__(self) -> str:
        return f"<Context of {self.call!r}>"

    # A type checker that saw it would take every misspelt name for a good one.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from twopipes._server.hints import no_such_member  # noqa: PLC0415 - see there

            raise AttributeError(no_such_member(name), name=name, obj=self)

    @property
    def pace(self) -> Pace:
        """How often its progress may be told."""
        if self._pace is None:
            self._pace = Pace()
        return self._pace

    @property
    def client(self) -> ClientView:
        """Who asks, in this round."""
        return ClientView(self.call.capabilities, self.call.client_info, self.call.dialect.revision)

    @property
    def is_forked(self) -> bool:
        """Whether this is a copy of it, in a process that was forked from the server."""
        return self._connection.process.is_forked

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's ``_meta``, trace context included."""
        return self.call.params.meta or {}

    # Telling

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> Awaitable[None]:
        """Tells the client how far the work is; only what is more than before, and only if it asked for progress.

        Reports that come faster than anybody can look are thinned out: the newest is sent, and the last one (``done`` has
        reached ``total``) always is.

        Awaiting it gives a client that reads slowly the time it needs. In a function that blocks just call it.
        """
        return self._tell(self._connection.report_progress, done, total, message)

    def log(self, level: LoggingLevel, data: Any, *, logger: str | None = None) -> Awaitable[None]:
        """Sends the client a log message, if its level asks for it. ``data`` is anything JSON can hold. As :meth:`progress`."""
        if level not in LOGGING_LEVELS:  # also where nobody listens: or it would be found out by the first who does
            raise LocalProtocolError(f"the level of a log message is one of {', '.join(LOGGING_LEVELS)}, and not {level!r}")
        return self._tell(self._connection.log, level, data, logger)

    def _tell(self, tell: Callable[..., bool], *arguments: Any) -> Awaitable[None]:
        if threading.get_ident() == self._connection.thread_id:
            sent = tell(self, *arguments)
            return _Done(self._connection.breathe if sent else None)
        # A thread can be faster than the loop, and is not made to wait for the peer.
        if self._held is None:
            self._held = deque(maxlen=_MOST_HELD)
        self._held.append((tell, arguments))
        if not self._telling:
            self._telling = True
            self._connection.call(self.tell_held)
        return _Done(None)

    def tell_held(self) -> None:
        """Tells what threads have said, unless the peer does not read: then it waits here, where it is bounded."""
        self._telling = False
        if not self._connection.is_full:
            self.tell_all()

    def tell_all(self) -> None:
        """Tells what threads have said."""
        while self._held:
            tell, arguments = self._held.popleft()
            try:
                tell(self, *arguments)
            except Exception as error:
                self._connection.report(self.call, error)

    def close(self) -> None:
        """The call is over: whoever still waits for an answer of the client, a thread perhaps, waits no longer."""
        self.is_closed = True
        if self._futures:
            for future in list(self._futures.values()):
                future.cancel()

    # Asking

    @overload
    async def elicit(self, message: str, schema: type[T], *, key: str | None = None) -> Elicited[T]: ...
    @overload
    async def elicit(self, message: str, schema: Mapping[str, Any], *, key: str | None = None) -> Elicited[dict[str, Any]]: ...
    async def elicit(self, message: str, schema: type[Any] | Mapping[str, Any], *, key: str | None = None) -> Elicited[Any]:
        """Asks the user to fill in a form.

        Args:
            message: What to ask.
            schema: A TypedDict, dataclass, Struct or pydantic model with flat fields, or a JSON Schema.
            key: Names the question. The same key must always mean the same question within one call.

        Raises:
            CapabilityMissing: The client has no forms.
            SignatureRejected: The type is none that a form can ask for.
            FormRejected: The answer does not fit the form.
            RequestTimedOut: Nobody answered in time.
            McpError: The client could not ask its user.
        """
        from twopipes._schema.form_types import elicitation_schema, read_form  # noqa: PLC0415 - most servers never ask

        if isinstance(schema, Mapping) and "properties" not in schema:
            raise LocalProtocolError(
                'a mapping is a form as JSON Schema, {"type": "object", "properties": {...}}, and this one has no properties; '
                "a dataclass or a TypedDict is easier"
            )
        form = dict(schema) if isinstance(schema, Mapping) else elicitation_schema(schema)
        question = ElicitRequest(ElicitParams(message, mode="form", requested_schema=form))
        answer: ElicitResult = await self._ask(question, key or self._next_key("elicit"))
        if answer.action != "accept":
            return Elicited(answer.action)  # EL-15
        content: Any = dict(answer.content or {})
        return Elicited("accept", content if isinstance(schema, Mapping) else read_form(schema, content))

    async def elicit_url(self, message: str, url: str, *, key: str | None = None) -> Elicited[None]:
        """Asks the user to visit a URL. ``accept`` means that the user agreed to, not that it is done (EL-11).

        Raises:
            CapabilityMissing: The client does not open URLs.
        """
        question = ElicitRequest(ElicitParams(message, mode="url", url=url))
        answer: ElicitResult = await self._ask(question, key or self._next_key("elicit_url"))
        return Elicited(answer.action)

    async def sample(
        self,
        messages: str | Sequence[SamplingMessage],
        *,
        max_tokens: int = 1024,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        preferences: ModelPreferences | None = None,
        tools: Sequence[Tool] | None = None,
        tool_choice: ToolChoice | None = None,
        key: str | None = None,
    ) -> CreateMessageResult:
        """Asks the client's model to go on with a conversation; a plain text is the user's first message.

        Raises:
            CapabilityMissing: The client has no sampling, or none with tools.
            UserRefused: The user said no, in a session.
            LocalProtocolError: Tool uses and tool results in the messages do not match.
        """
        conversation = [SamplingMessage("user", TextContent(messages))] if isinstance(messages, str) else list(messages)
        check_conversation(conversation)
        params = CreateMessageParams(
            conversation,
            max_tokens,
            model_preferences=preferences,
            system_prompt=system_prompt,
            temperature=temperature,
            stop_sequences=None if stop_sequences is None else list(stop_sequences),
            tools=None if tools is None else list(tools),
            tool_choice=tool_choice,
        )
        result: CreateMessageResult = await self._ask(CreateMessageRequest(params), key or self._next_key("sample"))
        return result

    async def list_roots(self, *, key: str | None = None) -> list[Root]:
        """Asks the client which places the server may look at.

        Raises:
            CapabilityMissing: The client has no roots.
        """
        return list((await self._ask(ListRootsRequest(), key or self._next_key("roots"))).roots)

    def wait(self, question: Awaitable[T]) -> T:
        """Waits for a question in a function that blocks: ``ctx.wait(ctx.elicit(...))``.

        Raises:
            LocalProtocolError: It is called in the event loop, which would then wait for itself.
            concurrent.futures.CancelledError: The call was cancelled while it waited.
        """
        if threading.get_ident() == self._connection.thread_id:
            if isinstance(question, Coroutine):
                question.close()
            raise LocalProtocolError("ctx.wait() is for functions that block; in a coroutine, await the question")

        async def answer() -> T:
            return await question

        from asyncio import run_coroutine_threadsafe  # noqa: PLC0415 - this file is read before there is a loop

        return run_coroutine_threadsafe(answer(), self._loop).result()

    def _next_key(self, kind: str) -> str:
        """A name that the same handler gives to the same question when it runs again from the top."""
        self._keys[kind] = self._keys.get(kind, 0) + 1
        return f"{kind}-{self._keys[kind]}"

    async def _ask(self, question: InputRequest, key: str) -> Any:
        if self.is_closed:
            raise LocalProtocolError(f"{self.call!r} is over; nothing can be asked on its behalf")
        if key in self._futures:
            raise LocalProtocolError(f"this call asks two things under the key {key!r} at once")
        # Asked again under the same key: another question, though it may have the same words.
        self._asked[key] = times = self._asked.get(key, 0) + 1
        if times > 1:
            key = f"{key}#{times}"
        future = self._futures[key] = self._loop.create_future()
        self._pending[key] = question
        self._ask_soon()
        try:
            with self._connection.parked(self):
                answer = await future
        finally:
            self._futures.pop(key, None)
            self._pending.pop(key, None)
        if isinstance(answer, TwopipesError):
            raise answer
        return answer

    def _ask_soon(self) -> None:
        # At the end of this turn of the loop, so that questions asked side by side (asyncio.gather) become one round.
        if not self._scheduled and not (self._asking and self.call.dialect.modern):
            self._scheduled = True
            if self.has_progressed and self.call.dialect.modern:
                self._loop.call_later(GAP, self._ask_now)  # there the questions are a response
            else:
                self._loop.call_soon(self._ask_now)

    def _ask_now(self) -> None:
        self._scheduled = False
        pending, self._pending = self._pending, {}
        # Who has turned away meanwhile is not asked for.
        questions = {key: question for key, question in pending.items() if key in self._futures and not self._futures[key].done()}
        if not questions:
            return
        try:
            answers = self._connection.ask(self.call, questions)
        except Exception as error:
            for key in questions:
                self._settle(key, error)
            return
        if answers is None:
            self._asking = True
        else:
            self.answered(answers)

    def answered(self, answers: Mapping[str, Any]) -> None:
        """The client has answered; whoever asked goes on, and what was asked meanwhile is asked now."""
        self._asking = False
        for key, answer in answers.items():
            self._settle(key, answer)
        if self._pending:
            self._ask_soon()

    def _settle(self, key: str, outcome: Any) -> None:
        future = self._futures.get(key)
        if future is None or future.done():
            return
        if isinstance(outcome, Exception) and not isinstance(outcome, TwopipesError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def is_no_failure(error: BaseException, context: Context) -> bool:
    """Return whether an error of a handler is not to be answered, because the handler is not served any more.

    Python closes its coroutine, which was left behind when the server ended; or this is a copy of it in a forked process.
    """
    return (isinstance(error, GeneratorExit) and bool(context.cancelled)) or context.is_forked


Next = Callable[[Context], Awaitable[Result]]
"""Does what a call asks for: what a middleware is given to call."""
