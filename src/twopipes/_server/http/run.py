"""``server.run(http=...)`` and ``server.serve(http=...)``: one process, or several that share a socket."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twopipes._http.auth import Auth, Verifier
from twopipes._http.bus import Bus
from twopipes._http.options import HttpOptions
from twopipes._process.parent import watch_parent
from twopipes._server.http.app import HttpApp
from twopipes._server.http.listen import HttpAddress, open_socket, parse_http_address, url_of
from twopipes._server.http.uvicorn_server import make_uvicorn, raise_file_limit
from twopipes._server.http.workers import Supervisor, Worker
from twopipes._server.log import logger, show_log_on_stderr
from twopipes._server.loop_watchdog import Watchdog
from twopipes._server.shutdown import GRACE, Ending, LastResort, ended_by_signals
from twopipes.errors import LocalProtocolError

if TYPE_CHECKING:
    from twopipes._server.app import Server

# Seconds for what follows the handlers at the end: closing connections, the lifespan, the last writes.
_AFTER_DRAIN: Final = 2 * GRACE
# Whether processes can listen on the same socket.
_CAN_SHARE_A_SOCKET: bool = sys.platform != "win32"


class HttpSetup(NamedTuple):
    """How a server is served over HTTP: the options of ``run`` and ``serve``."""

    address: HttpAddress
    options: HttpOptions
    auth: Auth | Verifier | None
    bus: Bus | None

    @classmethod
    def of(
        cls,
        http: str | int,
        options: HttpOptions | None = None,
        auth: Auth | Verifier | None = None,
        bus: Bus | None = None,
    ) -> HttpSetup:
        """Check the address.

        Raises:
            LocalProtocolError: It is neither a port nor ``HOST:PORT``.
        """
        return cls(parse_http_address(http), options or HttpOptions(), auth, bus)

    def listen(self) -> socket.socket:
        """Open the socket; a worker takes the one of the main process."""
        worker = Worker.take()
        return open_socket(self.address, self.options, has_auth=self.auth is not None) if worker is None else worker.socket


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the event loop: uvloop if it is installed, as uvicorn does."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def run_workers(server: Server[Any], setup: HttpSetup, count: int) -> bool:
    """Start and supervise worker processes until the end. Return False if this process has to serve itself.

    Raises:
        LocalProtocolError: The number is not valid here.
        ListenFailed: The address is in use or not available.
        SystemExit: The workers cannot be kept running.
    """
    if type(count) is not int or count < 1:
        raise LocalProtocolError(f"workers= must be an integer of at least 1, got {count!r}")
    if count == 1 or Worker.take() is not None:
        return False
    if not _CAN_SHARE_A_SOCKET:
        raise LocalProtocolError("workers= needs a system that can share a socket; on Windows start one process per port")
    show_log_on_stderr()
    raise_file_limit()
    with setup.listen() as sock:
        logger.info("%s listens on %s with %d workers", server.info.name, url_of(sock, setup.address, setup.options), count)
        if not asyncio.run(_supervise(sock, count, server.settings.drain + _AFTER_DRAIN + GRACE)):
            raise SystemExit(1)
    return True


async def _supervise(sock: socket.socket, count: int, patience: float) -> bool:
    return await Supervisor(sock, count, patience=patience).run()


async def serve_http(server: Server[Any], setup: HttpSetup, last_resort: LastResort | None = None) -> None:
    """Serve until it is cancelled. With a ``last_resort`` the process belongs to the server; then a signal ends it, too."""
    drain = server.settings.drain
    worker = Worker.take()
    bus = worker.peers.bus() if setup.bus is None and worker is not None else setup.bus
    app = HttpApp(server, setup.options, auth=setup.auth, bus=bus, peers=None if worker is None else worker.peers)
    uvicorn = make_uvicorn(app, setup.options, lambda: app.drain(drain), patience=drain + GRACE)
    ending = Ending()
    async with AsyncExitStack() as stack:
        if last_resort is not None:
            raise_file_limit()
            _own_process(server, stack, ending, last_resort, drain + _AFTER_DRAIN)
        sock = stack.enter_context(setup.listen())
        sockets = [sock] if worker is None else [sock, stack.enter_context(worker.peers.listen())]
        await app.start()
        stack.push_async_callback(app.stop)
        if last_resort is not None:
            # Everything so far stays until the end. Collections during requests need not look at it.
            gc.freeze()
        serving = asyncio.create_task(uvicorn.serve(sockets=sockets), name="twopipes uvicorn")
        begun = asyncio.create_task(ending.begun.wait())
        _report_ready(server, setup, sock)
        try:
            await asyncio.wait({serving, begun}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            drain = 0.0  # the program does not wait for its handlers
            raise
        finally:
            begun.cancel()
            uvicorn.should_exit = True
            await serving


def _report_ready(server: Server[Any], setup: HttpSetup, sock: socket.socket) -> None:
    worker = Worker.take()
    if worker is None:
        logger.info("%s listens on %s", server.info.name, url_of(sock, setup.address, setup.options))
    else:
        worker.report_ready()


def _own_process(server: Server[Any], stack: AsyncExitStack, ending: Ending, last_resort: LastResort, seconds: float) -> None:
    """End by signals, and report what blocks the event loop. A worker also ends with the main process."""
    if server.settings.blocked_after is not None:
        stack.callback(Watchdog(server.settings.blocked_after, lambda text: logger.warning("%s", text.removesuffix("\n"))).stop)
    stack.enter_context(ended_by_signals(ending, last_resort, seconds))
    if Worker.take() is not None:
        watching = asyncio.create_task(watch_parent(os.getppid()))
        watching.add_done_callback(lambda _: ending.begun.set())
        stack.callback(watching.cancel)
