"""The context of a request: progress, log messages and questions to the client."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from msgspec import Struct

from twopipes._protocol.passed_questions import Question
from twopipes._protocol.types import (
    ClientCapabilities,
    CreateMessageParams,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitParams,
    ElicitRequest,
    ElicitResult,
    Implementation,
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
from twopipes._server.checks import check_conversation, check_level
from twopipes._server.forms import AcceptedForm, CancelledForm, DeclinedForm
from twopipes._server.hints import no_such_member
from twopipes._session.ledger import Call
from twopipes.errors import LocalProtocolError, TwopipesError

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from twopipes._http.auth import Identity
    from twopipes._server.call_runner import CallRunner

    LifespanT = TypeVarWithDefault("LifespanT", default=Any)
else:
    LifespanT = TypeVar("LifespanT")  # the default is for type checkers; typing has none before Python 3.13

T = TypeVar("T")
# The progress reports of one call: this many at once, and this many per second after that. People cannot read faster.
BURST = 50
PER_SECOND = 20.0

# Seconds between the last progress of a call and its response. Clients in TypeScript handle a response before a notification that
# they have read together with it, and lose the notification (see docs/decisions/0022).
GAP: Final = 0.001

# Notifications of a thread that are kept while the event loop is busy or the client does not read; the oldest are dropped.
_MAX_HELD: Final = 1000


class ClientView(Struct, frozen=True):
    """The client that sent this request.

    Attributes:
        capabilities: What the client can do. In the modern era each request declares this anew.
        info: The name and version of the client, for logs only.
        revision: The revision of the request.
    """

    capabilities: ClientCapabilities
    info: Implementation | None
    revision: str


class CancelToken:
    """True once the response to a request is no longer wanted. A function that blocks can poll it, from any thread."""

    __slots__ = ("_event", "_is_set")

    _creating = threading.Lock()

    def __init__(self) -> None:
        self._is_set = False
        self._event: threading.Event | None = None  # created by the first wait, since most calls never wait

    def __bool__(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Mark the request as cancelled."""
        self._is_set = True  # before the look at the event: a thread that creates it now looks at this afterwards
        if self._event is not None:
            self._event.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the request is cancelled, at most so many seconds. Return whether it is. For threads, not for coroutines."""
        with self._creating:
            event = self._event = self._event or threading.Event()
        if self._is_set:
            event.set()
        return event.wait(seconds)


class RateLimit:
    """Allows bursts, but limits the rate after them (PR-02). ``pause`` is the time from one to the next after a burst."""

    __slots__ = ("_allowance", "_last", "pause")

    def __init__(self) -> None:
        self.pause = 1 / PER_SECOND
        self._allowance = float(BURST)
        self._last: float | None = None

    def allows(self, now: float) -> bool:
        """Return whether one more is allowed now; if so, count it."""
        if self._last is not None:
            self._allowance = min(float(BURST), self._allowance + (now - self._last) / self.pause)
        self._last = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True


class _Sent:
    """The result of a notification that is already on its way. Awaiting it gives a slow client time to read."""

    __slots__ = ("_wait",)

    def __init__(self, wait: Callable[[], Awaitable[None]] | None) -> None:
        self._wait = wait

    def __await__(self) -> Generator[Any, None, None]:
        if self._wait is not None:
            yield from self._wait().__await__()


class Context(Generic[LifespanT]):
    """One request, as its handler sees it. A handler gets it through an annotated parameter: ``ctx: Context``.

    ``Context[App]`` is the same, and declares to type checkers that ``ctx.lifespan`` is an ``App``.

    Attributes:
        call: The request.
        client: The client that sent it.
        identity: The caller, if the server verifies access tokens.
        cancelled: True once the response is no longer wanted.
        lifespan: The value of the server's lifespan.
    """

    def __init__(self, call: Call, connection: CallRunner, lifespan: LifespanT, *, is_internal: bool = False) -> None:
        self.call = call
        self.cancelled = CancelToken()
        self.lifespan = lifespan
        self._connection = connection
        self._loop = connection.loop
        # The state of the handler, kept by the connection.
        self._is_internal = is_internal  # the session handles the request, so it does not count as a running handler
        self._task: asyncio.Task[None] | None = None
        self._has_started = False
        self._is_closed = False  # nothing can be reported or asked any more
        # Progress and log messages
        self._has_progressed = False
        self._backlog = 0  # as in CallRunner, where the call has a stream of its own
        self._rate_limit: RateLimit | None = None
        self._postponed_progress: tuple[float, float | None, str | None] | None = None
        self._held: deque[tuple[Callable[..., bool], tuple[Any, ...]]] = deque(maxlen=_MAX_HELD)
        self._is_held_scheduled = False
        # Questions to the client
        self._open_questions = 0
        self._key_counts: dict[str, int] = {}
        self._times_asked: dict[str, int] = {}
        self._pending: dict[str, Question] = {}
        self._futures: dict[str, asyncio.Future[Any]] = {}
        self._is_asking = False
        self._is_ask_scheduled = False
        self._retried: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<Context of {self.call!r}>"

    # Type checkers must not see this method, or they would accept every misspelt name.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(no_such_member("Context", name), name=name, obj=self)

    @property
    def client(self) -> ClientView:
        """The client that sent the request, as it described itself in this round."""
        return ClientView(self.call.capabilities, self.call.client_info, self.call.dialect.revision)

    @property
    def identity(self) -> Identity | None:
        """The caller, as ``auth=`` verified it; ``None`` without ``auth=``, and on every channel that is not HTTP."""
        route = self.call.route
        identity: Identity | None = None if route is None else route.identity
        return identity

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's ``_meta``, trace context included."""
        return self.call.params.meta or {}

    # Progress and log messages

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> Awaitable[None]:
        """Report progress to the client, if the client asked for it and ``done`` is more than before.

        Reports that come too fast are thinned out: the newest is sent, and the last one (``done`` has reached ``total``) always.

        Await it to give a client that reads slowly the time it needs. In a function that blocks, just call it.
        """
        return self._send(self._connection.report_progress, done, total, message)

    def log(self, level: LoggingLevel, data: Any, *, logger: str | None = None) -> Awaitable[None]:
        """Send the client a log message, if the client requested this level. Await it as :meth:`progress`.

        Args:
            level: One of the levels of the protocol, such as ``"info"``.
            data: Anything that can be written as JSON.
            logger: The name of the logger.
        """
        check_level(level)
        return self._send(self._connection.log, level, data, logger)

    def _send(self, send: Callable[..., bool], *arguments: Any) -> Awaitable[None]:
        if threading.get_ident() == self._connection.thread_id:
            sent = send(self, *arguments)
            return _Sent(partial(self._connection.yield_and_drain, self.call) if sent else None)
        # A thread can be faster than the loop. It does not wait for the client.
        self._held.append((send, arguments))
        if not self._is_held_scheduled:
            self._is_held_scheduled = True
            self._connection.run_in_loop(self._send_held_unless_blocked)
        return _Sent(None)

    def _send_held_unless_blocked(self) -> None:
        """Send the notifications of threads, unless the client does not read: then they stay here, where they are bounded."""
        self._is_held_scheduled = False
        if not self._connection.is_blocked_for(self.call):
            self._send_held()

    def _send_held(self) -> None:
        """Send the notifications of threads."""
        while self._held:
            send, arguments = self._held.popleft()
            try:
                send(self, *arguments)
            except Exception as error:
                self._connection.log_failure(self.call, error)

    def _close(self) -> None:
        """End every wait for an answer of the client, also in threads: the call is over."""
        self._is_closed = True
        self._end_questions()
        if self._retried is not None:
            self._retried.cancel()

    # Questions to the client

    @overload
    async def elicit(
        self, message: str, schema: type[T], *, key: str | None = None
    ) -> AcceptedForm[T] | DeclinedForm | CancelledForm: ...
    @overload
    async def elicit(
        self, message: str, schema: Mapping[str, Any], *, key: str | None = None
    ) -> AcceptedForm[dict[str, Any]] | DeclinedForm | CancelledForm: ...
    async def elicit(
        self, message: str, schema: type[Any] | Mapping[str, Any], *, key: str | None = None
    ) -> AcceptedForm[Any] | DeclinedForm | CancelledForm:
        """Ask the user to fill in a form.

        Args:
            message: The text above the form.
            schema: A TypedDict, dataclass, Struct or pydantic model with flat fields, or a JSON Schema.
            key: A name for the question. Within one call, the same key must always mean the same question.

        Raises:
            CapabilityMissing: The client cannot show forms.
            SignatureRejected: The type cannot be shown as a form.
            FormRejected: The answer does not match the form.
            RequestTimedOut: No answer came in time.
            McpError: The client could not ask its user.
        """
        from twopipes._schema.form_types import elicitation_schema, read_form  # most servers never ask

        if isinstance(schema, Mapping) and "properties" not in schema:
            raise LocalProtocolError(
                'a mapping is a form as JSON Schema, {"type": "object", "properties": {...}}, and this one has no properties; '
                "a dataclass or a TypedDict is easier"
            )
        form = dict(schema) if isinstance(schema, Mapping) else elicitation_schema(schema)
        question = ElicitRequest(ElicitParams(message, mode="form", requested_schema=form))
        answer: ElicitResult = await self._ask(question, key or self._next_key("elicit"))
        if answer.action != "accept":
            return _not_accepted(answer)  # EL-15
        content: Any = dict(answer.content or {})
        return AcceptedForm(content if isinstance(schema, Mapping) else read_form(schema, content))

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None
    ) -> AcceptedForm[None] | DeclinedForm | CancelledForm:
        """Ask the user to visit a URL. ``accept`` means that the user agreed, not that the visit is over (EL-11).

        Raises:
            CapabilityMissing: The client does not open URLs.
        """
        question = ElicitRequest(ElicitParams(message, mode="url", url=url))
        answer: ElicitResult = await self._ask(question, key or self._next_key("elicit_url"))
        return AcceptedForm(None) if answer.action == "accept" else _not_accepted(answer)

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
        """Ask the client's model to continue a conversation. A plain string is a message of the user.

        Raises:
            CapabilityMissing: The client has no sampling, or no sampling with tools.
            UserRefused: The user refused, in a legacy session.
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
        """Ask the client for its roots, the places that the server may work in.

        Raises:
            CapabilityMissing: The client has no roots.
        """
        return list((await self._ask(ListRootsRequest(), key or self._next_key("roots"))).roots)

    def wait(self, question: Awaitable[T]) -> T:
        """Wait for a question in a function that blocks: ``ctx.wait(ctx.elicit(...))``.

        Raises:
            LocalProtocolError: It is called in the event loop, which would then wait for itself.
            concurrent.futures.CancelledError: The call was cancelled during the wait.
        """
        if threading.get_ident() == self._connection.thread_id:
            if isinstance(question, Coroutine):
                question.close()
            raise LocalProtocolError("ctx.wait() is for functions that block; in a coroutine, await the question")

        async def answer() -> T:
            return await question

        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result()

    def _next_key(self, kind: str) -> str:
        """Return a key that the same question gets again when the handler runs again from the top."""
        self._key_counts[kind] = self._key_counts.get(kind, 0) + 1
        return f"{kind}-{self._key_counts[kind]}"

    async def _ask(self, question: Question, key: str) -> Any:
        if self._is_closed:
            raise LocalProtocolError(f"{self.call!r} is over; nothing can be asked on its behalf")
        if key in self._futures:
            raise LocalProtocolError(f"this call asks two things under the key {key!r} at once")
        # The same key again is another question, even if it has the same text.
        self._times_asked[key] = times = self._times_asked.get(key, 0) + 1
        if times > 1:
            key = f"{key}#{times}"
        future = self._futures[key] = self._loop.create_future()
        self._pending[key] = question
        self._schedule_ask()
        try:
            with self._connection.waiting_for_client(self):
                answer = await future
        finally:
            self._futures.pop(key, None)
            self._pending.pop(key, None)
        if isinstance(answer, TwopipesError):
            raise answer
        return answer

    async def _ask_alone(self, question: Question, key: str) -> Any:
        """Ask a legacy client at once, so that the answer does not wait for those to other questions."""
        future = self._futures[key] = self._loop.create_future()
        try:
            with self._connection.waiting_for_client(self):
                answers = self._connection.ask(self.call, {key: question})
                answer = await future if answers is None else answers[key]
        finally:
            self._futures.pop(key, None)
        if isinstance(answer, TwopipesError):
            raise answer
        return answer

    def _end_questions(self) -> None:
        """End every wait for an answer, and ask nothing that was not asked yet."""
        for future in list(self._futures.values()):
            future.cancel()

    async def _wait_for_retry(self) -> None:
        """Wait until the client has sent the request again, if a round of questions was the response to it (MR-08)."""
        while self._is_asking and self.call.dialect.modern:
            with self._connection.waiting_for_client(self):
                self._retried = self._loop.create_future()
                await self._retried

    def _schedule_ask(self) -> None:
        # At the end of this turn of the loop, so that questions asked side by side (asyncio.gather) become one round.
        if not self._is_ask_scheduled and not (self._is_asking and self.call.dialect.modern):
            self._is_ask_scheduled = True
            if self._has_progressed and self.call.dialect.modern:
                self._loop.call_later(GAP, self._ask_now)  # in the modern era the questions are a response
            else:
                self._loop.call_soon(self._ask_now)

    def _ask_now(self) -> None:
        self._is_ask_scheduled = False
        pending, self._pending = self._pending, {}
        # Leave out the questions whose callers were cancelled meanwhile.
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
            self._is_asking = True
        else:
            self._deliver_answers(answers)

    def _deliver_answers(self, answers: Mapping[str, Any]) -> None:
        """Give the client's answers to those who wait for them, and ask what was added meanwhile."""
        self._is_asking = False
        if self._retried is not None and not self._retried.done():
            self._retried.set_result(None)
        for key, answer in answers.items():
            self._settle(key, answer)
        if self._pending:
            self._schedule_ask()

    def _settle(self, key: str, outcome: Any) -> None:
        future = self._futures.get(key)
        if future is None or future.done():
            return
        if isinstance(outcome, Exception) and not isinstance(outcome, TwopipesError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def _not_accepted(answer: ElicitResult) -> DeclinedForm | CancelledForm:
    return DeclinedForm() if answer.action == "decline" else CancelledForm()


Next = Callable[[Context], Awaitable[Result]]
"""What a middleware calls to handle the request."""
