"""The client's end of one connection: finds out what the server speaks, and then speaks that.

After the opening, requests are booked, sent in the agreed dialect and settled, each exactly once; what the server asks or tells
comes out as events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import UNSET, Raw, structs
from msgspec import json as msgspec_json

from twopipes import _jsonrpc as jsonrpc
from twopipes._jsonrpc import ErrorResponse, Notification, Request, Response
from twopipes._protocol.dialect import Dialect, dialect
from twopipes._protocol.input_requests import SamplingMessage, conversation_fault, tool_turns
from twopipes._protocol.revisions import LATEST_MODERN, META_SUBSCRIPTION_ID, REQUESTS
from twopipes._protocol.types import (
    AcknowledgedParams,
    CancelledParams,
    CreateMessageParams,
    ElicitParams,
    EmptyResult,
    InputRequiredResult,
    ListenParams,
    LoggingLevel,
    Params,
    ProgressParams,
    Result,
    SubscriptionFilter,
)
from twopipes._session.base import BatchReply
from twopipes._session.client_handshake import ClientOpening
from twopipes._session.eras import ClientPhase, Reply
from twopipes._session.events import (
    Answered,
    CallCancelled,
    CallReceived,
    ListenAcknowledged,
    ListenEnded,
    ListenNotified,
    NotificationReceived,
    ProgressReceived,
    RequestIgnored,
)
from twopipes._session.identity import ClientProfile
from twopipes._session.ledger import Asked, Call, progress_token
from twopipes._wire import LineRejected
from twopipes.errors import (
    ConnectionLost,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    RemoteProtocolError,
    RequestCancelled,
    RequestId,
    RequestTimedOut,
    TwopipesError,
)
from twopipes.settings import Limits, Timeouts

__all__ = ["ClientSession"]

_LISTEN: Final = "subscriptions/listen"
_KNOWN_METHODS: Final = frozenset(row.method for row in REQUESTS)
# A server that asks back for ever is broken; a wizard of sixteen pages is long (MR-10).
_MOST_ROUNDS: Final = 16


class ClientSession(ClientOpening):
    """One connection of one client.

    Args:
        profile: What the client is.
        timeouts: How long to wait; ``connect``, ``probe``, ``request`` and ``total`` are read here.
        limits: How much of anything the connection may hold.
        skip_probe: Open with ``initialize`` at once: the server is known as a legacy one, or died of a probe (DE-06, DE-07).
    """

    def __init__(
        self,
        profile: ClientProfile,
        *,
        timeouts: Timeouts | None = None,
        limits: Limits | None = None,
        skip_probe: bool = False,
    ) -> None:
        super().__init__(profile, timeouts=timeouts or Timeouts(), limits=limits or Limits(), skip_probe=skip_probe)
        self._acknowledged: set[RequestId] = set()

    # What the caller says

    def request(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None = None,
        *,
        now: float,
        idle: float | object | None = UNSET,
        total: float | object | None = UNSET,
        log_level: LoggingLevel | None = None,
        extra_meta: Mapping[str, Any] | None = None,
        context: Any = None,
    ) -> Asked:
        """Sends a request; an :class:`~twopipes._session.events.Answered` follows, whatever happens.

        Args:
            method: Any method of the revision, or one that no revision knows.
            params: Typed params, which are fitted to the revision, or a mapping, which is sent as it is.
            now: The time.
            idle: Seconds of silence to bear; progress starts them again. ``Timeouts.request`` by default.
            total: Seconds to bear in all. ``Timeouts.total`` by default.
            log_level: On the stateless wire, the least level of log messages wanted for this request.
            extra_meta: Keys of the caller's own for ``_meta``.
            context: Kept with the request for the caller.

        Raises:
            LocalProtocolError: The connection is not open, or the method does not exist in its revision.
            ConnectionLost: The server is gone already; nothing was sent.
        """
        spoken = self.dialect
        if method in _KNOWN_METHODS and not spoken.serves(method):
            raise LocalProtocolError(f"{method} does not exist in revision {spoken.revision}")  # PI-04, LG-09, RS-05
        asked = self._book(
            method,
            params,
            now=now,
            idle=self.timeouts.request if idle is UNSET else cast("float | None", idle),
            total=self.timeouts.total if total is UNSET else cast("float | None", total),
            context=context,
        )
        asked.log_level = log_level
        asked.extra_meta = extra_meta
        try:
            line = self._request_line(asked, params)
        except BaseException:
            self.outgoing.settle(asked.id)
            raise
        self._emit(line)
        return asked

    def retry(
        self, asked: Asked, asking: InputRequiredResult, answers: Mapping[str, Any], *, now: float, context: Any = None
    ) -> Asked:
        """Sends a request again with the answers that its result asked for (MR-05 to MR-09).

        The total limit is one for all rounds; what they have used of it, the time for the answers included, is gone.

        Args:
            asked: The request that was answered with ``asking``.
            asking: What it was answered with.
            answers: A result for each question, by its key.
            now: The time.
            context: Kept with the retry for the caller; that of the first request unless given.

        Raises:
            LocalProtocolError: An answer is missing.
            RemoteProtocolError: The server has asked back too many times (MR-10).
        """
        questions = asking.input_requests or {}
        if missing := [key for key in questions if key not in answers]:
            raise LocalProtocolError(f"{asked.method} asked for {', '.join(missing)}; all questions are answered at once")
        if asked.round >= _MOST_ROUNDS:
            raise RemoteProtocolError(f"the server has asked back {asked.round} times about {asked.method}, without an end")
        spoken = self.dialect
        given = {key: Raw(msgspec_json.encode(spoken.fit(answers[key]))) for key in questions} or None
        # MR-07: the state goes back as it came, and none where none came; MR-09: nothing of an earlier round stays.
        if isinstance(asked.params, Params):
            params: Any = structs.replace(cast("Any", asked.params), input_responses=given, request_state=asking.request_state)
        else:
            params = {
                **{key: value for key, value in (asked.params or {}).items() if key not in {"inputResponses", "requestState"}},
                **({} if given is None else {"inputResponses": given}),
                **({} if asking.request_state is None else {"requestState": asking.request_state}),
            }
        again = self.request(
            asked.method,
            params,
            now=now,
            idle=asked.idle,
            total=None if asked.total is None else max(0.0, asked.total - (now - asked.sent_at)),
            log_level=asked.log_level,
            extra_meta=asked.extra_meta,
            context=asked.context if context is None else context,
        )
        again.round = asked.round + 1
        return again

    def listen(self, wanted: SubscriptionFilter, *, now: float, context: Any = None) -> Asked:
        """Opens a subscription; only its acknowledgement is waited for with a limit (TO-04). :meth:`cancel` ends it (SU-11)."""
        return self.request(_LISTEN, ListenParams(wanted), now=now, total=None, context=context)

    def cancel(self, asked: Asked, *, reason: str | None = None) -> bool:
        """Gives a request up and tells the server (CA-01). False if it was over already: then nobody is told (CA-02)."""
        if self.outgoing.settle(asked.id) is None:
            return False
        self._tell_cancelled(asked, reason)
        self._forget(asked, RequestCancelled(asked.method, asked.id, reason))
        return True

    def notify(self, method: str, params: Params | None = None) -> None:
        """Sends a notification that this side may send in this revision.

        Raises:
            LocalProtocolError: It may not: the revision has no such notification from a client (RT-05, PR-05).
        """
        spoken = self.dialect
        if not spoken.knows_notification(method, sender="client"):
            raise LocalProtocolError(f"a client of revision {spoken.revision} does not send {method}")
        self._notify(method, UNSET if params is None else spoken.fit(params))

    def _request_line(self, asked: Asked, params: Params | Mapping[str, Any] | None) -> bytes:
        spoken = self.dialect
        meta = spoken.request_meta(
            client_info=self.profile.info,
            capabilities=self.profile.capabilities,
            # PR-07: a listen has no progress. PR-01: the id is unique among the open ones, and so is a token that equals it.
            progress_token=None if asked.method == _LISTEN else asked.id,
            log_level=asked.log_level,
            extra=asked.extra_meta,
        )
        if isinstance(params, Params):
            sent: Any = structs.replace(spoken.fit(params), meta={**(params.meta or {}), **(meta or {})} or None)
        else:
            own = dict(params or {})
            sent = {**own, "_meta": {**own.get("_meta", {}), **(meta or {})}}
        return jsonrpc.encode(Request(asked.id, asked.method, sent))

    # What comes in

    def _on_answer(self, asked: Asked, answer: Response | ErrorResponse, now: float) -> None:
        if asked is self._opening:
            self._on_opening_answer(asked, answer, now)
            return
        spoken = self.dialect
        if isinstance(answer, ErrorResponse):
            self._forget(asked, spoken.read_error(answer.error, method=asked.method))
        elif asked.method == _LISTEN:
            self._forget(asked, None)  # SU-13: the server has ended it
        elif asked.method not in _KNOWN_METHODS:
            self._events.append(Answered(asked, answer.result))
        else:
            try:
                result = spoken.read_result(asked.method, answer.result)
            except TwopipesError as error:
                self._events.append(Answered(asked, error=error))
            else:
                self._events.append(Answered(asked, result))

    def _on_failure(self, asked: Asked, error: TwopipesError, now: float) -> None:
        if asked is not self._opening:
            self._forget(asked, error)
        elif isinstance(error, RequestTimedOut):
            self._move(Reply.SILENCE, f"the server did not answer {asked.method} within {error.waited:.3g} s", now)
        elif isinstance(error, ConnectionLost):
            self._move(Reply.GONE, f"the server left without an answer to {asked.method}", now)
        else:
            self._move(Reply.UNUSABLE, str(error), now)

    def _forget(self, asked: Asked, error: TwopipesError | None) -> None:
        """A request is over without a result: told once, as the end of a subscription or of a request (SU-15)."""
        self._acknowledged.discard(asked.id)
        if asked.method == _LISTEN:
            self._events.append(ListenEnded(asked, error))
        else:
            self._events.append(Answered(asked, error=error))

    def _on_notification(self, notification: Notification, now: float) -> None:
        spoken = self._dialect or dialect(LATEST_MODERN)
        method = notification.method
        try:
            params = spoken.read_notification(method, None if notification.params is UNSET else notification.params)
        except MethodNotFound:
            self._events.append(NotificationReceived(method, notification.params, self._size))
            return
        except McpError:
            return  # malformed; JR-10
        if method == "notifications/progress":
            progress = cast("ProgressParams", params)
            asked = self.outgoing.heard(progress.progress_token, now=now)
            if asked is not None:
                self._events.append(ProgressReceived(asked, progress, self._size))
        elif method == "notifications/cancelled":
            self._on_cancelled(cast("CancelledParams", params))
        elif spoken.modern and (tag := (params.meta or {}).get(META_SUBSCRIPTION_ID)) is not None:
            self._on_tagged(method, params, tag)
        else:
            self._events.append(NotificationReceived(method, params, self._size))

    def _on_tagged(self, method: str, params: Params, tag: Any) -> None:
        """A notification of a subscription: routed by its tag, by value and JSON type (SU-04, SU-08)."""
        asked = self.outgoing.get(tag) if isinstance(tag, str | int) and not isinstance(tag, bool) else None
        if asked is None or asked.method != _LISTEN:
            return  # of a subscription that is over, or that never was
        if method == "notifications/subscriptions/acknowledged":
            if asked.id not in self._acknowledged:
                self._acknowledged.add(asked.id)
                self.outgoing.await_for_ever(asked)  # TO-04
                self._events.append(ListenAcknowledged(asked, cast("AcknowledgedParams", params).notifications))
        else:
            self._events.append(ListenNotified(asked, method, params))

    def _on_cancelled(self, params: CancelledParams) -> None:
        if self.phase in {ClientPhase.LEGACY, ClientPhase.INITIALIZING}:
            call = self._cancelled_call(params)
            if call is not None:
                self._events.append(CallCancelled(call, params.reason))
            return
        # SU-14, SU-15: the server ends a subscription. CA-10: it may end nothing else.
        asked = None if params.request_id is None else self.outgoing.get(params.request_id)
        if asked is not None and asked.method == _LISTEN:
            self.outgoing.settle(asked.id)
            self._forget(asked, None)

    def _on_request(self, request: Request, now: float, batch: BatchReply | None) -> None:
        if self.phase not in {ClientPhase.LEGACY, ClientPhase.INITIALIZING}:
            # FR-10: on the stateless wire a client sends no responses, and a server that asks is out of order.
            self._events.append(RequestIgnored(request.method, request.id))
            return
        spoken = cast("Dialect", self._dialect)
        try:
            if request.id in self.incoming:
                # As on the server: an error with that id would be taken for the answer to the open one.
                raise InvalidRequest(f"the id {request.id!r} belongs to a request that is still open; this one is not served")
            call = self._read_call(request, spoken, batch)
            self.incoming.begin(call)
        except McpError as error:
            line = jsonrpc.encode(ErrorResponse(self._readable_id(request.id), spoken.write_error(error)))
            self._send_response(line, batch, size=len(line))
        else:
            if request.method == "ping":
                self.respond(call, EmptyResult())  # PI-01
            else:
                self._events.append(CallReceived(call))

    def _read_call(self, request: Request, spoken: Dialect, batch: BatchReply | None) -> Call:
        """Judges a request of the server: known (JR-16), declared (CP-02), and of a kind that was declared (EL-09, SA-05)."""
        declared = self.profile.capabilities
        method = request.method
        if not spoken.asks(method):
            raise MethodNotFound(f"there is no method {method} here, by revision {spoken.revision}")
        params = spoken.read_params(method, None if request.params is UNSET else request.params)
        name = {"roots/list": "roots", "sampling/createMessage": "sampling", "elicitation/create": "elicitation"}.get(method)
        if name is not None and not declared.allows(name):
            raise MethodNotFound(f"this client has no {name}")  # RT-02, ER-15
        if isinstance(params, ElicitParams) and not declared.allows("elicitation", params.mode or "form"):
            raise InvalidParams(f"this client does not take elicitations of mode {params.mode or 'form'}")
        if isinstance(params, CreateMessageParams) and params.tools is not None and not declared.allows("sampling", "tools"):
            raise InvalidParams("this client does not take sampling with tools")
        if isinstance(params, CreateMessageParams):
            self._check_conversation(params.messages)
        return Call(
            request.id,
            method,
            params,
            dialect=spoken,
            capabilities=declared,
            progress_token=progress_token(params.meta or {}),
            batch=batch,
        )

    def _check_conversation(self, messages: Sequence[SamplingMessage]) -> None:
        if fault := conversation_fault(messages):
            raise InvalidParams(fault)  # SA-06
        most, turns = self.limits.max_tool_turns, tool_turns(messages)
        if most is not None and turns > most:  # SA-12; on the stateless wire the rounds of the call are counted
            raise InvalidParams(f"the model of this conversation has used tools in {turns} turns; this client takes {most} of them")

    def _may_answer(self, rejected: LineRejected) -> bool:
        """StrayReader on stdout is not answered; a broken request with an id is, in a legacy session (JR-16, FR-10)."""
        return self.phase is ClientPhase.LEGACY and rejected.request_id is not None

    def _finish(self, call: Call, result: Result) -> Result:
        return call.dialect.fit(result)
