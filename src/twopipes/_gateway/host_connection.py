"""The connection of one host to the gateway over a channel."""

from __future__ import annotations

import asyncio
from typing import Final

from twopipes._server.connection import ServerConnection

# Seconds between two looks at a host that has closed its output. They are made only while its calls finish.
_INTERVAL: Final = 0.05


class HostConnection(ServerConnection):
    """Serves one host to its end.

    After the end of its input a host gets the responses to its open calls. One that was killed reads none of them, so its calls are
    cancelled at once: otherwise the gateway and the server would outlive it.
    """

    async def finish(self, seconds: float) -> bool:
        """As :meth:`ServerConnection.finish`, as long as the host can read."""
        watching = asyncio.create_task(self._watch_reader(), name=f"watch the reader of {self.channel.description}")
        try:
            return await super().finish(seconds)
        finally:
            watching.cancel()

    async def _watch_reader(self) -> None:
        while not self.channel.is_reader_gone:
            await asyncio.sleep(_INTERVAL)
        self._lose_peer()
