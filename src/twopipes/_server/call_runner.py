"""The handlers of one session of a server: each request is handled by a task of its own.

What handlers send goes through the session, which knows whether it may still be sent. The subclass decides how it leaves: over
one channel for everything, or over the HTTP response of each request.
"""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from twopipes._channels.fork import this_process
from twopipes._connection import SessionPump
from twopipes._protocol.passed_questions import PassedRequest, Question
from twopipes._protocol.types import CallToolResult, LoggingLevel, Result
from twopipes._server.context import GAP, Context, Next, RateLimit
from twopipes._server.failures import failure_response, log_failure
from twopipes._server.forked_child import exit_at_loop, exit_child
from twopipes._session.events import (
    CallAbandoned,
    CallCancelled,
    CallReceived,
    Event,
    InputsAnswered,
    NotificationReceived,
    ProgressReceived,
    RequestEnded,
    SessionCallReceived,
)
from twopipes._session.ledger import Call, Route, SentRequest
from twopipes._session.server import ServerSession
from twopipes._session.subscriptions import Change
from twopipes.errors import ConnectionLost, McpError

# Seconds for a peer to read how its subscriptions have ended.
_FINAL_WRITE = 0.5
# Bytes of memory that a message in the outbox takes besides its line.
_NOTIFICATION = 256


class CallRunner(SessionPump[ServerSession]):
    """Runs the handlers of a session, at most ``max_running`` at once, not counting those that wait for the client.

    ``around_internal`` is called around the requests that the session delegates; these do not wait for other handlers.
    ``on_notification`` is called with each notification that the session does not handle, ``on_stop`` when the runner has stopped.
    """

    def __init__(
        self,
        session: ServerSession,
        *,
        handler: Next,
        around_internal: Callable[[Context, Next], Awaitable[Result]],
        lifespan: Any,
        max_running: int,
        debug: bool,
        on_notification: Callable[[CallRunner, NotificationReceived], None] | None = None,
        on_stop: Callable[[CallRunner], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(session)
        self._on_notification = on_notification
        self._on_stop = on_stop
        self._backlog = 0  # bytes of forwarded notifications since the client stopped reading
        self.thread_id = threading.get_ident()
        self.process = this_process()
        self._handler = handler
        self._lifespan = lifespan
        self._max_running = max_running
        self._debug = debug
        self._around_internal = around_internal
        self._contexts: dict[Call, Context] = {}
        self._is_starting = False
        self._deliveries = 0  # chunks whose answers are on their way to those who wait for them
        # Calls that wait to be started, in order. A cancelled one is removed at once, because its arguments may be large.
        self._queue: OrderedDict[Call, None] = OrderedDict()
        self._waiting_for_client = 0
        # How many contexts are internal, and the open subscriptions among them.
        self._internal = 0
        self._listens: dict[Call, asyncio.Future[Result]] = {}
        self._session_questions: dict[SentRequest, asyncio.Future[Any]] = {}  # those that belong to no call
        self._fewer_open = asyncio.Event()  # for finish(): a call has ended, or the peer is gone

    # Implemented by each binding

    @abstractmethod
    def is_blocked_for(self, call: Call) -> bool:
        """Whether the client does not read what is sent for this call."""

    @abstractmethod
    async def drain_for(self, call: Call) -> None:
        """Wait while the client does not read what is sent for this call. Raises nothing."""

    @abstractmethod
    async def _flush_completely(self) -> None:
        """Wait until everything that was sent has been taken."""

    @abstractmethod
    async def close(self) -> None:
        """Stop sending, and free what carries the messages."""

    @property
    def is_blocked(self) -> bool:
        """Whether no handler may start, because the client does not read."""
        return False

    # Life of the connection

    async def finish(self, seconds: float) -> bool:
        """Wait until the running handlers are done, at most ``seconds``, and send what they send. True if all are done (SD-07)."""
        try:
            async with asyncio.timeout(seconds):
                # Without a reader no response is worth waiting for. A subscription does not end by itself.
                while (len(self._contexts) > len(self._listens) or self._queue) and not self._is_over:
                    self._fewer_open.clear()
                    await self._fewer_open.wait()
                await self._flush_completely()
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """End every subscription properly, cancel every handler, and close the channel (SU-13, SU-14)."""
        ended = {call: self._end_listen(call) for call in list(self._listens)}
        self.session.end_listens()
        self._flush()
        self._queue.clear()
        for asked, answer in self._session_questions.items():
            if not answer.done():
                answer.set_exception(ConnectionLost(asked.method, asked.id))
        tasks = [context._task for context in self._contexts.values() if context._task is not None]
        for call in list(self._contexts):
            if call not in ended:
                self._cancel(call)
        if tasks:
            await asyncio.wait(tasks, timeout=_FINAL_WRITE)  # a task that ignores its cancellation is left behind
        for call, result in ended.items():
            self.session.respond(call, result)  # has no effect if the middleware has responded meanwhile
            self._cancel(call)
        with suppress(TimeoutError):  # a peer that does not read gets no more time than this
            async with asyncio.timeout(_FINAL_WRITE):
                await self._flush_completely()
        await self.close()
        if self._on_stop is not None:
            await self._on_stop(self)

    def abandon(self) -> None:
        """Silence the copy in a forked process: the original process serves it."""
        self._is_over = True

    # Events and handlers

    def _handle(self, events: list[Event]) -> None:
        has_answers = False
        for event in events:
            match event:
                case CallReceived():
                    self._queue[event.call] = None
                case SessionCallReceived():
                    self._start_internal(event.call)
                case CallCancelled():
                    self._cancel(event.call, event.reason)
                case CallAbandoned():
                    self._cancel(event.call)
                case InputsAnswered() if event.call in self._contexts:
                    self._contexts[event.call]._deliver_answers(event.answers)
                    has_answers = True
                case InputsAnswered():
                    # Its handler did not wait for the answers (a timeout of its own, perhaps): start another one with them.
                    self._queue[event.call] = None
                case ProgressReceived():
                    on_progress = getattr(event.asked.params, "on_progress", None)  # only a question that is passed on has it
                    if on_progress is not None:
                        on_progress(event.raw)
                case RequestEnded() if event.asked in self._session_questions:
                    _settle(self._session_questions[event.asked], event)
                    has_answers = True
                case NotificationReceived() if self._on_notification is not None:
                    self._on_notification(self, event)
        if has_answers:
            self._deliveries += 1
            self.loop.call_soon(self._delivered)  # after the tasks that get the answers
        if self._queue:
            self._start_queued()

    def _delivered(self) -> None:
        self._deliveries -= 1
        self._start_queued()

    def _start_queued(self) -> None:
        if self._is_over:
            self._queue.clear()  # their responses would not be read
        if self._is_starting:
            return  # a handler was done as soon as it was started; the loop below is still running
        if self._deliveries:
            return  # with an eager task factory a call would overtake an answer that was received before it
        self._is_starting = True
        try:
            # While the peer does not read, no more responses are made: those that wait to be read are enough.
            while (
                self._queue
                and not self.is_blocked
                and len(self._contexts) - self._waiting_for_client - self._internal < self._max_running
            ):
                call, _ = self._queue.popitem(last=False)
                self._start(Context(call, self, self._lifespan), self._handler)
        finally:
            self._is_starting = False

    def _start(self, context: Context, handler: Next) -> None:
        self._contexts[context.call] = context  # first: with an eager task factory the handler may be done when its task is made
        context._task = self.loop.create_task(self._work(context, handler), name="twopipes handler")
        if self.process.is_forked:
            exit_at_loop()  # an eager task has forked, and this is the child

    def _start_internal(self, call: Call) -> None:
        """Start a request that the session handles itself: at once and in order, however busy the handlers are."""
        if not self._is_over:  # otherwise its response would not be read
            self._internal += 1
            context: Context = Context(call, self, self._lifespan, is_internal=True)
            self._start(context, lambda context: self._around_internal(context, self._perform))

    async def _perform(self, context: Context) -> Result:
        call = context.call
        if call.method != "subscriptions/listen":
            return self.session.perform(call)
        self.session.listen(call)
        ended: asyncio.Future[Result] = self.loop.create_future()
        self._listens[call] = ended
        self._flush_soon()
        self._fewer_open.set()
        try:
            return await ended
        finally:
            self._listens.pop(call, None)
            self.session.end_listen(call)  # has no effect if it has ended already; otherwise the middleware ends it
            self._flush_soon()

    def _end_listen(self, call: Call) -> Result:
        result = self.session.end_listen(call)
        ended = self._listens[call]
        if not ended.done():
            ended.set_result(result)
        return result

    async def _work(self, context: Context, handler: Next) -> None:
        """Run a handler, and send its result or its failure."""
        call = context.call
        if self.process.is_forked:
            exit_at_loop()  # abandon_loop() could not empty the queue of this loop, which is not one of asyncio
        context._has_started = True
        try:
            try:
                result = await handler(context)
            except BaseException as error:
                if self.process.is_forked:
                    exit_child(error)
                raise
            if self.process.is_forked:
                exit_child()
            if context._held or context._has_progressed:
                await self._before_response(context)
            self.session.respond(call, result)
        except BaseException as error:
            response = failure_response(error, context, debug=self._debug)
            if response is None:
                raise
            assert not isinstance(response, CallToolResult)  # only a tool fails with a result, and that is among the results
            is_cancelled = isinstance(error, asyncio.CancelledError)
            if not isinstance(error, KeyboardInterrupt) and not (is_cancelled and context.cancelled):
                await self._before_response(context)
            if is_cancelled:
                context.cancelled.set()
            # Also after a cancellation: it may come from the author's code, and then the peer waits for a response.
            self.session.fail(call, response)
            if is_cancelled or isinstance(error, KeyboardInterrupt):
                raise  # KeyboardInterrupt ends the program; the response is sent on the way out
        finally:
            self._retire(context)

    async def _before_response(self, context: Context) -> None:
        """Send what threads have reported, and after progress wait a moment. A cancellation ends only this wait."""
        context._send_held()
        if not context._has_progressed:
            return
        context._close()  # no progress can come any more
        with suppress(asyncio.CancelledError):
            await self.drain_for(context.call)
            self._flush()
            await asyncio.sleep(GAP)

    def _retire(self, context: Context) -> None:
        """Remove a context whose handler is done, and start the next call. A second call changes nothing."""
        if self._contexts.get(context.call) is not context:
            return
        context._close()
        del self._contexts[context.call]
        if context._is_internal:
            self._internal -= 1
            ended = self._listens.pop(context.call, None)
            if ended is not None:
                ended.cancel()  # the middleware responded without waiting for it
        self._fewer_open.set()
        if self._queue:
            self._start_queued()
        if self._contexts or self._is_starting:
            self._flush_soon()
        else:
            self._flush()  # no other handler is about to send anything, so there is nothing to wait for

    def _cancel(self, call: Call, reason: str | None = None) -> None:
        if call in self._queue:
            del self._queue[call]
            self._fewer_open.set()
            return
        context = self._contexts.get(call)
        if context is not None:
            context.cancelled.set()
            if context._task is not None:
                context._task.cancel(reason)
            context._close()
            if not context._has_started:
                self._retire(context)  # a task that is cancelled before its first step never reaches its `finally`

    # For the contexts of handlers

    log_failure = staticmethod(log_failure)

    def report_progress(self, context: Context, done: float, total: float | None, message: str | None) -> bool:
        """Report the progress of a call; see :meth:`ServerSession.report_progress`. Too fast reports wait; the newest wins."""
        if context._is_closed:
            return False
        is_last = total is not None and done >= total
        rate_limit = context._rate_limit = context._rate_limit or RateLimit()
        if not is_last and not rate_limit.allows(self.loop.time()):
            if context._postponed_progress is None:
                self.loop.call_later(rate_limit.pause, self._report_postponed, context)
            context._postponed_progress = (done, total, message)
            return False
        context._postponed_progress = None
        sent = self.session.report_progress(context.call, done, total, message)
        if sent:
            context._has_progressed = True
            self._flush_soon()
        return sent

    def _report_postponed(self, context: Context) -> None:
        if context._postponed_progress is not None:
            done, total, message = context._postponed_progress
            context._postponed_progress = None
            self.report_progress(context, done, total, message)

    def forward(self, method: str, params: Any, context: Context | None = None) -> bool:
        """Send a notification of another server as it is; see :meth:`ServerSession.forward`.

        While the client does not read, at most ``Limits.max_backlog`` bytes wait for it; further ones are dropped.
        """
        has_own_stream = context is not None and context.call.route is not None
        waiting: CallRunner | Context = context if context is not None and has_own_stream else self
        if not (self.is_blocked if context is None else self.is_blocked_for(context.call)):
            waiting._backlog = 0
        limit = self.session.limits.max_backlog
        if limit is not None and waiting._backlog > limit:
            return False
        sent = self.session.forward(method, params, call=None if context is None else context.call)
        if sent:
            waiting._backlog += len(self.session.outbox[-1].line) + _NOTIFICATION
            if context is not None:
                context._has_progressed = True  # a pause before the response, as after progress
            self._flush_soon()
        return sent

    def log(self, context: Context | None, level: LoggingLevel, data: Any, logger: str | None) -> bool:
        """Send a log message; see :meth:`ServerSession.log`."""
        sent = self.session.log(level, data, logger=logger, call=None if context is None else context.call)
        if sent:
            self._flush_soon()
        return sent

    def ask(self, call: Call, questions: Mapping[str, Question]) -> dict[str, Any] | None:
        """Ask the client on behalf of a call; see :meth:`ServerSession.ask`."""
        answers = self.session.ask(call, questions, now=self.loop.time())
        self._flush_soon()
        self._set_timer()
        return answers

    async def ask_session(self, question: Question | PassedRequest, *, route: Route | None = None) -> Any:
        """Ask the client of a legacy session outside of any call, and return its answer; see :meth:`ServerSession.ask_session`."""
        asked = self.session.ask_session(question, route=route, now=self.loop.time())
        answer = self._session_questions[asked] = self.loop.create_future()
        self._flush_soon()
        self._set_timer()
        try:
            return await answer
        finally:
            del self._session_questions[asked]
            self.session.withdraw(asked, "the answer is not needed any more")  # has no effect if there is an answer
            self._flush_soon()

    def withdraw(self, call: Call, key: str, why: str) -> None:
        """Cancel one question of a legacy call; see :meth:`ServerSession.withdraw`."""
        self._process(self.session.withdraw((call, key), why))

    def announce(self, change: Change) -> None:
        """Notify the peer of a change if it subscribed to it. Equal changes within one write are sent once."""
        self.session.announce(change)
        self._flush_soon()

    def announce_everything(self) -> None:
        """Notify the peer of everything that it subscribed to, because changes may have been missed."""
        for change in self.session.subscriptions.every_change():
            self.session.announce(change)
        self._flush_soon()

    def fail_listens(self, error: McpError) -> None:
        """End every subscription with an error, after the changes that are pending."""
        for call in self.session.subscriptions:
            self.end_listen(call, error)

    def end_listen(self, call: Call, error: McpError | None = None) -> None:
        """End one subscription, with its result or with an error, after the changes that are pending."""
        ended = self._listens.get(call)
        if error is None:
            if ended is not None:
                self._end_listen(call)
        elif ended is None:
            self.session.fail(call, error)
        elif not ended.done():
            ended.set_exception(error)  # for the middleware around it
        self._flush_soon()

    def run_in_loop(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function in the event loop of the connection: at once from its thread, soon from any other thread."""
        if threading.get_ident() == self.thread_id:
            function(*arguments)
        else:
            with suppress(RuntimeError):  # the loop is closed, and the connection with it
                self.loop.call_soon_threadsafe(function, *arguments)

    @contextmanager
    def waiting_for_client(self, context: Context) -> Generator[None, None, None]:
        """Let another handler run while this one waits for the client; one, however many questions it asks."""
        context._open_questions += 1
        if context._open_questions == 1 and not context._is_internal:
            self._waiting_for_client += 1
            self._start_queued()
        try:
            yield
        finally:
            context._open_questions -= 1
            if context._open_questions == 0 and not context._is_internal:
                self._waiting_for_client -= 1

    async def yield_and_drain(self, call: Call) -> None:
        """Let the event loop run, so that what was sent is written, and wait while the client does not read."""
        await asyncio.sleep(0)
        await self.drain_for(call)


def _settle(future: asyncio.Future[Any], event: RequestEnded) -> None:
    if not future.done():
        if event.error is None:
            future.set_result(event.result)
        else:
            future.set_exception(event.error)
