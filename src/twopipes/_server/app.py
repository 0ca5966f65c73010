"""The server object: what an author registers, and how a request finds it."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, Literal, Never

from twopipes._channels.base import Channel
from twopipes._channels.fork import in_forked_children
from twopipes._protocol.revisions import LEGACY, MODERN
from twopipes._protocol.types import LOGGING_LEVELS, CacheScope, Icon, Implementation, LoggingLevel, Result, ServerCapabilities
from twopipes._server.registry import Offer
from twopipes._server.state_key import default_sealer
from twopipes._session.identity import ServerProfile
from twopipes._session.ledger import Call
from twopipes._session.server import ServerSession
from twopipes._session.state_token import StateSealer
from twopipes._session.subscriptions import Change, ListKind
from twopipes.errors import InternalError, LocalProtocolError, McpError
from twopipes.settings import InputPolicy, Limits, ServerSettings

if TYPE_CHECKING:
    from twopipes._server.connection import ServerConnection
    from twopipes._server.context import Context, Next
    from twopipes._server.methods import Methods
    from twopipes._server.shutdown import Ending, LastResort
    from twopipes._server.telemetry import Spans
    from twopipes._server.threads import Workers
    from twopipes._server.wire_log import Trace

__all__ = ["Server"]

# What clients may keep, and for how long is a setting of the server.
_CACHED = ("tools", "prompts", "resources", "templates", "discover")
_REVISIONS = {"both": LEGACY + MODERN, "legacy": LEGACY, "modern": MODERN}
Middleware = Callable[["Context", "Next"], Awaitable[Result]]
Lifespan = Callable[["Server"], AbstractAsyncContextManager[Any]]


class Server(Offer):
    """An MCP server: tools, resources and prompts, served to every host in every revision.

    Args:
        name: What it is called.
        version: Its version.
        title: The name to show.
        description: What it is for.
        instructions: How a model should use it.
        website_url: Where to read more.
        icons: Pictures to show beside it.
        eras: ``both``, or only ``legacy`` or ``modern``. Most hosts speak one of the two, so keep both if you can.
        lifespan: A function from the server to an async context manager, entered once before the first connection is served;
            handlers find its value in ``ctx.lifespan``.
        middleware: One callable around every request that is served, the protocol's own included (``initialize``, ``ping``,
            ``subscriptions/listen``): ``async def m(ctx, call_next): return await call_next(ctx)``. It may look at a request, take
            its time, change the result, or refuse by raising :class:`~twopipes.errors.McpError`. What it refuses before
            ``call_next`` is not done; a refused handshake leaves no session. A subscription is open while ``call_next`` waits.
        tools: Functions to register as tools right away, as :meth:`add_tool` does.
        page_size: How many items a list gives at once; ``None`` for all.
        ttl_ms: For how long clients may keep lists and resources that say nothing about it, in milliseconds: one number for all,
            or one for each of ``tools``, ``prompts``, ``resources``, ``templates`` and ``discover``. A resource may have its own.
        cache_scope: Whether these are the same for every user.
        state_key: Seals what travels with questions on the stateless wire; give one to share it between machines or users. By
            default ``TWOPIPES_STATE_KEY``, or else a key in the user's state folder.
        experimental: Experimental capabilities to declare.
        extensions: Extensions to declare, by name.
        limits: How much of anything a connection may hold.
        questions: How to wait for the client's answers.
        settings: Threads, draining and the rest.
        debug: Send the text of unexpected exceptions to the client. For development: such a text may hold paths, code and secrets.
            By default the client learns the type at most, unless ``TWOPIPES_DEBUG=1`` is in the environment.

    Attributes:
        debug: Whether clients are sent the text of unexpected exceptions.
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
        lifespan: Lifespan | None = None,
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
        texts: tuple[object, ...] = (name, version)  # whatever an author without a type checker gives
        if (
            not name
            or not all(isinstance(text, str) for text in texts)
            or eras not in _REVISIONS
            or callable(tools)
            or isasyncgenfunction(lifespan)
            or isgeneratorfunction(lifespan)
        ):
            from twopipes._server.hints import not_a_server  # noqa: PLC0415 - see there

            raise not_a_server(name, version, eras, tools, lifespan)
        if page_size is not None and page_size < 1:
            raise LocalProtocolError(f"a page holds at least one item, not {page_size}")
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
        self._connections: set[ServerConnection] = set()
        super().__init__(self._changed)
        for function in tools:
            self.add_tool(function)

    def __repr__(self) -> str:
        return f"<Server {self.info.name} {self.info.version}>"

    # A type checker that saw it would take every misspelt name for a good one.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from twopipes._server.hints import no_such_server_member  # noqa: PLC0415 - see there

            raise AttributeError(no_such_server_member(name), name=name, obj=self)

    # What it tells

    def notify_resource_updated(self, uri: str) -> None:
        """Tells every client that watches this resource, or a collection it lies in, that it has changed."""
        self._announce(Change("resource", uri))

    def log(self, level: LoggingLevel, data: Any, *, logger: str | None = None) -> None:
        """Sends a log message that belongs to no request, to every legacy session whose level asks for it."""
        if level not in LOGGING_LEVELS:
            raise LocalProtocolError(f"the level of a log message is one of {', '.join(LOGGING_LEVELS)}, and not {level!r}")
        for connection in list(self._connections):
            connection.call(connection.log, None, level, data, logger)

    def _changed(self, kind: ListKind) -> None:
        for connection in list(self._connections):
            connection.call(self._introduce_again, connection)
        self._announce(Change(kind))

    def _introduce_again(self, connection: ServerConnection) -> None:
        connection.session.profile = self.profile

    def _announce(self, change: Change) -> None:
        for connection in list(self._connections):
            connection.call(connection.announce, change)

    # What it is

    @property
    def profile(self) -> ServerProfile:
        """What the server says about itself, by what is registered now or was before."""
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

    @property
    def threads_at_work(self) -> int:
        """How many functions run in threads now, or wait for one. After the end: those that could not be stopped."""
        return self._workers.busy if "_workers" in self.__dict__ else 0

    # What only a request needs, made when the first one comes: the opening of a host is answered before (see respond_early.py).

    @functools.cached_property
    def _workers(self) -> Workers:
        from twopipes._server.threads import Workers  # noqa: PLC0415 - see above

        return Workers(self.settings.max_threads)

    @functools.cached_property
    def _spans(self) -> Spans | None:
        from twopipes._server.telemetry import find_spans  # noqa: PLC0415 - see above

        return find_spans()

    @functools.cached_property
    def _methods(self) -> Methods:
        from twopipes._server.methods import Methods  # noqa: PLC0415 - see above

        return Methods(self, self._workers, page_size=self._page_size, ttls=self._ttls, report=self._report)

    # How a request finds its handler

    async def handle(self, context: Context) -> Result:
        """Does what a call asks for, inside the author's middleware and, with OpenTelemetry, inside a span."""
        if self._spans is None:
            return await self._handle(context)
        with self._spans(context):
            return await self._handle(context)

    async def _handle(self, context: Context) -> Result:
        if self._middleware is None:
            return await self._methods.serve(context)
        return await self._through_middleware(self._middleware, context, self._methods.serve)

    async def _handle_and_reveal(self, context: Context) -> Result:
        """Does the same, and tells the client the text of an unexpected exception."""
        try:
            return await self.handle(context)
        except McpError:
            raise
        except (Exception, SystemExit) as error:
            from twopipes._server.failure_log import summary  # noqa: PLC0415 - not before something has gone wrong

            self._report(context.call, error)
            raise InternalError(f"Internal error: {summary(error)}") from error

    @staticmethod
    async def _through_middleware(middleware: Middleware, context: Context, call_next: Next) -> Result:
        result = await middleware(context, call_next)
        if not isinstance(result, Result):
            raise LocalProtocolError(f"the middleware must return a result, such as call_next gives, and not {result!r}")
        return result

    def _report(self, call: Call, error: BaseException) -> None:
        from twopipes._server.failure_log import told  # noqa: PLC0415 - not before something has gone wrong
        from twopipes._server.hints import hint_about  # noqa: PLC0415 - likewise

        what = f"Error: {call.method} {getattr(call.params, 'name', getattr(call.params, 'uri', ''))} failed"
        # A stderr that is closed, or None, must not keep the client from its response.
        with suppress(AttributeError, OSError, ValueError):
            sys.stderr.write(f"{what}\n{told(error)}{hint_about(error)}")

    # Serving

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        """Enters the lifespan, around everything that is served."""
        import asyncio  # noqa: PLC0415 - this file is read before there is a loop

        from twopipes._server.forked_child import abandon_loop  # noqa: PLC0415 - likewise

        no_longer = in_forked_children(functools.partial(abandon_loop, asyncio.get_running_loop()))
        try:
            if self._lifespan is None:
                yield None
                return
            async with self._lifespan(self) as value:
                yield value
        finally:
            no_longer()

    def new_session(self) -> ServerSession:
        """The protocol of a connection to be, by what the server is now."""
        if self._sealer is None:
            self._sealer = default_sealer(self.info.name)
        return ServerSession(
            self.profile,
            sealer=self._sealer,
            limits=self._limits,
            questions=self._questions,
            unix_offset=time.time() - time.monotonic(),  # the clock of every event loop
            delegates=self._middleware is not None,
        )

    def connect(self, channel: Channel, lifespan: Any = None) -> ServerConnection:
        """A connection of this server over a channel, not yet running."""
        from twopipes._server.connection import ServerConnection  # noqa: PLC0415 - this file is read before there is a loop

        middleware = self._middleware
        return ServerConnection(
            self.new_session(),
            channel,
            self._handler(),
            lifespan=lifespan,
            max_running=self.settings.max_running,
            report=self._report,
            around_own=None if middleware is None else functools.partial(self._through_middleware, middleware),
        )

    def _handler(self) -> Next:
        if self.debug:
            return self._handle_and_reveal
        # Where nothing stands between, nothing is passed through: two coroutines less for each call.
        return self._methods.serve if self._middleware is None and self._spans is None else self.handle

    async def serve_channel(
        self,
        channel: Channel,
        lifespan: Any = None,
        *,
        ending: Ending | None = None,
        last_resort: LastResort | None = None,
    ) -> None:
        """Serves one channel until its peer leaves or the end begins, and lets what is in flight finish.

        Args:
            channel: The bytes; closed at the end.
            lifespan: What handlers find in ``ctx.lifespan``.
            ending: The wish to end, if somebody may have it.
            last_resort: Armed once the end has begun, where the process ends with the channel.

        Raises:
            Exception: Reading failed because of a defect, ours or that of a channel. What was in flight has been finished before.
        """
        import asyncio  # noqa: PLC0415 - this file is read before there is a loop

        from twopipes._server.shutdown import GRACE, finished_in_time  # noqa: PLC0415 - likewise

        connection = self.connect(channel, lifespan)
        self._connections.add(connection)

        def abandon() -> None:
            self._connections.discard(connection)
            connection.abandon()

        no_longer = in_forked_children(abandon)
        reading = asyncio.create_task(connection.run())
        waiting = {reading} if ending is None else {reading, asyncio.create_task(ending.wait())}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            seconds = self.settings.drain_on_signal if ending is not None and ending.by_signal else self.settings.drain
            if last_resort is not None:
                last_resort.arm(seconds + GRACE)
            await finished_in_time(connection.finish(seconds), ending, self.settings.drain_on_signal)
        finally:
            no_longer()
            self._connections.discard(connection)
            if not self._connections:
                self._workers.rest()
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await connection.stop()
        if not reading.cancelled():
            reading.result()  # raises what ended the reading, if that was neither the peer nor the channel

    async def serve(
        self,
        *,
        unix: str | os.PathLike[str] | None = None,
        tcp: tuple[str, int] | None = None,
        channel: Channel | None = None,
        trace: Trace | None = None,
        redact: Iterable[str] = (),
    ) -> None:
        """Serves inside a running event loop: standard input and output, or a Unix socket, a TCP port, a channel of yours.

        Cancel it to end: subscriptions are ended properly, handlers are cancelled. Signals, and the death of whoever launched the
        process, are left to the program; :meth:`run` sees to them.

        Args:
            unix: Listen on a Unix socket at this path.
            tcp: Listen on this host and port. There is no authentication: keep to 127.0.0.1.
            channel: Serve this one connection.
            trace: As for :meth:`run`; not for a channel, which you can wrap yourself.
            redact: Likewise.
        """
        if channel is not None:
            async with self.running() as lifespan:
                await self.serve_channel(channel, lifespan)
        elif unix is not None or tcp is not None:
            from twopipes._server.serve import serve_sockets  # noqa: PLC0415 - this file is read before there is a loop

            await serve_sockets(self, unix=unix, tcp=tcp, trace=trace, redact=redact)
        else:
            from twopipes._server.run import serve_standard_streams  # noqa: PLC0415 - likewise

            await serve_standard_streams(self, trace, redact)

    def run(
        self,
        *,
        unix: str | os.PathLike[str] | None = None,
        tcp: tuple[str, int] | None = None,
        trace: Trace | None = None,
        redact: Iterable[str] = (),
        **unknown: Never,
    ) -> None:
        """Serves standard input and output, as the last thing a program does; or sockets.

        On stdio, standard output belongs to the protocol meanwhile: whatever prints, prints to stderr. It returns when the
        input ends, after SIGINT or SIGTERM, or when the process that launched this one dies; what is in flight gets
        ``settings.drain`` seconds. Then standard input and output are what they were before, unless a tool that blocks still
        works in its thread. To keep stdout for the protocol from the first line of the program to its end, use ``twopipes run``.

        Args:
            unix: Listen on a Unix socket at this path instead.
            tcp: Listen on this host and port instead. There is no authentication: keep to 127.0.0.1.
            trace: Record every message in this file, or show it on stderr for ``"1"``, as ``TWOPIPES_TRACE`` does; or record it
                with a ``Recorder`` of yours, which you close.
            redact: Names of members whose values are blanked in what is recorded or shown, beside those of ``TWOPIPES_REDACT``.
            unknown: Refused, with a hint at what to write instead.
        """
        if unknown:
            from twopipes._server.hints import no_such_run_option  # noqa: PLC0415 - see there

            raise no_such_run_option(unknown)
        from twopipes._server.run import run  # noqa: PLC0415 - a server under test never runs

        run(self, unix=unix, tcp=tcp, trace=trace, redact=redact)
