"""``server.run()``: from a process that was just launched to one that has ended, without a traceback.

On stdio: take standard input and output away from everybody else, serve, and end when the input ends, when a signal says so or
when the process that launched us dies. What is in flight then is finished and sent, for a while.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twopipes._channels.stdout_guard import Guard
from twopipes._server.launch import Launch
from twopipes._server.serve import run_sockets, run_stdio, serve_in_a_loop
from twopipes.errors import LocalProtocolError

if TYPE_CHECKING:
    from twopipes._server.app import Server
    from twopipes._server.wire_log import Trace

__all__ = ["run", "serve_standard_streams"]


def run(
    server: Server,
    *,
    unix: str | os.PathLike[str] | None = None,
    tcp: tuple[str, int] | None = None,
    trace: Trace | None = None,
    redact: Iterable[str] = (),
) -> None:
    """Serves until there is nobody left to serve; see :meth:`twopipes._server.app.Server.run`.

    Raises:
        LocalProtocolError: An event loop is running already.
    """
    asyncio = sys.modules.get("asyncio")  # without it there is no event loop
    if asyncio is not None and asyncio._get_running_loop() is not None:
        raise LocalProtocolError(
            "run() starts an event loop, and one is running here already; use await server.serve(), which takes unix= and tcp= too"
        )
    launch = Launch.current
    if launch is not None:
        launch.has_served = True
        trace = launch.trace or trace
        if launch.unix is not None or launch.tcp is not None:
            unix, tcp = launch.unix, launch.tcp
    if unix is not None or tcp is not None:
        run_sockets(server, unix=unix, tcp=tcp, trace=trace, redact=redact)
    else:
        _run_stdio(server, trace, redact)


def _run_stdio(server: Server, trace: Trace | None, redact: Iterable[str]) -> None:
    parent = os.getppid()
    with _guarded(server) as guard:
        _greet(server, guard)
        run_stdio(server, guard, trace, redact, parent=parent)


async def serve_standard_streams(server: Server, trace: Trace | None, redact: Iterable[str]) -> None:
    """Serves standard input and output inside of an event loop that somebody else runs, until the input ends or it is cancelled."""
    with _guarded(server) as guard:
        _greet(server, guard)
        await serve_in_a_loop(server, guard, trace, redact)


def _greet(server: Server, guard: Guard) -> None:
    if os.isatty(guard.stdin_fd):
        guard.log.write(_HINT.format(name=server.info.name))


@contextmanager
def _guarded(server: Server) -> Generator[Guard, None, None]:
    """Standard input and output, taken if nobody has taken them, and then given back to a program that goes on."""
    held = Guard.current()
    if held is not None:
        yield held
        return
    guard = Guard.take()
    try:
        yield guard
    finally:
        # No thread can be stopped, and one that still works for a tool could print onto the wire.
        if not server._workers.busy:
            guard.restore()


_HINT = (
    "{name} is an MCP server: it waits for a host to speak on its standard input, one JSON message per line. Put this command "
    "into your host's configuration. Ctrl-D ends it.\n"
)
