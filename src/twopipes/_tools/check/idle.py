"""How a server behaves while nothing is asked of it: whether it stays, and how long its first answer takes.

A server without the database, the key or the browser that it needs may exit by itself. What such a server leaves unanswered breaks
no rule, and neither does what a server leaves unanswered that has not started yet. So findings from a conversation that the server
ended, or in which it was silent from the start, are compared with a conversation in which nothing is asked.
"""

from __future__ import annotations

import asyncio

from twopipes._tools.check.conversation import CannotOpen
from twopipes._tools.check.server_source import ServerTarget
from twopipes.errors import ChannelBroken, StartFailed

__all__ = ["IdleControl"]

# Seconds. A server that stays idle for this long is taken for one that stays.
_LONGEST = 10.0
# How much longer one start may take than another, on a machine that is busy.
_MARGIN = 3.0


class IdleControl:
    """Opens conversations in which nothing is asked, as few as possible, and tells whether the server ends them.

    Args:
        target: The server.
    """

    def __init__(self, target: ServerTarget) -> None:
        self._target = target
        self._lock = asyncio.Lock()
        self._stayed: dict[str, float] = {}  # by revision, for how many seconds it is known to stay
        self._left: set[str] = set()
        self._start: dict[str, float] = {}  # by revision, how many seconds the first answer took

    async def exits_by_itself(self, revision: str, lived: float) -> bool:
        """Tells whether the server also ends a conversation in which nothing is asked.

        Args:
            revision: That is spoken.
            lived: After how many seconds it ended the conversation in question.
        """
        async with self._lock:
            if revision not in self._left and self._stayed.get(revision, -1.0) < min(lived, _LONGEST):
                await self._look(revision, min(lived, _LONGEST))
            return revision in self._left

    async def starts_slowly(self, revision: str, silence: float) -> bool:
        """Tells whether the server may need so long for its first answer as it was silent in the conversation in question.

        Args:
            revision: That is spoken.
            silence: Seconds without any answer.
        """
        async with self._lock:
            if revision not in self._start:
                await self._look(revision, 0.0)
            return self._start.get(revision, 0.0) * _MARGIN > silence

    async def _look(self, revision: str, seconds: float) -> None:
        try:
            conversation = await self._target.open()
        except (StartFailed, ChannelBroken):
            return  # which tells nothing about the conversation in question
        conversation.judged = False
        try:
            await conversation.open(revision)
            # From its start, as the other was measured; and a little longer, since no two starts take the same time.
            if await conversation.ended(max(0.0, seconds - conversation.age) + self._target.timeouts.grace):
                self._left.add(revision)
        except CannotOpen:
            if conversation.is_over:
                self._left.add(revision)
        finally:
            await conversation.close()
        self._stayed[revision] = seconds
        self._start[revision] = conversation.silence
