"""One connection of one server: a session running over a channel.

The read loop never waits for a handler. Handlers are tasks of their own; whatever they say goes through the session, which
knows whether it may still be said, and leaves in one write per turn of the loop. While the peer does not read, nothing more is
read from it, and nothing is turned into bytes that can wait.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from twopipes._channels.base import READ_SIZE, Channel
from twopipes._channels.fork import this_process
from twopipes._protocol.types import InputRequest, LoggingLevel, Result
from twopipes._server.context import GAP, Context, Next, is_no_failure
from twopipes._server.forked_child import come_back, leave
from twopipes._session.events import CallAbandoned, CallCancelled, CallReceived, Event, InputsAnswered, OwnCallReceived
from twopipes._session.ledger import Call
from twopipes._session.server import ServerSession
from twopipes._session.subscriptions import Change
from twopipes.errors import ChannelBroken, ChannelClosed, InternalError, McpError

__all__ = ["Next", "ServerConnection"]

# Seconds for a peer to read how its subscriptions have ended.
_LAST_WORDS = 0.5


class ServerConnection:
    """Serves one channel to its end.

    Args:
        session: The protocol.
        channel: The bytes.
        handler: Does what a call asks for.
        lifespan: What the server's lifespan gave, for the handlers.
        max_running: How many handlers may work at once; further calls wait their turn. Those that wait for the client do not count.
        report: Told of what went wrong in a handler, with the call.
        around_own: Stands around what the session can do by itself, if the session delegates that. Such calls wait for nobody.
    """

    def __init__(
        self,
        session: ServerSession,
        channel: Channel,
        handler: Next,
        *,
        lifespan: Any = None,
        max_running: int = 100,
        report: Callable[[Call, BaseException], None] | None = None,
        around_own: Callable[[Context, Next], Awaitable[Result]] | None = None,
    ) -> None:
        self.session = session
        self.channel = channel
        self.thread_id = threading.get_ident()
        self.process = this_process()
        self.loop = asyncio.get_running_loop()
        self._handler = handler
        self._lifespan = lifespan
        self._max_running = max_running
        self._report = report
        self._around_own = around_own
        self._contexts: dict[Call, Context] = {}
        self._starting = False
        # Calls that wait for a place, in order. A cancelled one leaves at once, with its arguments: they may be large.
        self._queue: OrderedDict[Call, None] = OrderedDict()
        self._parked = 0
        # Of the contexts, those that take no place among the handlers; and of these, the subscriptions that are open.
        self._beside = 0
        self._listens: dict[Call, asyncio.Future[Result]] = {}
        self._flushing = False
        self._draining: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._over = False
        self._closing: asyncio.Task[None] | None = None

    # The life of a connection

    async def run(self) -> None:
        """Reads until the peer leaves or the channel breaks. What is in flight then goes on; see :meth:`finish`."""
        loop = self.loop
        session, channel = self.session, self.channel
        try:
            channel.offer_to(self._take)
            while chunk := await channel.read():
                await self.drain()  # what came while the peer does not read waits here, and nothing is read after it
                self._handle(session.receive(chunk, now=loop.time()))
                self._flush()
                await self.drain()
                if len(chunk) >= READ_SIZE:
                    await asyncio.sleep(0)  # there is more, at once: the handlers have their turn before it
        except (ChannelBroken, ChannelClosed):
            self._over = True
        self._handle(session.receive_eof(now=loop.time()))
        self._flush()

    def _take(self, chunk: bytes) -> bool:
        """What :meth:`run` does with most of what comes, without a turn of the loop before it."""
        if self._draining is not None or len(chunk) >= READ_SIZE:
            return False  # there is something to wait for
        self._handle(self.session.receive(chunk, now=self.loop.time()))
        self._flush()
        return True

    async def finish(self, seconds: float) -> bool:
        """Lets the handlers that still work finish, for so long at the most, and sends what they say. True if all did (SD-07)."""
        try:
            async with asyncio.timeout(seconds):
                # Once nobody reads there is no answer worth waiting for. A subscription ends when we do, and not before.
                while (len(self._contexts) > len(self._listens) or self._queue) and not self._over:
                    self._idle.clear()
                    await self._idle.wait()
                await self._sent()
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """Ends every subscription properly, cancels every handler, and closes the channel (SU-13, SU-14)."""
        ended = {call: self._end_listen(call) for call in list(self._listens)}
        self.session.end_listens()
        self._flush()
        self._queue.clear()
        tasks = [context.task for context in self._contexts.values() if context.task is not None]
        for call in list(self._contexts):
            if call not in ended:
                self._cancel(call)
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS)  # one that takes no cancellation is left behind
        for call, result in ended.items():
            self.session.respond(call, result)  # who stands around it has had time to say something else
            self._cancel(call)
        with suppress(TimeoutError):  # a peer that does not read gets no more than this
            async with asyncio.timeout(_LAST_WORDS):
                await self._sent()
        await self.close()

    def abandon(self) -> None:
        """Let the copy of a connection in a forked process be silent: the connection is served by the process it was made in."""
        self._over = True

    async def close(self) -> None:
        """Closes the channel and forgets the timer."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._draining is not None:
            self._draining.cancel()
        await self.channel.close()

    async def _sent(self) -> None:
        """Waits until everything that was said is with the system."""
        try:
            while not self._over:
                self._flush()
                await self.channel.flush()
                if self._draining is None:
                    return
                await asyncio.wait([self._draining])
        except (ChannelBroken, ChannelClosed):
            self._over = True

    # What happens

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case CallReceived():
                    self._queue[event.call] = None
                case OwnCallReceived():
                    self._start_own(event.call)
                case CallCancelled() | CallAbandoned():
                    self._cancel(event.call)
                case InputsAnswered() if event.call in self._contexts:
                    self._contexts[event.call].answered(event.answers)
                case InputsAnswered():
                    # Its handler has not waited for the answers (a timeout of its own, perhaps): another one starts with them.
                    self._queue[event.call] = None
        if self._queue:
            self._start_waiting()
        self._set_timer()

    def _start_waiting(self) -> None:
        if self._over:
            self._queue.clear()  # nobody will read what they would say
        if self._starting:
            return  # a handler was done as soon as it was started: whoever started it goes on
        self._starting = True
        try:
            # While the peer does not read, no more answers are made: those that wait to be read are enough.
            while self._queue and self._draining is None and len(self._contexts) - self._parked - self._beside < self._max_running:
                call, _ = self._queue.popitem(last=False)
                self._start(Context(call, self, self._lifespan), self._handler)
        finally:
            self._starting = False
        self._rest_if_idle()

    def _rest_if_idle(self) -> None:
        if not self._queue and len(self._contexts) == len(self._listens):
            self._idle.set()

    def _start(self, context: Context, handler: Next) -> None:
        self._contexts[context.call] = context  # first: with an eager task factory the handler may be done when its task is made
        context.task = self.loop.create_task(self._work(context, handler), name="twopipes handler")
        if self.process.is_forked:
            come_back()  # an eager task has forked, and this is the child

    def _start_own(self, call: Call) -> None:
        """Starts what the session can do by itself: at once, and in the order in which it came, however busy the handlers are."""
        around = self._around_own
        if not self._over:  # else nobody will read what they would say
            context = Context(call, self, self._lifespan)
            context.is_beside = True
            self._beside += 1
            self._start(context, self._perform if around is None else lambda context: around(context, self._perform))

    async def _perform(self, context: Context) -> Result:
        call = context.call
        if call.method != "subscriptions/listen":
            return self.session.perform(call)
        self.session.listen(call)
        over: asyncio.Future[Result] = self.loop.create_future()
        self._listens[call] = over
        self._flush_soon()
        self._rest_if_idle()
        try:
            return await over
        finally:
            self._listens.pop(call, None)
            self.session.end_listen(call)  # unless it has ended already: whoever stands around it ends it
            self._flush_soon()

    def _end_listen(self, call: Call) -> Result:
        result = self.session.end_listen(call)
        over = self._listens[call]
        if not over.done():
            over.set_result(result)
        return result

    async def _work(self, context: Context, handler: Next) -> None:
        call = context.call
        context.is_begun = True
        try:
            try:
                result = await handler(context)
            except BaseException as error:
                if self.process.is_forked:
                    leave(error)
                raise
            if self.process.is_forked:
                leave()
            context.tell_all()
            if context.has_progressed:
                await self._keep_a_distance(context)
            self.session.respond(call, result)
        except asyncio.CancelledError:
            if context.has_progressed and not context.cancelled:
                await self._keep_a_distance(context)
            context.cancelled.set()
            # The peer may still wait: this can come from the author's code, not only from a cancelled call.
            self.session.fail(call, InternalError("the handler was cancelled"))
            raise
        except KeyboardInterrupt:
            self.session.fail(call, InternalError("the handler was interrupted"))
            raise  # it ends the program, as everywhere; the response is sent on the way out
        except BaseException as error:  # the server goes on, whatever a handler raises
            if is_no_failure(error, context):
                raise
            context.tell_all()
            if context.has_progressed:
                await self._keep_a_distance(context)
            self.session.fail(call, error)
            if not isinstance(error, McpError):
                self.report(call, error)
        finally:
            self._retire(context)

    def _retire(self, context: Context) -> None:
        """A handler is done: its place is free. Telling so twice changes nothing."""
        if self._contexts.get(context.call) is context:
            context.close()
            del self._contexts[context.call]
            if context.is_beside:
                self._beside -= 1
                over = self._listens.pop(context.call, None)
                if over is not None:
                    over.cancel()  # somebody has answered without waiting for it
            if self._queue:
                self._start_waiting()
            else:
                self._rest_if_idle()
            if self._contexts or self._starting:
                self._flush_soon()
            else:
                self._flush()  # nobody else is about to say anything, so there is nothing to wait for

    def report(self, call: Call, error: BaseException) -> None:
        """Report a failure of a handler to the author."""
        if self._report is not None:
            self._report(call, error)

    def _cancel(self, call: Call) -> None:
        if call in self._queue:
            del self._queue[call]
            self._rest_if_idle()
            return
        context = self._contexts.get(call)
        if context is not None:
            context.cancelled.set()
            if context.task is not None:
                context.task.cancel()
            context.close()
            if not context.is_begun:
                self._retire(context)  # a task that is cancelled before its first turn never comes to its `finally`

    # What handlers say, through their context

    def report_progress(self, context: Context, done: float, total: float | None, message: str | None) -> bool:
        """Reports progress of a call; see :meth:`ServerSession.report_progress`. What comes too fast waits, and the newest wins."""
        if context.is_closed:
            return False
        is_last = total is not None and done >= total
        if not is_last and not context.pace.allows(self.loop.time()):
            if context.postponed is None:
                self.loop.call_later(context.pace.pause, self._report_postponed, context)
            context.postponed = (done, total, message)
            return False
        context.postponed = None
        sent = self.session.report_progress(context.call, done, total, message)
        if sent:
            context.has_progressed = True
            self._flush_soon()
        return sent

    async def _keep_a_distance(self, context: Context) -> None:
        """Send the progress of a call whose handler is done, and wait for a moment before the response.

        Whoever cancels this ends the wait, and nothing else: the handler is done.
        """
        context.close()  # no progress can come now
        with suppress(asyncio.CancelledError):
            await self.drain()
            self._flush()
            await asyncio.sleep(GAP)

    def _report_postponed(self, context: Context) -> None:
        if context.postponed is not None:
            done, total, message = context.postponed
            context.postponed = None
            self.report_progress(context, done, total, message)

    def log(self, context: Context | None, level: LoggingLevel, data: Any, logger: str | None) -> bool:
        """Sends a log message; see :meth:`ServerSession.log`."""
        sent = self.session.log(level, data, logger=logger, call=None if context is None else context.call)
        if sent:
            self._flush_soon()
        return sent

    def ask(self, call: Call, questions: Mapping[str, InputRequest]) -> dict[str, Any] | None:
        """Asks the client on behalf of a call; see :meth:`ServerSession.ask`."""
        answers = self.session.ask(call, questions, now=asyncio.get_running_loop().time())
        self._flush_soon()
        self._set_timer()
        return answers

    def announce(self, change: Change) -> None:
        """Tells the peer of a change if it wants to hear of it. Equal changes within one write are told once."""
        self.session.announce(change)
        self._flush_soon()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Calls a function in the event loop of the connection: at once if this is it, soon from any other thread."""
        if threading.get_ident() == self.thread_id:
            function(*arguments)
        else:
            with suppress(RuntimeError):  # the loop is closed, and the connection with it
                self.loop.call_soon_threadsafe(function, *arguments)

    @contextmanager
    def parked(self, context: Context) -> Generator[None, None, None]:
        """While a handler waits for the client, another one may work in its place; one, however many things it asks."""
        context.waits += 1
        if context.waits == 1 and not context.is_beside:
            self._parked += 1
            self._start_waiting()
        try:
            yield
        finally:
            context.waits -= 1
            if context.waits == 0 and not context.is_beside:
                self._parked -= 1

    # What goes out

    @property
    def is_full(self) -> bool:
        """Whether the peer does not read."""
        return self._draining is not None

    async def breathe(self) -> None:
        """Lets the rest of the program have its turn, so that what was said is sent, and waits while the peer does not read."""
        await asyncio.sleep(0)
        await self.drain()

    async def drain(self) -> None:
        """Waits while the peer does not read. Raises nothing: a peer that is gone ends the read loop, not the handlers."""
        draining = self._draining
        if draining is not None:
            await asyncio.wait([draining])

    def _flush_soon(self) -> None:
        if not self._flushing and not self._over:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._over or self._draining is not None:
            return  # what is said meanwhile stays in the session, where equal announcements are one
        data = self.session.data_to_send()
        if not data:
            return
        try:
            self.channel.write(data)
        except (ChannelBroken, ChannelClosed):
            self._lose()
            return
        if self.channel.buffered:
            self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        try:
            await self.channel.drain()
        except (ChannelBroken, ChannelClosed):
            self._lose()
        finally:
            self._draining = None
        for context in list(self._contexts.values()):
            context.tell_held()
        self._flush_soon()
        self._start_waiting()

    def _lose(self) -> None:
        """Nobody reads any more, so there is nobody to serve: the read loop is woken and ends."""
        self._over = True
        self._idle.set()
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self.channel.close())

    # Time

    def _set_timer(self) -> None:
        deadline = self.session.next_deadline()
        if self._timer is not None:
            if deadline is not None and self._timer.when() <= deadline:
                return  # it will be set anew when it rings
            self._timer.cancel()
            self._timer = None
        if deadline is not None and not self._over:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(deadline, loop.time()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._handle(self.session.tick(now=asyncio.get_running_loop().time()))
        self._flush_soon()
