"""Questions of the server behind the gateway: carried to the host whose call caused them.

A legacy server asks with a request, which does not say what it belongs to. Over HTTP the stream shows it. On a byte stream it can
be any open call, so it is passed on only if all of them have the same caller: a question never reaches a host by a guess. A modern
host gets it as an ``input_required`` result, and its call is parked until the retry; a legacy host gets a request.

A modern server asks with a result. A modern host gets that result as it is; a legacy host is asked with requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from msgspec import UNSET

from twopipes._client.input_handlers import answer_together
from twopipes._gateway import translate
from twopipes._gateway.asker import named
from twopipes._gateway.extensions import with_valid_extensions
from twopipes._gateway.front_call import ClientIdentity, FrontCall
from twopipes._gateway.visits import Visits, required_pages, urls_of
from twopipes._protocol.dialect import Dialect
from twopipes._protocol.passed_questions import OnProgress, PassedAnswer, PassedQuestion, PassedRequest, Question, plain
from twopipes._protocol.revisions import MAY_ASK_BACK
from twopipes._protocol.types import (
    ClientCapabilities,
    CreateMessageRequest,
    ElicitRequest,
    EmptyParams,
    Implementation,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    Result,
)
from twopipes._server.call_runner import CallRunner
from twopipes._session.input_rounds import method_of
from twopipes._session.ledger import Call, SentRequest
from twopipes.errors import (
    CapabilityMissing,
    InternalError,
    InvalidParams,
    McpError,
    MethodNotFound,
    RemoteProtocolError,
    TwopipesError,
    UrlsRequired,
)

T = TypeVar("T")
_log = logging.getLogger("twopipes.gateway")

# Everything that can be carried, for a server that several hosts share.
_EVERYTHING: Final = ClientCapabilities(
    elicitation={"form": {}, "url": {}}, sampling={"tools": {}, "context": {}}, roots={"listChanged": True}
)
_KINDS: Final[Mapping[str, type[Any]]] = {
    "elicitation/create": ElicitRequest,
    "sampling/createMessage": CreateMessageRequest,
    "roots/list": ListRootsRequest,
}
# Seconds for which a question that belongs to no call waits for a call of a modern host, which can carry it.
_LONGEST_HOLD: Final = 600.0
# How often a call may be refused until the user has visited a page, before the host gets the error.
_MAX_REFUSALS: Final = 4
# Questions in one result of a modern server.
_MAX_QUESTIONS: Final = 64
_WITHDRAWN: Final = "the server does not need the answer any more"


class _CallEnded(Exception):
    """The call that carried a question has ended before the answer."""


class _Held:
    """A question that waits for a call of a modern host.

    Attributes:
        call: The call that carries it, once there is one.
        is_over: Set when it was answered, refused or withdrawn.
    """

    def __init__(self) -> None:
        self.call: asyncio.Future[FrontCall] = asyncio.get_running_loop().create_future()
        self.is_over = asyncio.Event()


class Questions:
    """Carries the questions of one server; a client uses it instead of callbacks.

    Attributes:
        server: The server that asks, as it reports itself.
        asker: The name of the server for users, if the host cannot see which of several servers asks.
        is_shared: Whether several hosts use the server.
        how_to_isolate: What a user can do against questions that are refused because hosts share the server.
        hosts: Returns the connections of the hosts that use the server.
        notify: Sends a notification to the server.
        visits: The pages that users were asked to visit.
    """

    def __init__(self) -> None:
        self.server: Implementation | None = None
        self.asker: str | None = None
        self.is_shared = False
        self.how_to_isolate = "start the gateway with --isolate"
        self.hosts: Callable[[], Iterable[CallRunner]] = tuple
        self.notify: Callable[[str, Any], object] = lambda _method, _params: None
        self.visits = Visits()
        self._carried: dict[FrontCall, int] = {}  # the open calls, and how many questions each of them carries
        self._held: dict[CallRunner, list[_Held]] = {}

    # For the engine

    def declared(self, client: ClientIdentity) -> ClientCapabilities:
        """Return the capabilities to open the server with, if this client is the first to use it.

        A shared server gets everything that can be carried; a question for a client that did not declare it is refused.
        """
        own = with_valid_extensions(client.capabilities)
        if self.is_shared:
            return ClientCapabilities(
                elicitation=_EVERYTHING.elicitation,
                sampling=_EVERYTHING.sampling,
                roots=_EVERYTHING.roots,
                extensions=own.extensions,
            )
        return ClientCapabilities(
            elicitation=own.elicitation,
            sampling=own.sampling,
            roots=own.roots,
            experimental=own.experimental,
            extensions=own.extensions,
        )

    @asynccontextmanager
    async def during(self, call: FrontCall) -> AsyncIterator[None]:
        """Carry questions in a call of a host while the server works on it.

        If the server is done while the host still answers a question, this waits for the retry: only that can be answered.
        """
        self._carried[call] = 0
        is_cancelled = False
        try:
            if self._held and _can_ask(call):
                await self._ask_held(call)
            yield
        except asyncio.CancelledError:
            is_cancelled = True
            raise
        finally:
            del self._carried[call]
            call.context._end_questions()
            if not is_cancelled:
                await call.context._wait_for_retry()

    def check_resumed(self, call: FrontCall) -> None:
        """Refuse a retry that finds no parked call, because a legacy server cannot continue one.

        Raises:
            InvalidParams: The call would run a second time.
        """
        if getattr(call.call.params, "request_state", None) is not None:
            raise InvalidParams(
                f"the {call.call.method} that asked for this input cannot continue: the process that ran it is gone, or it was "
                "answered already; it was not run again. Start the call again without requestState"
            )

    async def visit_first(self, call: FrontCall, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request. If a legacy server refuses it until the user has visited pages, ask a modern host for that (ER-08).

        The error means that the server did nothing, so the request is sent again when the user has agreed. If it is refused for the
        same pages, the user is probably still there, so it is sent once more after the visit.
        """
        agreed: list[ElicitRequest] = []
        for _ in range(_MAX_REFUSALS):
            try:
                return await send()
            except UrlsRequired as error:
                pages = required_pages(error)
                if agreed and urls_of(pages) == urls_of(agreed):
                    await self.visits.wait_for(agreed)
                    agreed = []
                    continue
                for page in pages:
                    self.visits.note(page, call.runner)
                if not await self._visits_agreed(call, pages):
                    raise
                agreed = pages
        return await send()

    async def _visits_agreed(self, call: FrontCall, pages: Sequence[ElicitRequest]) -> bool:
        """Ask a modern host to open pages. Return whether the user agreed to all of them."""
        can_ask = call.call.dialect.modern and _can_ask(call) and call.call.capabilities.allows("elicitation", "url")
        if not can_ask or not pages or len(pages) > _MAX_QUESTIONS:
            return False
        try:
            answers = await answer_together({str(key): self._ask_in(call, self._named(page)) for key, page in enumerate(pages)})
        except _CallEnded:
            return False
        return all(answer.action == "accept" for answer in answers.values())

    def _named(self, question: Question) -> Question:
        return question if self.asker is None else named(question, self.asker)

    # Questions of a legacy server

    async def answer_call(self, call: Call, causes: Sequence[SentRequest]) -> Result:
        """Answer a request of a legacy server."""
        calls = [asked.context.origin for asked in causes if isinstance(getattr(asked.context, "origin", None), FrontCall)]
        try:
            if call.method not in _KINDS:
                return await self._pass_on(call, calls)
            answer = await self._ask(self._named(_question_of(call, self._progress_of(call))), calls)
        except McpError as error:
            _log.info("%s of the server behind the gateway got an error: %s", call.method, error.message)
            raise
        except TwopipesError as error:
            raise InternalError(f"{call.method} could not be passed to the host: {error}") from None
        return _written(answer, call.dialect)

    def _progress_of(self, call: Call) -> OnProgress | None:
        """Return what passes the progress of a host on to the server that asks, if it wants that."""
        token = call.progress_token
        if token is None:
            return None
        return lambda raw: self.notify("notifications/progress", translate.progress(raw, token, call.dialect))

    async def _pass_on(self, call: Call, calls: Collection[FrontCall]) -> Result:
        """Pass a request whose method is unknown to the legacy host that it belongs to: the only caller, or the only host."""
        runners = {front_call.runner for front_call in calls} or set(self.hosts())
        takers = [runner for runner in runners if runner.session.session_dialect is not None]
        if len(runners) != 1 or not takers:
            why = f"{len(runners)} hosts could be meant" if len(runners) > 1 else "no host is connected that takes requests"
            raise MethodNotFound(f"{call.method} was not passed to a host: {why}")
        request = PassedRequest(call.method, UNSET if call.raw_params is None else call.raw_params, self._progress_of(call))
        route = next((front_call.call.route for front_call in calls if front_call in self._carried), None)
        result: Result = await takers[0].ask_session(request, route=route)
        return result

    async def _ask(self, question: Question, calls: Collection[FrontCall]) -> Any:
        callers = {_caller_of(call) for call in calls}
        if len(callers) > 1:
            raise _refusal(
                question,
                f"{len(callers)} hosts have calls open, and nothing shows which of them it belongs to; {self.how_to_isolate}, so "
                "that each host has its own server",
            )
        # A call that ends may leave another one of the same host, which can carry the question then.
        while open_calls := [call for call in calls if call in self._carried and _can_ask(call)]:
            try:
                return await self._ask_in(min(open_calls, key=lambda call: self._carried.get(call, 0)), question)
            except _CallEnded:
                continue
        # Servers ask for the roots after the handshake, for no call, even if one was open at that moment.
        is_about_call = calls and not isinstance(plain(question), ListRootsRequest)
        if is_about_call and all(call not in self._carried for call in calls):
            raise InternalError(f"the call that {method_of(question)} belongs to has ended")
        runners = {call.runner for call in calls} or set(self.hosts())
        return await self._ask_outside(question, [runner for runner in runners if not runner.session.is_shared])

    async def _ask_in(self, call: FrontCall, question: Question) -> Any:
        """Ask the host during one of its calls."""
        self._carried[call] += 1
        self.visits.note(question, call.runner)
        try:
            return await ask(call, question)
        except CapabilityMissing as error:
            raise _not_declared(error, question, call.call.capabilities) from None
        finally:
            if call in self._carried:
                self._carried[call] -= 1

    async def _ask_outside(self, question: Question, runners: Sequence[CallRunner]) -> Any:
        """Ask a question that belongs to no call, such as that for the roots after the handshake, if there is only one host."""
        if len(runners) != 1:
            why = "no host is connected that can answer" if not runners else f"{len(runners)} hosts use the server"
            raise _refusal(question, f"it belongs to no call, and {why}; ask during a call")
        (runner,) = runners
        if runner.session.session_dialect is not None:
            self.visits.note(question, runner)
            try:
                return await runner.ask_session(question)
            except CapabilityMissing as error:
                raise _not_declared(error, question, runner.session.client_capabilities) from None
        while True:
            held = _Held()
            self._held.setdefault(runner, []).append(held)
            try:
                return await self._ask_in(await self._next_call(held, question), question)
            except _CallEnded:
                continue
            finally:
                held.is_over.set()
                self._release(runner, held)

    async def _next_call(self, held: _Held, question: Question) -> FrontCall:
        """Wait for a call of a modern host, which can be asked only in the response to one."""
        try:
            async with asyncio.timeout(_LONGEST_HOLD):
                return await held.call
        except TimeoutError:
            raise _refusal(question, "it belongs to no call, and the host has made none that could carry it") from None

    def _release(self, runner: CallRunner, held: _Held) -> None:
        waiting = self._held.get(runner, [])
        if held in waiting:
            waiting.remove(held)
        if not waiting:
            self._held.pop(runner, None)

    async def _ask_held(self, call: FrontCall) -> None:
        """Ask what waits for this call, before the server gets it: it may need the answers, as it does with the roots."""
        waiting = self._held.pop(call.runner, [])
        for held in waiting:
            if not held.call.done():
                held.call.set_result(call)
        for held in waiting:
            await held.is_over.wait()

    # Questions of a modern server

    async def answer_all(self, asking: InputRequiredResult, method: str) -> dict[str, Result]:
        """Refuse questions about a request that the gateway makes for itself."""
        raise RemoteProtocolError(f"the server asked for input during {method}, which no host has sent")

    async def answer_in(self, call: FrontCall, asking: InputRequiredResult, method: str) -> dict[str, Result]:
        """Ask a legacy host what a modern server asks with a result; return the answers by key (MR-05)."""
        asked = asking.input_requests or {}
        if len(asked) > _MAX_QUESTIONS:
            raise InternalError(f"the server answered {method} with {len(asked):,} questions; the limit is {_MAX_QUESTIONS}")
        try:
            return await answer_together({key: _answer_one(call, self._named(question)) for key, question in asked.items()})
        except _CallEnded:
            raise InternalError(f"the client was asked for input, but its {method} has ended") from None


async def _answer_one(call: FrontCall, question: Question) -> Result:
    """Ask a host a question of a modern server, and return the answer for that server."""
    answer = await ask(call, question)
    return _written(answer, question.source) if isinstance(question, PassedQuestion) else _written(answer, call.call.dialect)


async def ask(call: FrontCall, question: Question) -> Any:
    """Ask the host of a call one question, and return the answer. Cancel this to withdraw it.

    Raises:
        McpError: The host could not answer, or did not declare that it can.
        _CallEnded: The call has ended.
    """
    context = call.context
    key = context._next_key(method_of(question).partition("/")[0])
    try:
        if context.call.dialect.modern:
            return await context._ask(question, key)
        return await context._ask_alone(question, key)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            call.runner.withdraw(context.call, key, _WITHDRAWN)
            raise
        raise _CallEnded from None  # the context has ended the wait


def _caller_of(call: FrontCall) -> object:
    """Return what tells callers apart: a connection, or one request where each may come from another client."""
    return call.call if call.runner.session.is_shared else call.runner


def _can_ask(call: FrontCall) -> bool:
    """Whether the client can be asked in this call: it is open and, in the modern era, its method allows questions (MR-01)."""
    return not call.context._is_closed and (not call.call.dialect.modern or call.call.method in MAY_ASK_BACK)


def _question_of(call: Call, on_progress: OnProgress | None) -> Question:
    kind = _KINDS[call.method]
    question: InputRequest = kind() if call.params == EmptyParams() else kind(call.params)
    return question if call.raw_params is None else PassedQuestion(question, call.raw_params, call.dialect, on_progress)


def _written(answer: Any, target: Dialect) -> Result:
    """Return an answer of a host for a server that speaks ``target``."""
    result: Result = answer.written(target) if isinstance(answer, PassedAnswer) else answer
    return result


def _refusal(question: Question, why: str) -> McpError:
    text = f"{method_of(question)} was not passed to a host: {why}"
    _log.warning("%s", text)
    return InternalError(text)


def _not_declared(error: CapabilityMissing, question: Question, declared: ClientCapabilities) -> McpError:
    """Return the error that a legacy client would send (ER-15)."""
    ((name, details),) = error.required.items()
    if declared.allows(name):
        return InvalidParams(f"this client does not support {name} with {', '.join(details) or 'form'}")
    return MethodNotFound(f"this client does not support {method_of(question)}")
