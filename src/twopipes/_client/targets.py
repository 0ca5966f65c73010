"""Whom to connect to: a command, a socket, a server object in this process, a channel. Each can be opened, most of them again."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from twopipes._channels.base import Channel
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._process.observer import ProcessObserver
from twopipes._process.shutdown import ShutdownPlan
from twopipes._process.stderr import StderrLine
from twopipes.errors import LocalProtocolError

__all__ = ["Link", "Target", "target_of"]

OnStderr = Callable[[StderrLine], Any]


class Link:
    """An open channel, and what stands behind it.

    Attributes:
        channel: The bytes.
        child: The process at the other end, where we launched it.
    """

    def __init__(self, channel: Channel, child: Child | None = None, serving: asyncio.Task[None] | None = None) -> None:
        self.channel = channel
        self.child = child
        self._serving = serving

    async def release(self) -> None:
        """Closes the channel, and waits for a server in this process to end. A child is ended by its own plan before."""
        await self.channel.close()
        if self._serving is not None:
            self._serving.cancel()
            with suppress(asyncio.CancelledError):
                await self._serving


class Target(ABC):
    """A server that can be reached.

    Attributes:
        description: What it is, for messages.
        identity: Names the same server again, so that what was learnt about it can be remembered; ``None`` if nothing does.
        reopens: Whether it can be opened more than once.
        plan: How it wants to be ended, where it says so.
    """

    description: str
    identity: str | None = None
    reopens = True
    plan: ShutdownPlan | None = None

    @abstractmethod
    async def open(self, on_stderr: OnStderr | None) -> Link:
        """Opens a fresh channel to it.

        Raises:
            StartFailed: The command cannot be started.
            ChannelBroken: Nobody answers at the socket.
        """


class CommandTarget(Target):
    """A command: each opening is a process of its own."""

    def __init__(self, command: ServerCommand) -> None:
        self.command = command
        self.description = command.describe()
        self.identity = command.identity()
        self.plan = command.shutdown

    async def open(self, on_stderr: OnStderr | None, *, observer: ProcessObserver | None = None) -> Link:
        """Launches it."""
        child = await Child.start(self.command, on_stderr=on_stderr, observer=observer)
        return Link(child.channel, child)


class UnixTarget(Target):
    """A Unix socket."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.description = self.identity = f"unix:{path}"

    async def open(self, on_stderr: OnStderr | None) -> Link:
        """Connects to it."""
        from twopipes._channels.sockets import connect_unix  # noqa: PLC0415 - a client of a command needs no sockets

        return Link(await connect_unix(self.path))


class TcpTarget(Target):
    """A TCP port."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.description = self.identity = f"tcp://{host}:{port}"

    async def open(self, on_stderr: OnStderr | None) -> Link:
        """Connects to it."""
        from twopipes._channels.sockets import connect_tcp  # noqa: PLC0415 - as above

        return Link(await connect_tcp(self.host, self.port))


@runtime_checkable
class Servable(Protocol):
    """What a :class:`twopipes.Server` can do, and all that is needed of it here."""

    async def serve(self, *, channel: Channel) -> None:
        """Serves one channel to its end."""


class MemoryTarget(Target):
    """A server object in this process: no pipes, the same bytes."""

    def __init__(self, server: Servable) -> None:
        self.server = server
        self.description = f"{server!r} in this process"

    async def open(self, on_stderr: OnStderr | None) -> Link:
        """Serves a fresh connection."""
        from twopipes._channels.memory import memory_pair  # noqa: PLC0415 - as above

        here, there = memory_pair()
        serving = asyncio.get_running_loop().create_task(self._serve(there), name=f"serve {self.description}")
        return Link(here, serving=serving)

    async def _serve(self, channel: Channel) -> None:
        async with channel:  # also when the server cannot start: a pipe would be closed by the death of its process
            await self.server.serve(channel=channel)


class ChannelTarget(Target):
    """A channel of the caller's own, open already. It cannot be opened again."""

    reopens = False

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.description = channel.description

    async def open(self, on_stderr: OnStderr | None) -> Link:
        """Takes it."""
        return Link(self.channel)


_OF_THE_WEB = ("http://", "https://", "ws://", "wss://")


def target_of(given: Any, *arguments: str) -> Target:
    """Reads what ``connect`` was called with.

    Raises:
        LocalProtocolError: It is nothing that can be connected to.
    """
    if isinstance(given, str) and given.startswith(_OF_THE_WEB):
        raise LocalProtocolError(
            f"{given} is reached by HTTP, which twopipes does not speak: it launches a command, or connects to unix:/path or "
            "tcp://host:port"
        )
    if isinstance(given, str | os.PathLike) and (arguments or not str(given).startswith(("unix:", "tcp://"))):
        return CommandTarget(ServerCommand([os.fspath(given), *arguments]))
    if arguments:
        raise LocalProtocolError(
            f"connect({given!r}, ...): only a command has arguments; {', '.join(map(repr, arguments))} are too many"
        )
    if isinstance(given, ServerCommand):
        return CommandTarget(given)
    if isinstance(given, str):
        return _socket(given)
    if isinstance(given, Target):
        return given
    if isinstance(given, Channel):
        return ChannelTarget(given)
    if isinstance(given, Servable) and not isinstance(given, type):
        return MemoryTarget(given)
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        return CommandTarget(ServerCommand(given))
    raise LocalProtocolError(
        f"connect() takes a command, a ServerCommand, a Server, 'unix:/path', 'tcp://host:port' or a Channel, and not {given!r}"
    )


def _socket(address: str) -> Target:
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        if path.startswith("//"):
            path = path.removeprefix("//")  # as in unix:///path
        if not path:
            raise LocalProtocolError(f"{address!r} names no socket; write unix:/path/to/socket")
        return UnixTarget(str(Path(path).expanduser()))
    host, _, port = address.removeprefix("tcp://").rstrip("/").rpartition(":")
    if not host or not port.isdecimal():
        raise LocalProtocolError(f"{address!r} names no port; write tcp://127.0.0.1:9000")
    return TcpTarget(host.strip("[]"), int(port))
