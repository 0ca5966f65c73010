"""A connection over one channel: a byte stream in both directions.

The read loop waits in one case only: when the server sends requests and does not read our responses (docs/decisions/0024).
"""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._channels.base import Channel
from twopipes._client.connection import Cause, ClientConnection
from twopipes._connection import Connection
from twopipes._session.client import ClientSession
from twopipes._session.events import ClientOpened, OpeningEnded

# Seconds to read what is still in the pipe after the server has closed its input.
_FINAL_READ = 0.5


class ChannelConnection(Connection[ClientSession], ClientConnection):
    """Runs a session over one channel. ``collaborators`` are the arguments of :class:`ClientConnection`."""

    def __init__(self, session: ClientSession, channel: Channel, **collaborators: Any) -> None:
        super().__init__(session, channel, **collaborators)
        self._final_read: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> ClientOpened | OpeningEnded:
        """Open the session. After a cancellation the connection must still be closed."""
        self._reading = self.loop.create_task(self._read_to_end())
        return await super().open()

    def end(self, cause: Cause) -> None:
        """End the session from this side and fail all waiting callers. Output that still arrives is read and dropped."""
        super().end(cause)
        if self._final_read is not None:
            self._final_read.cancel()

    async def close(self) -> None:
        """Stop all tasks and close the channel, after :meth:`end`."""
        tasks = [task for task in (self._reading, self._draining, self._closing, *self._answering.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await super().close()

    async def _read_to_end(self) -> None:
        await self._read()
        if not self.ended.done():
            # This may take a moment, so that the errors can say how the server ended.
            self.end(await self._post_mortem())

    def _must_wait(self) -> bool:
        """Whether the server leaves more of our responses unread than ``Limits.max_unsent`` allows."""
        limit = self.session.limits.max_unsent
        return limit is not None and self._draining is not None and self.session.responded - self._taken > limit

    async def _wait_for_peer(self) -> bool:
        """Wait until the server has read enough of our responses. False if it reads nothing during the request timeout.

        Only responses count, because a server can make us produce any number of them. Requests of our callers do not count: a
        server that handles one call at a time may not read until we have read its response.
        """
        timeout = self.session.timeouts.request
        while self._must_wait() and self._draining is not None and not self.ended.done():
            unread = self.channel.buffered
            done, _ = await asyncio.wait([self._draining, self.ended], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not done and self.channel.buffered >= unread:  # a server that reads slowly may continue
                self.why_ended = (
                    f"the server has read nothing for {timeout:.3g} s, while {self.session.responded - self._taken:,} bytes of "
                    "responses to its requests wait for it"
                )
                return False
        return True

    def _lose_peer(self) -> None:
        """Stop writing, because the server closed its input, and give output that is still on its way a moment to arrive."""
        self._is_over = True
        if self._final_read is None and not self.ended.done():
            self._final_read = self.loop.call_later(_FINAL_READ, self.stop_reading)

    def stop_reading(self) -> None:
        """Stop reading, as at the end of file. Another process may hold the server's output open."""
        if self._reading is not None and not self._reading.done():
            self._close_soon()
