"""The group without ``await``: every method of :class:`twopipes.host.ServerGroup`, by the same name, waiting for its result."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from msgspec import structs

from twopipes._blocking import callbacks
from twopipes._blocking.callbacks import CallbackThread, Progress, auth_in_a_thread, in_a_thread, roots_in_a_thread
from twopipes._blocking.group_server import GroupClient, GroupServer
from twopipes._blocking.loop import ClientLease, LoopThread
from twopipes._blocking.waiting import Waiting, blocking, open_in_loop
from twopipes._channels.base import Channel
from twopipes._client.client import Client as AsyncClient
from twopipes._client.options import ClientOptions
from twopipes._client.targets import target_of
from twopipes._host.config import ServerConfig
from twopipes._host.group import ServerGroup as AsyncGroup
from twopipes._host.group_options import Config
from twopipes._host.group_tool import GroupTool
from twopipes._host.names import NameProblem
from twopipes._process.shutdown import ShutdownPlan, Wait
from twopipes.errors import ClientClosed, LocalProtocolError, TwopipesError
from twopipes.settings import Timeouts

P = ParamSpec("P")
T = TypeVar("T")
# Callbacks that are called one after the other in the group's callback thread, and those that answer something.
_EVENT_CALLBACKS = ("on_tool_changed", "on_tools", "on_problem", "on_log", "on_stderr", "on_restart")
_QUESTION_CALLBACKS = ("approve", "on_elicit", "on_elicit_url", "on_sample")


class _CallbackLink:
    """Passes events to the callback thread, which exists only while the group is open."""

    def __init__(self) -> None:
        self.thread: CallbackThread | None = None

    def wrap(self, function: Callable[..., Any] | None) -> Callable[..., Any] | None:
        if function is None:
            return None
        return lambda *arguments: None if self.thread is None else self.thread.enqueue(function, *arguments)


def _parameters_of_the_async_group(
    source: Callable[Concatenate[AsyncGroup, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[ServerGroup, P], None]]:
    """Give a constructor the parameters of the async one."""

    def decorate(function: Callable[..., None]) -> Callable[Concatenate[ServerGroup, P], None]:
        function.__signature__ = inspect.signature(source)  # type: ignore[attr-defined]
        return function

    return decorate


class ServerGroup(Waiting):
    """Several servers, used as one, without ``await``.

    ::

        with ServerGroup(load("~/.claude.json"), on_elicit=ask_user, approve=ask_permission) as group:
            for tool in group.tools:
                print(tool.name, tool.description)
            result = group.call("time__get_current_time", {"timezone": "UTC"})

    It is a :class:`twopipes.host.ServerGroup` in the thread of an event loop. Several threads may use it at the same time.
    Callbacks are plain functions, called in threads in which they may block: ``on_progress`` in the thread that made the call;
    ``approve``, ``on_elicit``, ``on_elicit_url``, ``on_sample`` and a function for ``roots`` each in a new thread; all others in
    one thread, one after the other.
    """

    @_parameters_of_the_async_group(AsyncGroup.__init__)
    def __init__(self, servers: Mapping[str, Config], **options: Any) -> None:
        link, slots = _CallbackLink(), asyncio.Semaphore(callbacks.MAX_QUESTIONS)
        # Slots of its own: a callback that answers a question may wait for a call that needs a token.
        self._auth_slots = asyncio.Semaphore(callbacks.MAX_QUESTIONS)
        wrapped: dict[str, Any] = {
            **{name: link.wrap(options[name]) for name in _EVENT_CALLBACKS if name in options},
            **{name: in_a_thread(options[name], slots) for name in _QUESTION_CALLBACKS if name in options},
        }
        if options.get("roots") is not None:
            wrapped["roots"] = roots_in_a_thread(options["roots"], slots)
        rare: ClientOptions | None = options.get("options")
        if rare is not None:
            wrapped["options"] = structs.replace(rare, on_notification=link.wrap(rare.on_notification))
        if isinstance(options.get("auth"), Mapping):
            wrapped["auth"] = {name: auth_in_a_thread(auth, self._auth_slots) for name, auth in options["auth"].items()}
        if isinstance(servers, Mapping):
            servers = {name: _with_threads(config, self._auth_slots) for name, config in servers.items()}
        self._inner: AsyncGroup = AsyncGroup(servers, **{**options, **wrapped})
        self._question_slots = slots
        self._lease = ClientLease(_longest_plan(servers, options.get("timeouts") or Timeouts()))
        self._link = link

    # State

    @property
    def servers(self) -> dict[str, GroupServer]:
        """The servers, by name."""
        return {name: GroupServer(server, self) for name, server in self._read(lambda: dict(self._inner.servers)).items()}

    @property
    def tools(self) -> list[GroupTool]:
        """The tools of all servers that were opened, in the order of the servers. Nothing is sent."""
        return self._read(lambda: self._inner.tools)

    @property
    def problems(self) -> dict[str, TwopipesError]:
        """The last error of each server that has a problem, by its name."""
        return self._read(lambda: self._inner.problems)

    @property
    def warnings(self) -> list[NameProblem]:
        """Names of servers and tools that collide, look alike, or imitate another server."""
        return self._read(lambda: self._inner.warnings)

    @property
    def approved(self) -> dict[str, str]:
        """The fingerprint of each tool, by name; see :attr:`twopipes.host.ServerGroup.approved`."""
        return self._read(lambda: self._inner.approved)

    # Methods

    remove = blocking(AsyncGroup.remove)
    list_tools = blocking(AsyncGroup.list_tools)
    find_tool = blocking(AsyncGroup.find_tool)
    call = blocking(AsyncGroup.call)
    list_resources = blocking(AsyncGroup.list_resources)
    list_resource_templates = blocking(AsyncGroup.list_resource_templates)
    read_resource = blocking(AsyncGroup.read_resource)
    list_prompts = blocking(AsyncGroup.list_prompts)
    get_prompt = blocking(AsyncGroup.get_prompt)

    def add(self, name: str, config: Config) -> GroupServer:
        """Add a server, and open it unless the group is lazy. If it cannot be opened, its ``problem`` is the error.

        Raises:
            LocalProtocolError: There is a server of this name.
            ClientClosed: The group is closed.
        """
        config = _with_threads(config, self._auth_slots)
        return GroupServer(self._run(lambda: self._inner.add(name, config)), self)

    def reconnect(self, name: str) -> GroupServer:
        """Close a server and open it again. If it cannot be opened, its ``problem`` is the error.

        Raises:
            LocalProtocolError: There is no server of this name.
            ClientClosed: The group is closed.
        """
        return GroupServer(self._run(lambda: self._inner.reconnect(name)), self)

    def accept(self, name: str) -> GroupTool:
        """Approve the current version of a tool that changed. An approval hook that allows a call does the same.

        Raises:
            LocalProtocolError: There is no such tool.
        """
        return self._read(lambda: self._inner.accept(name))

    # Opening and closing

    def open(self) -> None:
        """Open all servers at the same time, unless the group is lazy. Servers that fail are reported and skipped.

        Raises:
            LocalProtocolError: The group is open already.
            ClientClosed: The group was closed.
        """
        if self._is_open:
            raise LocalProtocolError("the group is open already")

        async def open_group(callback_thread: CallbackThread) -> AsyncGroup:
            self._link.thread = callback_thread
            await self._inner.open()
            return self._inner

        def attach(inner: AsyncGroup, loop_thread: LoopThread, callback_thread: CallbackThread) -> None:
            super(ServerGroup, self).__init__(inner, loop_thread, self._lease, callback_thread)

        open_in_loop(self._lease, open_group, attach)

    def close(self) -> None:
        """Close all servers at the same time. Calls in progress end with ``ClientClosed``.

        Any thread may call this, any number of times. Ctrl-C does not stop the shutdown. In a process that was forked from the one
        that opened the group, this does nothing, because the servers belong to the parent.
        """
        if self._is_open:
            super().close()

    def __enter__(self) -> Self:
        self.open()
        return self

    @property
    def _is_open(self) -> bool:
        return hasattr(self, "_loop_thread")

    def _run(self, run: Callable[[], Coroutine[Any, Any, T]], progress: Progress | None = None) -> T:
        if not self._is_open:
            raise LocalProtocolError("the group is not open; use with ServerGroup(...) as group, or group.open()")
        return super()._run(run, progress)

    def _client_of(self, inner: AsyncClient) -> GroupClient:
        return GroupClient(inner, self._loop_thread, self._lease, self._callback_thread, self._question_slots)

    def _read(self, read: Callable[[], T]) -> T:
        """Read the state in the thread of the loop, which may be changing it."""

        async def run() -> T:
            return read()

        if self._is_open and not self._loop_thread.is_here and not self._loop_thread.is_foreign:
            try:
                return self._loop_thread.run(run)
            except ClientClosed:  # the loop has ended
                pass
        return read()


def _with_threads(config: Config, slots: asyncio.Semaphore) -> Config:
    """Return a configuration whose ``auth`` runs in threads, where it may block."""
    if not isinstance(config, ServerConfig) or config.auth is None:
        return config
    return structs.replace(config, auth=auth_in_a_thread(config.auth, slots))


def _longest_plan(servers: Mapping[str, Config], timeouts: Timeouts) -> ShutdownPlan:
    """Return the shutdown plan that takes longest. All servers are shut down at the same time."""

    def seconds(plan: ShutdownPlan) -> float:
        return sum(step.seconds for step in plan.steps if isinstance(step, Wait))

    plans = [ShutdownPlan.default(timeouts.shutdown)]
    for config in servers.values():
        if isinstance(config, ServerConfig):
            plans.append(ShutdownPlan.default((config.timeouts or timeouts).shutdown))
            continue
        if isinstance(config, Channel):
            raise LocalProtocolError(
                f"{config.description} belongs to an event loop, and a blocking group has one of its own; "
                "give ServerGroup() the address or the command"
            )
        with suppress(TwopipesError):  # the group reports it as a problem of this server
            plans.append(target_of(config).plan or plans[0])
    return max(plans, key=seconds)
