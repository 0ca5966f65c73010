"""The server object: what an author registers, and how a request reaches its handler."""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, Literal, Never

from twopipes._channels.base import Channel
from twopipes._channels.fork import in_forked_children
from twopipes._protocol.revisions import LEGACY, MODERN
from twopipes._protocol.types import CacheScope, Icon, Implementation, LoggingLevel, Result, ServerCapabilities
from twopipes._server.call_runner import CallRunner
from twopipes._server.checks import check_level
from twopipes._server.connection import ServerConnection
from twopipes._server.context import Context, LifespanT, Next
from twopipes._server.forked_child import abandon_loop
from twopipes._server.hints import check_binding, check_server, no_such_member, no_such_run_option
from twopipes._server.log import show_log_on_stderr
from twopipes._server.methods import Methods
from twopipes._server.registry import Offer
from twopipes._server.serve import run, serve_sockets, serve_stdio
from twopipes._server.shutdown import GRACE, Ending, LastResort, finish_in_time
from twopipes._server.state_key import default_sealer
from twopipes._server.threads import Workers
from twopipes._session.identity import ServerProfile
from twopipes._session.server import ServerSession
from twopipes._session.state_token import StateSealer
from twopipes._session.subscriptions import Change, ListKind
from twopipes.errors import LocalProtocolError
from twopipes.settings import InputPolicy, Limits, ServerSettings

if TYPE_CHECKING:
    from twopipes._http.auth import Auth, Verifier
    from twopipes._http.bus import Bus
    from twopipes._http.options import HttpOptions
    from twopipes._server.http.app import HttpApp
    from twopipes._server.wire_log import Trace

# The lists that clients may cache; ``ttl_ms`` has a value for each.
_CACHED = ("tools", "prompts", "resources", "templates", "discover")
_REVISIONS = {"both": LEGACY + MODERN, "legacy": LEGACY, "modern": MODERN}
Middleware = Callable[[Context, Next], Awaitable[Result]]
Spans = Callable[[Context], AbstractContextManager[Any]]


class Server(Offer, Generic[LifespanT]):
    """An MCP server: tools, resources and prompts, served to every host in every revision.

    Args:
        name: The name of the server.
        version: Its version.
        title: The name to show.
        description: What the server is for.
        instructions: How a model should use it.
        website_url: Where to read more.
        icons: Pictures to show beside it.
        eras: ``both``, or only ``legacy`` or ``modern``. Most hosts speak one of the two, so keep both if you can.
        lifespan: A function from the server to an async context manager, entered once before the first connection is served.
            Its value is ``ctx.lifespan`` in handlers.
        middleware: One callable around every request that is served, including those of the protocol itself (``initialize``,
            ``ping``, ``subscriptions/listen``): ``async def m(ctx, call_next): return await call_next(ctx)``. It may inspect a
            request, wait, change the result, or refuse by raising :class:`~twopipes.errors.McpError`. A request that it refuses
            before ``call_next`` has no effect; a refused handshake opens no session. A subscription is open while
            ``call_next`` waits.
        tools: Functions to register as tools, as :meth:`add_tool` does.
        page_size: How many items a page of a list has; ``None`` for all.
        ttl_ms: How long clients may cache lists, and resources without a setting of their own, in milliseconds: one number for
            all, or one for each of ``tools``, ``prompts``, ``resources``, ``templates`` and ``discover``.
        cache_scope: Whether these are the same for every user.
        state_key: The key that seals the state which travels with questions in the modern era. Set one to share it between
            machines or users. By default ``TWOPIPES_STATE_KEY``, or else a key in the user's state folder.
        experimental: Experimental capabilities to declare.
        extensions: Extensions to declare, by name.
        limits: Limits of each connection.
        questions: How to wait for the client's answers.
        settings: Threads, draining and the rest.
        debug: Send the text of unexpected exceptions to the client. For development only: such a text may hold paths, code and
            secrets. By default the client gets at most the type of the exception, unless ``TWOPIPES_DEBUG=1`` is in the
            environment.

    Attributes:
        debug: Whether clients get the text of unexpected exceptions.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.1.0",
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: Sequence[Icon] | None = None,
        eras: Literal["both", "legacy", "modern"] = "both",
        lifespan: Callable[[Server[Any]], AbstractAsyncContextManager[LifespanT]] | None = None,
        middleware: Middleware | None = None,
        tools: Iterable[Callable[..., Any]] = (),
        page_size: int | None = None,
        ttl_ms: int | Mapping[str, int] = 0,
        cache_scope: CacheScope = "private",
        state_key: bytes | None = None,
        experimental: Mapping[str, Any] | None = None,
        extensions: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        questions: InputPolicy | None = None,
        settings: ServerSettings | None = None,
        debug: bool | None = None,
    ) -> None:
        check_server(name, version, eras, tools, lifespan=lifespan, page_size=page_size)
        self.info = Implementation(name, version, title, description, website_url, None if icons is None else list(icons))
        self.instructions = instructions
        self.settings = settings or ServerSettings()
        self.debug = os.environ.get("TWOPIPES_DEBUG", "0") not in {"", "0"} if debug is None else debug
        self._revisions = _REVISIONS[eras]
        self._lifespan = lifespan
        self._middleware = middleware
        self._ttls = dict(ttl_ms) if isinstance(ttl_ms, Mapping) else dict.fromkeys(_CACHED, ttl_ms)
        if unknown := self._ttls.keys() - set(_CACHED):
            raise LocalProtocolError(f"ttl_ms knows {', '.join(_CACHED)}; not {', '.join(sorted(unknown))}")
        self._cache_scope: CacheScope = cache_scope
        self._sealer: StateSealer | None = None if state_key is None else StateSealer(state_key)
        self._experimental = dict(experimental) if experimental else None
        self._extensions = dict(extensions) if extensions else None
        self._limits = limits or Limits()
        self._questions = questions or InputPolicy()
        self._page_size = page_size
        self._connections: set[CallRunner] = set()
        self._publishers: set[Callable[[Change], None]] = set()  # to other processes; called from any thread
        super().__init__(self._changed)
        for function in tools:
            self.add_tool(function)

    def __repr__(self) -> str:
        return f"<Server {self.info.name} {self.info.version}>"

    # Type checkers must not see this method, or they would accept every misspelt name.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(no_such_member("Server", name), name=name, obj=self)

    # Notifications

    def notify_resource_updated(self, uri: str) -> None:
        """Notify every client that subscribed to this resource, or to a collection that contains it, that it has changed."""
        self._announce(Change("resource", uri))

    def log(self, level: LoggingLevel, data: Any, *, logger: str | None = None) -> None:
        """Send a log message without a request to every legacy session that requested this level."""
        check_level(level)
        for connection in list(self._connections):
            connection.run_in_loop(connection.log, None, level, data, logger)

    def _changed(self, kind: ListKind) -> None:
        for connection in list(self._connections):
            connection.run_in_loop(lambda session: setattr(session, "profile", self._profile), connection.session)
        self._announce(Change(kind))

    def _announce(self, change: Change) -> None:
        for connection in list(self._connections):
            connection.run_in_loop(connection.announce, change)
        for publish in list(self._publishers):
            publish(change)

    # Identity and capabilities

    @property
    def _profile(self) -> ServerProfile:
        """How the server describes itself, by what is registered now or was before."""
        resources = self.resources.used or self.templates.used or self.directories.used
        completes = self.completions.used or self.prompts.used or self.templates.used
        capabilities = ServerCapabilities(
            tools={"listChanged": True} if self.tools.used else None,
            resources={"subscribe": True, "listChanged": True} if resources else None,
            prompts={"listChanged": True} if self.prompts.used else None,
            completions={} if completes else None,
            logging={},
            experimental=self._experimental,
            extensions=self._extensions,
        )
        return ServerProfile(
            info=self.info,
            capabilities=capabilities,
            instructions=self.instructions,
            revisions=self._revisions,
            ttl_ms=self._ttls.get("resources", 0),
            discover_ttl_ms=self._ttls.get("discover", 0),
            cache_scope=self._cache_scope,
        )

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool, for the headers that it may ask for."""
        entry = self.tools.entries.get(name)
        return None if entry is None else entry.tool.input_schema

    # Handling of requests. These objects are made when the first connection is served: until then the settings may change.

    @functools.cached_property
    def _workers(self) -> Workers:
        return Workers(self.settings.max_threads)

    @functools.cached_property
    def _spans(self) -> Spans | None:
        return _find_spans()

    @functools.cached_property
    def _methods(self) -> Methods:
        return Methods(self, self._workers, page_size=self._page_size, ttls=self._ttls)

    async def _handle(self, context: Context) -> Result:
        """Handle a request inside the author's middleware and, with OpenTelemetry, inside a span."""
        with nullcontext() if self._spans is None else self._spans(context):
            if self._middleware is None:
                return await self._methods.serve(context)
            return await self._through_middleware(context, self._methods.serve)

    async def _through_middleware(self, context: Context, call_next: Next) -> Result:
        assert self._middleware is not None
        result = await self._middleware(context, call_next)
        if not isinstance(result, Result):
            raise LocalProtocolError(f"the middleware must return a result, such as call_next gives, and not {result!r}")
        return result

    # Serving

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[Any]:
        """Enter the lifespan, around everything that is served."""
        show_log_on_stderr()
        remove_hook = in_forked_children(functools.partial(abandon_loop, asyncio.get_running_loop()))
        try:
            if self._lifespan is None:
                yield None
                return
            async with self._lifespan(self) as value:
                yield value
        finally:
            remove_hook()

    def _new_session(self, *, limits: Limits | None = None, shared: bool = False) -> ServerSession:
        if self._sealer is None:
            self._sealer = default_sealer(self.info.name)
        return ServerSession(
            self._profile,
            sealer=self._sealer,
            limits=limits or self._limits,
            questions=self._questions,
            unix_offset=time.time() - time.monotonic(),  # the clock of every event loop
            shared=shared,
            **self._session_options(),
        )

    def _session_options(self) -> dict[str, Any]:
        """Return the arguments of a session that depend on how requests are handled."""
        return {"delegates": self._middleware is not None}

    def _connect(self, channel: Channel, lifespan: Any = None) -> ServerConnection:
        """Make a connection over a channel; it does not run yet."""
        return ServerConnection(self._new_session(), channel, **self._runner_options(lifespan))

    def _runner_options(self, lifespan: Any) -> dict[str, Any]:
        """Return the arguments of a :class:`CallRunner` except its session."""
        return {
            "handler": self._handle,
            "around_internal": self._through_middleware,
            "lifespan": lifespan,
            "max_running": self.settings.max_running,
            "debug": self.debug,
        }

    async def _serve_channel(
        self,
        channel: Channel,
        lifespan: Any = None,
        *,
        ending: Ending | None = None,
        last_resort: LastResort | None = None,
    ) -> None:
        """Serve one channel until its peer closes it or the end begins, let running handlers finish, and close it.

        ``last_resort`` is armed once the end has begun, if the process ends with the channel. Raises what made reading fail, unless
        that was the peer or the channel.
        """
        show_log_on_stderr()
        connection = self._connect(channel, lifespan)
        self._connections.add(connection)

        def abandon() -> None:
            self._connections.discard(connection)
            connection.abandon()

        remove_hook = in_forked_children(abandon)
        reading = asyncio.create_task(connection.run())
        waiting = {reading} if ending is None else {reading, asyncio.create_task(ending.begun.wait())}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            seconds = self.settings.drain_on_signal if ending is not None and ending.signalled.is_set() else self.settings.drain
            if last_resort is not None:
                last_resort.arm(seconds + GRACE)
            await finish_in_time(connection.finish(seconds), ending, self.settings.drain_on_signal)
        finally:
            remove_hook()
            self._connections.discard(connection)
            if not self._connections:
                self._workers.rest()
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await connection.stop()
        if not reading.cancelled():
            reading.result()  # raises the reason why reading ended, unless that was the peer or the channel

    def asgi(self, options: HttpOptions | None = None, *, auth: Auth | Verifier | None = None, bus: Bus | None = None) -> HttpApp:
        """Return an ASGI application that serves over HTTP, for uvicorn and other ASGI servers, or to mount in a framework.

        Args:
            options: Path, limits and who may connect.
            auth: Verifies access tokens: an async function from a token to an :class:`~twopipes.http.Identity` or ``None``, or an
                :class:`~twopipes.http.Auth`. Handlers find the caller in ``ctx.identity``.
            bus: Carries changes between the processes that serve this server, such as :class:`~twopipes.http.RedisBus`. By default
                subscribers learn of the changes of their own process.
        """
        from twopipes._server.http.app import HttpApp  # a stdio server loads nothing of HTTP

        return HttpApp(self, options, auth=auth, bus=bus)

    async def serve(
        self,
        *,
        unix: str | os.PathLike[str] | None = None,
        tcp: tuple[str, int] | None = None,
        http: str | int | None = None,
        http_options: HttpOptions | None = None,
        auth: Auth | Verifier | None = None,
        bus: Bus | None = None,
        channel: Channel | None = None,
        trace: Trace | None = None,
        redact: Iterable[str] = (),
    ) -> None:
        """Serve inside a running event loop: standard input and output, or HTTP, a Unix socket, a TCP port, a channel of yours.

        Cancel it to end: subscriptions are ended properly, handlers are cancelled. Signals and the death of the parent process
        are left to the program; :meth:`run` handles them.

        Args:
            unix: Listen on a Unix socket at this path.
            tcp: Listen on this host and port. There is no authentication: keep to 127.0.0.1.
            http: Serve Streamable HTTP on this port of the loopback address, or on this ``HOST:PORT``.
            http_options: As for :meth:`run`.
            auth: Likewise.
            bus: Likewise.
            channel: Serve this one connection.
            trace: As for :meth:`run`; not for a channel, which you can wrap yourself.
            redact: Likewise.
        """
        others = {"unix": unix, "tcp": tcp, "channel": channel, "trace": trace}
        check_binding(http, others, {"http_options": http_options, "auth": auth, "bus": bus})
        if channel is not None:
            async with self._running() as lifespan:
                await self._serve_channel(channel, lifespan)
        elif http is not None:
            from twopipes._server.http.run import HttpSetup, serve_http  # a stdio server loads nothing of HTTP

            await serve_http(self, HttpSetup.of(http, http_options, auth, bus))
        elif unix is not None or tcp is not None:
            await serve_sockets(self, unix=unix, tcp=tcp, trace=trace, redact=redact)
        else:
            await serve_stdio(self, trace, redact)

    def run(
        self,
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
        **unknown: Never,
    ) -> None:
        """Serve standard input and output, HTTP, or sockets, as the last thing a program does.

        On stdio, standard output belongs to the protocol: ``print()`` writes to stderr instead. The method returns when the
        input ends, after SIGINT or SIGTERM, or when the parent process dies; running handlers get ``settings.drain`` seconds.
        Then standard input and output are restored, unless a tool that blocks still runs in its thread. To reserve stdout for
        the protocol from the first line of the program to its end, use ``twopipes run``.

        Args:
            unix: Listen on a Unix socket at this path instead.
            tcp: Listen on this host and port instead. There is no authentication: keep to 127.0.0.1.
            http: Serve Streamable HTTP instead, on this port of the loopback address, or on this ``HOST:PORT``. An address that
                other machines can reach needs ``auth`` or ``HttpOptions(public=True)``. SIGTERM stops accepting and gives running
                handlers ``settings.drain`` seconds.
            workers: How many processes serve HTTP; one by default. Each runs this program from the start, and one that crashes is
                replaced.
            http_options: Limits, origins and hosts of HTTP.
            auth: As for :meth:`asgi`.
            bus: As for :meth:`asgi`. By default the workers of this call share their changes.
            trace: Record every message in this file, or show it on stderr for ``"1"``, as ``TWOPIPES_TRACE`` does; or record it
                with a ``Recorder`` of yours, which you close.
            redact: Names of members whose values are blanked in what is recorded or shown, in addition to those of
                ``TWOPIPES_REDACT``.
            unknown: Refused, with a hint at what to write instead.
        """
        if unknown:
            raise no_such_run_option(unknown)
        run(
            self,
            unix=unix,
            tcp=tcp,
            http=http,
            workers=workers,
            http_options=http_options,
            auth=auth,
            bus=bus,
            trace=trace,
            redact=redact,
        )


def _find_spans() -> Spans | None:
    """Return a function that opens a span around a request, a child of the span in ``_meta``; ``None`` without OpenTelemetry."""
    try:
        from opentelemetry import propagate, trace  # only where it is installed
    except ImportError:
        return None

    tracer = trace.get_tracer("twopipes")

    def open_span(context: Context) -> AbstractContextManager[Any]:
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return nullcontext()  # OpenTelemetry is not configured
        call = context.call
        target = getattr(call.params, "name", None) or getattr(call.params, "uri", None)
        # MT-06: a malformed trace context loses the parent span, not the request.
        carrier = {key: value for key, value in context.meta.items() if isinstance(value, str)}
        return tracer.start_as_current_span(
            f"{call.method} {target}" if target else call.method,
            context=propagate.extract(carrier),
            kind=trace.SpanKind.SERVER,
            attributes={
                "mcp.method.name": call.method,
                "mcp.protocol.version": call.dialect.revision,
                "jsonrpc.request.id": str(call.id),
            },
        )

    return open_span
