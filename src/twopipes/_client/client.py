"""The client: one typed call for every method, whatever the era and the revision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from msgspec import Raw
from msgspec import json as msgspec_json

from twopipes._client.cache import ResultCache, Ticket
from twopipes._client.callbacks import Callbacks
from twopipes._client.caller import Caller, InputRequired
from twopipes._client.connection import ClientConnection, OnProgress
from twopipes._client.input_handlers import InputHandlers, Roots
from twopipes._client.output_check import OutputCheck, Validate
from twopipes._client.pagination import PageT, PageWalk
from twopipes._client.results import CallResult, plain
from twopipes._client.server_info import ServerInfo, Undeclared
from twopipes._client.stray_output import StrayReader
from twopipes._client.subscription import Subscription
from twopipes._client.subscriptions import Subscriptions
from twopipes._client.supervisor import Supervisor
from twopipes._protocol.types import (
    LOGGING_LEVELS,
    CacheableResult,
    CallToolParams,
    CallToolResult,
    CompleteParams,
    CompleteResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    EmptyParams,
    GetPromptParams,
    GetPromptResult,
    ListParams,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    LoggingLevel,
    LogParams,
    Params,
    Prompt,
    PromptReference,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceReference,
    ResourceTemplate,
    SetLevelParams,
    SubscriptionFilter,
    Tool,
)
from twopipes._session.subscriptions import honoured
from twopipes.errors import CapabilityMissing, ClientClosed, LocalProtocolError, McpError, RemoteProtocolError
from twopipes.settings import Limits, Timeouts

__all__ = ["Client"]

T = TypeVar("T")


class Client(ServerInfo):
    """A server within reach. ``connect()`` gives it; its block, or :meth:`close`, ends it and the server with it.

    Every call ends: with a result, or with a :class:`~twopipes.TwopipesError` that says what happened. Cancelling a call tells the
    server. Calls may be made from several tasks at once, and :meth:`close` from any task or thread.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        questions: InputHandlers,
        noise: StrayReader,
        callbacks: Callbacks,
        *,
        timeouts: Timeouts,
        limits: Limits,
        validate: Validate,
        undeclared: Undeclared,
        on_log: Callable[[LogParams], Any] | None,
        on_notification: Callable[[str, Any], Any] | None,
    ) -> None:
        super().__init__(supervisor, noise, callbacks, undeclared)
        self.timeouts = timeouts
        self._questions = questions
        self._limits = limits
        self._output = OutputCheck(validate)
        self._on_log = on_log
        self._on_notification = on_notification
        self._cache = ResultCache()
        self._tools: dict[str, Tool] = {}
        self._log_level: LoggingLevel | None = None
        self._caller = Caller(supervisor, questions, timeouts, self._annotations_of)
        self._watching = Subscriptions(supervisor, self._caller, self._cache, max_backlog=limits.max_backlog)

    def __repr__(self) -> str:
        state = "closed" if self._supervisor.is_closing else f"{self.era} {self.revision}"
        return f"<Client of {self._supervisor.description}, {state}>"

    # Tools

    async def list_tools(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[Tool]:
        """All tools, from all pages, in the server's order. From the cache while the server allows it, unless ``fresh``.

        None where the server did not declare tools: it is not asked then (LC-11), unless ``connect(undeclared="raise")`` says that
        this is a ``CapabilityMissing``. The same holds for the other lists.
        """
        result = await self._list("tools/list", ListToolsResult, fresh=fresh, timeouts=timeouts)
        self._tools = {tool.name: tool for tool in result.tools}
        self._output.learn(result.tools)
        return result.tools

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
        log_level: LoggingLevel | None = None,
        validate: Validate | None = None,
    ) -> CallResult:
        """Calls a tool.

        Args:
            name: The tool.
            arguments: Its arguments.
            on_progress: Called with each report of progress: ``.progress``, ``.total``, ``.message``.
            timeouts: Instead of the client's; ``request`` and ``total`` are read.
            meta: Keys of your own for ``_meta``.
            log_level: On the stateless wire, the least level of log messages wanted during this call.
            validate: Instead of the client's: what to do about the tool's output schema.

        Returns:
            What the tool gave, also if it failed (``.is_error``): that is for the model.

        Raises:
            McpError: There is no such tool, or the server refused the call.
            RequestTimedOut: No answer in time.
            ServerExited: The server died, and the call is not one that may be sent twice.
            InvalidOutput: The structured result breaks the tool's own schema, and ``validate`` is ``raise``.
            CapabilityMissing: The server did not declare tools; nothing was sent.
        """
        self._require("tools/call")
        result: CallToolResult = await self._call(
            "tools/call",
            CallToolParams(name, None if arguments is None else _written(arguments, f"the arguments of {name}")),
            on_progress=on_progress,
            timeouts=timeouts,
            meta=meta,
            log_level=log_level,
        )
        mode = validate or self._output.mode
        if mode == "raise" and name not in self._tools:
            await self.list_tools(timeouts=timeouts)  # its schema has to be known
        return CallResult(result, self._output.check(name, result, mode))

    # Resources

    async def list_resources(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[Resource]:
        """All resources, from all pages."""
        return (await self._list("resources/list", ListResourcesResult, fresh=fresh, timeouts=timeouts)).resources

    async def list_resource_templates(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[ResourceTemplate]:
        """All resource templates, from all pages."""
        result = await self._list("resources/templates/list", ListResourceTemplatesResult, fresh=fresh, timeouts=timeouts)
        return result.resource_templates

    async def read_resource(
        self,
        uri: str,
        *,
        fresh: bool = False,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ReadResourceResult:
        """Reads a resource; ``.text`` and ``.data`` give what most have, ``.contents`` all.

        Raises:
            NotFound: There is no such resource.
            CapabilityMissing: The server did not declare resources; nothing was sent.
        """
        self._require("resources/read")
        return await self._here(
            lambda: self._read(uri, fresh=fresh, on_progress=on_progress, timeouts=timeouts, meta=meta)  # the cache has one thread
        )

    # Prompts and completion

    async def list_prompts(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[Prompt]:
        """All prompts, from all pages."""
        return (await self._list("prompts/list", ListPromptsResult, fresh=fresh, timeouts=timeouts)).prompts

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> GetPromptResult:
        """A prompt with its arguments, which are strings, filled in (PM-02).

        Raises:
            CapabilityMissing: The server did not declare prompts; nothing was sent.
        """
        self._require("prompts/get")
        given: Mapping[str, object] = arguments or {}  # whatever a caller without a type checker gives
        if wrong := [key for key, value in given.items() if not isinstance(value, str)]:
            raise LocalProtocolError(f"the arguments of a prompt are strings; {', '.join(wrong)} of {name} are not")
        params = GetPromptParams(name, None if arguments is None else dict(arguments))
        result: GetPromptResult = await self._call("prompts/get", params, on_progress=on_progress, timeouts=timeouts, meta=meta)
        return result

    async def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: str | None = None,
        resource: str | None = None,
        context: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
    ) -> Completion:
        """Suggestions for an argument of a prompt, or a variable of a resource template, that the user is typing.

        None where the server did not declare completions; see :meth:`list_tools`.

        Args:
            argument: Which argument.
            value: What is typed so far.
            prompt: The prompt, or
            resource: the URI template.
            context: The arguments that are known already.
            timeouts: Instead of the client's.
        """
        ref: PromptReference | ResourceReference
        if prompt is not None and resource is None:
            ref = PromptReference(prompt)
        elif resource is not None and prompt is None:
            ref = ResourceReference(resource)
        else:
            raise LocalProtocolError("complete() needs prompt= or resource=, one of them")
        params = CompleteParams(
            ref, CompletionArgument(argument, value), None if context is None else CompletionContext(dict(context))
        )
        if not self._may_send("completion/complete"):
            return Completion([])
        result: CompleteResult = await self._call("completion/complete", params, timeouts=timeouts)
        return result.completion

    # Changes

    def subscribe(
        self, *, tools: bool = False, prompts: bool = False, resource_list: bool = False, resources: Sequence[str] = ()
    ) -> Subscription:
        """Changes as they happen: ``async for change in client.subscribe(tools=True)``; see :class:`Subscription`.

        Args:
            tools: When the list of tools changes.
            prompts: When the list of prompts changes.
            resource_list: When the list of resources changes.
            resources: When one of these resources changes.

        Iterating raises ``LocalProtocolError`` where the server delivers none of this; ``ready()`` tells what it delivers. With
        ``connect(undeclared="raise")``, this raises ``CapabilityMissing`` where the server declared none of it.
        """
        if isinstance(resources, str):
            raise LocalProtocolError(f"resources= is a list of URIs; write resources=[{resources!r}]")
        if not (tools or prompts or resource_list or resources):
            raise LocalProtocolError("subscribe() to what? Give tools=True, prompts=True, resource_list=True or resources=[...]")
        wanted = SubscriptionFilter(
            tools_list_changed=tools or None,
            prompts_list_changed=prompts or None,
            resources_list_changed=resource_list or None,
            resource_subscriptions=list(resources) or None,
        )
        if self._undeclared == "raise" and honoured(wanted, self.capabilities) == SubscriptionFilter():
            raise CapabilityMissing({}, message="the server declared no changes of what subscribe() was asked for")
        return self._watching.subscription(wanted)

    # The rest

    async def ping(self, *, timeouts: Timeouts | None = None) -> None:
        """Returns if the server answers: to a ``ping``, or, on the stateless wire, which has none, to a ``server/discover``."""
        await self._call("ping" if self.era == "legacy" else "server/discover", EmptyParams(), timeouts=timeouts)

    async def set_log_level(self, level: LoggingLevel, *, timeouts: Timeouts | None = None) -> None:
        """Which log messages ``on_log`` gets from now on: of the session, or, on the stateless wire, of each later call.

        Does nothing where the server did not declare logging; see :meth:`list_tools`.
        """
        if level not in LOGGING_LEVELS:
            raise LocalProtocolError(f"the level of a log message is one of {', '.join(LOGGING_LEVELS)}, and not {level!r}")
        if self._may_send("logging/setLevel") and self.era == "legacy":
            await self._call("logging/setLevel", SetLevelParams(level), timeouts=timeouts)
        self._log_level = level

    def set_roots(self, roots: Roots) -> None:
        """Replaces the roots; a legacy server is told that they have changed (RT-03).

        Raises:
            LocalProtocolError: The client was connected without roots, so none were declared.
        """
        if self._questions.roots is None:
            raise LocalProtocolError("connect() was not given roots=, so the server does not know that there are any")
        self._questions.roots = roots
        connection = self._supervisor.connection
        if connection is not None and self.era == "legacy":
            connection.notify("notifications/roots/list_changed")

    async def request(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Any request. Of a method that twopipes knows, the typed result; of any other, what came, as plain Python."""
        result = await self._call(method, params, on_progress=on_progress, timeouts=timeouts, meta=meta)
        return plain(result, method)

    async def request_once(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any | InputRequired:
        """As :meth:`request`, but a server that asks back is not answered by the callbacks: its questions are handed out."""
        return plain(
            await self._call(method, params, on_progress=on_progress, timeouts=timeouts, meta=meta, hands_out=True), method
        )

    async def close(self) -> None:
        """Ends the connection and the server: stdin is closed, then it is waited for, then signals say so.

        From any task, thread or event loop, any number of times. Calls that are still open end with ``ClientClosed``. Cancelling
        this does not stop the ending.
        """
        if not self._supervisor.loop.is_closed():
            await self._here(self._close)

    async def _close(self) -> None:
        self._watching.close()
        await self._supervisor.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Underneath

    async def _here(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Awaits a coroutine in the loop of the client, from whichever loop this is called."""
        loop = self._supervisor.loop
        if asyncio.get_running_loop() is loop:
            return await function()
        if loop.is_closed():
            raise ClientClosed  # its loop took it along
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(function(), loop))

    async def _call(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None,
        *,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
        log_level: LoggingLevel | None = None,
        hands_out: bool = False,
        on_questions: Callable[[], None] | None = None,
    ) -> Any:
        return await self._here(
            lambda: self._caller.call(
                method,
                params,
                timeouts=timeouts,
                on_progress=on_progress,
                log_level=log_level or self._log_level,
                extra_meta=meta,
                hands_out=hands_out,
                on_questions=on_questions,
            )
        )

    async def _list(self, method: str, kind: type[PageT], *, fresh: bool, timeouts: Timeouts | None) -> PageT:
        return await self._here(lambda: self._walk(method, kind, fresh=fresh, timeouts=timeouts))

    async def _walk(self, method: str, kind: type[PageT], *, fresh: bool, timeouts: Timeouts | None) -> PageT:
        if not self._may_send(method):
            return kind([])
        loop = self._supervisor.loop
        cached = None if fresh else self._cache.get(method, now=loop.time())
        if isinstance(cached, kind):
            return cached
        ticket = self._cache.begin(method)
        walk: PageWalk[PageT] = PageWalk(method, limits=self._limits, legacy=self.era == "legacy")
        while not walk.is_done:
            try:
                page = await self._call(method, ListParams(walk.cursor), timeouts=timeouts)
            except McpError as error:
                if not walk.restart(error):
                    raise
            else:
                walk.feed(page, now=loop.time())
        result = walk.result()
        self._keep(ticket, result)
        return result

    async def _read(
        self,
        uri: str,
        *,
        fresh: bool,
        on_progress: OnProgress | None,
        timeouts: Timeouts | None,
        meta: Mapping[str, Any] | None,
    ) -> ReadResourceResult:
        # CH-04: what the caller's own keys mean to the server, nobody knows; they may change the result.
        cached = None if fresh or meta else self._cache.get("resources/read", uri, now=self._supervisor.loop.time())
        if isinstance(cached, ReadResourceResult):
            return cached
        ticket = self._cache.begin("resources/read", uri)
        result: ReadResourceResult = await self._call(
            "resources/read",
            ReadResourceParams(uri),
            on_progress=on_progress,
            timeouts=timeouts,
            meta=meta,
            on_questions=lambda: self._cache.discard(ticket),  # CH-05
        )
        if meta is None:
            self._keep(ticket, result)
        return result

    def _keep(self, ticket: Ticket, result: CacheableResult) -> None:
        if self.era == "modern":  # CH-01: before, there was no such promise
            self._cache.put(ticket, result, now=self._supervisor.loop.time())

    def _annotations_of(self, name: str) -> Any:
        tool = self._tools.get(name)
        return None if tool is None else tool.annotations

    def notified(self, method: str, params: Any, size: int) -> None:
        """A notification that belongs to no request of ours, of so many bytes; for the connection to call."""
        if method == "notifications/message":
            if self._on_log is not None:
                self._callbacks.call("on_log", self._on_log, params, size=size)
            return
        self._cache.on_notification(method, params)
        self._watching.heard(method, params)
        if self._on_notification is not None:
            try:
                given = plain(params, method)
            except RemoteProtocolError as error:
                self._noise.add_notification(method, error)
            else:
                self._callbacks.call("on_notification", self._on_notification, method, given, size=size)

    def reopened(self, connection: ClientConnection) -> None:
        """The server was started again: what it has to know again is told to it; for the supervisor to call."""
        if self._log_level is not None and self.era == "legacy" and self._declares("logging/setLevel"):
            connection.send_and_forget("logging/setLevel", SetLevelParams(self._log_level))  # SD-06
        self._watching.reopened(connection)

    def lost(self) -> None:
        """The connection is over; for the supervisor to call."""
        self._cache.clear()
        self._watching.lost()


def _written(value: Any, what: str) -> Raw:
    try:
        data = msgspec_json.encode(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalProtocolError(f"{what} cannot be written as JSON: {error}") from error
    if data[0] != _OBJECT:
        raise LocalProtocolError(f"{what} are given by name, as a dict, and not as {value!r}")
    return Raw(data)


_OBJECT = ord("{")
