"""The link between an application and its bus: changes of this process go out, changes of others come in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from twopipes._http.bus import Bus
from twopipes._server.call_runner import CallRunner
from twopipes._server.log import logger
from twopipes._session.subscriptions import Change
from twopipes.errors import InternalError

LOST = "the server cannot report changes at the moment; subscribe again later, and then list again what you watch"


class BusLink:
    """Connects the connections of one application to its bus.

    Args:
        bus: The bus. It is opened and closed here.
        connections: Returns the connections of the application, whose subscribers get the changes of other processes.
    """

    def __init__(self, bus: Bus, connections: Callable[[], Iterable[CallRunner]]) -> None:
        self._bus = bus
        self._connections = connections
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0

    @property
    def is_connected(self) -> bool:
        """Whether changes of other processes arrive, so that a subscription can keep what it promises."""
        return self._bus.is_connected

    async def open(self) -> None:
        """Open the bus in the running event loop. A bus that cannot connect yet keeps trying."""
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        await self._bus.open(self._deliver, self._lose, self._report_everything)

    async def close(self) -> None:
        """Close the bus; it may send what remains."""
        self._loop = None
        await self._bus.close()

    def publish(self, change: Change) -> None:
        """Publish a change, from any thread. Before :meth:`open` and after :meth:`close` it has no effect."""
        loop = self._loop
        if loop is None:
            return
        if threading.get_ident() == self._thread_id:
            self._bus.publish(change)
        else:
            with suppress(RuntimeError):  # the loop is closed, and the application with it
                loop.call_soon_threadsafe(self._bus.publish, change)

    # Callbacks of the bus

    def _deliver(self, change: Change) -> None:
        for connection in list(self._connections()):
            connection.announce(change)

    def _lose(self, reason: str) -> None:
        logger.warning("the bus is not connected (%s); subscriptions end and new ones are refused until it is", reason)
        for connection in list(self._connections()):
            connection.fail_listens(InternalError(LOST))

    def _report_everything(self) -> None:
        for connection in list(self._connections()):
            connection.announce_everything()
