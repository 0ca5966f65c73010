"""One session running over one channel: reading, writing, flow control and deadlines. The pump is what HTTP shares with it.

The read loop never waits for a handler or a callback. All messages of one iteration of the event loop leave in one write. While a
write waits for the peer, further messages stay in the session; whether reading goes on meanwhile is decided by each side
(docs/decisions/0005 and 0024).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from twopipes._channels.base import READ_SIZE, Channel
from twopipes._session.base import Session
from twopipes._session.events import Event
from twopipes.errors import ChannelBroken, ChannelClosed

S = TypeVar("S", bound=Session)


class SessionPump(ABC, Generic[S]):
    """Runs a session: handles its events, watches its deadlines, and sends its messages once in each turn of the event loop."""

    def __init__(self, session: S) -> None:
        self.session = session
        self.loop = asyncio.get_running_loop()
        self._is_over = False  # nothing can be written any more
        self._is_flush_scheduled = False
        self._timer: asyncio.TimerHandle | None = None

    @abstractmethod
    def _handle(self, events: list[Event]) -> None:
        """React to the events of the session."""

    @abstractmethod
    def _flush(self) -> None:
        """Send the messages of the session, as far as possible."""

    def _flush_soon(self) -> None:
        if not self._is_flush_scheduled and not self._is_over:
            self._is_flush_scheduled = True
            self.loop.call_soon(self._flush)

    def _process(self, events: list[Event]) -> None:
        """Handle events that nothing received has caused."""
        self._handle(events)
        self._set_timer()
        self._flush_soon()

    def _set_timer(self) -> None:
        deadline = self.session.next_deadline()
        timer = self._timer
        if timer is not None:
            if deadline is not None and timer.when() <= deadline:
                return  # it is set again when it fires
            timer.cancel()
            self._timer = None
        if deadline is not None and not self._is_over:
            self._timer = self.loop.call_at(max(deadline, self.loop.time()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._process(self.session.tick(now=self.loop.time()))


class Connection(SessionPump[S]):
    """Runs a session over one channel.

    Args:
        session: The protocol.
        channel: The byte stream.

    Attributes:
        sent: The number of bytes written to the channel.
        received_anything: Whether the peer has written anything.
    """

    def __init__(self, session: S, channel: Channel, **more: Any) -> None:
        super().__init__(session, **more)  # more is for the runner of a server, which comes after this class
        self.channel = channel
        self.sent = 0
        self.received_anything = False
        self._draining: asyncio.Task[None] | None = None
        self._taken = 0  # the part of session.responded that has left our buffer
        self._closing: asyncio.Task[None] | None = None

    # Implemented by each side

    @abstractmethod
    def _must_wait(self) -> bool:
        """Whether reading stops while the peer does not read."""

    @abstractmethod
    async def _wait_for_peer(self) -> bool:
        """Wait until reading may go on. False ends it."""

    @abstractmethod
    def _lose_peer(self) -> None:
        """Stop writing, because the peer does not read any more."""

    def _drained(self) -> None:
        """Continue with what was postponed while the peer did not read."""

    # Reading

    async def _read(self) -> None:
        """Read until the peer closes its side, the channel breaks, or :meth:`_wait_for_peer` gives up."""
        self.channel.offer_to(self._take)
        try:
            while chunk := await self.channel.read():
                if self._draining is not None and not await self._wait_for_peer():
                    return
                self._receive(chunk)
                if len(chunk) >= READ_SIZE:
                    await asyncio.sleep(0)  # more data is ready; let handlers and callers run first
        except (ChannelBroken, ChannelClosed):
            self._is_over = True

    def _take(self, chunk: bytes) -> bool:
        """Handle a chunk in the callback of the channel. False leaves it to :meth:`_read`, which can wait."""
        if len(chunk) >= READ_SIZE or (self._draining is not None and self._must_wait()):
            return False
        self._receive(chunk)
        return True

    def _receive(self, chunk: bytes) -> None:
        self.received_anything = True
        self._handle(self.session.receive(chunk, now=self.loop.time()))
        self._set_timer()
        if self.session.outbox:
            self._flush()

    # Writing

    @property
    def is_blocked(self) -> bool:
        """Whether a write waits for the peer."""
        return self._draining is not None

    async def drain(self) -> None:
        """Wait while the peer does not read. Raises nothing: a peer that is gone ends the read loop, not the handlers."""
        if self._draining is not None:
            await asyncio.wait([self._draining])

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        if self._is_over or self._draining is not None:
            return  # further messages stay in the session, where equal announcements become one
        data = self.session.data_to_send()
        if not data:
            return
        try:
            self.channel.write(data)
        except (ChannelBroken, ChannelClosed):
            self._lose_peer()
            return
        self.sent += len(data)
        if self.channel.buffered:
            draining = self.loop.create_task(self._drain(self.session.responded))
            if not draining.done():  # with an eager task factory it may be done before this line
                self._draining = draining
        else:
            self._taken = self.session.responded

    async def _drain(self, responded: int) -> None:
        try:
            await self.channel.drain()
            self._taken = responded
        except (ChannelBroken, ChannelClosed):
            self._lose_peer()
        finally:
            self._draining = None
        self._drained()
        self._flush_soon()

    # The end

    def _close_soon(self) -> None:
        """Close the channel, which ends the read loop."""
        if self._closing is None:
            self._closing = self.loop.create_task(self.channel.close())

    async def close(self) -> None:
        """Stop writing and close the channel."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._draining is not None:
            self._draining.cancel()
        await self.channel.close()
