"""The server side of one connection: both eras, decided for each message.

The session handles what belongs to the protocol: handshake, discovery, ping, log level, subscriptions, cancellation, questions
to the client. Requests for user code become :class:`~twopipes._session.events.CallReceived` events. With ``delegates=True`` the
other requests become :class:`~twopipes._session.events.SessionCallReceived` events, and the session handles them on request of the
driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import UNSET, structs

from twopipes._jsonrpc import ErrorResponse, Notification, Request, Response
from twopipes._protocol import types as t
from twopipes._protocol.base import RawResult
from twopipes._protocol.dialect import dialect
from twopipes._protocol.passed_questions import PassedAnswer, PassedQuestion, PassedRequest, Question, plain
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN, MAY_ASK_BACK, META_SUBSCRIPTION_ID
from twopipes._protocol.types import LoggingLevel, Result, SubscriptionsListenResult
from twopipes._session import events
from twopipes._session.base import Outbound
from twopipes._session.eras import Phase
from twopipes._session.events import Event
from twopipes._session.identity import ServerProfile
from twopipes._session.input_rounds import ForeignState, LegacyInputRounds, ModernInputRounds, method_of
from twopipes._session.ledger import Call, Incoming, Route, SentRequest, is_number
from twopipes._session.server_gate import OWN_METHODS, ServerGate
from twopipes._session.state_token import StateSealer
from twopipes._session.subscriptions import Change, Subscriptions, honoured
from twopipes._wire import encode_line
from twopipes.errors import (
    ConnectionLost,
    InvalidParams,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    RequestCancelled,
    TwopipesError,
)
from twopipes.settings import InputPolicy, Limits


class ServerSession(ServerGate):
    """One connection of one server.

    Args:
        profile: Name, capabilities and revisions. It may be replaced at run time by one with other capabilities.
        sealer: Seals the state of questions in the modern era; with a random key by default.
        limits: Limits of what the connection may hold.
        questions: How to wait for the client's answers.
        unix_offset: What to add to ``now`` to get Unix time; needed only if sealed states outlive the process.
        principal: The identity of the client, if known.
        delegates: Whether requests that the session can handle itself become
            :class:`~twopipes._session.events.SessionCallReceived` events, so that middleware can wrap them.
        shared: Whether requests of many clients arrive here, each with a route of its own, so that their ids may collide.
        transparent: Whether requests are passed to another server: methods and notifications that are unknown here become
            events, calls keep their params as received, and a ``requestState`` that this session did not seal is left to the
            handler.
    """

    def __init__(
        self,
        profile: ServerProfile,
        *,
        sealer: StateSealer | None = None,
        limits: Limits | None = None,
        questions: InputPolicy | None = None,
        unix_offset: float = 0.0,
        principal: str = "",
        delegates: bool = False,
        shared: bool = False,
        transparent: bool = False,
    ) -> None:
        super().__init__(profile, limits=limits or Limits(), delegates=delegates, transparent=transparent)
        self.is_shared = shared
        if shared:
            self.incoming = Incoming(max_open=self.limits.max_in_flight, by_route=True)
        policy = questions or InputPolicy()
        self.subscriptions = Subscriptions(limits=self.limits)
        self._requests = LegacyInputRounds(policy, self.outgoing, self._send_question)
        self._rounds = ModernInputRounds(
            policy, sealer or StateSealer(), self.respond, self._abandon, unix_offset=unix_offset, principal=principal
        )
        # Changes since the last data_to_send. Equal changes are merged, so a slow reader costs little (SU-18).
        self._changes: dict[Change, None] = {}

    # Responses, notifications and requests of the driver

    def fail(self, call: Call, error: BaseException) -> bool:
        """Send an error as the response to a call, as any session does; its open questions are withdrawn."""
        if call.method == "subscriptions/listen":
            self.end_listen(call)
        failed = super().fail(call, error)
        if call.method == "initialize":
            self._close_session()
        self._withdraw_questions(call, "the call that asked has failed")
        return failed

    def report_progress(self, call: Call, progress: float, total: float | None = None, message: str | None = None) -> bool:
        """Report progress. Return False, and send nothing, without a token, an increase or an open call (PR-02 to PR-04)."""
        if call.progress_token is None or not self.incoming.is_open(call) or not call.advances_to(progress):
            return False
        finite_total = total if total is not None and is_number(total) else None
        params = t.ProgressParams(call.progress_token, progress, finite_total, message)
        self._notify("notifications/progress", call.dialect.fit(params), about=call.route)
        return True

    def forward(self, method: str, params: Any = UNSET, *, call: Call | None = None) -> bool:
        """Send a notification of another server as it is; one about a call only while it is open. Return whether it was sent."""
        if call is not None and not self.incoming.is_open(call):
            return False
        self._notify(method, params, about=None if call is None else call.route)
        return True

    def log(self, level: LoggingLevel, data: Any, *, logger: str | None = None, call: Call | None = None) -> bool:
        """Send a log message if its level is wanted by the session, or by the modern request (LG-03, LG-05)."""
        if not self.wants_log(level, call):
            return False
        self._notify("notifications/message", t.LogParams(level, data, logger), about=None if call is None else call.route)
        return True

    def wants_log(self, level: LoggingLevel, call: Call | None = None) -> bool:
        """Whether the session, or the modern request, wants log messages of this level."""
        least: LoggingLevel | None
        if call is not None and call.dialect.modern:
            least = call.log_level if self.incoming.is_open(call) else None
        else:
            least = self.log_level if self.session_dialect is not None else None
        # LG-01. Some servers do not declare it and log all the same.
        if least is None or not (self._transparent or self.profile.capabilities.allows("logging")):
            return False
        return t.LOGGING_LEVELS.index(level) >= t.LOGGING_LEVELS.index(least)

    def announce(self, change: Change) -> None:
        """Notify every subscriber of a change, in the way of its era, and no one else (SU-05, TL-17)."""
        self._changes[change] = None

    def ask(self, call: Call, questions: Mapping[str, Question], *, now: float) -> dict[str, Any] | None:
        """Ask the client for input on behalf of a call; see :meth:`twopipes._session.input_rounds.InputRounds.ask`.

        In the modern era this ends the request, and the call continues under the id of its retry.

        Raises:
            CapabilityMissing: The client did not declare what this needs.
            ConnectionLost: The client of a legacy session is gone.
            LocalProtocolError: The call has ended, has asked too often, or its method must not ask.
        """
        if not self.incoming.is_open(call):
            raise LocalProtocolError(f"{call!r} has ended; it cannot ask the client for input any more")
        if call.method == "initialize":
            raise LocalProtocolError("initialize must not ask the client for input; the client waits for its response (LC-06)")
        # DE-16: requests only for legacy calls, rounds only for modern calls, whatever else runs on the connection.
        if call.dialect.modern:
            answers = self._rounds.ask(call, questions, now=now)
            if self._ended:
                self._rounds.close()  # the questions are a response, which can be sent; the retry cannot come over this connection
            return answers
        if self._ended:
            raise ConnectionLost(call.method, call.id)
        return self._requests.ask(call, questions, now=now)

    def ask_session(self, question: Question | PassedRequest, *, route: Route | None = None, now: float) -> SentRequest:
        """Ask the client of the legacy session outside of any call; a RequestEnded event follows. A passed request has a route.

        Raises:
            CapabilityMissing: The client did not declare what this needs.
            ConnectionLost: The client is gone already.
            LocalProtocolError: There is no legacy session; a modern server asks only in a response.
        """
        if self.session_dialect is None:
            raise LocalProtocolError("there is no legacy session to ask; a modern server asks only in the response to a call")
        if isinstance(question, PassedRequest):
            return self._requests.pass_on(question, route, now=now)
        if self._ended:
            raise ConnectionLost(method_of(question), None)
        return self._requests.ask_session(question, self.session_dialect, self.client_capabilities, now=now)

    def withdraw(self, question: SentRequest | tuple[Call, str], why: str) -> list[Event]:
        """Cancel an open question of the legacy session, given by itself or by its call and key (CA-01).

        Return the events: the question ends with RequestCancelled. Nothing happens if it is not open.
        """
        asked = question if isinstance(question, SentRequest) else self._requests.find(*question)
        if asked is not None and self.outgoing.settle(asked.id) is not None:
            self._notify_cancelled(asked, why)
            self._settled(asked, RequestCancelled(asked.method, asked.id, why))
        return self._take_events()

    def ping(self, *, now: float, limit: float | None) -> SentRequest:
        """Ping the client of the legacy session; an :class:`~twopipes._session.events.RequestEnded` event follows (PI-01).

        Raises:
            LocalProtocolError: There is no legacy session; a modern server sends no requests (FR-09).
            ConnectionLost: The client is gone already.
        """
        if self.session_dialect is None:
            raise LocalProtocolError("there is no legacy session to ping; a modern server sends no requests")
        asked = self.outgoing.open("ping", now=now, idle=limit)
        self.outbox.append(Outbound(encode_line(Request(asked.id, "ping"))))
        return asked

    def elicitation_complete(self, elicitation_id: str) -> bool:
        """Notify a legacy client that the user has finished at a URL; only 2025-11-25 has this notification (EL-12)."""
        method = "notifications/elicitation/complete"
        if self.session_dialect is None or not self.session_dialect.knows_notification(method, sender="server"):
            return False
        self._notify(method, t.ElicitationCompleteParams(elicitation_id))
        return True

    def perform(self, call: Call) -> Result:
        """Handle a call that the session itself can handle, and return the result without sending it.

        Raises:
            McpError: It cannot be done.
            LocalProtocolError: The call has ended, or the session cannot handle its method.
        """
        if not self.incoming.is_open(call):
            raise LocalProtocolError(f"{call!r} has ended; it cannot be performed any more")
        match call.method:
            case "server/discover":
                profile = self.profile
                return t.DiscoverResult(
                    supported_versions=profile.supported_versions,
                    capabilities=profile.capabilities,
                    instructions=profile.instructions,
                    ttl_ms=profile.discover_ttl_ms,
                )
            case "initialize":
                return self._introduction(call.dialect)
            case "logging/setLevel":
                self.log_level = cast("t.SetLevelParams", call.params).level
            case "resources/subscribe":
                self.subscriptions.watch(call.params.uri)
            case "resources/unsubscribe":
                self.subscriptions.unwatch(call.params.uri)
            case "ping":
                pass
            case method:
                raise LocalProtocolError(f"the session does not handle {method}")
        return t.EmptyResult()

    def listen(self, call: Call) -> None:
        """Open and acknowledge the subscription of a call. It lasts until its call is answered or cancelled.

        Raises:
            InternalError: There are too many; nothing was acknowledged (SU-18).
            LocalProtocolError: The call has ended, or its subscription is open already.
        """
        if not self.incoming.is_open(call) or call in self.subscriptions:
            raise LocalProtocolError(f"{call!r} has ended or is subscribed already; a call opens one subscription")
        wanted = honoured(cast("t.ListenParams", call.params).notifications, self.profile.capabilities)
        self._send_changes()  # earlier changes go only to the listens that existed before
        self.subscriptions.listen(call, wanted)
        acknowledged = t.AcknowledgedParams(wanted, meta={META_SUBSCRIPTION_ID: call.id})
        # SU-02: before anything else with this id
        self._notify("notifications/subscriptions/acknowledged", acknowledged, about=call.route)

    def end_listen(self, call: Call) -> SubscriptionsListenResult:
        """End a subscription and return its result without sending it (SU-13).

        Pending changes are sent first, then ``notifications/cancelled`` (SU-14). Nothing is sent if it has already ended.
        """
        tag = {META_SUBSCRIPTION_ID: call.id}
        if self.incoming.is_open(call) and call in self.subscriptions:
            self._close_listen(call, tag)
        return SubscriptionsListenResult(meta=tag)

    def _close_listen(self, call: Call, tag: dict[str, Any]) -> None:
        self._send_changes()
        self.subscriptions.end(call)
        if self.profile.cancel_ended_listens and not self.is_shared:  # SU-14 is for stdio; over HTTP the stream ends
            self._notify("notifications/cancelled", t.CancelledParams(request_id=call.id, meta=tag), about=call.route)

    def end_listens(self) -> None:
        """End every subscription: send pending changes, ``notifications/cancelled`` and the result (SU-13, SU-14)."""
        for call in self.subscriptions:
            self.respond(call, self.end_listen(call))

    def data_to_send(self) -> bytes:
        """Return all bytes produced since the last call, notifications of changes last."""
        if self._changes:
            self._send_changes()
        return super().data_to_send()

    def messages_to_send(self) -> list[Outbound]:
        """Return all messages produced since the last call, notifications of changes last."""
        if self._changes:
            self._send_changes()
        return super().messages_to_send()

    def awaits(self, route: Route) -> bool:
        """Whether a request of this route is still open, so that more messages may follow there."""
        if self.is_shared:
            return route in self.incoming
        return any(call.route is route for call in self.incoming.values())

    def cancel_route(self, route: Route, reason: str | None = None) -> list[Event]:
        """Cancel the requests of a route whose peer is gone, and return the events; nothing more is sent for them."""
        if self.is_shared:
            calls = [self.incoming[route]] if route in self.incoming else []
        else:
            calls = [call for call in self.incoming.values() if call.route is route]
        for call in calls:
            del self.incoming[call.key]
            self._cancel(call, reason)
        return self._take_events()

    def next_deadline(self) -> float | None:
        """The latest time to call :meth:`tick`."""
        first = super().next_deadline()
        if not self._rounds.waiting or (abandoning := self._rounds.next_deadline()) is None:
            return first
        return abandoning if first is None else min(first, abandoning)

    def tick(self, *, now: float) -> list[Event]:
        """End questions that were not answered in time, and handlers that waited too long for a retry."""
        self._rounds.abandon_late(now=now)
        return super().tick(now=now)

    def _abandon(self, call: Call) -> None:
        self._events.append(events.CallAbandoned(call))

    # Messages of the client

    def _serve(self, call: Call, now: float) -> None:
        self.incoming.begin(call)
        method = call.method
        if method in OWN_METHODS:
            self._serve_own(call)
        elif method in MAY_ASK_BACK and call.dialect.modern and call.params.request_state is not None:
            self._resume(call, now)
        else:
            self._events.append(events.CallReceived(call))

    def _serve_own(self, call: Call) -> None:
        if self._delegates:
            self._events.append(events.SessionCallReceived(call))
            return
        try:
            if call.method == "subscriptions/listen":
                self.listen(call)
            else:
                self.respond(call, self.perform(call))
        except McpError as error:
            self.fail(call, error)

    def _resume(self, retry: Call, now: float) -> None:
        """Handle a request with a state: its waiting handler continues, or a new one starts with the known answers."""
        try:
            call, questions = self._rounds.resume(retry, now=now)
        except InvalidParams as error:
            if self._transparent and isinstance(error, ForeignState):
                self._events.append(events.CallReceived(retry))  # the handler knows what it means
            else:
                self.fail(retry, error)
            return
        if questions is None:
            self._events.append(events.CallReceived(call))
            return
        self.incoming.finish(retry)
        self.incoming.begin(call)
        try:
            answers = self._rounds.ask(call, questions, now=now)
        except TwopipesError as error:
            self.fail(call, error)
            self._abandon(call)
            return
        if answers is not None:
            self._events.append(events.InputsAnswered(call, answers))

    def _on_notification(self, notification: Notification, now: float) -> None:
        spoken = self.session_dialect or dialect(LATEST_MODERN)
        raw = notification.params
        try:
            params = spoken.read_notification(notification.method, None if raw is UNSET else raw)
        except MethodNotFound:
            if self._transparent:
                self._events.append(events.NotificationReceived(notification.method, raw, self._size, raw))
            return
        except McpError:
            return  # JR-10, CA-05: a notification never gets a response
        match notification.method:
            case "notifications/cancelled":
                self._on_cancelled(cast("t.CancelledParams", params))
            case "notifications/initialized":
                self._on_initialized()
            case "notifications/progress":
                progress = cast("t.ProgressParams", params)
                asked = self.outgoing.record_progress(progress.progress_token, now=now)
                if asked is not None:
                    self._events.append(events.ProgressReceived(asked, progress, self._size, raw))
            case method:
                self._events.append(events.NotificationReceived(method, params, raw=raw))

    def _on_cancelled(self, params: t.CancelledParams) -> None:
        meant = None if params.request_id is None else self.incoming.get(params.request_id)
        if meant is not None and meant.method == "initialize":
            return  # LC-12: a handshake cannot be cancelled
        call = self._cancelled_call(params)
        if call is None:
            return
        self._cancel(call, params.reason)

    def _cancel(self, call: Call, reason: str | None) -> None:
        # SU-11: nothing is sent from here on. Only middleware is notified.
        if self.subscriptions.end(call) and not self._delegates:
            return
        self._withdraw_questions(call, "the call that asked was cancelled")
        self._events.append(events.CallCancelled(call, reason))

    def _on_response(self, asked: SentRequest, response: Response | ErrorResponse, now: float) -> None:
        spoken = self.session_dialect or dialect(LATEST_LEGACY)
        outcome: Any
        if isinstance(response, ErrorResponse):
            outcome = spoken.read_error(response.error, method=asked.method)
        elif asked.raw:
            outcome = RawResult(response.result)
        else:
            try:
                answer = outcome = spoken.read_result(asked.method, response.result)
                if isinstance(answer, t.ElicitResult):
                    outcome = spoken.restore_answer(cast("t.ElicitParams", plain(asked.params).params), answer)
                if isinstance(asked.params, PassedQuestion) and outcome is answer:
                    outcome = PassedAnswer(outcome, response.result, spoken)
            except TwopipesError as error:
                outcome = error
        self._settled(asked, outcome)

    def _on_failure(self, asked: SentRequest, error: TwopipesError, now: float) -> None:
        self._settled(asked, error)

    def _settled(self, asked: SentRequest, outcome: Any) -> None:
        """Report the end of a server request, a question of a call or a ping, with its result or its error."""
        if asked.context is None:
            failed = isinstance(outcome, TwopipesError)
            self._events.append(events.RequestEnded(asked, None if failed else outcome, outcome if failed else None))
            return
        complete = self._requests.answered(asked, outcome)
        if complete is not None:
            self._events.append(events.InputsAnswered(*complete))

    def _lose_everything(self, now: float) -> None:
        """Abandon the handlers that wait for the client. Those that still work may finish and respond (SD-07)."""
        super()._lose_everything(now)
        self._rounds.close()

    # Output

    def _finish(self, call: Call, result: Result) -> Any:
        if self._requests.groups:
            self._withdraw_questions(call, "the call that asked has ended")
        if type(result) is RawResult:
            return result.raw
        if self._delegates and call.method == "subscriptions/listen":
            # SU-13: the result ends the subscription and carries its id, wherever it comes from.
            tag = {META_SUBSCRIPTION_ID: call.id}
            if call in self.subscriptions:
                self._close_listen(call, tag)
            result = structs.replace(result, meta={**(result.meta or {}), **tag})
        profile = self.profile
        # VN-08: the server info is in every result, so only discovery gets it with icons and description.
        info = profile.info if call.method == "server/discover" else profile.short_info
        return call.dialect.finish(call.method, result, server_info=info, ttl_ms=profile.ttl_ms, cache_scope=profile.cache_scope)

    def _send_question(self, asked: SentRequest, line: bytes) -> None:
        question = Outbound(line, self._place_of(asked))
        if self.phase is Phase.OPENING:
            self._held[asked.id] = question
        else:
            self.outbox.append(question)

    def _place_of(self, asked: SentRequest) -> Any:
        """The route of the call that asked; a ping belongs to none."""
        return asked.route if asked.context is None else asked.context[0].call.route

    def _withdraw_questions(self, call: Call, why: str) -> None:
        for asked in self._requests.withdraw(call):
            self._notify_cancelled(asked, why)

    def _notify_cancelled(self, asked: SentRequest, reason: str | None) -> None:
        # CA-02: a question that was held back (LC-06) was never sent, so it needs no cancellation.
        if self._held.pop(asked.id, None) is None:
            super()._notify_cancelled(asked, reason)

    def _send_changes(self) -> None:
        for change in self._changes:
            updated = change.kind == "resource"
            if self.phase is Phase.OPEN and self.subscriptions.session_wants(change, self._declared):
                self._notify(change.method, t.ResourceUpdatedParams(change.uri) if updated else UNSET)
            for call in self.subscriptions.listens_for(change):
                tag = {META_SUBSCRIPTION_ID: call.id}  # SU-04: with its JSON type
                params = t.ResourceUpdatedParams(change.uri, meta=tag) if updated else t.EmptyParams(meta=tag)
                self._notify(change.method, params, about=call.route)
        self._changes.clear()
