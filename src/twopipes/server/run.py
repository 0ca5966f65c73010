"""``server.run()``: from a process that was just launched to one that has ended, without a traceback.

On stdio: take standard input and output away from everybody else, serve, and end when the input ends, when a signal says so or
when the process that launched us dies. What is in flight then is finished and sent, for a while.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twopipes.channels.guard import Guard
from twopipes.errors import LocalProtocolError
from twopipes.server.first_words import first_words
from twopipes.server.launch import Launch

if TYPE_CHECKING:
    from twopipes.server.app import Server
    from twopipes.server.tracing import Trace

__all__ = ["run"]


def run(
    server: Server,
    *,
    unix: str | os.PathLike[str] | None = None,
    tcp: tuple[str, int] | None = None,
    trace: Trace | None = None,
) -> None:
    """Serves until there is nobody left to serve; see :meth:`twopipes.server.app.Server.run`.

    Raises:
        LocalProtocolError: An event loop is running already.
    """
    asyncio = sys.modules.get("asyncio")  # without it there is no event loop
    if asyncio is not None and asyncio._get_running_loop() is not None:  # noqa: SLF001 - the question that does not raise
        raise LocalProtocolError("run() starts an event loop, and one is running here already; use await server.serve(...)")
    launch = Launch.current
    if launch is not None:
        launch.has_served = True
        trace = launch.trace or trace
        if launch.unix is not None or launch.tcp is not None:
            unix, tcp = launch.unix, launch.tcp
    if unix is not None or tcp is not None:
        from twopipes.server.serving import run_sockets  # noqa: PLC0415 - see _run_stdio

        run_sockets(server, unix=unix, tcp=tcp, trace=trace)
    else:
        _run_stdio(server, trace)


def _run_stdio(server: Server, trace: Trace | None) -> None:
    parent = os.getppid()
    with _guarded(server) as guard:
        if os.isatty(guard.stdin_fd):
            guard.log.write(_HINT.format(name=server.info.name))
        begun = first_words(server, guard.stdin_fd, guard.stdout_fd, is_traced=bool(trace or os.environ.get("TWOPIPES_TRACE")))
        try:
            from twopipes.server.serving import run_stdio  # noqa: PLC0415 - a loop takes its time; the first answer is out by now

            run_stdio(server, guard, trace, parent=parent, begun=begun)
        finally:
            if begun is not None:
                begun.put_back_signals()


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
        if not server.threads_at_work:
            guard.restore()


_HINT = (
    "{name} is an MCP server: it waits for a host to speak on its standard input, one JSON message per line. Put this command "
    "into your host's configuration. Ctrl-D ends it.\n"
)
