"""One connection of one server: a session and its handlers over one channel.

While the peer does not read, nothing more is read from it, and no further handler is started.
"""

from __future__ import annotations

import asyncio

from twopipes._connection import Connection
from twopipes._server.call_runner import CallRunner
from twopipes._session.ledger import Call
from twopipes._session.server import ServerSession
from twopipes.errors import ChannelBroken, ChannelClosed


class ServerConnection(Connection[ServerSession], CallRunner):
    """Serves one channel to its end."""

    async def run(self) -> None:
        """Read until the peer closes its side or the channel breaks. Running handlers go on; see :meth:`finish`."""
        await self._read()
        self._process(self.session.receive_eof(now=self.loop.time()))
        self._flush()

    def _must_wait(self) -> bool:
        return True

    async def _wait_for_peer(self) -> bool:
        await self.drain()
        return True

    def is_blocked_for(self, call: Call) -> bool:
        """Whether a write waits for the peer."""
        return self.is_blocked

    async def drain_for(self, call: Call) -> None:
        """Wait while the peer does not read."""
        await self.drain()

    async def _flush_completely(self) -> None:
        """Wait until the system has taken everything that was sent."""
        try:
            while not self._is_over:
                self._flush()
                await self.channel.flush()
                if self._draining is None:
                    return
                await asyncio.wait([self._draining])
        except (ChannelBroken, ChannelClosed):
            self._is_over = True

    def _drained(self) -> None:
        for context in list(self._contexts.values()):
            context._send_held_unless_blocked()
        self._start_queued()

    def _lose_peer(self) -> None:
        self._is_over = True
        self._fewer_open.set()
        self._close_soon()
