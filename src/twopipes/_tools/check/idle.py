"""How a server behaves without requests: whether it keeps running, and how long its first response takes.

A server without the database, the key or the browser that it needs may exit by itself. Requests that it leaves without a response
break no rule, and neither do those of a server that has not started yet. So failures in a conversation that the server ended, or in
which it never responded, are compared with an idle conversation.
"""

from __future__ import annotations

import asyncio

from twopipes._tools.check.messages import CannotOpen
from twopipes._tools.check.server_source import ServerTarget
from twopipes.errors import ChannelBroken, StartFailed

# Seconds. A server that stays idle for this long is assumed to keep running.
_LONGEST = 10.0
# A factor: how much longer one start may take than another, on a busy machine.
_MARGIN = 3.0


class IdleControl:
    """Opens idle conversations, as few as possible, and finds out whether the server ends them."""

    def __init__(self, target: ServerTarget) -> None:
        self._target = target
        self._lock = asyncio.Lock()
        self._stayed: dict[str, float] = {}  # by revision, seconds that the server is known to keep running
        self._left: set[str] = set()
        self._start: dict[str, float] = {}  # by revision, seconds until the first response

    async def exits_by_itself(self, revision: str, lived: float) -> bool:
        """Return whether the server also ends an idle conversation within the seconds after which it ended another one."""
        seconds = min(lived, _LONGEST)
        async with self._lock:
            if revision not in self._left and self._stayed.get(revision, -1.0) < seconds:
                await self._look(revision, seconds)
            return revision in self._left

    async def starts_slowly(self, revision: str, silence: float) -> bool:
        """Return whether the start of the server explains so many seconds without any response."""
        async with self._lock:
            if revision not in self._start:
                await self._look(revision, 0.0)
            return self._start.get(revision, 0.0) * _MARGIN > silence

    async def _look(self, revision: str, seconds: float) -> None:
        try:
            conversation = await self._target.open()
        except (StartFailed, ChannelBroken):
            return  # this says nothing about the conversation in question
        conversation.judged = False
        try:
            await conversation.open(revision)
            # Measured from the start, as the other conversation was, and a little longer, since starts differ.
            if await conversation.ended(max(0.0, seconds - conversation.age) + self._target.timeouts.grace):
                self._left.add(revision)
        except CannotOpen:
            if conversation.is_over:
                self._left.add(revision)
        finally:
            await conversation.close()
        self._stayed[revision] = seconds
        self._start[revision] = conversation.silence
