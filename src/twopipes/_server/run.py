"""``server.run()``: serve until the end of the process, without a traceback.

On stdio: reserve standard input and output for the protocol, serve, and end when the input ends, after a signal or when the parent
process dies. Running handlers then get some time to finish.
"""

from __future__ import annotations

import asyncio
import os
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
    """Serve until the end; see :meth:`twopipes._server.app.Server.run`.

    Raises:
        LocalProtocolError: An event loop is running already.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise LocalProtocolError(
            "run() starts an event loop, and one is already running; use await server.serve(), which takes unix= and tcp= too"
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
        _explain_on_terminal(server, guard)
        run_stdio(server, guard, trace, redact, parent=parent)


async def serve_standard_streams(server: Server, trace: Trace | None, redact: Iterable[str]) -> None:
    """Serve standard input and output in a running event loop, until the input ends or it is cancelled."""
    with _guarded(server) as guard:
        _explain_on_terminal(server, guard)
        await serve_in_a_loop(server, guard, trace, redact)


def _explain_on_terminal(server: Server, guard: Guard) -> None:
    if os.isatty(guard.stdin_fd):
        guard.log.write(_HINT.format(name=server.info.name))


@contextmanager
def _guarded(server: Server) -> Generator[Guard, None, None]:
    """Take standard input and output, unless they are taken already, and give them back at the end."""
    taken = Guard.current()
    if taken is not None:
        yield taken
        return
    guard = Guard.take()
    try:
        yield guard
    finally:
        # A thread cannot be stopped, and one that still runs a tool could print to the protocol's stdout.
        if not server._workers.busy:
            guard.restore()


_HINT = (
    "{name} is an MCP server: it waits for a host to write JSON messages to its standard input, one per line. Put this command "
    "into your host's configuration. Press Ctrl-D to end it.\n"
)
