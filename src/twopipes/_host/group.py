"""Several servers as one: their tools under names that do not collide, and calls that are approved and routed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self, TypeVar

from twopipes._client.callbacks import CallbackRunner
from twopipes._client.client import Client
from twopipes._client.http_auth import ClientAuth
from twopipes._client.options import ClientOptions, OnProgress, Validate
from twopipes._client.results import CallResult
from twopipes._host.approval import Approvals, Approve, ToolChange
from twopipes._host.config import ServerConfig
from twopipes._host.filters import ToolFilter
from twopipes._host.group_options import Config, GroupOptions, GroupRoots, OnGroupElicit, OnGroupSample
from twopipes._host.group_server import GroupServer
from twopipes._host.group_tool import GroupPrompt, GroupTool
from twopipes._host.group_tools import GroupTools, unknown
from twopipes._host.names import NameProblem, NameTable
from twopipes._host.notifier import Notifier
from twopipes._process.stderr import StderrLine
from twopipes._protocol.types import (
    GetPromptResult,
    LoggingLevel,
    LogParams,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)
from twopipes.errors import ClientClosed, ConnectionLost, LocalProtocolError, ServerExited, TwopipesError
from twopipes.settings import Limits, RestartPolicy, Sandbox, Timeouts

T = TypeVar("T")


class ServerGroup:
    """Several servers, used as one.

    ::

        async with ServerGroup(load("~/.claude.json"), on_elicit=ask_user, approve=ask_permission) as group:
            for tool in group.tools:
                print(tool.name, tool.description)
            result = await group.call("time__get_current_time", {"timezone": "UTC"})

    All servers are opened at the same time. One that cannot be opened, hangs, crashes or changes its tools affects only its own
    tools: it is in :attr:`problems`, ``on_problem`` is called, and the others go on. A call of one of its tools opens it again.
    Each client restarts its server as :func:`twopipes.connect` describes; a server that the client does not restart, one of the
    legacy era, is opened again by the next call. No call is made twice unless that is safe.

    Callbacks that take events or questions of one server get its name first. Callbacks may be plain functions or ``async``; a plain
    one must not block the event loop. What a callback raises goes to the exception handler of the loop, except for those that
    answer something.

    Args:
        servers: How to reach each server, by the name that you give it: the result of :func:`load`, or anything that
            :func:`twopipes.connect` takes. Servers that are not ``enabled`` are left out.
        lazy: Open a server only when one of its tools is called, or when :meth:`list_tools` is.
        separator: What comes between the name of a server and that of its tool: one to four ``_`` or ``-``.
        tools: Which tools are offered, in addition to the filter of each server.
        approve: Called before each call with the server, the :class:`GroupTool` and a copy of the arguments. It returns
            ``Allow()``, ``Deny(reason)`` or ``Edit(arguments)``. If it fails, the call is not made. By default every call is made.
        approved: The ``approved`` of an earlier group, to find tools that changed since then.
        on_tool_changed: Called with a :class:`ToolChange` if a tool differs from the version that was approved. The tool is still
            offered, with ``changed`` set; the approval hook decides about calls.
        on_tools: Called with all tools after the list has changed. Changes while it runs lead to one more call.
        on_problem: Called with an error of a server, or with a :class:`NameProblem` for names that collide or look alike.
        on_log: Called with each log message.
        on_stderr: Called with each line of a child's stderr.
        on_restart: Called before a restart with the error that caused it.
        on_elicit: Answers forms, as in ``connect()``.
        on_elicit_url: Answers requests to visit a URL.
        on_sample: Answers requests to the model.
        roots: Folders and files the servers may use, or a function that gets the server and returns them.
        timeouts: How long to wait, for servers without timeouts of their own. The limit ``connect`` also applies to the list of
            tools.
        limits: How much data to hold for each server; by default also at most 20,000 tools.
        restart: When to restart a server that exited. With ``when="never"``, a call does not open it again either.
        sandbox: What children may do, for servers without a policy of their own.
        auth: The authorization for servers at a URL, by their names, as in ``connect()``; also ``ServerConfig(auth=...)``.
        trace: A folder in which to record each conversation.
        options: Rarely needed options; its ``on_notification`` gets the name of the server first.

    Raises:
        LocalProtocolError: An argument is invalid; nothing was started.
    """

    def __init__(
        self,
        servers: Mapping[str, Config],
        *,
        lazy: bool = False,
        separator: str = "__",
        tools: ToolFilter | None = None,
        approve: Approve | None = None,
        approved: Mapping[str, str] | None = None,
        on_tool_changed: Callable[[ToolChange], Any] | None = None,
        on_tools: Callable[[list[GroupTool]], Any] | None = None,
        on_problem: Callable[[str, TwopipesError | NameProblem], Any] | None = None,
        on_log: Callable[[str, LogParams], Any] | None = None,
        on_stderr: Callable[[str, StderrLine], Any] | None = None,
        on_restart: Callable[[str, TwopipesError], Any] | None = None,
        on_elicit: OnGroupElicit | None = None,
        on_elicit_url: OnGroupElicit | None = None,
        on_sample: OnGroupSample | None = None,
        roots: GroupRoots | None = None,
        timeouts: Timeouts | None = None,
        limits: Limits | None = None,
        restart: RestartPolicy | None = None,
        sandbox: Sandbox | None = None,
        auth: Mapping[str, ClientAuth] | None = None,
        trace: str | os.PathLike[str] | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        if not isinstance(servers, Mapping):
            raise LocalProtocolError(f"ServerGroup() takes a dict of servers, or load(FILE), got {servers!r}")
        if not isinstance(auth, Mapping | None):  # one token for all servers would reach each of them
            raise LocalProtocolError("auth= of a ServerGroup must be a dict by the names of the servers")
        self._options = GroupOptions(
            on_log=on_log,
            on_stderr=on_stderr,
            on_restart=on_restart,
            on_elicit=on_elicit,
            on_elicit_url=on_elicit_url,
            on_sample=on_sample,
            roots=roots,
            timeouts=timeouts,
            limits=limits,
            restart=restart,
            sandbox=sandbox,
            auth=auth,
            trace=trace,
            options=options,
        )
        self._lazy = lazy
        self._servers: dict[str, GroupServer] = {}
        self._tools = GroupTools(
            self._servers,
            NameTable(separator),
            tools,
            Approvals(approve, approved or {}),
            on_change=on_tool_changed and (lambda change: self._call_back("on_tool_changed", on_tool_changed, change)),
            on_warning=lambda problem: self._call_back("on_problem", on_problem, problem.server, problem),
        )
        self._on_problem = on_problem
        self._notifier = Notifier(on_tools, lambda: self.tools)
        self._prompt_names = NameTable(separator)
        self._leaving: set[GroupServer] = set()  # removed, but perhaps not closed yet
        self._callbacks: CallbackRunner | None = None  # set while the group is open
        self._closing: asyncio.Task[None] | None = None
        for name, config in servers.items():
            if not isinstance(config, ServerConfig) or config.enabled:
                self._new(name, config)

    def __repr__(self) -> str:
        return f"<ServerGroup {', '.join(f'{name}: {server.state}' for name, server in self._servers.items()) or 'empty'}>"

    # State

    @property
    def servers(self) -> Mapping[str, GroupServer]:
        """The servers, by name."""
        return MappingProxyType(self._servers)

    @property
    def tools(self) -> list[GroupTool]:
        """The tools of all servers that were opened, in the order of the servers. Nothing is sent."""
        return [tool for server in self._servers.values() for tool in server.offered.values()]

    @property
    def problems(self) -> dict[str, TwopipesError]:
        """The last error of each server that has a problem, by its name."""
        return {name: server.problem for name, server in self._servers.items() if server.problem is not None}

    @property
    def warnings(self) -> list[NameProblem]:
        """Names of servers and tools that collide, look alike, or imitate another server."""
        return self._tools.names.problems()

    @property
    def approved(self) -> dict[str, str]:
        """The fingerprint of each tool, by name: as it was first seen, or as it was when a call was last allowed.

        Save it and pass it to the next group, which then reports the tools that changed in between.
        """
        return self._tools.approvals.fingerprints

    # Opening and closing

    async def open(self) -> None:
        """Open all servers at the same time, unless the group is lazy. Servers that fail are reported and skipped.

        Each server has the time of its ``timeouts.connect`` to open, and again to list its tools.

        Raises:
            ClientClosed: The group was closed meanwhile.
        """
        self._check_open()
        if self._callbacks is not None:
            raise LocalProtocolError("the group is open already")
        self._options.make_trace_folder()
        limits = self._options.limits or Limits()
        self._callbacks = CallbackRunner(asyncio.get_running_loop(), limits.max_backlog)
        self._tools.warn()
        try:
            if not self._lazy:
                await self._each(list(self._servers.values()), _quietly_opened)
            self._check_open()
        except BaseException:
            await self.close()
            raise
        self._notifier.start()

    async def close(self) -> None:
        """Close all servers at the same time. Calls in progress end with ``ClientClosed``.

        Any number of tasks may call this. Cancelling it does not stop the shutdown.
        """
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="close a group of servers")
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def add(self, name: str, config: Config) -> GroupServer:
        """Add a server, and open it unless the group is lazy. If it cannot be opened, its ``problem`` is the error.

        Raises:
            LocalProtocolError: There is a server of this name.
            ClientClosed: The group is closed.
        """
        self._check_open(opened=True)
        server = self._new(name, config)
        self._tools.warn()
        if not self._lazy:
            await _quietly_opened(server)
        return server

    async def remove(self, name: str) -> None:
        """Remove a server and shut it down. Calls of its tools that are in progress end with ``ClientClosed``.

        Raises:
            LocalProtocolError: There is no server of this name.
        """
        server = self._server(name)
        del self._servers[name]
        self._tools.names.remove_server(name)
        self._prompt_names.remove_server(name)
        if server.offered:
            self._notifier.changed()
        self._leaving.add(server)
        await server.close()
        self._leaving.discard(server)

    async def reconnect(self, name: str) -> GroupServer:
        """Close a server and open it again. If it cannot be opened, its ``problem`` is the error.

        Raises:
            LocalProtocolError: There is no server of this name.
            ClientClosed: The group is closed.
        """
        self._check_open(opened=True)
        server = self._server(name)
        await _quietly_opened(server)
        return server

    # Tools

    async def list_tools(self, *, fresh: bool = False) -> list[GroupTool]:
        """Return all tools, after opening the servers that were not opened yet.

        Args:
            fresh: Whether to ask the servers that are open again. Otherwise their lists are current if they report changes.
        """
        self._check_open(opened=True)
        waiting = [server for server in self._servers.values() if server.state in {"waiting", "opening"}]
        ready = [server for server in self._servers.values() if server.state == "ready"] if fresh else []
        await asyncio.gather(self._each(waiting, GroupServer.connected), self._each(ready, GroupServer.relist))
        return self.tools

    async def call(
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
        """Call a tool by its name in the group, after the approval hook has allowed it.

        Opens the server if it is not open. The other arguments are those of :meth:`twopipes.Client.call_tool`.

        Returns:
            The result, also if the tool failed (``.is_error``): such a result is meant for the model.

        Raises:
            LocalProtocolError: There is no such tool. The message suggests similar ones.
            CallDenied: The call was not approved; nothing was sent.
            TwopipesError: The server cannot be opened, or what :meth:`twopipes.Client.call_tool` raises.
        """
        tool = await self.find_tool(name)
        sent = await self._tools.approvals.decide(tool, arguments)

        async def send(client: Client) -> CallResult:
            self._tools.check_approved(tool)
            return await client.call_tool(
                tool.tool.name,
                sent,
                on_progress=on_progress,
                timeouts=timeouts,
                meta=meta,
                log_level=log_level,
                validate=validate,
            )

        return await self._request(self._server(tool.server), send)

    async def find_tool(self, name: str) -> GroupTool:
        """Return a tool by its name in the group, after opening its server if that is necessary.

        Raises:
            LocalProtocolError: There is no such tool. The message suggests similar ones.
            TwopipesError: The server cannot be opened.
        """
        self._check_open(opened=True)
        if (server := self._server_of(name, self._tools.names)) is not None:
            await server.connected()
        return self._tools.get(name)

    def accept(self, name: str) -> GroupTool:
        """Approve the current version of a tool that changed. An approval hook that allows a call does the same.

        Raises:
            LocalProtocolError: There is no such tool.
        """
        return self._tools.accept(name)

    # Resources and prompts

    async def list_resources(self) -> dict[str, list[Resource]]:
        """Return the resources of each server, by its name. Servers that fail are reported and left out."""
        return await self._from_each(lambda client: client.list_resources())

    async def list_resource_templates(self) -> dict[str, list[ResourceTemplate]]:
        """Return the resource templates of each server, by its name. Servers that fail are reported and left out."""
        return await self._from_each(lambda client: client.list_resource_templates())

    async def read_resource(self, server: str, uri: str, *, timeouts: Timeouts | None = None) -> ReadResourceResult:
        """Read a resource of a server; see :meth:`twopipes.Client.read_resource`."""
        self._check_open(opened=True)
        return await self._request(self._server(server), lambda client: client.read_resource(uri, timeouts=timeouts))

    async def list_prompts(self) -> list[GroupPrompt]:
        """Return the prompts of all servers. Servers that fail are reported and left out."""
        listed = await self._from_each(lambda client: client.list_prompts())
        current = {server: prompts for server, prompts in listed.items() if server in self._servers}
        return [prompt for server, prompts in current.items() for prompt in self._named_prompts(server, prompts)]

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeouts: Timeouts | None = None
    ) -> GetPromptResult:
        """Get a prompt by its name in the group; see :meth:`twopipes.Client.get_prompt`.

        Raises:
            LocalProtocolError: There is no such prompt. The message suggests similar ones.
        """
        self._check_open(opened=True)
        server = self._server_of(name, self._prompt_names)
        if server is not None and self._prompt_names.find(name) is None:
            prompts = await self._request(server, lambda client: client.list_prompts())
            if self._servers.get(server.name) is server:
                self._named_prompts(server.name, prompts)
        found = self._prompt_names.find(name)
        if server is None or found is None:
            raise LocalProtocolError(unknown("prompt", name, self._prompt_names, self._servers))
        return await self._request(server, lambda client: client.get_prompt(found.name, arguments, timeouts=timeouts))

    # Internals

    def _new(self, name: str, config: Config) -> GroupServer:
        if name in self._servers:
            raise LocalProtocolError(f"there is a server {name!r} already; remove it first, or choose another name")
        prefix = self._tools.names.add_server(name)
        self._prompt_names.add_server(name)
        server = GroupServer(name, config, prefix, self._options, on_listed=self._listed, on_problem=self._failed)
        self._servers[name] = server
        return server

    def _server(self, name: str) -> GroupServer:
        if name not in self._servers:
            raise LocalProtocolError(f"there is no server {name!r}; the servers are {', '.join(self._servers) or 'none'}")
        return self._servers[name]

    def _server_of(self, name: str, names: NameTable) -> GroupServer | None:
        """Return the server of a name: by the table or, if its list is not known yet, by the prefix."""
        found = names.find(name)
        server = names.server_of(name) if found is None else found.server
        return None if server is None else self._servers[server]

    def _check_open(self, *, opened: bool = False) -> None:
        if self._closing is not None:
            raise ClientClosed(is_group=True)
        if opened and self._callbacks is None:
            raise LocalProtocolError("the group is not open; use async with ServerGroup(...) as group, or await group.open()")

    async def _close(self) -> None:
        await self._notifier.close()
        await asyncio.gather(*(server.close() for server in [*self._servers.values(), *self._leaving]))

    async def _each(self, servers: Sequence[GroupServer], work: Callable[[GroupServer], Coroutine[Any, Any, T]]) -> dict[str, T]:
        """Do something with several servers at the same time. Those that fail are left out; the error was reported."""
        outcomes = await asyncio.gather(*(work(server) for server in servers), return_exceptions=True)
        done = {}
        for server, outcome in zip(servers, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                if not isinstance(outcome, TwopipesError):
                    raise outcome
            else:
                done[server.name] = outcome
        return done

    async def _from_each(self, request: Callable[[Client], Coroutine[Any, Any, list[T]]]) -> dict[str, list[T]]:
        """Make a request to each server, and open those that were not opened yet. Report and leave out those that fail."""
        self._check_open(opened=True)

        async def ask(server: GroupServer) -> list[T]:
            client = await server.connected()
            try:
                async with asyncio.timeout(client.timeouts.request):
                    return await request(client)
            except (TwopipesError, TimeoutError) as error:
                late = f"the server did not finish its list within {client.timeouts.request or 0:.3g} s"
                failure = error if isinstance(error, TwopipesError) else TwopipesError(late)
                self._failed(server, failure)
                raise failure from None

        return await self._each([server for server in self._servers.values() if server.state != "failed"], ask)

    async def _request(self, server: GroupServer, send: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Send a request. If the server was lost for good and it is safe, open it again and send the request once more."""
        client = await server.connected()
        try:
            result = await send(client)
        except (ServerExited, ConnectionLost) as error:
            if not error.retryable or not server.lost(client):
                raise
            client = await server.connected()
            result = await send(client)
        server.works(client)
        return result

    # Called by the servers

    async def _listed(self, server: GroupServer, tools: Sequence[Tool]) -> None:
        if await self._tools.replace(server, tools):
            self._notifier.changed()

    def _failed(self, server: GroupServer, error: TwopipesError) -> None:
        self._call_back("on_problem", self._on_problem, server.name, error)

    def _call_back(self, name: str, function: Callable[..., Any] | None, *arguments: Any) -> None:
        if function is not None and self._callbacks is not None and self._closing is None:
            self._callbacks.call(name, function, *arguments)

    def _named_prompts(self, server: str, prompts: Sequence[Prompt]) -> list[GroupPrompt]:
        by_name: dict[str, Prompt] = {}
        for prompt in prompts:
            by_name.setdefault(prompt.name, prompt)
        self._prompt_names.replace(server, by_name)
        names = self._prompt_names.names(server)
        return [GroupPrompt(name=public, server=server, prompt=by_name[name]) for public, name in names.items()]


async def _quietly_opened(server: GroupServer) -> None:
    """Open a server; its error was reported."""
    try:
        await server.open()
    except ClientClosed:
        raise
    except TwopipesError:
        pass
