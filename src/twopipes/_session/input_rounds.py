"""InputRounds to the client: one interface, two drivers (section MR of the rules).

A handler asks by :meth:`InputRounds.ask`, in every era. If the client has answered already, the answers come back at once;
otherwise an :class:`~twopipes._session.events.InputsAnswered` event follows when it has.

In a legacy session a question is a request of the server. On the stateless wire the server may not send requests: the call
itself is answered with ``input_required``, and the client sends the call again with the answers. The handler waits in memory
meanwhile and goes on under the id of the retry. If it is not there any more (a new process, too many waiting, too late), the
call starts from the top, and the sealed state brings along every answer that was already given, so nobody is asked twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import UNSET, Raw, Struct, structs

from twopipes import _jsonrpc as jsonrpc
from twopipes._jsonrpc import Request
from twopipes._protocol.dialect import Dialect
from twopipes._protocol.revisions import MAY_ASK_BACK
from twopipes._protocol.types import (
    ClientCapabilities,
    CreateMessageParams,
    CreateMessageRequest,
    ElicitRequest,
    InputRequest,
    InputRequiredResult,
    Params,
)
from twopipes._session.ledger import Asked, Call, Outgoing
from twopipes._session.state_token import StateSealer, binding_of
from twopipes.errors import CapabilityMissing, InvalidParams, LocalProtocolError, RemoteProtocolError
from twopipes.settings import InputPolicy

__all__ = ["InputRounds", "RequestQuestions", "RoundQuestions", "method_of", "needed_capability"]

_URL_NEEDS_AN_ID_IN: Final = "2025-11-25"


def method_of(question: InputRequest) -> str:
    """The method that a question would have as a request."""
    return str(question.__struct_config__.tag)


def needed_capability(question: InputRequest) -> dict[str, Any]:
    """What the client must have declared to be asked this, as a ClientCapabilities object (ER-10)."""
    if isinstance(question, ElicitRequest):
        return {"elicitation": {"url": {}} if question.params.mode == "url" else {}}  # CP-04, EL-08
    if isinstance(question, CreateMessageRequest):
        return {"sampling": _sampling_details(question.params)}
    return {"roots": {}}


def _sampling_details(params: CreateMessageParams) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if params.tools is not None or params.tool_choice is not None:
        details["tools"] = {}  # SA-04
    if params.include_context not in (None, "none"):
        details["context"] = {}  # SA-08
    return details


def _is_declared(needed: Mapping[str, Any], capabilities: ClientCapabilities) -> bool:
    for name, details in needed.items():
        if name == "elicitation" and not details:
            details = {"form": {}}  # noqa: PLW2901 - a form is what an elicitation without details is
        if not all(capabilities.allows(name, *detail) for detail in ([()] if not details else [(key,) for key in details])):
            return False
    return True


class Given(Struct, array_like=True, frozen=True):
    """An answer that the client gave: to what kind of question, to which exact one, and what it said."""

    method: str
    digest: str
    answer: Raw


class Pending(Struct, array_like=True, frozen=True):
    """A question that waits for its answer."""

    method: str
    digest: str


class InputRounds(ABC):
    """What both drivers share: whether a question may be asked, and whether it was answered before."""

    def __init__(self, policy: InputPolicy) -> None:
        self._policy = policy

    def ask(self, call: Call, questions: Mapping[str, InputRequest], *, now: float) -> dict[str, Any] | None:
        """Asks the client, once for all the questions.

        Args:
            call: On whose behalf.
            questions: By key. Keys are the handler's own; the same question asked again under the same key is not asked twice.
            now: The time.

        Returns:
            The answers by key if all are known already, else ``None``: they follow in an event.

        Raises:
            CapabilityMissing: The client did not declare what a question needs (MR-04, CP-06); nothing was asked.
            LocalProtocolError: The call asks without end, or its method may not ask at all.
        """
        known: dict[str, Any] = {}
        for key, question in questions.items():
            needed = needed_capability(question)
            if not _is_declared(needed, call.capabilities) or not self._exists(call.dialect, method_of(question)):
                raise CapabilityMissing(needed)
            given = call.answers.get(key)
            if given is not None and given.digest == _digest(question):
                known[key] = read_answer(call.dialect, given)
        if len(known) == len(questions):
            return known
        if self._policy.max_rounds is not None and call.rounds >= self._policy.max_rounds:
            raise LocalProtocolError(f"{call.method} has asked {call.rounds} times; the limit is {self._policy.max_rounds}")
        call.rounds += 1
        self._put(call, questions, known, now)
        return None

    @abstractmethod
    def _exists(self, dialect: Dialect, method: str) -> bool: ...

    @abstractmethod
    def _put(self, call: Call, questions: Mapping[str, InputRequest], known: dict[str, Any], now: float) -> None: ...


def read_answer(dialect: Dialect, given: Given) -> Any:
    """An answer with its types.

    Raises:
        InvalidParams: It is not an answer to this kind of question (MR-14).
    """
    try:
        return dialect.read_result(given.method, given.answer)
    except RemoteProtocolError as error:
        raise InvalidParams(f"an input response does not answer {given.method}: {error.what}") from None


def _digest(question: InputRequest) -> str:
    return binding_of(method_of(question), question.params or {}).hex()[:32]


class _Group:
    """InputRounds that were put together and are answered together."""

    __slots__ = ("answers", "call", "missing")

    def __init__(self, call: Call, answers: dict[str, Any]) -> None:
        self.call = call
        self.answers = answers
        self.missing: dict[Any, Asked] = {}


class RequestQuestions(InputRounds):
    """The driver of a legacy session: each question is a request of the server.

    Args:
        policy: How long to wait.
        outgoing: Where the requests are booked.
        send: Sends a booked request, which has been encoded.
    """

    def __init__(self, policy: InputPolicy, outgoing: Outgoing, send: Callable[[Asked, bytes], None]) -> None:
        super().__init__(policy)
        self._outgoing = outgoing
        self._send = send
        # By call, because a handler may ask several things side by side.
        self._groups: dict[Call, list[_Group]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def _exists(self, dialect: Dialect, method: str) -> bool:
        return dialect.asks(method)

    def _put(self, call: Call, questions: Mapping[str, InputRequest], known: dict[str, Any], now: float) -> None:
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
            # One of them cannot be asked: then none is, and nothing stays behind that nobody will answer.
            for asked in group.missing.values():
                self._outgoing.settle(asked.id)
            raise
        self._groups.setdefault(call, []).append(group)
        for asked, line in zip(group.missing.values(), lines, strict=True):
            self._send(asked, line)

    def answered(self, asked: Asked, answer: Any) -> tuple[Call, dict[str, Any]] | None:
        """Takes an answer, or the error that came instead. Returns the call and all its answers once none is missing."""
        group: _Group
        group, key = asked.context
        group.answers[key] = answer
        group.missing.pop(asked.id, None)
        if group.missing:
            return None
        groups = self._groups[group.call]
        groups.remove(group)
        if not groups:
            del self._groups[group.call]
        return group.call, group.answers

    def withdraw(self, call: Call) -> list[Asked]:
        """The call is over: takes its open questions out of the ledger and returns them, to be cancelled (CA-02)."""
        open_questions = [asked for group in self._groups.pop(call, ()) for asked in group.missing.values()]
        for asked in open_questions:
            self._outgoing.settle(asked.id)
        return open_questions


def _question_line(asked: Asked, question: InputRequest, dialect: Dialect) -> bytes:
    params: Params | None = question.params
    if isinstance(question, ElicitRequest) and _lacks_an_id(question, dialect):
        params = structs.replace(question.params, elicitation_id=_token())  # EL-10
    return jsonrpc.encode(Request(asked.id, asked.method, UNSET if params is None else dialect.fit(params)))


def _lacks_an_id(question: ElicitRequest, dialect: Dialect) -> bool:
    return question.params.mode == "url" and dialect.revision == _URL_NEEDS_AN_ID_IN and question.params.elicitation_id is None


class _Memory(Struct, array_like=True):
    """What a sealed state remembers of a call."""

    dialogue: str
    rounds: int
    given: dict[str, Given]
    pending: dict[str, Pending]


class _Waiting:
    """A handler in memory that waits for the retry of its call."""

    __slots__ = ("call", "deadline", "questions")

    def __init__(self, call: Call, questions: Mapping[str, InputRequest], deadline: float | None) -> None:
        self.call = call
        self.questions = questions
        self.deadline = deadline


class Resumed(Struct, frozen=True):
    """What a retry turned out to be: ``call`` goes on with these questions, or, if there are none, starts from the top."""

    call: Call
    questions: Mapping[str, InputRequest] | None


class RoundQuestions(InputRounds):
    """The driver of the stateless wire: a question ends the request, and the answer comes with the next one.

    Args:
        policy: How many may wait, and how long.
        sealer: Seals what the client carries for us.
        respond: Answers a call.
        unix_offset: Seconds of the Unix epoch when the session's own clock stood at zero: a state outlives the process.
        principal: Who is at the other end, where that is known; states of one are worthless for another (MR-16).
    """

    def __init__(
        self,
        policy: InputPolicy,
        sealer: StateSealer,
        respond: Callable[[Call, InputRequiredResult], bool],
        *,
        unix_offset: float,
        principal: str = "",
    ) -> None:
        super().__init__(policy)
        self._sealer = sealer
        self._respond = respond
        self._unix_offset = unix_offset
        self._principal = principal
        # In the order of their deadlines, which is the order in which they asked.
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._abandoned: list[Call] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def _exists(self, dialect: Dialect, method: str) -> bool:
        return True

    def _put(self, call: Call, questions: Mapping[str, InputRequest], known: dict[str, Any], now: float) -> None:
        if call.method not in MAY_ASK_BACK:  # MR-01
            raise LocalProtocolError(f"{call.method} may not ask the client; only {', '.join(MAY_ASK_BACK)} may")
        # A name that no other process and no other connection gives: a state from there must not wake a handler here.
        call.dialogue = call.dialogue or _token()
        missing = {key: question for key, question in questions.items() if key not in known}
        memory = _Memory(
            call.dialogue,
            call.rounds,
            call.answers,
            {key: Pending(method_of(question), _digest(question)) for key, question in missing.items()},
        )
        state = self._sealer.seal(
            memory,
            binding=self._binding(call),
            expires=now + self._unix_offset + self._policy.state_lifetime,
        )
        deadline = None if self._policy.wait is None else now + self._policy.wait
        if self._respond(call, InputRequiredResult(input_requests=missing, request_state=state)):
            self._waiting[call.dialogue] = _Waiting(call, questions, deadline)
            if len(self._waiting) > self._policy.max_waiting:
                self._abandoned.append(self._waiting.popitem(last=False)[1].call)

    def resume(self, retry: Call, *, now: float) -> Resumed:
        """Takes a call that carries a ``requestState`` and finds the handler that waits for it.

        Whether the answers are complete shows when its questions are asked again: what a retry left out is then asked anew
        (MR-12).

        Raises:
            InvalidParams: The state is not ours, not for this call or too old (MR-15, MR-16), or an answer is malformed (MR-14).
        """
        memory = self._sealer.open(retry.params.request_state, _Memory, binding=self._binding(retry), now=now + self._unix_offset)
        responses: Mapping[str, Raw] = retry.params.input_responses or {}
        fresh = {
            # A copy: a Raw keeps the whole line alive that it was cut from.
            key: Given(pending.method, pending.digest, responses[key].copy())
            for key, pending in memory.pending.items()
            if key in responses  # MR-13: keys that nobody asked for are ignored
        }
        for given in fresh.values():
            read_answer(retry.dialect, given)
        retry.answers = {**memory.given, **fresh}
        retry.rounds = memory.rounds
        waiting = self._waiting.get(memory.dialogue)
        # A state of an earlier round finds its handler further on; it gets a run of its own instead.
        if waiting is None or waiting.call.rounds != memory.rounds:
            return Resumed(retry, None)
        del self._waiting[memory.dialogue]
        waiting.call.continue_as(retry)
        return Resumed(waiting.call, waiting.questions)

    def next_deadline(self) -> float | None:
        """When the first handler has waited long enough."""
        if self._abandoned:
            return 0.0  # at once
        first = next(iter(self._waiting.values()), None)
        return None if first is None else first.deadline

    def abandon(self, *, now: float) -> list[Call]:
        """Takes out the handlers that waited too long, and those that had to give way; a late retry starts from the top."""
        while self._waiting:
            first = next(iter(self._waiting.values()))
            if first.deadline is None or first.deadline > now:
                break
            self._abandoned.append(self._waiting.popitem(last=False)[1].call)
        abandoned, self._abandoned = self._abandoned, []
        return abandoned

    def close(self) -> list[Call]:
        """The connection is over: takes out everybody who waits."""
        self._abandoned += [waiting.call for waiting in self._waiting.values()]
        self._waiting.clear()
        abandoned, self._abandoned = self._abandoned, []
        return abandoned

    def _binding(self, call: Call) -> bytes:
        try:
            return binding_of(call.method, call.params, principal=self._principal)
        except (RecursionError, LocalProtocolError):  # read at first sight, but too deep to be taken apart
            raise InvalidParams(f"the params of {call.method} are nested too deeply") from None


def _token() -> str:
    """A name that nobody guesses."""
    from secrets import token_urlsafe  # noqa: PLC0415 - it brings OpenSSL along, and most servers never ask

    return token_urlsafe(16)
