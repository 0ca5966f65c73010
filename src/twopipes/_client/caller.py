"""The life of one call: sent and answered; asked back and sent again with answers; lost in a crash and, if safe, sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Literal

from twopipes._client.connection import ClientConnection, OnProgress, Pending
from twopipes._client.input_handlers import InputHandlers
from twopipes._client.retry_safety import is_safe_to_repeat
from twopipes._client.supervisor import Supervisor
from twopipes._protocol.types import (
    ElicitRequest,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    LoggingLevel,
    Params,
    ToolAnnotations,
)
from twopipes.errors import ConnectionLost, RequestTimedOut, ServerExited
from twopipes.settings import Timeouts

__all__ = ["Caller", "InputRequired"]

# How often one call is sent again after crashes. A call that kills its server kills the next one too.
_MOST_RESENDS = 2
# Seconds before a request that was answered with nothing but a state is sent again; doubled each time (MR-10).
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


class InputRequired:
    """A server of the stateless wire needs answers before it can go on, and the caller wanted to give them.

    Attributes:
        questions: What it asks, by key.
    """

    def __init__(self, caller: Caller, call: _Call, pending: Pending, asking: InputRequiredResult) -> None:
        self.questions: Mapping[str, InputRequest] = dict(asking.input_requests or {})
        self._caller = caller
        self._call = call
        self._pending = pending
        self._asking = asking

    def __repr__(self) -> str:
        return f"<InputRequired {', '.join(self.questions) or 'nothing but another try'}>"

    async def answer(self, answers: Mapping[str, Any] | None = None) -> Any:
        """Sends the request again with an answer to each question, and returns what comes: a result, or the next questions.

        Raises:
            LocalProtocolError: An answer is missing.
        """
        given = {key: self._read(key, answer) for key, answer in (answers or {}).items()}
        self._call.again = (self._pending, self._asking, given)
        return await self._caller.carry_out(self._call)

    def _read(self, key: str, answer: Any) -> Any:
        """A mapping fills a form in, as it does in a callback."""
        asks_user = isinstance(self.questions.get(key), ElicitRequest)
        return ElicitResult("accept", dict(answer)) if asks_user and isinstance(answer, Mapping) else answer


class _Call:
    """What has to be known of a call until it is over."""

    __slots__ = (
        "again",
        "began",
        "extra_meta",
        "hands_out",
        "log_level",
        "method",
        "on_progress",
        "on_questions",
        "params",
        "resent",
        "timeouts",
    )

    def __init__(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None,
        timeouts: Timeouts,
        *,
        began: float,
        on_progress: OnProgress | None,
        log_level: LoggingLevel | None,
        extra_meta: Mapping[str, Any] | None,
        hands_out: bool,
        on_questions: Callable[[], None] | None,
    ) -> None:
        self.method = method
        self.params = params
        self.timeouts = timeouts
        self.began = began
        self.on_progress = on_progress
        self.log_level = log_level
        self.extra_meta = extra_meta
        self.hands_out = hands_out
        self.on_questions = on_questions
        self.resent = 0
        # The attempt that was answered with questions, the questions, the answers.
        self.again: tuple[Pending, InputRequiredResult, Mapping[str, Any]] | None = None


class Caller:
    """Carries calls out.

    Args:
        supervisor: Has the connection.
        questions: Answers what the server asks back.
        timeouts: For calls that bring none of their own.
        annotations_of: What is known of a tool, by its name.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        questions: InputHandlers,
        timeouts: Timeouts,
        annotations_of: Callable[[str], ToolAnnotations | None],
    ) -> None:
        self._supervisor = supervisor
        self._questions = questions
        self._timeouts = timeouts
        self._annotations_of = annotations_of

    async def call(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None = None,
        *,
        timeouts: Timeouts | None = None,
        on_progress: OnProgress | None = None,
        log_level: LoggingLevel | None = None,
        extra_meta: Mapping[str, Any] | None = None,
        hands_out: bool = False,
        on_questions: Callable[[], None] | None = None,
    ) -> Any:
        """Sends a request and returns its result; ``on_questions`` is called when the server asks something back.

        Raises:
            McpError: The server answered with an error.
            RequestTimedOut: It did not answer in time.
            ServerExited: It died, and the request could not be sent again.
            ClientClosed: The client was closed.
            RemoteProtocolError: The answer makes no sense.
        """
        supervisor = self._supervisor
        call = _Call(
            method,
            params,
            timeouts or self._timeouts,
            began=supervisor.loop.time(),
            on_progress=on_progress,
            log_level=log_level,
            extra_meta=extra_meta,
            hands_out=hands_out,
            on_questions=on_questions,
        )
        return await self.carry_out(call)

    async def carry_out(self, call: _Call) -> Any:
        """Goes on with a call until there is a result, an error, or questions for a caller who wants them."""
        supervisor = self._supervisor
        while True:
            connection = supervisor.connection or await self._wait(call)
            sent = False
            try:
                pending = self._send(connection, call)
                sent = True
                result = await connection.wait(pending)
            except (ServerExited, ConnectionLost) as error:
                self._check_repeat(call, error, sent=sent)
                continue
            if type(result) is not InputRequiredResult:
                return result
            if call.on_questions is not None:
                call.on_questions()
            if call.hands_out:
                return InputRequired(self, call, pending, result)
            if not result.input_requests:
                await asyncio.sleep(min(_FIRST_PAUSE * 2**pending.round, _LONGEST_PAUSE))
            call.again = (pending, result, await self._questions.answer_all(result, call.method))

    def _send(self, connection: ClientConnection, call: _Call) -> Pending:
        if call.again is not None:
            return connection.send_again(*call.again)
        limits = call.timeouts
        total = limits.total
        if call.resent and total is not None:
            total = max(0.0, total - (self._supervisor.loop.time() - call.began))
        return connection.send(
            call.method,
            call.params,
            idle=limits.request,
            total=total,
            log_level=call.log_level,
            extra_meta=call.extra_meta,
            on_progress=call.on_progress,
        )

    async def _wait(self, call: _Call) -> ClientConnection:
        """Waits for a restart to succeed, with the deadlines of the call."""
        limits = call.timeouts
        waited = self._supervisor.loop.time() - call.began
        left = None if limits.total is None else max(0.0, limits.total - waited)
        which: Literal["idle", "total"] = "total"
        if limits.request is not None and (left is None or limits.request < left):
            left, which = limits.request, "idle"
        try:
            return await self._supervisor.wait(left)
        except TimeoutError:
            waited = self._supervisor.loop.time() - call.began
            raise RequestTimedOut(call.method, None, waited=waited, limit=which) from None
        except (ServerExited, ConnectionLost) as error:
            error.method, error.request_id = call.method, None
            error.retryable = True  # it was never sent
            raise

    def _check_repeat(self, call: _Call, error: ServerExited | ConnectionLost, *, sent: bool) -> None:
        """Raises the error unless the call may be sent again (SD-05)."""
        # What was never sent did nothing.
        safe = not sent or is_safe_to_repeat(call.method, call.params, self._annotations_of, self._supervisor.policy)
        if not safe or call.resent >= _MOST_RESENDS or not self._supervisor.will_restart:
            told = copy(error)
            told.retryable = safe
            raise told from None
        call.resent += 1
