"""``server.run()`` and ``server.serve()``: standard streams, sockets or HTTP, signals, the death of the parent process, the end.

On stdio: reserve standard input and output for the protocol, serve, and end when the input ends, after a signal or when the parent
process dies. Running handlers then get some time to finish.
"""

from __future__ import annotations

import asyncio
import gc
import os
import select
import sys
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from twopipes._channels.base import Channel
from twopipes._channels.stdio import open_stdio
from twopipes._channels.stdout_guard import Guard
from twopipes._process.parent import watch_parent
from twopipes._server.children import Children
from twopipes._server.hints import check_binding
from twopipes._server.launch import Launch
from twopipes._server.log import logger
from twopipes._server.loop_watchdog import Watchdog
from twopipes._server.shutdown import GRACE, Ending, LastResort, ended_by_signals
from twopipes.errors import LocalProtocolError, TwopipesError

if TYPE_CHECKING:
    from twopipes._http.auth import Auth, Verifier
    from twopipes._http.bus import Bus
    from twopipes._http.options import HttpOptions
    from twopipes._server.app import Server
    from twopipes._server.wire_log import Trace, Tracing

# Seconds to write the rest of a trace to the disk. A host that has closed our input does not wait long.
_CLOSE_TRACE = 1.0
_HINT = (
    "{name} is an MCP server: it waits for a host to write JSON messages to its standard input, one per line. Put this command "
    "into your host's configuration. Press Ctrl-D to end it.\n"
)


def run(
    server: Server,
    *,
    unix: str | os.PathLike[str] | None = None,
    tcp: tuple[str, int] | None = None,
    http: str | int | None = None,
    workers: int | None = None,
    http_options: HttpOptions | None = None,
    auth: Auth | Verifier | None = None,
    bus: Bus | None = None,
    trace: Trace | None = None,
    redact: Iterable[str] = (),
) -> None:
    """Serve until the end; see :meth:`twopipes.Server.run`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise LocalProtocolError(
            "run() starts an event loop, and one is already running; use await server.serve(), which takes http=, unix=, tcp= too"
        )
    launch = Launch.current
    if launch is not None:
        launch.has_served = True
        trace = launch.trace or trace
        if not launch.is_stdio:
            unix, tcp, http = launch.unix, launch.tcp, launch.http
        workers = launch.workers or workers
        if launch.public:
            http_options = _public(http_options)
    of_http = {"workers": workers, "http_options": http_options, "auth": auth, "bus": bus}
    check_binding(http, {"unix": unix, "tcp": tcp, "trace": trace}, of_http)
    if http is not None:
        from twopipes._server.http.run import HttpSetup, loop_factory, run_workers, serve_http  # only if it is requested

        setup = HttpSetup.of(http, http_options, auth, bus)
        if not run_workers(server, setup, 1 if workers is None else workers):
            _run_process(lambda last_resort: serve_http(server, setup, last_resort), loop_factory())
    elif unix is not None or tcp is not None:
        run_sockets(server, unix=unix, tcp=tcp, trace=trace, redact=redact)
    else:
        _run_stdio(server, trace, redact)


def _public(options: HttpOptions | None) -> HttpOptions:
    """Return the options for an address that other machines can reach."""
    from msgspec.structs import replace  # only for HTTP

    from twopipes._http.options import HttpOptions  # likewise

    return replace(options or HttpOptions(), public=True)


def _run_stdio(server: Server, trace: Trace | None, redact: Iterable[str]) -> None:
    parent = os.getppid()
    with _guarded(server) as guard:
        channel, tracing = _open_stdio(guard, trace, redact)
        children = Children()
        last_resort = LastResort(children.end, guard.log.flush, meanwhile=children.guard)
        try:
            asyncio.run(
                _serve_stdio(server, channel, last_resort, parent=parent, stdin_fd=guard.stdin_fd, say=guard.log.write_lines)
            )
        finally:
            last_resort.call_off_until_exit(GRACE)
            children.end()
            if tracing is not None and tracing.recorder is not None:
                tracing.recorder.close(_CLOSE_TRACE)
            guard.log.flush()


async def serve_stdio(server: Server, trace: Trace | None, redact: Iterable[str]) -> None:
    """Serve the standard streams in a running event loop. Signals and the parent process are left to the program."""
    with _guarded(server) as guard:
        channel, tracing = _open_stdio(guard, trace, redact)
        try:
            async with server._running() as lifespan:
                await server._serve_channel(channel, lifespan)
        finally:
            await channel.close()
            if tracing is not None and tracing.recorder is not None:
                from twopipes._trace.channel import close_recorder

                await close_recorder(tracing.recorder, _CLOSE_TRACE)


@contextmanager
def _guarded(server: Server) -> Generator[Guard, None, None]:
    """Take standard input and output, unless they are taken already, and give them back at the end."""
    taken = Guard.current()
    guard = taken or Guard.take()
    try:
        if os.isatty(guard.stdin_fd):
            guard.log.write(_HINT.format(name=server.info.name))
        yield guard
    finally:
        # A thread cannot be stopped, and one that still runs a tool could print to the protocol's stdout.
        if taken is None and not server._workers.busy:
            guard.restore()


def _open_stdio(guard: Guard, trace: Trace | None, redact: Iterable[str]) -> tuple[Channel, Tracing | None]:
    tracing = _tracing(trace, guard.log.write_lines, redact)
    channel = open_stdio(guard.stdin_fd, guard.stdout_fd)
    return (channel if tracing is None else tracing.watch(channel)), tracing


async def _serve_stdio(
    server: Server,
    channel: Channel,
    last_resort: LastResort,
    *,
    parent: int,
    stdin_fd: int,
    say: Callable[[str], None],
) -> None:
    """Serve one channel for the life of the process."""
    settings = server.settings
    ending = Ending()
    is_armed = False

    def end_if_host_is_gone() -> None:
        # A coroutine that blocks the loop keeps it from noticing that the host is gone. The process must end all the same.
        nonlocal is_armed
        if not is_armed and _is_host_gone(parent if settings.watch_parent else None, stdin_fd):
            is_armed = True
            last_resort.arm(settings.drain + GRACE)

    watching = asyncio.create_task(watch_parent(parent)) if settings.watch_parent else None
    if watching is not None:
        watching.add_done_callback(lambda _: ending.begun.set())
    try:
        async with AsyncExitStack() as stack:
            if settings.blocked_after is not None:
                stack.callback(Watchdog(settings.blocked_after, say, end_if_host_is_gone).stop)
            stack.enter_context(ended_by_signals(ending, last_resort, settings.drain_on_signal + GRACE))
            lifespan = await stack.enter_async_context(server._running())
            # Objects made during start-up live as long as the process, so the garbage collector need not scan them. This saves 4 %
            # of a call, and more if the author's imports are large.
            gc.freeze()
            await server._serve_channel(channel, lifespan, ending=ending, last_resort=last_resort)
    finally:
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


def run_sockets(
    server: Server,
    *,
    unix: str | os.PathLike[str] | None,
    tcp: tuple[str, int] | None,
    trace: Trace | None,
    redact: Iterable[str] = (),
) -> None:
    """Listen and serve until the end."""
    _run_process(lambda last_resort: serve_sockets(server, last_resort, unix=unix, tcp=tcp, trace=trace, redact=redact))


def _run_process(
    serve: Callable[[LastResort], Coroutine[Any, Any, None]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Run a server that owns the process but not its standard input and output."""
    from twopipes._channels.stderr import LogStream, StderrLog, reroute  # on stdio the guard has done this

    log = StderrLog(2)
    put_back = reroute("stderr", LogStream(log, 2, "<stderr>"))
    children = Children()
    last_resort = LastResort(children.end, log.flush, meanwhile=children.guard)
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(serve(last_resort))
    finally:
        last_resort.call_off_until_exit(GRACE)
        children.end()
        log.flush()
        put_back()


async def serve_sockets(
    server: Server,
    last_resort: LastResort | None = None,
    *,
    unix: str | os.PathLike[str] | None,
    tcp: tuple[str, int] | None,
    trace: Trace | None = None,
    redact: Iterable[str] = (),
) -> None:
    """Listen, and serve every connection as a session of its own, until it is cancelled.

    With a ``last_resort`` the process belongs to the server; then a signal ends it, too.
    """
    from twopipes._channels.sockets import listen_tcp, listen_unix  # a server on stdio needs no sockets

    ending = Ending()
    addresses = [] if unix is None else [f"unix:{os.fspath(unix)}"]
    addresses += [] if tcp is None else [f"tcp://{tcp[0]}:{tcp[1]}"]
    tracing = _tracing(trace, _warn, redact, target=", ".join(addresses))
    async with AsyncExitStack() as stack:
        if tracing is not None and tracing.recorder is not None:
            from twopipes._trace.channel import close_recorder  # only if it is requested

            stack.push_async_callback(close_recorder, tracing.recorder, _CLOSE_TRACE)
        if last_resort is not None:
            if server.settings.blocked_after is not None:
                stack.callback(Watchdog(server.settings.blocked_after, _warn).stop)
            stack.enter_context(ended_by_signals(ending, last_resort, server.settings.drain_on_signal + GRACE))
        lifespan = await stack.enter_async_context(server._running())

        async def serve(channel: Channel) -> None:
            if tracing is not None:
                channel = tracing.watch(channel)
            await server._serve_channel(channel, lifespan, ending=ending)

        listeners = []
        # Last in, first out: the listeners close before the lifespan ends.
        if unix is not None:
            listeners.append(await stack.enter_async_context(await listen_unix(unix, serve, on_error=_log_error)))
        if tcp is not None:
            listeners.append(await stack.enter_async_context(await listen_tcp(tcp[1], serve, host=tcp[0], on_error=_log_error)))
        if last_resort is not None:
            for listener in listeners:
                logger.info("%s listens on %s", server.info.name, listener.address)
        await ending.begun.wait()
        for listener in listeners:
            await listener.close(cancel_connections=False)


def _tracing(wanted: Trace | None, say: Callable[[str], None], redact: Iterable[str], *, target: str = "") -> Tracing | None:
    if redact:
        from twopipes._trace.recorder import check_redact  # only if it is requested

        check_redact(wanted, redact)
    if not wanted and not os.environ.get("TWOPIPES_TRACE"):
        return None
    from twopipes._server.wire_log import open_tracing  # only if it is requested

    return open_tracing(wanted, say, redact=redact, target=target)


def _is_host_gone(parent: int | None, stdin_fd: int) -> bool:
    """Return whether the host is gone, without the event loop and from any thread."""
    if parent is not None and parent > 1 and os.getppid() != parent:
        return True
    is_hung_up = False
    if sys.platform != "win32":  # a pipe on Windows cannot be polled
        poll = select.poll()
        # A hang-up is always reported; the shutdown of a socket by the other side only if POLLRDHUP is requested.
        poll.register(stdin_fd, getattr(select, "POLLRDHUP", 0))
        is_hung_up = bool(poll.poll(0))
    return is_hung_up


def _warn(text: str) -> None:
    logger.warning("%s", text.removesuffix("\n"))


def _log_error(error: Exception) -> None:
    logger.error("Error: %s", error if isinstance(error, TwopipesError | OSError) else repr(error))
