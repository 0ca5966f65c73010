"""The server object: what an author registers, and how a request finds it."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from twopipes.channels.base import Channel
from twopipes.errors import LocalProtocolError, McpError, MethodNotFound, NotFound
from twopipes.mcp.revisions import LEGACY, MODERN
from twopipes.mcp.types import (
    CacheScope,
    CompleteResult,
    Icon,
    Implementation,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    LoggingLevel,
    PromptReference,
    ReadResourceResult,
    Result,
    ServerCapabilities,
)
from twopipes.server.completion import CompletionEntry, completed, suggestions
from twopipes.server.connection import Connection
from twopipes.server.context import Context
from twopipes.server.directory import Directory
from twopipes.server.ending import GRACE, Ending, LastResort, finished_in_time
from twopipes.server.paging import page_of
from twopipes.server.prompts import PromptEntry, make_prompt
from twopipes.server.registry import Registry
from twopipes.server.resources import ResourceEntry, TemplateEntry, make_resource
from twopipes.server.state_key import default_sealer
from twopipes.server.telemetry import find_spans
from twopipes.server.tools import ToolEntry, failed, make_tool
from twopipes.server.workers import Workers
from twopipes.session.ledger import Call
from twopipes.session.profiles import ServerProfile
from twopipes.session.server_side import ServerSession
from twopipes.session.state_token import StateSealer
from twopipes.session.subscriptions import Change, ListKind
from twopipes.settings import Limits, QuestionPolicy, ServerSettings

__all__ = ["Server"]

# What clients may keep, and for how long is a setting of the server.
_CACHED = ("tools", "prompts", "resources", "templates", "discover")
F = TypeVar("F", bound=Callable[..., Any])
Next = Callable[[Context], Awaitable[Result]]
Middleware = Callable[[Context, Next], Awaitable[Result]]
Lifespan = Callable[["Server"], AbstractAsyncContextManager[Any]]


class Server:
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
        middleware: One callable around every request that a handler serves: ``async def m(ctx, call_next): return await
            call_next(ctx)``. What the protocol answers by itself (handshake, discovery, ping, subscriptions) does not pass it.
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
        page_size: int | None = None,
        ttl_ms: int | Mapping[str, int] = 0,
        cache_scope: CacheScope = "private",
        state_key: bytes | None = None,
        experimental: Mapping[str, Any] | None = None,
        extensions: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        questions: QuestionPolicy | None = None,
        settings: ServerSettings | None = None,
    ) -> None:
        if page_size is not None and page_size < 1:
            raise LocalProtocolError(f"a page holds at least one item, not {page_size}")
        self.info = Implementation(name, version, title, description, website_url, None if icons is None else list(icons))
        self.instructions = instructions
        self.settings = settings or ServerSettings()
        self._revisions = {"both": LEGACY + MODERN, "legacy": LEGACY, "modern": MODERN}[eras]
        self._lifespan = lifespan
        self._middleware = middleware
        self._page_size = page_size
        self._ttls = dict(ttl_ms) if isinstance(ttl_ms, Mapping) else dict.fromkeys(_CACHED, ttl_ms)
        if unknown := self._ttls.keys() - set(_CACHED):
            raise LocalProtocolError(f"ttl_ms knows {', '.join(_CACHED)}; not {', '.join(sorted(unknown))}")
        self._cache_scope: CacheScope = cache_scope
        self._sealer: StateSealer | None = None if state_key is None else StateSealer(state_key)
        self._experimental = dict(experimental) if experimental else None
        self._extensions = dict(extensions) if extensions else None
        self._limits = limits or Limits()
        self._questions = questions or QuestionPolicy()
        self._workers = Workers(self.settings.max_threads)
        self._spans = find_spans()
        self._connections: set[Connection] = set()
        self.tools: Registry[ToolEntry] = Registry("tool", lambda: self._changed("tools"))
        self.resources: Registry[ResourceEntry] = Registry("resource", lambda: self._changed("resources"))
        self.templates: Registry[TemplateEntry] = Registry("resource template", lambda: self._changed("resources"))
        self.directories: Registry[Directory] = Registry("directory", lambda: self._changed("resources"))
        self.prompts: Registry[PromptEntry] = Registry("prompt", lambda: self._changed("prompts"))
        self.completions: Registry[CompletionEntry] = Registry("completion", lambda: None)

    def __repr__(self) -> str:
        return f"<Server {self.info.name} {self.info.version}>"

    # What an author registers

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, function: None = None, /, **options: Any) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Registers a function as a tool: ``@server.tool`` or ``@server.tool(name=..., title=..., annotations=...)``.

        The schema comes from the signature, descriptions from the docstring. See :func:`twopipes.server.tools.make_tool`.
        """

        def register(function: F) -> F:
            self.add_tool(function, **options)
            return function

        return register if function is None else register(function)

    def add_tool(self, function: Callable[..., Any], **options: Any) -> None:
        """Registers a tool at any time; clients are told as their era allows."""
        entry = make_tool(function, **options)
        self.tools.add(entry.tool.name, entry)

    def remove_tool(self, name: str) -> None:
        """Takes a tool away; clients are told as their era allows."""
        self.tools.remove(name)

    def resource(self, uri: str, /, **options: Any) -> Callable[[F], F]:
        """Registers a function as a resource, or as a template where the URI has ``{variables}``."""

        def register(function: F) -> F:
            self.add_resource(uri, function, **options)
            return function

        return register

    def add_resource(self, uri: str, function: Callable[..., Any], **options: Any) -> None:
        """Registers a resource at any time."""
        entry = make_resource(uri, function, **options)
        if isinstance(entry, TemplateEntry):
            self.templates.add(uri, entry)
        else:
            self.resources.add(uri, entry)

    def remove_resource(self, uri: str) -> None:
        """Takes a resource, a template or a directory away."""
        if uri in self.templates:
            self.templates.remove(uri)
        elif (folder := uri.removesuffix("/") + "/") in self.directories:
            self.directories.remove(folder)
        else:
            self.resources.remove(uri)

    def directory(self, uri: str, path: str | Path, *, name: str | None = None, description: str | None = None) -> None:
        """Serves the files below a folder, and nothing outside of it."""
        directory = Directory(uri, path, name=name, description=description)
        self.directories.add(directory.uri, directory)

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, function: None = None, /, **options: Any) -> Callable[[F], F]: ...
    def prompt(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Registers a function as a prompt: ``@server.prompt`` or ``@server.prompt(name=..., title=...)``."""

        def register(function: F) -> F:
            self.add_prompt(function, **options)
            return function

        return register if function is None else register(function)

    def add_prompt(self, function: Callable[..., Any], **options: Any) -> None:
        """Registers a prompt at any time."""
        entry = make_prompt(function, **options)
        self.prompts.add(entry.prompt.name, entry)

    def remove_prompt(self, name: str) -> None:
        """Takes a prompt away."""
        self.prompts.remove(name)

    def completion(self, ref: str, argument: str) -> Callable[[F], F]:
        """Registers a function that suggests values: ``@server.completion("review", "language")``.

        Args:
            ref: The name of a prompt, or the URI template of a resource.
            argument: The argument of the prompt, or the variable of the template.
        """

        def register(function: F) -> F:
            self.completions.add(f"{ref} {argument}", CompletionEntry(function))
            return function

        return register

    def notify_resource_updated(self, uri: str) -> None:
        """Tells every client that watches this resource, or a collection it lies in, that it has changed."""
        self._announce(Change("resource", uri))

    def log(self, level: LoggingLevel, data: Any, *, logger: str | None = None) -> None:
        """Sends a log message that belongs to no request, to every legacy session whose level asks for it."""
        for connection in list(self._connections):
            connection.call(connection.log, None, level, data, logger)

    def _changed(self, kind: ListKind) -> None:
        for connection in list(self._connections):
            connection.call(self._introduce_again, connection)
        self._announce(Change(kind))

    def _introduce_again(self, connection: Connection) -> None:
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

    # How a request finds its handler

    async def handle(self, context: Context) -> Result:
        """Does what a call asks for, inside the author's middleware and, with OpenTelemetry, inside a span."""
        if self._spans is None:
            return await self._handle(context)
        with self._spans(context):
            return await self._handle(context)

    async def _handle(self, context: Context) -> Result:
        if self._middleware is None:
            return await self._dispatch(context)
        result = await self._middleware(context, self._dispatch)
        if not isinstance(result, Result):
            raise LocalProtocolError(f"the middleware must return a result, such as call_next gives, and not {result!r}")
        return result

    async def _dispatch(self, context: Context) -> Result:
        match context.call.method:
            case "tools/call":
                return await self._call_tool(context)
            case "tools/list":
                tools = {name: entry.tool for name, entry in self.tools.entries.items()}
                page, cursor = page_of(tools, context.call.params.cursor, self._page_size, "tools")
                return ListToolsResult(list(page), cursor, ttl_ms=self._ttls.get("tools", 0))
            case "resources/list":
                return await self._list_resources(context)
            case "resources/templates/list":
                templates = {uri: entry.template for uri, entry in self.templates.entries.items()}
                templates |= {directory.template.uri_template: directory.template for directory in self.directories}
                listed, cursor = page_of(templates, context.call.params.cursor, self._page_size, "templates")
                return ListResourceTemplatesResult(list(listed), cursor, ttl_ms=self._ttls.get("templates", 0))
            case "resources/read":
                return await self._read_resource(context)
            case "prompts/list":
                prompts = {name: entry.prompt for name, entry in self.prompts.entries.items()}
                found, cursor = page_of(prompts, context.call.params.cursor, self._page_size, "prompts")
                return ListPromptsResult(list(found), cursor, ttl_ms=self._ttls.get("prompts", 0))
            case "prompts/get":
                prompt = self.prompts.get(context.call.params.name)
                if prompt is None:
                    raise NotFound("prompt", context.call.params.name)
                return await prompt.get(context.call.params.arguments or {}, context, self._workers.run)
            case "completion/complete":
                return await self._complete(context)
            case method:
                raise MethodNotFound(f"there is no method {method} here")

    async def _call_tool(self, context: Context) -> Result:
        entry = self.tools.get(context.call.params.name)
        if entry is None:
            raise NotFound("tool", context.call.params.name)  # TL-04
        try:
            return await entry.call(context, self._workers.run)
        except (McpError, asyncio.CancelledError):
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - TL-05: the model is told, and the server lives on
            self._report(context.call, error)
            return failed(entry, error)

    async def _list_resources(self, context: Context) -> ListResourcesResult:
        resources = {uri: entry.resource for uri, entry in self.resources.entries.items()}
        for directory in self.directories:
            resources |= {resource.uri: resource for resource in await self._workers.run(directory.listing)}
        page, cursor = page_of(resources, context.call.params.cursor, self._page_size, "resources")
        return ListResourcesResult(list(page), cursor, ttl_ms=self._ttls.get("resources", 0))

    async def _read_resource(self, context: Context) -> ReadResourceResult:
        uri = context.call.params.uri
        entry = self.resources.get(uri)
        if entry is not None:
            return await entry.read(uri, context, self._workers.run)
        for directory in self.directories:
            if directory.serves(uri):
                result: ReadResourceResult = await self._workers.run(functools.partial(directory.read, uri))
                return result
        for template in self.templates:
            found = template.matcher.match(uri)
            if found is not None:
                return await template.read(uri, found, context, self._workers.run)
        raise NotFound("resource", uri)

    async def _complete(self, context: Context) -> CompleteResult:
        params = context.call.params
        ref, argument = params.ref, params.argument
        name = ref.name if isinstance(ref, PromptReference) else ref.uri
        resolved = (params.context.arguments if params.context else None) or {}
        schema = self._schema_of(ref, name)
        if argument.name not in schema:
            raise NotFound("argument", argument.name)  # CM-03
        entry = self.completions.get(f"{name} {argument.name}")
        if entry is not None:
            return await entry.suggest(argument.value, resolved, self._workers.run)
        return completed(suggestions(schema[argument.name], argument.value))

    def _schema_of(self, ref: Any, name: str) -> Mapping[str, Any]:
        entry: PromptEntry | TemplateEntry | None
        entry = self.prompts.get(name) if isinstance(ref, PromptReference) else self.templates.get(name)
        if entry is None:
            raise NotFound("prompt" if isinstance(ref, PromptReference) else "resource template", name)
        properties: Mapping[str, Any] = entry.signature.input_schema.get("properties", {})
        return properties

    def _report(self, call: Call, error: BaseException) -> None:
        what = f"Error: {call.method} {getattr(call.params, 'name', getattr(call.params, 'uri', ''))} failed"
        sys.stderr.write(f"{what}\n{''.join(traceback.format_exception(error))}")

    # Serving

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        """Enters the lifespan, around everything that is served."""
        if self._lifespan is None:
            yield None
            return
        async with self._lifespan(self) as value:
            yield value

    def connect(self, channel: Channel, lifespan: Any = None) -> Connection:
        """A connection of this server over a channel, not yet running."""
        if self._sealer is None:
            self._sealer = default_sealer(self.info.name)
        session = ServerSession(
            self.profile, sealer=self._sealer, limits=self._limits, questions=self._questions, unix_offset=unix_offset()
        )
        return Connection(
            session,
            channel,
            self.handle,
            lifespan=lifespan,
            max_running=self.settings.max_running,
            report=self._report,
        )

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
        """
        connection = self.connect(channel, lifespan)
        self._connections.add(connection)
        reading = asyncio.create_task(connection.run())
        waiting = {reading} if ending is None else {reading, asyncio.create_task(ending.wait())}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            seconds = self.settings.drain_on_signal if ending is not None and ending.by_signal else self.settings.drain
            if last_resort is not None:
                last_resort.arm(seconds + GRACE)
            await finished_in_time(connection.finish(seconds), ending, self.settings.drain_on_signal)
        finally:
            self._connections.discard(connection)
            if not self._connections:
                self._workers.rest()
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await connection.stop()

    async def serve(
        self, *, unix: str | os.PathLike[str] | None = None, tcp: tuple[str, int] | None = None, channel: Channel | None = None
    ) -> None:
        """Serves inside a running event loop: a channel of yours, a Unix socket or a TCP port.

        Cancel it to end: subscriptions are ended properly, handlers are cancelled.
        """
        if channel is not None:
            async with self.running() as lifespan:
                await self.serve_channel(channel, lifespan)
            return
        if unix is None and tcp is None:
            raise LocalProtocolError("serve() needs unix=, tcp= or channel=; for standard input and output, use run()")
        from twopipes.server.run import serve_sockets  # noqa: PLC0415 - run imports this module

        await serve_sockets(self, unix=unix, tcp=tcp)

    def run(
        self,
        *,
        unix: str | os.PathLike[str] | None = None,
        tcp: tuple[str, int] | None = None,
        trace: str | None = None,
    ) -> None:
        """Serves standard input and output, as the last thing a program does; or sockets.

        On stdio, standard output belongs to the protocol from here on: whatever prints, prints to stderr. It returns when the
        input ends, after SIGINT or SIGTERM, or when the process that launched this one dies; what is in flight gets
        ``settings.drain`` seconds.

        Args:
            unix: Listen on a Unix socket at this path instead.
            tcp: Listen on this host and port instead. There is no authentication: keep to 127.0.0.1.
            trace: Write every message to this file, or to stderr for ``"1"``; as ``TWOPIPES_TRACE`` does.
        """
        from twopipes.server.run import run  # noqa: PLC0415 - a server under test never runs

        run(self, unix=unix, tcp=tcp, trace=trace)


def unix_offset() -> float:
    """What turns the clock of the event loop into Unix time."""
    return time.time() - asyncio.get_running_loop().time()
