"""Runs one call: sends it, sends it again with answers to the server's questions, and resends it after a crash if that is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Literal

from msgspec import Raw, Struct, structs
from msgspec import json as msgspec_json

from twopipes._client.connection import ClientConnection, PendingRequest
from twopipes._client.options import RequestOptions
from twopipes._client.supervisor import Supervisor
from twopipes._protocol.passed_questions import questions_in
from twopipes._protocol.types import (
    CallToolParams,
    ElicitRequest,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    LoggingLevel,
    Params,
    ToolAnnotations,
)
from twopipes.errors import ConnectionLost, HeaderMismatch, RequestTimedOut, ServerExited
from twopipes.settings import RestartPolicy, Timeouts

# How often one call is resent after crashes. A call that crashes its server crashes the next one too.
_MAX_RESENDS = 2
# Seconds before a request is sent again if the server returned a state but no questions; doubled each time (MR-10).
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0

# Methods that only read. Other methods, except tools, may have any effect, for example those of extensions.
_READS: Final = frozenset(
    {
        "completion/complete",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "tools/list",
    }
)
# Methods that belong to one process: a fresh process has its own opening (SD-06), and subscriptions are renewed with new requests
# (SU-16).
_PER_PROCESS: Final = frozenset(
    {"initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen"}
)


class InputRequired:
    """Questions of a server on the stateless wire, for a caller that answers them itself.

    Attributes:
        questions: The requests for input, by key.
    """

    def __init__(self, caller: Caller, call: _Call, pending: PendingRequest, asking: InputRequiredResult) -> None:
        self.questions: Mapping[str, InputRequest] = dict(asking.input_requests or {})
        self._caller = caller
        self._call = call
        self._pending = pending
        self._asking = asking

    def __repr__(self) -> str:
        return f"<InputRequired {', '.join(self.questions) or 'no questions, only a retry'}>"

    async def answer(self, answers: Mapping[str, Any] | None = None) -> Any:
        """Send the request again with an answer to each question. Returns the result, or the next questions.

        Raises:
            LocalProtocolError: An answer is missing.
        """
        given = dict(answers or {})
        for key, answer in given.items():
            if isinstance(answer, Mapping) and isinstance(self.questions.get(key), ElicitRequest):
                given[key] = ElicitResult("accept", dict(answer))  # as for callbacks, a mapping accepts a form
        self._call.again = (self._pending, self._asking, given)
        return await self._caller.run(self._call)


class _Call(Struct):
    """The state of a call until it ends."""

    method: str
    params: Params | Mapping[str, Any] | None
    options: RequestOptions
    timeouts: Timeouts
    started: float
    resent: int = 0
    has_new_tools: bool = False  # whether the tools were listed again, because the server missed a header
    # The attempt that the server answered with questions, the questions, the answers.
    again: tuple[PendingRequest, InputRequiredResult, Mapping[str, Any]] | None = None


class Caller:
    """Runs calls. ``annotations_of`` returns the annotations of a tool, if they are known; ``refresh_tools`` lists all tools."""

    def __init__(
        self,
        supervisor: Supervisor,
        annotations_of: Callable[[str], ToolAnnotations | None],
        refresh_tools: Callable[[], Awaitable[object]],
    ) -> None:
        self.log_level: LoggingLevel | None = None  # for calls without their own
        self._supervisor = supervisor
        self._annotations_of = annotations_of
        self._refresh_tools = refresh_tools

    def call(self, method: str, params: Params | Mapping[str, Any] | None, options: RequestOptions) -> Coroutine[Any, Any, Any]:
        """Send a request and return its result."""
        if options.log_level is None and self.log_level is not None:
            options = structs.replace(options, log_level=self.log_level)
        supervisor = self._supervisor
        return self.run(_Call(method, params, options, options.timeouts or supervisor.config.timeouts, supervisor.loop.time()))

    async def run(self, call: _Call) -> Any:
        """Continue a call until there is a result, an error, or questions that the caller answers."""
        supervisor = self._supervisor
        while True:
            connection = supervisor.connection or await self._wait(call)
            pending: PendingRequest | None = None
            try:
                pending = self._send(connection, call)
                result = await pending.future
            except asyncio.CancelledError as error:
                if pending is not None:
                    # A raw request is that of another client, whose reason is passed on. Others may be cancelled by any library.
                    is_passed = call.options.raw and error.args and isinstance(error.args[0], str)
                    connection.cancel(pending, error.args[0] if is_passed else None)
                raise
            except (ServerExited, ConnectionLost) as error:
                self._check_repeat(call, error, sent=pending is not None)
                continue
            except HeaderMismatch:
                if call.method != "tools/call" or call.has_new_tools:
                    raise
                call.has_new_tools = True
                await self._refresh_tools()  # the schema of the tool says which headers it wants
                continue
            if type(result) is Raw and call.options.answer_all is not None:
                result = questions_in(call.method, result, connection.session.dialect) or result
            if type(result) is not InputRequiredResult:
                return result
            if call.options.on_questions is not None:
                call.options.on_questions()
            if call.options.return_questions:
                return InputRequired(self, call, pending, result)
            if not result.input_requests:
                await asyncio.sleep(min(_FIRST_PAUSE * 2**pending.round, _LONGEST_PAUSE))
            answer_all = call.options.answer_all or supervisor.config.questions.answer_all
            call.again = (pending, result, await answer_all(result, call.method))

    def _send(self, connection: ClientConnection, call: _Call) -> PendingRequest:
        if call.again is not None:
            return connection.send_again(*call.again)
        total = call.timeouts.total
        if call.resent and total is not None:
            total = max(0.0, total - self._elapsed(call))
        return connection.send(call.method, call.params, call.options, idle=call.timeouts.request, total=total)

    async def _wait(self, call: _Call) -> ClientConnection:
        """Wait for a restart to succeed, within the timeouts of the call."""
        timeouts = call.timeouts
        left = None if timeouts.total is None else max(0.0, timeouts.total - self._elapsed(call))
        which: Literal["idle", "total"] = "total"
        if timeouts.request is not None and (left is None or timeouts.request < left):
            left, which = timeouts.request, "idle"
        try:
            return await self._supervisor.wait(left)
        except TimeoutError:
            raise RequestTimedOut(call.method, None, waited=self._elapsed(call), limit=which) from None
        except (ServerExited, ConnectionLost) as error:
            error.method, error.request_id = call.method, None
            error.retryable = True  # it was never sent
            raise

    def _check_repeat(self, call: _Call, error: ServerExited | ConnectionLost, *, sent: bool) -> None:
        """Raise the error unless the call may be sent again (SD-05)."""
        supervisor = self._supervisor
        # A request that was never sent, or that the server refused unread, had no effect.
        safe = (
            not sent
            or error.retryable
            or is_safe_to_repeat(call.method, call.params, self._annotations_of, supervisor.config.restart)
        )
        if not safe or call.resent >= _MAX_RESENDS or not supervisor.recovers:
            final = supervisor.explain(error)
            final.retryable = safe
            raise final from None
        call.resent += 1

    def _elapsed(self, call: _Call) -> float:
        return self._supervisor.loop.time() - call.started


def is_safe_to_repeat(
    method: str,
    params: Params | Mapping[str, Any] | None,
    annotations_of: Callable[[str], ToolAnnotations | None],
    policy: RestartPolicy,
) -> bool:
    """Whether a request that was lost in a crash may be sent to the restarted server (SD-05).

    ``policy.resend`` decides: ``none`` and ``all`` apply to every request; ``safe`` allows methods that only read, and tools that
    are read-only or idempotent.
    """
    if method in _PER_PROCESS or policy.resend == "none":
        return False
    if policy.resend == "all" or method in _READS:
        return True
    if method != "tools/call":
        return False
    name = params.name if isinstance(params, CallToolParams) else params.get("name") if isinstance(params, Mapping) else None
    if isinstance(name, Raw):  # the call of another client, passed on
        name = msgspec_json.decode(name)
    hints = annotations_of(name) if isinstance(name, str) else None
    # TL-08: hints are not proof, and a missing hint means no. They are good enough here, because the user has agreed to this call:
    # a server that lies can only achieve that it is called twice.
    return hints is not None and (hints.read_only_hint is True or hints.idempotent_hint is True)
