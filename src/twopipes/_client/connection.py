"""One connection of one client: a caller waits for a future, which the response settles.

A connection opens once and ends once; :mod:`twopipes._client.supervisor` restarts servers. How messages travel is left to
:mod:`twopipes._client.channel_connection` and :mod:`twopipes._client.http_connection`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import UNSET, Struct

from twopipes._client.callbacks import CallbackRunner
from twopipes._client.options import RequestOptions
from twopipes._client.stray_output import StrayCollector
from twopipes._connection import SessionPump
from twopipes._protocol.types import InputRequiredResult, Params, Result, SubscriptionFilter
from twopipes._session.client import ClientSession
from twopipes._session.events import (
    CallCancelled,
    CallReceived,
    ClientOpened,
    Event,
    ListenAcknowledged,
    ListenEnded,
    ListenNotified,
    NotificationReceived,
    OpeningEnded,
    PeerReportedError,
    ProgressReceived,
    RequestEnded,
    RequestIgnored,
)
from twopipes._session.ledger import Call, SentRequest
from twopipes._wire import LineRejected
from twopipes.errors import ConnectionLost, McpError, QuestionFailed, RequestCancelled, TwopipesError

_NO_OPTIONS = RequestOptions()
# Messages that may wait for a server before notifications are dropped.
_MAX_WAITING: Final = 1000
Cause = Callable[[ConnectionLost], TwopipesError]
"""The reason for the end of a connection: turns the loss of one request into an error that explains it."""


class ListenTarget(Protocol):
    """Receives the notifications of one subscription."""

    def acknowledged(self, honoured: SubscriptionFilter) -> None:
        """Handle the acknowledgement: the part of the subscription that the server will deliver."""

    def notified(self, method: str, params: Any) -> None:
        """Handle a notification."""

    def ended(self, error: TwopipesError | None) -> None:
        """Handle the end of the subscription on this connection."""


class PendingRequest(Struct, eq=False):
    """A request in progress, and the future that its caller waits for."""

    future: asyncio.Future[Any]
    on_progress: Callable[[Any], Any] | None
    asked: SentRequest | None = None
    origin: Any = None
    # The failure of a callback for a question that this request probably led to, in a legacy session.
    broken: QuestionFailed | None = None

    @property
    def round(self) -> int:
        """How often the server asked for input before this attempt."""
        return 0 if self.asked is None else self.asked.round


class ClientConnection(SessionPump[ClientSession]):
    """Runs a session for its callers.

    Args:
        session: The protocol.
        stray: Collects lines that are not messages.
        answer: Answers a request of a legacy server. It also gets our open requests that may have led to it.
        notified: Called with each notification that does not belong to a request, its size in bytes, and its params as received.
        callbacks: Calls the progress callbacks.
        post_mortem: Called when the server has ended the connection; returns the cause, for the errors of waiting callers.

    Attributes:
        renews_listens: Whether one subscription can be lost while the connection goes on, so that it is opened again.
        sent: The number of bytes sent.
        received_anything: Whether the server has sent anything.
        why_ended: Why this side gave up on the server; empty if it did not.
        on_end: Called when the connection ends, before waiting callers get their errors.
        ended: Done when the connection has ended.
    """

    renews_listens = False

    def __init__(
        self,
        session: ClientSession,
        *,
        stray: StrayCollector,
        answer: Callable[[Call, Sequence[SentRequest]], Awaitable[Result]],
        notified: Callable[[str, Any, int, Any], None],
        callbacks: CallbackRunner,
        post_mortem: Callable[[], Awaitable[Cause]],
    ) -> None:
        super().__init__(session)
        self.sent = 0
        self.received_anything = False
        self.why_ended = ""
        self.on_end: Callable[[], None] | None = None
        self._stray = stray
        self._answer = answer
        self._notified = notified
        self._callbacks = callbacks
        self._post_mortem = post_mortem
        self._cause: Cause | None = None
        self._opening: asyncio.Future[ClientOpened | OpeningEnded] = self.loop.create_future()
        self._answering: dict[Call, asyncio.Task[None]] = {}
        self.ended: asyncio.Future[None] = self.loop.create_future()

    # Opening and closing

    async def open(self) -> ClientOpened | OpeningEnded:
        """Open the session. After a cancellation the connection must still be closed."""
        self.session.open(now=self.loop.time())
        self._set_timer()
        self._flush()
        return await asyncio.shield(self._opening)

    def note_activity(self) -> None:
        """Restart the timeout of the probe, because the server wrote something that is not a message."""
        self.session.note_activity(now=self.loop.time())

    def end(self, cause: Cause) -> None:
        """End the session from this side and fail all waiting callers. Output that still arrives is read and dropped."""
        if self.ended.done():
            return
        self._cause = cause
        self.ended.set_result(None)
        if self.on_end is not None:
            self.on_end()  # first, so that a caller that retries sees the new state
        self._process(self.session.receive_eof(now=self.loop.time()))
        self._flush()  # send what was queued before the end
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._answering.values()):
            task.cancel()

    @abstractmethod
    async def close(self) -> None:
        """Stop all tasks and free everything, after :meth:`end`."""

    def stop_reading(self) -> None:
        """Stop reading, as at the end of file. Another process may hold the server's output open."""

    # Requests of callers

    def send(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None,
        options: RequestOptions = _NO_OPTIONS,
        *,
        idle: float | object | None = UNSET,
        total: float | object | None = UNSET,
    ) -> PendingRequest:
        """Send a request; see :meth:`ClientSession.request`. Wait for its future; :meth:`cancel` it if the wait is cancelled."""
        pending = PendingRequest(self.loop.create_future(), options.on_progress, origin=options.origin)
        try:
            pending.asked = self.session.request(
                method,
                params,
                now=self.loop.time(),
                idle=idle,
                total=total,
                log_level=options.log_level,
                extra_meta=options.meta,
                context=pending,
                raw=options.raw,
                client_meta=options.client_meta,
                wants_progress=not options.raw or options.on_progress is not None,
            )
        except ConnectionLost as error:  # it ended after the caller got this connection
            raise self._explain(error) from None
        self._set_timer()
        self._flush_soon()
        return pending

    def send_and_forget(self, method: str, params: Params) -> None:
        """Send a request and ignore its response."""
        self.send(method, params).future.add_done_callback(_retrieve_exception)

    def send_again(self, pending: PendingRequest, asking: InputRequiredResult, answers: Mapping[str, Any]) -> PendingRequest:
        """Send a request again with the answers that the server asked for; see :meth:`ClientSession.retry`."""
        assert pending.asked is not None
        again = PendingRequest(self.loop.create_future(), pending.on_progress, origin=pending.origin)
        try:
            again.asked = self.session.retry(pending.asked, asking, answers, now=self.loop.time(), context=again)
        except ConnectionLost as error:
            raise self._explain(error) from None
        self._set_timer()
        self._flush_soon()
        return again

    def cancel(self, pending: PendingRequest, reason: str | None = None) -> None:
        """Cancel a request (CA-01)."""
        if pending.asked is not None and self.session.cancel(pending.asked, reason=reason):
            self._process(self.session.tick(now=self.loop.time()))

    def listen(self, wanted: SubscriptionFilter, target: ListenTarget) -> SentRequest:
        """Open a subscription on the stateless wire."""
        try:
            asked = self.session.listen(wanted, now=self.loop.time(), context=target)
        except ConnectionLost as error:
            raise self._explain(error) from None
        self._set_timer()
        self._flush_soon()
        return asked

    def end_listen(self, asked: SentRequest) -> None:
        """End a subscription on the stateless wire (SU-11)."""
        if self.session.cancel(asked):
            self._process(self.session.tick(now=self.loop.time()))

    def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification."""
        self.session.notify(method, params)
        self._flush_soon()

    def forward(self, method: str, params: Any = UNSET) -> bool:
        """Send a notification of another client as it is. Return False, and send nothing, while too many messages wait."""
        if self._is_over or self._is_full:
            return False
        self.session.forward(method, params)
        self._flush_soon()
        return True

    @property
    def _is_full(self) -> bool:
        """Whether the server does not read, and too many messages wait for it."""
        return len(self.session.outbox) >= _MAX_WAITING

    # Events of the session

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            if type(event) is RequestEnded:
                self._settle(event)
            else:
                self._react(event)

    def _settle(self, event: RequestEnded) -> None:
        pending = event.asked.context
        future = pending.future
        if future.done():
            return  # the caller no longer waits
        error = event.error
        if pending.broken is not None and (isinstance(error, McpError) or getattr(event.result, "is_error", False)):
            future.set_exception(pending.broken)
        elif error is None:
            future.set_result(event.result)
        elif isinstance(error, RequestCancelled):
            future.cancel()
        else:
            future.set_exception(self._explain(error))

    def _explain(self, error: TwopipesError) -> TwopipesError:
        """Turn the loss of a request into an error with the cause."""
        if isinstance(error, ConnectionLost) and self._cause is not None:
            return self._cause(error)
        return error

    def _react(self, event: Event) -> None:
        match event:
            case ProgressReceived():
                on_progress = event.asked.context.on_progress
                if on_progress is not None:
                    progress = event.raw if event.asked.raw else event.params
                    self._callbacks.call("on_progress", on_progress, progress, size=event.size)
            case NotificationReceived():
                self._notified(event.method, event.params, event.size, event.raw)
            case ListenNotified():
                event.asked.context.notified(event.method, event.params)
            case ListenAcknowledged():
                event.asked.context.acknowledged(event.honoured)
            case ListenEnded():
                event.asked.context.ended(None if event.error is None else self._explain(event.error))
            case CallReceived():
                call = event.call
                self._answering[call] = self.loop.create_task(self._respond(call), name=f"answer {call.method}")
                # Not in the task itself: a task that is cancelled before its first step never runs.
                self._answering[call].add_done_callback(lambda _: self._answering.pop(call))
            case CallCancelled():
                task = self._answering.get(event.call)
                if task is not None:
                    task.cancel()
            case LineRejected():
                self._stray.add(f"{event.reason}: {event.detail}", event.excerpt, event.size)
            case RequestIgnored():
                self._stray.add(f"a request of the server ({event.method}), which the stateless wire does not allow")  # FR-10
            case PeerReportedError():
                self._stray.add(f"an error without an id: {event.error}")
            case ClientOpened() | OpeningEnded():
                if not self._opening.done():
                    self._opening.set_result(event)
            case _:
                pass

    async def _respond(self, call: Call) -> None:
        """Answer a request of a legacy server."""
        causes = self._causes_of(call)
        cause = causes[0] if len(causes) == 1 else None
        try:
            result = await self._answer(call, causes)
            self.session.respond(call, result)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.session.fail(call, error)
            if isinstance(error, QuestionFailed) and cause is not None and isinstance(cause.context, PendingRequest):
                cause.context.broken = error
            if isinstance(error, QuestionFailed) or not isinstance(error, TwopipesError):
                self.loop.call_exception_handler({"message": f"no answer to {call.method}: a callback failed", "exception": error})
        finally:
            self._flush_soon()

    def _causes_of(self, call: Call) -> Sequence[SentRequest]:
        """Return our requests that a request of a legacy server may belong to, which does not say so."""
        return list(self.session.outgoing.values())

    def _tick(self) -> None:
        if self._answering:
            # The server waits for our answer, perhaps for a person's, so other requests do not time out meanwhile.
            now = self.loop.time()
            for request_id in self.session.outgoing:
                self.session.outgoing.record_progress(request_id, now=now)
        super()._tick()


def _retrieve_exception(future: asyncio.Future[Any]) -> None:
    """Keep asyncio from reporting an exception that is not retrieved."""
    if not future.cancelled():
        future.exception()
