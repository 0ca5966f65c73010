"""The ASGI server: uvicorn, with the limits of an application and its way to end."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final

from twopipes._http.options import HttpOptions
from twopipes._server.http.asgi import Application
from twopipes._server.http.uvicorn_protocol import bounded_protocol
from twopipes.errors import LocalProtocolError

try:
    import uvicorn
except ImportError as error:
    raise LocalProtocolError("serving over HTTP needs an ASGI server; run: pip install 'twopipes[http]'") from error

# Seconds that an idle connection is kept. Longer than the 60 s of nginx, so that nginx never sends a request on a closed one.
_IDLE: Final = 75
# Connections beyond those with a request: idle ones, and those that get the answer that there are too many requests.
_SPARE_CONNECTIONS: Final = 1_000
# Seconds, at the end, for a request on a connection that has had none. A client that opens a connection uses it at once.
FIRST_REQUEST: Final = 0.5
_POLL: Final = 0.01
# Turns of the event loop, at the end, for connections that wait to be accepted: uvloop accepts one per turn.
_LAST_TURNS: Final = 100


class UvicornServer(uvicorn.Server):
    """A uvicorn that leaves signals to its caller, and lets the application finish. Set ``should_exit`` to end it.

    Args:
        config: The configuration.
        drain: Called when no connection is accepted any more and the idle ones are closed. Each of the others has a request,
            which the application may finish.
    """

    def __init__(self, config: uvicorn.Config, drain: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._drain = drain

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Do nothing."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, let the application finish, and close every connection."""
        await self._stop_accepting()
        await self._wait_for_first_requests()
        draining = asyncio.ensure_future(self._drain())  # starts when the next method waits for the first time
        try:
            await super().shutdown(sockets)
        finally:
            await draining

    async def _stop_accepting(self) -> None:
        """Accept the connections that have waited for it, and close the listening sockets."""
        for _ in range(_LAST_TURNS):
            await asyncio.sleep(0)
        # asyncio accepts a connection in one turn of the loop and makes its transport in the next. If the server is closed in
        # between, the connection is lost, and Python 3.13 prints a traceback (_SelectorTransport.__del__).
        loop = asyncio.get_running_loop()
        for sock in (sock for server in self.servers for sock in server.sockets):
            with suppress(NotImplementedError):  # Windows, where both are one step
                loop.remove_reader(sock.fileno())
        await asyncio.sleep(0)
        for server in self.servers:
            server.close()

    async def _wait_for_first_requests(self) -> None:
        """Let the connections that were accepted last send a request; a balancer does not send it again to another process."""
        connections: set[Any] = self.server_state.connections
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_REQUEST):
                await asyncio.sleep(0)  # asyncio makes the protocol of a connection after it has accepted it
                while any(connection.cycle is None for connection in connections):
                    await asyncio.sleep(_POLL)


def make_uvicorn(app: Application, options: HttpOptions, drain: Callable[[], Awaitable[None]], *, patience: float) -> UvicornServer:
    """Return a server for an application that is started and stopped by the caller.

    After ``patience`` seconds at the end, connections that are still open are closed.
    """
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=bounded_protocol(read_timeout=options.read_timeout, write_timeout=options.write_timeout),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=options.max_requests + options.max_streams + _SPARE_CONNECTIONS,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=max(1, round(patience)),
    )
    return UvicornServer(config, drain)


def raise_file_limit() -> None:
    """Allow as many open files as the system permits: each connection is one, and the usual limit is 1,024."""
    if sys.platform != "win32":
        import resource

        with suppress(OSError, ValueError):
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
