"""The daemon of ``twopipes keep --share``: one process of a user that runs the servers which several hosts share."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from twopipes._channels.base import Channel
from twopipes._channels.sockets import listen_unix
from twopipes._gateway.daemon.control_server import ControlServer, log_error, reply
from twopipes._gateway.daemon.requests import Request, ServeRequest, sharing_key
from twopipes._gateway.daemon.service import ID_LENGTH, Kept, Service
from twopipes._process.stderr import StderrLine, StderrTail
from twopipes._server.app import Server
from twopipes._server.shutdown import Ending, LastResort, ended_by_signals
from twopipes._server.wire_log import Tracing
from twopipes.errors import TwopipesError

OpenKept = Callable[[ServeRequest, Callable[[StderrLine], object]], tuple[Server, Kept, Tracing | None]]

# Seconds that a new daemon waits for the relay that started it, which may have been killed. A slower relay starts another daemon.
FIRST_REQUEST_WITHIN: Final = 1.0
# Seconds from a signal to the end of the process, whatever still runs.
END_WITHIN: Final = 15.0


class Daemon(ControlServer):
    """Serves the hosts of one user until the last server has ended.

    Args:
        path: The socket.
        open_kept: Makes the front and the back of a server; see :class:`Service`.
        log: The last lines that the daemon itself has logged.
    """

    def __init__(self, path: str, open_kept: OpenKept, log: StderrTail) -> None:
        super().__init__("daemon", time.time())
        self._path = path
        self._open_kept = open_kept
        self._log = log
        # The servers by sharing key; one that hosts cannot share is there as long as its first host uses it.
        self._by_key: dict[str, Service] = {}
        self._services: set[Service] = set()
        self._connections = 0
        self._is_new = True  # no host has come yet, and the first may still come
        self._ending = Ending()

    async def run(self, last_resort: LastResort, ready: Callable[[], object]) -> None:
        """Listen, call ``ready``, and serve until no server is left or a signal arrives. Raises ``ListenFailed``."""
        with ended_by_signals(self._ending, last_resort, END_WITHIN):
            listener = await listen_unix(self._path, self.accept, on_error=log_error)
            try:
                ready()
                first = asyncio.get_running_loop().call_later(FIRST_REQUEST_WITHIN, self._no_longer_new)
                await self._ending.begun.wait()
                first.cancel()
                for service in list(self._services):
                    service.end(soon=self._ending.signalled.is_set())
                # From now on a relay that connects starts another daemon. The sessions get their time to finish.
                with suppress(TimeoutError):
                    async with asyncio.timeout(END_WITHIN):
                        await listener.close(cancel_connections=False)
            finally:
                await listener.close()
                await self._all_ended()

    async def _all_ended(self) -> None:
        for service in list(self._services):
            service.end(soon=True)
        await asyncio.gather(*(service.ended() for service in list(self._services)))

    def _no_longer_new(self) -> None:
        self._is_new = False
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        # A connection without a request does not end a new daemon: a second daemon tries so whether the socket is in use.
        if not self._is_new and not self._connections and not self._services:
            self._ending.begun.set()

    # Hosts

    async def accept(self, channel: Channel) -> None:
        """Handle one connection, of a relay or of a command."""
        self._connections += 1
        try:
            await super().accept(channel)
        finally:
            self._connections -= 1
            self._end_if_unused()

    async def _handle(self, request: Request, channel: Channel) -> None:
        if not self._ending.begun.is_set():  # otherwise the peer sees the end of the connection, and starts another daemon
            await super()._handle(request, channel)

    async def _serve(self, request: ServeRequest, channel: Channel) -> None:
        try:
            service = await self._service_for(request)
        except (TwopipesError, OSError) as error:
            await reply(channel, {"error": str(error)})
            return
        if service is None:
            return
        with service.used_by(request):
            await reply(channel, {"pid": os.getpid(), "server": service.identity})
            await service.serve(channel)

    async def _service_for(self, request: ServeRequest) -> Service | None:
        """Return the server for a host: one that runs, or a new one. ``None`` if the daemon is about to end."""
        key = sharing_key(request)
        while (found := self._by_key.get(key)) is not None:
            may_join = await found.may_be_joined()
            if self._ending.begun.is_set():
                return None
            if self._by_key.get(key) is found:
                return found if may_join else self._new_service(key, request)
        return self._new_service(key, request)

    def _new_service(self, key: str, request: ServeRequest) -> Service:
        service = Service(self._identity_for(key), request, self._open_kept, on_end=self._forget, on_ended=self._drop)
        self._services.add(service)
        self._is_new = False
        self._by_key.setdefault(key, service)
        return service

    def _identity_for(self, key: str) -> str:
        base = key[:ID_LENGTH]
        taken = {service.identity for service in self._services}
        numbered = (base if number == 1 else f"{base}-{number}" for number in range(1, len(taken) + 2))
        return next(each for each in numbered if each not in taken)

    def _forget(self, service: Service) -> None:
        for key, each in list(self._by_key.items()):
            if each is service:
                del self._by_key[key]

    def _drop(self, service: Service) -> None:
        self._services.discard(service)
        self._end_if_unused()

    # Commands

    def _servers(self) -> Iterable[Service]:
        return self._services

    def _own_lines(self) -> list[str]:
        return self._log.lines()

    async def _stop(self, name: str | None) -> dict[str, Any]:
        if name is not None:
            return await super()._stop(name)
        self._ending.begun.set()
        services = list(self._services)
        for service in services:
            service.end(soon=True)
        await asyncio.gather(*(service.ended() for service in services))
        return self._stopped(services)
