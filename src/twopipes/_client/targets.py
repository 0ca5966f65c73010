"""Targets of a client: a command, a socket, a URL, a server object in this process, or a channel.

All but the last can be reopened.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from msgspec import Struct

from twopipes._channels.address import SCHEMES, TcpAddress, UnixAddress, parse_address
from twopipes._channels.base import Channel
from twopipes._process.child import Child, ProcessObserver
from twopipes._process.command import ServerCommand
from twopipes._process.shutdown import ShutdownPlan
from twopipes._process.stderr import StderrLine
from twopipes.errors import LocalProtocolError

if TYPE_CHECKING:
    from twopipes._client.http_exchange import HttpExchange
    from twopipes._client.tool_headers import ToolHeaders
    from twopipes._trace.channel import Observer

Observe = Callable[[Any, bytes], None]
"""Called with the direction and the line of each message over HTTP."""
OnStderr = Callable[[StderrLine], Any]


class HttpLink(Struct):
    """What a connection over HTTP needs instead of a channel."""

    exchange: HttpExchange
    tool_headers: ToolHeaders
    observers: list[Observe] = []  # called with each message


class Endpoint:
    """The server at the other end: over an open channel, or over HTTP.

    Attributes:
        child: Its process, if we launched it.
        serving: Its task, if it runs in this process.
        http: What replaces the channel over HTTP.
    """

    def __init__(
        self,
        channel: Channel | None,
        child: Child | None = None,
        *,
        serving: asyncio.Task[None] | None = None,
        http: HttpLink | None = None,
    ) -> None:
        self.child = child
        self.serving = serving
        self.http = http
        self._channel = channel

    @property
    def channel(self) -> Channel:
        """The channel. Raises ``LocalProtocolError`` for a URL: HTTP is not a stream of lines."""
        if self._channel is None:
            raise LocalProtocolError("a URL cannot be used here, because this needs a stream of lines; give a command or a socket")
        return self._channel

    @channel.setter
    def channel(self, channel: Channel) -> None:
        self._channel = channel

    def observe(self, observer: Observer, *, connection: int = 0) -> None:
        """Report everything that passes to an observer: a recorder, for example."""
        if self.http is not None:
            self.http.observers.append(partial(observer.chunk, connection=connection))
        else:
            from twopipes._trace.channel import RecordedChannel

            self.channel = RecordedChannel(self.channel, observer, reads="<", connection=connection)

    async def release(self) -> None:
        """Wait for a server in this process to end, after the channel was closed. A child is shut down by its plan instead."""
        if self.serving is not None:
            self.serving.cancel()
            with suppress(asyncio.CancelledError):
                await self.serving


class Target:
    """A server that a client can connect to."""

    description: str  # for messages
    identity: str | None = None  # its key in the era cache; None if it has no stable key
    reopens = True  # whether it can be opened more than once
    renews_sessions = False  # whether a legacy session that the server has ended is opened again, whatever the policy for restarts
    may_be_silent = True  # whether a legacy server may leave the probe unanswered; over HTTP, silence only means that it is slow
    plan: ShutdownPlan | None = None  # its own shutdown plan, if it has one

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        """Open a new channel to the server."""
        raise NotImplementedError

    async def release(self) -> None:
        """Free what the target itself holds, because the client was closed."""

    def abandon(self) -> None:
        """Do the same without waiting, because the event loop may be ending."""


class CommandTarget(Target):
    """A command. Each opening starts a new process."""

    def __init__(self, command: ServerCommand) -> None:
        self.command = command
        self.description = command.describe()
        self.identity = command.identity()
        self.plan = command.shutdown

    def with_command(self, command: ServerCommand) -> Self:
        """Return a copy of this target for another command."""
        made = copy(self)
        CommandTarget.__init__(made, command)
        return made

    async def open(self, on_stderr: OnStderr | None, *, observer: ProcessObserver | None = None) -> Endpoint:
        """Launch the command."""
        child = await Child.start(self.command, on_stderr=on_stderr, observer=observer)
        return Endpoint(child.channel, child)


class SocketTarget(Target):
    """A Unix socket or a TCP port."""

    def __init__(self, address: UnixAddress | TcpAddress) -> None:
        self.address = address
        self.description = self.identity = str(address)

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        """Connect to the socket."""
        from twopipes._channels.sockets import connect_tcp, connect_unix

        if isinstance(self.address, UnixAddress):
            return Endpoint(await connect_unix(self.address.path))
        return Endpoint(await connect_tcp(self.address.host, self.address.port))


@runtime_checkable
class Servable(Protocol):
    """The part of :class:`twopipes.Server` that a client in the same process needs."""

    async def serve(self, *, channel: Channel) -> None:
        """Serve one channel until it ends."""


class MemoryTarget(Target):
    """A server object in this process. It exchanges the same bytes, but through memory."""

    def __init__(self, server: Servable) -> None:
        self.server = server
        self.description = f"{server!r} in this process"

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        """Start to serve a new connection."""
        from twopipes._channels.memory import memory_pair

        here, there = memory_pair()
        serving = asyncio.get_running_loop().create_task(self._serve(there), name=f"serve {self.description}")
        return Endpoint(here, serving=serving)

    async def _serve(self, channel: Channel) -> None:
        async with channel:  # close it even if the server cannot start, as the exit of a process would close a pipe
            await self.server.serve(channel=channel)


class ChannelTarget(Target):
    """An open channel of the caller. It cannot be reopened."""

    reopens = False

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.description = channel.description

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        """Return the channel."""
        return Endpoint(self.channel)


HTTP_SCHEMES = ("http://", "https://")
"""How a URL begins."""


def target_of(given: Any, *arguments: str) -> Target:
    """Return the target for the arguments of ``connect``."""
    if isinstance(given, str) and given.lower().startswith(("ws://", "wss://")):
        raise LocalProtocolError(
            f"cannot connect to {given}: MCP does not use WebSockets; is there an http:// or https:// address?"
        )
    is_url = isinstance(given, str) and given.lower().startswith(HTTP_SCHEMES)
    if is_url and not arguments:
        from twopipes._client.http_target import HttpTarget

        return HttpTarget(given)
    if isinstance(given, str | os.PathLike) and not is_url and (arguments or not str(given).startswith(SCHEMES)):
        return CommandTarget(ServerCommand([os.fspath(given), *arguments]))
    if arguments:
        raise LocalProtocolError(
            f"connect({given!r}, ...): only a command takes arguments; remove {', '.join(map(repr, arguments))}"
        )
    if isinstance(given, ServerCommand):
        return CommandTarget(given)
    if isinstance(given, str):
        return SocketTarget(parse_address(given))
    if isinstance(given, Target):
        return given
    if isinstance(given, Channel):
        return ChannelTarget(given)
    if isinstance(given, Servable) and not isinstance(given, type):
        return MemoryTarget(given)
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        return CommandTarget(ServerCommand(given))
    raise LocalProtocolError(
        "connect() takes a command, a ServerCommand, a Server, 'https://host/mcp', 'unix:/path', 'tcp://host:port' or a Channel, "
        f"got {given!r}"
    )
