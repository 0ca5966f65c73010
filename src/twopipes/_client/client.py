"""The client: one typed method for each request of the protocol, the same in every era and revision."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from msgspec import UNSET, Raw, structs
from msgspec import json as msgspec_json

from twopipes._client.cache import Fetch, ResultCache
from twopipes._client.caller import Caller, InputRequired
from twopipes._client.connection import ClientConnection
from twopipes._client.input_handlers import InputHandlers, Roots
from twopipes._client.options import OnProgress, RequestOptions, Validate
from twopipes._client.output_check import OutputCheck
from twopipes._client.pagination import PageT, PageWalk
from twopipes._client.results import CallResult, plain
from twopipes._client.server_info import ServerInfo
from twopipes._client.subscription import Subscription, Subscriptions
from twopipes._client.supervisor import Supervisor
from twopipes._protocol.methods import NEEDED_CAPABILITIES
from twopipes._protocol.revisions import LEGACY
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
    ToolAnnotations,
)
from twopipes._session.subscriptions import honoured
from twopipes.errors import CapabilityMissing, ClientClosed, LocalProtocolError, McpError, RemoteProtocolError
from twopipes.settings import Timeouts

T = TypeVar("T")
ResultT = TypeVar("ResultT", bound=CacheableResult)


class Client(ServerInfo):
    """A connected server. :func:`connect` returns it; leaving its ``async with`` block, or :meth:`close`, shuts the server down.

    Every call ends with a result or with a :class:`~twopipes.TwopipesError`. Cancelling a call notifies the server. Several tasks
    may make calls at the same time, and any task or thread may call :meth:`close`.

    Methods that send requests take these keyword arguments:

    * ``timeouts``: used instead of the client's; only ``request`` and ``total`` apply.
    * ``on_progress``: called with each progress report: ``.progress``, ``.total``, ``.message``.
    * ``meta``: additional keys for ``_meta``.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__(supervisor)
        config = supervisor.config
        self.timeouts = config.timeouts
        self._config = config
        self._output = OutputCheck(config.validate)
        self._cache = ResultCache()
        self._caller = Caller(supervisor, self._annotations_of, lambda: self.list_tools(fresh=True))
        self._subscriptions = Subscriptions(supervisor, self._cache)
        supervisor.on_notification = self._notified
        supervisor.on_reopened = self._reopened
        supervisor.on_lost = self._lost

    def __repr__(self) -> str:
        state = "closed" if self._supervisor.is_closing else f"{self.era} {self.revision}"
        return f"<Client of {self._config.target.description}, {state}>"

    # Tools

    async def list_tools(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[Tool]:
        """List all tools, from all pages, in the server's order.

        The list comes from the cache while the server allows that, unless ``fresh`` is true. If the server did not declare tools,
        the list is empty and nothing is sent (LC-11); with ``ClientOptions(undeclared="raise")`` this raises ``CapabilityMissing``
        instead. The other lists work the same way.
        """
        result = await self._list("tools/list", ListToolsResult, fresh=fresh, timeouts=timeouts)
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
        """Call a tool.

        Args:
            name: The tool.
            arguments: Its arguments.
            on_progress: Called with each progress report: ``.progress``, ``.total``, ``.message``.
            timeouts: Used instead of the client's; only ``request`` and ``total`` apply.
            meta: Additional keys for ``_meta``.
            log_level: On the stateless wire, the lowest level of log messages to send during this call.
            validate: How to treat the tool's output schema; used instead of ``ClientOptions.validate``.

        Returns:
            The result, also if the tool failed (``.is_error``): such a result is meant for the model.

        Raises:
            McpError: There is no such tool, or the server refused the call.
            RequestTimedOut: No response in time.
            ServerExited: The server exited, and the call is not safe to send twice.
            InvalidOutput: The structured result breaks the tool's own schema, and ``validate`` is ``raise``.
            CapabilityMissing: The server did not declare tools; nothing was sent.
        """
        self._may_send("tools/call", is_required=True)
        result: CallToolResult = await self._call(
            "tools/call",
            CallToolParams(name, None if arguments is None else _written(arguments, f"the arguments of {name}")),
            RequestOptions(on_progress=on_progress, timeouts=timeouts, meta=meta, log_level=log_level),
        )
        mode = validate or self._output.mode
        if mode == "raise" and name not in self._output.tools:
            await self.list_tools(timeouts=timeouts)  # the check below needs the tool's schema
        return CallResult(result, self._output.check(name, result, mode))

    # Resources

    async def list_resources(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[Resource]:
        """List all resources, from all pages."""
        return (await self._list("resources/list", ListResourcesResult, fresh=fresh, timeouts=timeouts)).resources

    async def list_resource_templates(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[ResourceTemplate]:
        """List all resource templates, from all pages."""
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
        """Read a resource. ``.text`` and ``.data`` give the usual single content, ``.contents`` all of them.

        Raises:
            NotFound: There is no such resource.
            CapabilityMissing: The server did not declare resources; nothing was sent.
        """
        self._may_send("resources/read", is_required=True)
        options = RequestOptions(on_progress=on_progress, timeouts=timeouts, meta=meta)
        return await self._in_own_loop(self._read(uri, options, fresh=fresh))  # the cache is not thread-safe

    # Prompts and completion

    async def list_prompts(self, *, fresh: bool = False, timeouts: Timeouts | None = None) -> list[Prompt]:
        """List all prompts, from all pages."""
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
        """Get a prompt with its arguments filled in. Arguments are strings (PM-02).

        Raises:
            CapabilityMissing: The server did not declare prompts; nothing was sent.
        """
        self._may_send("prompts/get", is_required=True)
        given: Mapping[str, object] = arguments or {}
        if wrong := [key for key, value in given.items() if not isinstance(value, str)]:
            raise LocalProtocolError(f"the arguments of a prompt must be strings; {', '.join(wrong)} of {name} are not")
        params = GetPromptParams(name, None if arguments is None else dict(arguments))
        options = RequestOptions(on_progress=on_progress, timeouts=timeouts, meta=meta)
        result: GetPromptResult = await self._call("prompts/get", params, options)
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
        """Get suggestions for a prompt argument, or for a variable of a resource template, while the user types it.

        There are none if the server did not declare completions; see :meth:`list_tools`.

        Args:
            argument: The name of the argument.
            value: The text typed so far.
            prompt: The prompt. Give either this or ``resource``.
            resource: The URI template.
            context: The arguments that are already known.
            timeouts: Used instead of the client's.
        """
        ref: PromptReference | ResourceReference
        if prompt is not None and resource is None:
            ref = PromptReference(prompt)
        elif resource is not None and prompt is None:
            ref = ResourceReference(resource)
        else:
            raise LocalProtocolError("complete() needs either prompt= or resource=")
        params = CompleteParams(
            ref, CompletionArgument(argument, value), None if context is None else CompletionContext(dict(context))
        )
        if not self._may_send("completion/complete"):
            return Completion([])
        result: CompleteResult = await self._call("completion/complete", params, RequestOptions(timeouts=timeouts))
        return result.completion

    # Changes

    def subscribe(
        self, *, tools: bool = False, prompts: bool = False, resource_list: bool = False, resources: Sequence[str] = ()
    ) -> Subscription:
        """Subscribe to changes: iterate over the :class:`Subscription` to get them.

        Iterating raises ``LocalProtocolError`` if the server delivers none of them; ``ready()`` returns what it delivers. With
        ``ClientOptions(undeclared="raise")``, this method raises ``CapabilityMissing`` if the server declared none of them.

        Args:
            tools: Changes of the list of tools.
            prompts: Changes of the list of prompts.
            resource_list: Changes of the list of resources.
            resources: Changes of these resources.
        """
        if isinstance(resources, str):
            raise LocalProtocolError(f"resources= must be a list of URIs; write resources=[{resources!r}]")
        if not (tools or prompts or resource_list or resources):
            raise LocalProtocolError("subscribe() needs tools=True, prompts=True, resource_list=True or resources=[...]")
        wanted = SubscriptionFilter(
            tools_list_changed=tools or None,
            prompts_list_changed=prompts or None,
            resources_list_changed=resource_list or None,
            resource_subscriptions=list(resources) or None,
        )
        if self._config.undeclared == "raise" and honoured(wanted, self.capabilities) == SubscriptionFilter():
            raise CapabilityMissing({}, message="the server declared none of the changes that subscribe() was called for")
        return Subscription(wanted, self._subscriptions)

    # Other requests

    async def ping(self, *, timeouts: Timeouts | None = None) -> None:
        """Wait for the server to respond to a ``ping``, or to ``server/discover`` on the stateless wire, which has no ping."""
        method = "ping" if self.era == "legacy" else "server/discover"
        await self._call(method, EmptyParams(), RequestOptions(timeouts=timeouts))

    async def set_log_level(self, level: LoggingLevel, *, timeouts: Timeouts | None = None) -> None:
        """Set the lowest level of log messages for ``on_log``: for the session or, on the stateless wire, for each later call.

        Does nothing if the server did not declare logging; see :meth:`list_tools`.
        """
        if level not in LOGGING_LEVELS:
            raise LocalProtocolError(f"the log level must be one of {', '.join(LOGGING_LEVELS)}, got {level!r}")
        if self._may_send("logging/setLevel") and self.era == "legacy":
            await self._call("logging/setLevel", SetLevelParams(level), RequestOptions(timeouts=timeouts))
        self._caller.log_level = level

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots. A legacy server is notified (RT-03).

        Raises:
            LocalProtocolError: The client was connected without roots, so it did not declare any.
        """
        questions = self._config.questions
        if not isinstance(questions, InputHandlers) or questions.roots is None:
            raise LocalProtocolError("the client was connected without roots=, so it did not declare roots to the server")
        questions.roots = roots
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
        """Send any request. Returns a typed result for a method that twopipes knows, and plain Python values for any other."""
        options = RequestOptions(on_progress=on_progress, timeouts=timeouts, meta=meta)
        return plain(await self._call(method, params, options), method)

    async def request_once(
        self,
        method: str,
        params: Params | Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        timeouts: Timeouts | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any | InputRequired:
        """Send any request, as :meth:`request` does, but return the server's questions instead of passing them to the callbacks."""
        options = RequestOptions(on_progress=on_progress, timeouts=timeouts, meta=meta, return_questions=True)
        return plain(await self._call(method, params, options), method)

    async def close(self) -> None:
        """Close the connection and shut the server down: close its stdin, wait, then send signals.

        Any task, thread or event loop may call this, any number of times. Calls in progress end with ``ClientClosed``. Cancelling
        this method does not stop the shutdown.
        """
        if not self._supervisor.loop.is_closed():
            await self._in_own_loop(self._close())

    async def _close(self) -> None:
        self._subscriptions.close()
        await self._supervisor.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Called by the supervisor

    def _notified(self, method: str, params: Any, size: int, raw: Any = UNSET) -> None:
        """Handle a notification of ``size`` bytes that does not belong to a request. ``raw`` are its params as received."""
        on_log, on_notification = self._config.on_log, self._config.on_notification
        callbacks = self._supervisor.callbacks
        if method == "notifications/message":
            if on_log is not None:
                callbacks.call("on_log", on_log, params, size=size)
            return
        self._cache.on_notification(method, params)
        self._subscriptions.notified(method, params)
        if on_notification is not None:
            try:
                given = plain(params, method)
            except RemoteProtocolError as error:
                self._supervisor.stray.add(f"a notification of the server ({method}): {error}")
            else:
                callbacks.call("on_notification", on_notification, method, given, size=size)

    def _reopened(self, connection: ClientConnection) -> None:
        """Restore the log level and the subscriptions on the connection to a restarted server."""
        level = self._caller.log_level
        if level is not None and self.era == "legacy" and self.capabilities.logging is not None:
            connection.send_and_forget("logging/setLevel", SetLevelParams(level))  # SD-06
        self._subscriptions.reopened(connection)

    def _lost(self) -> None:
        self._cache.clear()
        self._subscriptions.lost()

    # Internals

    def _in_own_loop(self, coroutine: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Return an awaitable for any event loop that runs the coroutine in the client's loop."""
        loop = self._supervisor.loop
        if asyncio.get_running_loop() is loop:
            return coroutine
        if loop.is_closed():
            coroutine.close()
            raise ClientClosed
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))

    def _call(self, method: str, params: Params | Mapping[str, Any] | None, options: RequestOptions) -> Awaitable[Any]:
        return self._in_own_loop(self._caller.call(method, params, options))

    def _list(self, method: str, kind: type[PageT], *, fresh: bool, timeouts: Timeouts | None) -> Awaitable[PageT]:
        return self._in_own_loop(self._walk(method, kind, fresh=fresh, timeouts=timeouts))

    async def _walk(self, method: str, kind: type[PageT], *, fresh: bool, timeouts: Timeouts | None) -> PageT:
        if not self._may_send(method):
            return kind([])
        loop = self._supervisor.loop
        cached = None if fresh else self._cache.get(method, now=loop.time())
        if isinstance(cached, kind):
            return cached
        fetch = self._cache.begin(method)
        options = RequestOptions(timeouts=timeouts)
        walk: PageWalk[PageT] = PageWalk(method, limits=self._config.limits, legacy=self._supervisor.opened.era == "legacy")
        while not walk.is_done:
            try:
                page = await self._caller.call(method, ListParams(walk.cursor), options)
            except McpError as error:
                if not walk.restart(error):
                    raise
            else:
                walk.feed(page, now=loop.time())
        return self._stored(fetch, walk.result())

    async def _read(self, uri: str, options: RequestOptions, *, fresh: bool) -> ReadResourceResult:
        # CH-04: the caller's own _meta keys may change the result.
        cached = None if fresh or options.meta else self._cache.get("resources/read", uri, now=self._supervisor.loop.time())
        if isinstance(cached, ReadResourceResult):
            return cached
        fetch = self._cache.begin("resources/read", uri)
        options = structs.replace(options, on_questions=lambda: self._cache.discard(fetch))  # CH-05
        result: ReadResourceResult = await self._caller.call("resources/read", ReadResourceParams(uri), options)
        return result if options.meta else self._stored(fetch, result)

    def _stored(self, fetch: Fetch, result: ResultT) -> ResultT:
        if self._supervisor.opened.era == "modern":  # CH-01: legacy revisions have no cache hints
            self._cache.put(fetch, result, now=self._supervisor.loop.time())
        return result

    def _annotations_of(self, name: str) -> ToolAnnotations | None:
        tool = self._output.tools.get(name)
        return None if tool is None else tool.annotations

    def _may_send(self, method: str, *, is_required: bool = False) -> bool:
        """Whether the server declared a method (LC-11). If not, raise an error if there is no empty result, or on request."""
        needed = NEEDED_CAPABILITIES.get(method)
        opened = self._supervisor.opened
        if needed is None or opened.capabilities.allows(*needed) or self._supervisor.is_closing:  # sending raises ClientClosed
            return True
        if method == "completion/complete" and opened.revision == LEGACY[0]:  # it has the method but no capability for it
            return True
        if is_required or self._config.undeclared == "raise":
            raise CapabilityMissing(
                {needed[0]: {}},
                message=f"{method} needs the capability {'.'.join(needed)}, which the server did not declare; nothing was sent. "
                f"If the server supports {method} anyway, use request()",
            )
        return False


def _written(value: Any, what: str) -> Raw:
    try:
        data = msgspec_json.encode(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalProtocolError(f"{what} cannot be written as JSON: {error}") from error
    if not data.startswith(b"{"):
        raise LocalProtocolError(f"{what} must be a dict that maps names to values, got {value!r}")
    return Raw(data)
