"""The client side of one connection: it finds out which revision the server speaks, and then uses it.

After the opening, requests are recorded, sent in the agreed dialect and ended exactly once. Requests and notifications of the
server become events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import UNSET, Raw, structs
from msgspec import json as msgspec_json

from twopipes._jsonrpc import ErrorResponse, Notification, Request, Response
from twopipes._protocol import types as t
from twopipes._protocol.base import RawResult
from twopipes._protocol.dialect import Dialect, dialect
from twopipes._protocol.input_requests import SamplingMessage
from twopipes._protocol.methods import KNOWN_METHODS
from twopipes._protocol.revisions import LATEST_MODERN, META_SUBSCRIPTION_ID
from twopipes._protocol.sampling import conversation_fault, tool_turns
from twopipes._protocol.types import InputRequiredResult, LoggingLevel, Params, Result, SubscriptionFilter
from twopipes._session import events
from twopipes._session.base import BatchReply, Outbound
from twopipes._session.client_handshake import ClientOpening
from twopipes._session.eras import ClientPhase, Reply
from twopipes._session.events import Event
from twopipes._session.identity import ClientProfile
from twopipes._session.ledger import Call, SentRequest, progress_token, read_meta
from twopipes._wire import LineRejected, encode_line
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

_LISTEN: Final = "subscriptions/listen"
# A server that asks for input forever is broken; a wizard with sixteen pages is long (MR-10).
_MAX_ROUNDS: Final = 16


class ClientSession(ClientOpening):
    """One connection of one client.

    Args:
        profile: Name, capabilities and revisions of the client.
        timeouts: ``connect``, ``probe``, ``request`` and ``total`` are used here.
        limits: Limits of what the connection may hold.
        skip_probe: Send ``initialize`` at once: the server is known to be a legacy one, or died on a probe (DE-06, DE-07).
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

    # Requests and notifications of the caller

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
        raw: bool = False,
        client_meta: Mapping[str, Any] | None = None,
        wants_progress: bool = True,
    ) -> SentRequest:
        """Send a request; an :class:`~twopipes._session.events.RequestEnded` event always follows.

        Args:
            method: Any method of the revision, or one that no revision defines.
            params: Typed params, which are adapted to the revision, or a mapping, which is sent unchanged.
            now: The time.
            idle: Seconds without progress before the request is given up. ``Timeouts.request`` by default.
            total: Seconds before the request is given up in any case. ``Timeouts.total`` by default.
            log_level: In the modern era, the lowest level of log messages wanted for this request.
            extra_meta: Additional keys for ``_meta``.
            context: Stored with the request for the caller.
            raw: Return the result as it was received, a ``msgspec.Raw``, without any check.
            client_meta: The client's part of ``_meta``, instead of that of the profile: the request of another client is passed on.
            wants_progress: Whether the server may report progress.

        Raises:
            LocalProtocolError: The connection is not open, or the method does not exist in its revision.
            ConnectionLost: The server is gone already; nothing was sent.
        """
        spoken = self.dialect
        if method in KNOWN_METHODS and method not in spoken.served:
            raise LocalProtocolError(f"{method} does not exist in revision {spoken.revision}")  # PI-04, LG-09, RS-05
        asked = self.outgoing.open(
            method,
            params,
            now=now,
            idle=self.timeouts.request if idle is UNSET else cast("float | None", idle),
            total=self.timeouts.total if total is UNSET else cast("float | None", total),
            context=context,
        )
        asked.log_level = log_level
        asked.extra_meta = extra_meta
        asked.raw, asked.client_meta, asked.wants_progress = raw, client_meta, wants_progress
        try:
            self.outbox.append(Outbound(self._request_line(asked, spoken), asked))
        except BaseException:
            self.outgoing.settle(asked.id)
            raise
        return asked

    def retry(
        self, asked: SentRequest, asking: InputRequiredResult, answers: Mapping[str, Any], *, now: float, context: Any = None
    ) -> SentRequest:
        """Send a request again with the input that the server asked for (MR-05 to MR-09).

        The total limit covers all rounds, including the time in which the user answered.

        Args:
            asked: The request whose result is ``asking``.
            asking: The result that asks for input.
            answers: A result for each question, by its key.
            now: The time.
            context: Stored with the retry for the caller; that of the first request by default.

        Raises:
            LocalProtocolError: An answer is missing.
            RemoteProtocolError: The server has asked for input too often (MR-10).
        """
        questions = asking.input_requests or {}
        if missing := [key for key in questions if key not in answers]:
            raise LocalProtocolError(f"{asked.method} also asked for {', '.join(missing)}; answer all questions in one retry")
        if asked.round >= _MAX_ROUNDS:
            raise RemoteProtocolError(f"the server asked for input {asked.round} times for one {asked.method}; giving up")
        spoken = self.dialect
        given = {key: _as_raw(answers[key], spoken) for key in questions} or None
        # MR-07: the state is sent back unchanged, or not at all if there was none; MR-09: nothing of an earlier round is kept.
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
            raw=asked.raw,
            client_meta=asked.client_meta,
            wants_progress=asked.wants_progress,
        )
        again.round = asked.round + 1
        return again

    def listen(self, wanted: SubscriptionFilter, *, now: float, context: Any = None) -> SentRequest:
        """Open a subscription. Only its acknowledgement has a time limit (TO-04). :meth:`cancel` ends it (SU-11)."""
        return self.request(_LISTEN, t.ListenParams(wanted), now=now, total=None, context=context)

    def cancel(self, asked: SentRequest, *, reason: str | None = None) -> bool:
        """Give up a request and notify the server (CA-01). Return False, and send nothing, if it had already ended (CA-02)."""
        if self.outgoing.settle(asked.id) is None:
            return False
        self._notify_cancelled(asked, reason)
        self._forget(asked, RequestCancelled(asked.method, asked.id, reason))
        return True

    def lose(self, asked: SentRequest, error: TwopipesError, *, now: float) -> list[Event]:
        """End one request with a local error, because its exchange failed while the connection goes on."""
        if self.outgoing.settle(asked.id) is not None:
            self._on_failure(asked, error, now)
        return self._take_events()

    def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification.

        Raises:
            LocalProtocolError: A client of this revision may not send it (RT-05, PR-05).
        """
        spoken = self.dialect
        if not spoken.knows_notification(method, sender="client"):
            raise LocalProtocolError(f"a client of revision {spoken.revision} must not send {method}")
        self._notify(method, UNSET if params is None else spoken.fit(params))

    def forward(self, method: str, params: Any = UNSET) -> None:
        """Send a notification of another client as it is."""
        self._notify(method, params)

    def _request_line(self, asked: SentRequest, spoken: Dialect) -> bytes:
        params = asked.params
        meta = spoken.request_meta(
            self._meta if asked.client_meta is None else asked.client_meta,
            # PR-07: a listen has no progress. PR-01: the id is unique among the open requests, so it can serve as the token.
            progress_token=None if asked.method == _LISTEN or not asked.wants_progress else asked.id,
            log_level=asked.log_level,
            extra=asked.extra_meta,
        )
        if isinstance(params, Params):
            sent: Any = structs.replace(spoken.fit(params), meta={**(params.meta or {}), **meta} or None)
        else:
            own = dict(params or {})
            sent = {**own, "_meta": {**own.get("_meta", {}), **meta}}
        return encode_line(Request(asked.id, asked.method, sent))

    # Messages of the server

    def _on_response(self, asked: SentRequest, response: Response | ErrorResponse, now: float) -> None:
        if asked is self._opening:
            self._on_opening_response(asked, response, now)
            return
        spoken = cast("Dialect", self._dialect)
        if isinstance(response, ErrorResponse):
            self._forget(asked, spoken.read_error(response.error, method=asked.method))
        elif asked.method == _LISTEN:
            self._forget(asked, None)  # SU-13: the server has ended it
        elif asked.raw or asked.method not in KNOWN_METHODS:
            self._events.append(events.RequestEnded(asked, response.result))
        else:
            try:
                result = spoken.read_result(asked.method, response.result)
            except TwopipesError as error:
                self._events.append(events.RequestEnded(asked, error=error))
            else:
                self._events.append(events.RequestEnded(asked, result))

    def _on_failure(self, asked: SentRequest, error: TwopipesError, now: float) -> None:
        if asked is not self._opening:
            self._forget(asked, error)
        elif isinstance(error, RequestTimedOut):
            self._move(Reply.SILENCE, f"the server did not respond to {asked.method} within {error.waited:.3g} s", now)
        elif isinstance(error, ConnectionLost):
            self._move(Reply.GONE, f"the server exited without a response to {asked.method}", now)
        else:
            self._move(Reply.UNUSABLE, str(error), now)

    def _forget(self, asked: SentRequest, error: TwopipesError | None) -> None:
        """Report the end of a request or of a subscription without a result, once (SU-15)."""
        self._acknowledged.discard(asked.id)
        if asked.method == _LISTEN:
            self._events.append(events.ListenEnded(asked, error))
        else:
            self._events.append(events.RequestEnded(asked, error=error))

    def _on_notification(self, notification: Notification, now: float) -> None:
        spoken = self._dialect or dialect(LATEST_MODERN)
        method = notification.method
        try:
            params = spoken.read_notification(method, None if notification.params is UNSET else notification.params)
        except MethodNotFound:
            self._events.append(events.NotificationReceived(method, notification.params, self._size, notification.params))
            return
        except McpError:
            return  # malformed; JR-10
        if method == "notifications/progress":
            progress = cast("t.ProgressParams", params)
            asked = self.outgoing.record_progress(progress.progress_token, now=now)
            if asked is not None:
                self._events.append(events.ProgressReceived(asked, progress, self._size, notification.params))
        elif method == "notifications/cancelled":
            self._on_cancelled(cast("t.CancelledParams", params))
        elif spoken.modern and (tag := (params.meta or {}).get(META_SUBSCRIPTION_ID)) is not None:
            self._on_tagged(method, params, tag)
        else:
            self._events.append(events.NotificationReceived(method, params, self._size, notification.params))

    def _on_tagged(self, method: str, params: Params, tag: Any) -> None:
        """Route a notification of a subscription by its tag, by value and JSON type (SU-04, SU-08)."""
        asked = self.outgoing.get(tag) if isinstance(tag, str | int) and not isinstance(tag, bool) else None
        if asked is None or asked.method != _LISTEN:
            return  # of a subscription that has ended or never existed
        if method == "notifications/subscriptions/acknowledged":
            if asked.id not in self._acknowledged:
                self._acknowledged.add(asked.id)
                self.outgoing.remove_limits(asked)  # TO-04
                self._events.append(events.ListenAcknowledged(asked, cast("t.AcknowledgedParams", params).notifications))
        else:
            self._events.append(events.ListenNotified(asked, method, params))

    def _on_cancelled(self, params: t.CancelledParams) -> None:
        if self.phase in {ClientPhase.LEGACY, ClientPhase.INITIALIZING}:
            call = self._cancelled_call(params)
            if call is not None:
                self._events.append(events.CallCancelled(call, params.reason))
            return
        # SU-14, SU-15: the server ends a subscription. CA-10: it may end nothing else.
        asked = None if params.request_id is None else self.outgoing.get(params.request_id)
        if asked is not None and asked.method == _LISTEN:
            self.outgoing.settle(asked.id)
            self._forget(asked, None)

    def _on_request(self, request: Request, now: float, batch: BatchReply | None) -> None:
        if self.phase not in {ClientPhase.LEGACY, ClientPhase.INITIALIZING}:
            # FR-10: in the modern era a client sends no responses, and a server must not send requests.
            self._events.append(events.RequestIgnored(request.method, request.id))
            return
        spoken = cast("Dialect", self._dialect)
        try:
            if request.id in self.incoming:
                # As on the server: an error with that id would be taken for the response to the open request.
                raise InvalidRequest(f"the id {request.id!r} belongs to a request that is still open; use a new id")
            call = self._read_call(request, spoken, batch)
            self.incoming.begin(call)
        except McpError as error:
            self._send_error(request.id, spoken.write_error(error), batch)
        else:
            if request.method == "ping":
                self.respond(call, t.EmptyResult())  # PI-01
            else:
                self._events.append(events.CallReceived(call))

    def _read_call(self, request: Request, spoken: Dialect, batch: BatchReply | None) -> Call:
        """Check a request of the server: known (JR-16), declared (CP-02), and of a declared kind (EL-09, SA-05)."""
        declared = self.profile.capabilities
        method = request.method
        if self.profile.transparent and method not in KNOWN_METHODS:
            return self._unknown_call(request, spoken, batch)
        if not spoken.asks(method):
            raise MethodNotFound(f"method {method} does not exist in revision {spoken.revision}")
        params = spoken.read_params(method, None if request.params is UNSET else request.params)
        name = {"roots/list": "roots", "sampling/createMessage": "sampling", "elicitation/create": "elicitation"}.get(method)
        if name is not None and not declared.allows(name):
            raise MethodNotFound(f"this client does not support {name}")  # RT-02, ER-15
        if isinstance(params, t.ElicitParams) and not declared.allows("elicitation", params.mode or "form"):
            raise InvalidParams(f"this client does not support elicitation in mode {params.mode or 'form'}")
        if isinstance(params, t.CreateMessageParams) and params.tools is not None and not declared.allows("sampling", "tools"):
            raise InvalidParams("this client does not support sampling with tools")
        if isinstance(params, t.CreateMessageParams):
            self._check_conversation(params.messages)
        return Call(
            request.id,
            method,
            params,
            spoken,
            declared,
            progress_token=progress_token(params.meta or {}),
            batch=batch,
            raw_params=None if request.params is UNSET else request.params,
        )

    def _unknown_call(self, request: Request, spoken: Dialect, batch: BatchReply | None) -> Call:
        raw = None if request.params is UNSET else request.params
        token = progress_token(read_meta(raw))
        declared = self.profile.capabilities
        return Call(request.id, request.method, None, spoken, declared, progress_token=token, batch=batch, raw_params=raw)

    def _check_conversation(self, messages: Sequence[SamplingMessage]) -> None:
        if fault := conversation_fault(messages):
            raise InvalidParams(fault)  # SA-06
        most, turns = self.limits.max_tool_turns, tool_turns(messages)
        if most is not None and turns > most:  # SA-12; in the modern era the rounds of the call are counted
            raise InvalidParams(f"the model used tools in {turns} turns of this conversation; this client allows {most}")

    def _may_respond(self, rejected: LineRejected) -> bool:
        """Respond only to a broken request with an id in a legacy session; other lines are stray output (JR-16, FR-10)."""
        return self.phase is ClientPhase.LEGACY and rejected.request_id is not None

    def _finish(self, call: Call, result: Result) -> Any:
        return result.raw if type(result) is RawResult else call.dialect.fit(result)


def _as_raw(answer: Any, spoken: Dialect) -> Raw:
    return answer.raw if type(answer) is RawResult else Raw(msgspec_json.encode(spoken.fit(answer)))
