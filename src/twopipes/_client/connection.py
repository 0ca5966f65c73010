"""One connection of one client: a session running over a channel.

The read loop never waits for a callback or for a caller. Whoever asks gets a future; what comes in settles it, and what goes out
leaves in one write per turn of the loop. It waits for one thing only: a server that asks and does not read our responses
(docs/decisions/0024). A connection opens once and ends once; what outlives it, a restart of the server, is the business of
:mod:`twopipes._client.supervisor`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from msgspec import UNSET

from twopipes._channels.base import READ_SIZE, Channel
from twopipes._client.callbacks import Callbacks
from twopipes._client.stray_output import StrayReader
from twopipes._protocol.types import InputRequiredResult, LoggingLevel, Params, ProgressParams, Result, SubscriptionFilter
from twopipes._session.client import ClientSession
from twopipes._session.events import (
    CallCancelled,
    CallReceived,
    ClientOpened,
    Event,
    LineRejected,
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
from twopipes.errors import (
    ChannelBroken,
    ChannelClosed,
    ConnectionLost,
    McpError,
    QuestionFailed,
    RequestCancelled,
    TwopipesError,
)

__all__ = ["ClientConnection", "ListenTarget", "Pending"]

# Seconds for what is still in the pipe when the server does not take anything any more.
_LAST_WORDS = 0.5
OnProgress = Callable[[ProgressParams], Any]
Cause = Callable[[ConnectionLost], TwopipesError]
"""Why a connection is over: turns the loss of one request into an error that says so."""


class ListenTarget(Protocol):
    """Whom the notifications of one subscription are for."""

    def acknowledged(self, honoured: SubscriptionFilter) -> None:
        """The server will deliver this much of what was asked."""

    def notified(self, method: str, params: Any) -> None:
        """Something happened."""

    def ended(self, error: TwopipesError | None) -> None:
        """Nothing more will come by this connection."""


class Pending:
    """A request under way: the future that its caller waits for, and whom to tell of progress."""

    __slots__ = ("asked", "broken", "future", "on_progress")

    def __init__(self, future: asyncio.Future[Any], on_progress: OnProgress | None) -> None:
        self.asked: SentRequest | None = None
        # A question of a session that this request led to, as far as is known, and whose callback broke.
        self.broken: QuestionFailed | None = None
        self.future = future
        self.on_progress = on_progress

    @property
    def round(self) -> int:
        """How many times the server has asked back before this attempt."""
        return 0 if self.asked is None else self.asked.round


class ClientConnection:
    """Talks over one channel until its end.

    Args:
        session: The protocol.
        channel: The bytes.
        noise: Where lines that are no messages are kept.
        answer: Answers what the server of a legacy session asks; told which method of ours led to it, if that is known.
        notified: Told of every notification that belongs to no request of ours, and of its size in bytes.
        callbacks: Calls what the callers want to be called with progress.
        post_mortem: SentRequest, once nothing more comes, why; its answer makes the errors of everybody who still waits.
    """

    def __init__(
        self,
        session: ClientSession,
        channel: Channel,
        *,
        noise: StrayReader,
        answer: Callable[[Call, str | None], Awaitable[Result]],
        notified: Callable[[str, Any, int], None],
        callbacks: Callbacks,
        post_mortem: Callable[[], Awaitable[Cause]],
    ) -> None:
        self.session = session
        self.channel = channel
        self.noise = noise
        self.heard_anything = False
        self.sent = 0
        """Bytes that were given to the channel."""
        self.why_ended = ""
        """Why this side gave the server up; empty if it did not."""
        self.on_end: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._answer = answer
        self._notified = notified
        self._callbacks = callbacks
        self._post_mortem = post_mortem
        self._cause: Cause | None = None
        self._opening: asyncio.Future[ClientOpened | OpeningEnded] = self._loop.create_future()
        self._answering: dict[Call, asyncio.Task[None]] = {}
        self._flushing = False
        self._draining: asyncio.Task[None] | None = None
        # Of session.responded: how much was written to the channel, and how much of that the server has surely read, or can.
        self._written = 0
        self._taken = 0
        self._timer: asyncio.TimerHandle | None = None
        self._last_words: asyncio.TimerHandle | None = None
        self._deaf = False
        self._reading: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()

    # Its life

    async def open(self) -> ClientOpened | OpeningEnded:
        """Sends the first request and returns what came of it. Cancelling leaves a connection that has to be closed."""
        self._reading = self._loop.create_task(self._read())
        self.session.open(now=self._loop.time())
        self._flush()
        self._set_timer()
        return await asyncio.shield(self._opening)

    def stirred(self) -> None:
        """The server gave a sign of life that is no message: the patience of the probe starts again."""
        self.session.note_activity(now=self._loop.time())

    def end(self, cause: Cause) -> None:
        """Ends the conversation from this side: whoever still waits is told why. What the server still says is read and dropped."""
        if self.ended.done():
            return
        self._cause = cause
        self.ended.set_result(None)
        if self.on_end is not None:
            self.on_end()  # before anybody learns of the loss and asks again
        self._handle(self.session.receive_eof(now=self._loop.time()))
        self._flush()  # what was said before the end is said
        self._deaf = True
        for handle in (self._timer, self._last_words):
            if handle is not None:
                handle.cancel()
        for task in list(self._answering.values()):
            task.cancel()

    async def close(self) -> None:
        """Stops reading and closes the channel, after :meth:`end`. Nothing is left."""
        tasks = [task for task in (self._reading, self._draining, self._closing, *self._answering.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.channel.close()

    async def _read(self) -> None:
        channel = self.channel
        channel.offer_to(self._take)
        try:
            while chunk := await channel.read():
                if self._is_flooded and not await self._wait_for_the_server():
                    break
                self._hear(chunk)
                if len(chunk) >= READ_SIZE:
                    await asyncio.sleep(0)  # there is more, at once: the callers have their turn before it
        except (ChannelBroken, ChannelClosed):
            pass
        if not self.ended.done():
            # A moment, so that the error can say how the server ended; everybody waits for it a little longer.
            self.end(await self._post_mortem())

    def _take(self, chunk: bytes) -> bool:
        """What :meth:`_read` does with most of what comes, without a turn of the loop before it."""
        if len(chunk) >= READ_SIZE or self._is_flooded:
            return False
        self._hear(chunk)
        return True

    @property
    def _is_flooded(self) -> bool:
        """Whether the server leaves more of our responses unread than we hold for it."""
        most = self.session.limits.max_unsent
        return most is not None and self._draining is not None and self.session.responded - self._taken > most

    async def _wait_for_the_server(self) -> bool:
        """Wait until the server has read enough of our responses. False if it reads nothing for as long as a request may take.

        Only responses count, because they are what a server can make us produce without end. Requests of our callers do not: a
        server that works on one call at a time may well not read before we have read its answer.
        """
        patience = self.session.timeouts.request
        while self._is_flooded and self._draining is not None and not self.ended.done():
            unread = self.channel.buffered
            done, _ = await asyncio.wait([self._draining, self.ended], timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not done and self.channel.buffered >= unread:  # a server that reads slowly is not given up
                self.why_ended = (
                    f"the server has read nothing for {patience:.3g} s, while {self.session.responded - self._taken:,} bytes of "
                    "responses to its requests wait for it"
                )
                return False
        return True

    def _hear(self, chunk: bytes) -> None:
        self.heard_anything = True
        if not self.ended.done():
            self._handle(self.session.receive(chunk, now=self._loop.time()))

    # What callers say

    def send(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None,
        *,
        idle: float | object | None = UNSET,
        total: float | object | None = UNSET,
        log_level: LoggingLevel | None = None,
        extra_meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Pending:
        """Sends a request; see :meth:`ClientSession.request`. Wait for it with :meth:`wait`."""
        pending = Pending(self._loop.create_future(), on_progress)
        try:
            pending.asked = self.session.request(
                method,
                params,
                now=self._loop.time(),
                idle=idle,
                total=total,
                log_level=log_level,
                extra_meta=extra_meta,
                context=pending,
            )
        except ConnectionLost as error:  # it ended between the moment somebody was told of it and this one
            raise self._explain(error) from None
        self._sent()
        return pending

    def send_and_forget(self, method: str, params: Params) -> None:
        """Sends a request whose answer nobody needs."""
        self.send(method, params).future.add_done_callback(_looked_at)

    def send_again(self, pending: Pending, asking: InputRequiredResult, answers: Mapping[str, Any]) -> Pending:
        """Sends a request again with the answers it asked for; see :meth:`ClientSession.retry`."""
        assert pending.asked is not None
        again = Pending(self._loop.create_future(), pending.on_progress)
        try:
            again.asked = self.session.retry(pending.asked, asking, answers, now=self._loop.time(), context=again)
        except ConnectionLost as error:
            raise self._explain(error) from None
        self._sent()
        return again

    async def wait(self, pending: Pending) -> Any:
        """The result of a request. Cancelling tells the server so, and frees the request."""
        try:
            return await pending.future
        except asyncio.CancelledError:
            self.cancel(pending)
            raise

    def cancel(self, pending: Pending, reason: str | None = None) -> None:
        """Gives a request up (CA-01)."""
        if pending.asked is not None and self.session.cancel(pending.asked, reason=reason):
            self._handle(self.session.tick(now=self._loop.time()))
            self._flush_soon()

    def listen(self, wanted: SubscriptionFilter, target: ListenTarget) -> SentRequest:
        """Opens a subscription on the stateless wire."""
        try:
            asked = self.session.listen(wanted, now=self._loop.time(), context=target)
        except ConnectionLost as error:
            raise self._explain(error) from None
        self._sent()
        return asked

    def end_listen(self, asked: SentRequest) -> None:
        """Ends it (SU-11)."""
        if self.session.cancel(asked):
            self._handle(self.session.tick(now=self._loop.time()))
            self._flush_soon()

    def notify(self, method: str, params: Params | None = None) -> None:
        """Sends a notification."""
        self.session.notify(method, params)
        self._flush_soon()

    # What happens

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            if type(event) is RequestEnded:
                self._settle(event)
            else:
                self._react(event)
        self._set_timer()
        self._flush_soon()

    def _settle(self, event: RequestEnded) -> None:
        pending = event.asked.context
        future = pending.future
        if future.done():
            return  # its caller has gone
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
        """A request that was lost ends with what is known of the loss."""
        if isinstance(error, ConnectionLost) and self._cause is not None:
            return self._cause(error)
        return error

    def _react(self, event: Event) -> None:
        match event:
            case ProgressReceived():
                on_progress = event.asked.context.on_progress
                if on_progress is not None:
                    self._callbacks.call("on_progress", on_progress, event.params, size=event.size)
            case NotificationReceived():
                self._notified(event.method, event.params, event.size)
            case ListenNotified():
                event.asked.context.notified(event.method, event.params)
            case ListenAcknowledged():
                event.asked.context.acknowledged(event.honoured)
            case ListenEnded():
                event.asked.context.ended(None if event.error is None else self._explain(event.error))
            case CallReceived():
                call = event.call
                self._answering[call] = self._loop.create_task(self._respond(call), name=f"answer {call.method}")
                # Not by the task itself: one that is cancelled before its first step takes none.
                self._answering[call].add_done_callback(lambda _: self._answering.pop(call))
            case CallCancelled():
                task = self._answering.get(event.call)
                if task is not None:
                    task.cancel()
            case LineRejected():
                self.noise.add_line(event)
            case RequestIgnored():
                self.noise.add_request(event.method)
            case PeerReportedError():
                self.noise.add_complaint(event.error)
            case ClientOpened() | OpeningEnded():
                if not self._opening.done():
                    self._opening.set_result(event)
            case _:
                pass

    async def _respond(self, call: Call) -> None:
        """Answers a question of a legacy server."""
        opened = list(self.session.outgoing)
        # A session does not say which request a question belongs to; it is known only where there is no choice.
        cause = opened[0] if len(opened) == 1 else None
        try:
            result = await self._answer(call, None if cause is None else cause.method)
            self.session.respond(call, result)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.session.fail(call, error)
            if isinstance(error, QuestionFailed) and cause is not None and isinstance(cause.context, Pending):
                cause.context.broken = error
            if isinstance(error, QuestionFailed) or not isinstance(error, TwopipesError):
                self._loop.call_exception_handler({"message": f"no answer to {call.method}: a callback failed", "exception": error})
        finally:
            self._flush_soon()

    # What goes out

    def _sent(self) -> None:
        self._set_timer()
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing and not self._deaf:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._deaf or self._draining is not None:
            return
        data = self.session.data_to_send()
        if not data:
            return
        try:
            self.channel.write(data)
        except (ChannelBroken, ChannelClosed):
            self._stop_writing()
            return
        self.sent += len(data)
        self._written = self.session.responded
        if self.channel.buffered:
            self._draining = self._loop.create_task(self._drain())
        else:
            self._taken = self._written

    async def _drain(self) -> None:
        try:
            await self.channel.drain()
            self._taken = self._written  # but for what the channel may hold
        except (ChannelBroken, ChannelClosed):
            self._stop_writing()
        finally:
            self._draining = None
        self._flush_soon()

    def _stop_writing(self) -> None:
        """The server takes nothing any more. What it said before may still be on its way, and is given a moment."""
        self._deaf = True
        if self._last_words is None and not self.ended.done():
            self._last_words = self._loop.call_later(_LAST_WORDS, self.hang_up)

    def hang_up(self) -> None:
        """Reads no more, as if the server had closed its output. It may be held open by somebody else."""
        if self._reading is not None and not self._reading.done():
            # Reading ends as at the end of file: the channel says that it is closed.
            self._closing = self._loop.create_task(self.channel.close())

    # Time

    def _set_timer(self) -> None:
        deadline = self.session.next_deadline()
        timer = self._timer
        if timer is not None:
            if deadline is not None and timer.when() <= deadline:
                return  # it will be set anew when it rings
            timer.cancel()
            self._timer = None
        if deadline is not None and not self.ended.done():
            self._timer = self._loop.call_at(max(deadline, self._loop.time()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._loop.time()
        if self._answering:
            # The server waits for this side, perhaps for a person: its silence about everything else means nothing.
            for asked in self.session.outgoing:
                self.session.outgoing.record_progress(asked.id, now=now)
        self._handle(self.session.tick(now=now))


def _looked_at(future: asyncio.Future[Any]) -> None:
    """Keeps asyncio from reporting an error that nobody waits for."""
    if not future.cancelled():
        future.exception()
