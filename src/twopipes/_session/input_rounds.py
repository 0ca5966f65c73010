"""Questions to the client: one interface, one implementation per era (section MR of the rules).

In every era a handler asks with :meth:`InputRounds.ask`. If the answers are known already, they are returned at once; otherwise an
:class:`~twopipes._session.events.InputsAnswered` event follows.

In a legacy session a question is a request of the server. In the modern era the server must not send requests: the response to
the call is ``input_required``, and the client sends the call again with the answers. Meanwhile the handler waits in memory and
continues under the id of the retry. If it is gone by then (a new process, too many waiting, too late), the call starts from the
beginning. The sealed state contains every answer given so far, so the user is not asked twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from msgspec import UNSET, Raw, Struct, structs

from twopipes._jsonrpc import Request
from twopipes._protocol import types as t
from twopipes._protocol.dialect import Dialect
from twopipes._protocol.passed_questions import PassedAnswer, PassedQuestion, PassedRequest, Question, plain, with_token
from twopipes._protocol.revisions import MAY_ASK_BACK
from twopipes._session.ledger import Call, Outgoing, Route, SentRequest
from twopipes._session.state_token import StateSealer, binding_of
from twopipes._wire import encode_line
from twopipes.errors import CapabilityMissing, InvalidParams, LocalProtocolError, RemoteProtocolError, RequestId
from twopipes.settings import InputPolicy

_URL_NEEDS_ID_IN: Final = "2025-11-25"


def method_of(question: Question) -> str:
    """Return the method of a question when it is sent as a request."""
    return str(plain(question).__struct_config__.tag)


def needed_capability(question: t.InputRequest) -> dict[str, Any]:
    """Return what the client must have declared for this question, as a ClientCapabilities object (ER-10)."""
    if isinstance(question, t.ElicitRequest):
        return {"elicitation": {"url": {}} if question.params.mode == "url" else {}}  # CP-04, EL-08
    if isinstance(question, t.CreateMessageRequest):
        params = question.params
        details = {
            "tools": params.tools is not None or params.tool_choice is not None,  # SA-04
            "context": params.include_context not in (None, "none"),  # SA-08
        }
        return {"sampling": {detail: {} for detail, is_needed in details.items() if is_needed}}
    return {"roots": {}}


def check_declared(question: Question, dialect: Dialect, capabilities: t.ClientCapabilities) -> None:
    """Raise CapabilityMissing if the client did not declare what a question needs, or its revision has no such question."""
    needed = needed_capability(plain(question))
    exists = dialect.modern or dialect.asks(method_of(question))
    if not exists or not _is_declared(needed, capabilities):
        raise CapabilityMissing(needed)


def _is_declared(needed: Mapping[str, Any], capabilities: t.ClientCapabilities) -> bool:
    ((name, details),) = needed.items()
    if name == "elicitation" and not details:
        return capabilities.allows(name, "form")  # an elicitation without details is a form
    return capabilities.allows(name) and all(capabilities.allows(name, detail) for detail in details)


class ForeignState(InvalidParams):
    """A ``requestState`` that was not sealed here for this request, or has expired."""


class Given(Struct, array_like=True, frozen=True):
    """An answer of the client, with the method and the digest of its question."""

    method: str
    digest: str
    answer: Raw


class Pending(Struct, array_like=True, frozen=True):
    """A question without an answer yet."""

    method: str
    digest: str


class InputRounds(ABC):
    """What both eras share: whether a question may be asked, and whether it was answered before."""

    def __init__(self, policy: InputPolicy) -> None:
        self._policy = policy

    def ask(self, call: Call, questions: Mapping[str, Question], *, now: float) -> dict[str, Any] | None:
        """Ask the client all the questions in one round.

        The same question under the same key is asked only once. Returns the answers by key if all are known already, else ``None``:
        they follow in an event. If the client did not declare what a question needs, nothing is asked (MR-04, CP-06).
        """
        known: dict[str, Any] = {}
        for key, question in questions.items():
            check_declared(question, call.dialect, call.capabilities)
            given = call.answers.get(key) or self._volunteered(call, key, question)
            if given is not None and given.digest == _digest(question):
                answer = read_answer(call.dialect, given)
                known[key] = PassedAnswer(answer, given.answer, call.dialect) if isinstance(question, PassedQuestion) else answer
        if len(known) == len(questions):
            return known
        if self._policy.max_rounds is not None and call.rounds >= self._policy.max_rounds:
            raise LocalProtocolError(f"{call.method} has asked {call.rounds} times; the limit is {self._policy.max_rounds}")
        call.rounds += 1
        self._send_questions(call, questions, known, now)
        return None

    @abstractmethod
    def _send_questions(self, call: Call, questions: Mapping[str, Question], known: dict[str, Any], now: float) -> None: ...

    def _volunteered(self, call: Call, key: str, question: Question) -> Given | None:
        """Return an answer that came before its question."""
        return None


def read_answer(dialect: Dialect, given: Given) -> Any:
    """Decode an answer. One that does not fit the kind of question is refused (MR-14)."""
    try:
        return dialect.read_result(given.method, given.answer)
    except RemoteProtocolError as error:
        raise InvalidParams(f"an input response does not match {given.method}: {error.what}") from None


def _digest(question: Question) -> str:
    return binding_of(method_of(question), plain(question).params or {}).hex()[:32]


class _Group(Struct, eq=False):
    """Questions that were asked together and are answered together."""

    call: Call
    answers: dict[str, Any]
    missing: dict[RequestId, SentRequest] = {}


class LegacyInputRounds(InputRounds):
    """Questions in a legacy session: each one is a request of the server."""

    def __init__(self, policy: InputPolicy, outgoing: Outgoing, send: Callable[[SentRequest, bytes], None]) -> None:
        super().__init__(policy)
        self._outgoing = outgoing
        self._send = send
        # By call. A list, because a handler may ask several times concurrently.
        self.groups: dict[Call, list[_Group]] = {}

    def _send_questions(self, call: Call, questions: Mapping[str, Question], known: dict[str, Any], now: float) -> None:
        group = _Group(call, dict(known))
        lines: list[bytes] = []
        try:
            for key, question in questions.items():
                if key in known:
                    continue
                asked = self._outgoing.open(method_of(question), question, now=now, idle=self._policy.wait, context=(group, key))
                group.missing[asked.id] = asked
                lines.append(_question_line(asked, question, call.dialect))
        except BaseException:
            # If one question cannot be sent, none is, and none stays in the ledger.
            for asked in group.missing.values():
                self._outgoing.settle(asked.id)
            raise
        self.groups.setdefault(call, []).append(group)
        for asked, line in zip(group.missing.values(), lines, strict=True):
            self._send(asked, line)

    def pass_on(self, request: PassedRequest, route: Route | None, *, now: float) -> SentRequest:
        """Send a request of another server as it is, except for the progress token."""
        asked = self._outgoing.open(request.method, request, now=now, idle=self._policy.wait)
        asked.raw, asked.route = True, route
        params = request.raw if request.on_progress is None else with_token(request.raw, asked.id)
        self._send(asked, encode_line(Request(asked.id, asked.method, params)))
        return asked

    def ask_session(self, question: Question, dialect: Dialect, capabilities: t.ClientCapabilities, *, now: float) -> SentRequest:
        """Ask one question that belongs to no call."""
        check_declared(question, dialect, capabilities)
        asked = self._outgoing.open(method_of(question), question, now=now, idle=self._policy.wait)
        try:
            line = _question_line(asked, question, dialect)
        except BaseException:
            self._outgoing.settle(asked.id)
            raise
        self._send(asked, line)
        return asked

    def find(self, call: Call, key: str) -> SentRequest | None:
        """Return the open question of a call with this key, if there is one."""
        open_questions = (asked for group in self.groups.get(call, ()) for asked in group.missing.values())
        return next((asked for asked in open_questions if asked.context[1] == key), None)

    def answered(self, asked: SentRequest, answer: Any) -> tuple[Call, dict[str, Any]] | None:
        """Record an answer or an error. Return the call and all its answers once none is missing."""
        group: _Group
        group, key = asked.context
        group.answers[key] = answer
        group.missing.pop(asked.id, None)
        if group.missing:
            return None
        groups = self.groups[group.call]
        groups.remove(group)
        if not groups:
            del self.groups[group.call]
        return group.call, group.answers

    def withdraw(self, call: Call) -> list[SentRequest]:
        """Remove the open questions of a call that has ended from the ledger; return them, to be cancelled (CA-02)."""
        open_questions = [asked for group in self.groups.pop(call, ()) for asked in group.missing.values()]
        for asked in open_questions:
            self._outgoing.settle(asked.id)
        return open_questions


def _question_line(asked: SentRequest, question: Question, dialect: Dialect) -> bytes:
    params: t.Params | None = plain(question).params
    is_url = isinstance(params, t.ElicitParams) and params.mode == "url" and params.elicitation_id is None
    if is_url and dialect.revision == _URL_NEEDS_ID_IN:
        params = structs.replace(cast("t.ElicitParams", params), elicitation_id=_token())  # EL-10
    elif isinstance(question, PassedQuestion):
        written = question.written(dialect).params
        return encode_line(
            Request(asked.id, asked.method, written if question.on_progress is None else with_token(written, asked.id))
        )
    return encode_line(Request(asked.id, asked.method, UNSET if params is None else dialect.fit(params)))


class _CallState(Struct, array_like=True):
    """The content of a sealed state."""

    dialogue: str
    rounds: int
    given: dict[str, Given]
    pending: dict[str, Pending]


class _Waiting(Struct, eq=False):
    """A handler in memory that waits for the retry of its call."""

    call: Call
    questions: Mapping[str, Question]
    deadline: float | None


class ModernInputRounds(InputRounds):
    """Questions in the modern era: they end the request, and the answers arrive with the retry.

    ``abandon`` is called with a call whose handler is not to wait any longer. A state may outlive the process, so it
    expires in Unix time, ``unix_offset`` after the session's clock. A state of one ``principal`` is invalid for another (MR-16).
    """

    def __init__(
        self,
        policy: InputPolicy,
        sealer: StateSealer,
        respond: Callable[[Call, t.InputRequiredResult], bool],
        abandon: Callable[[Call], None],
        *,
        unix_offset: float,
        principal: str = "",
    ) -> None:
        super().__init__(policy)
        self._sealer = sealer
        self._respond = respond
        self._abandon = abandon
        self._unix_offset = unix_offset
        self._principal = principal
        # In the order of their deadlines, which is the order in which they asked.
        self.waiting: OrderedDict[str, _Waiting] = OrderedDict()

    def _send_questions(self, call: Call, questions: Mapping[str, Question], known: dict[str, Any], now: float) -> None:
        if call.method not in MAY_ASK_BACK:  # MR-01
            raise LocalProtocolError(f"{call.method} must not ask the client for input; only {', '.join(MAY_ASK_BACK)} may")
        # Unique among all processes and connections: a state from elsewhere must not resume a handler here.
        call.dialogue = call.dialogue or _token()
        missing = {key: question for key, question in questions.items() if key not in known}
        content = _CallState(
            call.dialogue,
            call.rounds,
            call.answers,
            {key: Pending(method_of(question), _digest(question)) for key, question in missing.items()},
        )
        state = self._sealer.seal(
            content,
            binding=self._binding(call),
            expires=now + self._unix_offset + self._policy.state_lifetime,
        )
        deadline = None if self._policy.wait is None else now + self._policy.wait
        asked: Any = {
            key: question.written(call.dialect) if isinstance(question, PassedQuestion) else question
            for key, question in missing.items()
        }
        if self._respond(call, t.InputRequiredResult(input_requests=asked, request_state=state)):
            self.waiting[call.dialogue] = _Waiting(call, questions, deadline)
            if len(self.waiting) > self._policy.max_waiting:
                self._abandon_first()

    def _volunteered(self, call: Call, key: str, question: Question) -> Given | None:
        # A client that knows the questions of a tool may answer them in its first request, which has no state. Later requests
        # answer what their state asks.
        if call.method not in MAY_ASK_BACK or call.params.request_state is not None:
            return None
        responses: Mapping[str, Raw] = call.params.input_responses or {}
        if key not in responses:
            return None
        given = Given(method_of(question), _digest(question), responses[key].copy())
        call.answers = {**call.answers, key: given}
        return given

    def resume(self, retry: Call, *, now: float) -> tuple[Call, Mapping[str, Question] | None]:
        """Find the handler that waits for a call with a ``requestState`` (MR-14 to MR-16).

        Return the call that continues and its questions; without questions, the call starts from the beginning. If the retry left
        out an answer, the question is asked again when the handler continues (MR-12).

        Raises:
            ForeignState: The state was not sealed here for this request, or has expired.
            InvalidParams: An answer does not fit its question.
        """
        try:
            state = self._sealer.open(
                retry.params.request_state, _CallState, binding=self._binding(retry), now=now + self._unix_offset
            )
        except InvalidParams as error:
            raise ForeignState(error.message) from None
        responses: Mapping[str, Raw] = retry.params.input_responses or {}
        fresh = {
            # A copy, because a Raw keeps the whole line in memory.
            key: Given(pending.method, pending.digest, responses[key].copy())
            for key, pending in state.pending.items()
            if key in responses  # MR-13: other keys are ignored
        }
        for given in fresh.values():
            read_answer(retry.dialect, given)
        retry.answers = {**state.given, **fresh}
        retry.rounds = state.rounds
        waiting = self.waiting.get(state.dialogue)
        # The state is of an earlier round, and its handler has continued since; start a new handler.
        if waiting is None or waiting.call.rounds != state.rounds:
            return retry, None
        del self.waiting[state.dialogue]
        waiting.call.continue_as(retry)
        return waiting.call, waiting.questions

    def next_deadline(self) -> float | None:
        """When the first waiting handler is abandoned."""
        first = next(iter(self.waiting.values()), None)
        return None if first is None else first.deadline

    def abandon_late(self, *, now: float) -> None:
        """Abandon the handlers that waited too long; a late retry starts from the beginning."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            self._abandon_first()

    def close(self) -> None:
        """Abandon all waiting handlers, because the connection is over."""
        while self.waiting:
            self._abandon_first()

    def _abandon_first(self) -> None:
        self._abandon(self.waiting.popitem(last=False)[1].call)

    def _binding(self, call: Call) -> bytes:
        try:
            principal = self._principal if call.route is None else call.route.principal
            return binding_of(call.method, call.params, principal=principal)
        except (RecursionError, LocalProtocolError):  # shallow enough to decode, but too deep to encode again
            raise InvalidParams(f"the params of {call.method} are nested too deeply") from None


def _token() -> str:
    """Return an unguessable name."""
    from secrets import token_urlsafe  # it loads OpenSSL, and most servers never ask

    return token_urlsafe(16)
