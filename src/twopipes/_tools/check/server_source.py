"""The server under test: something that gives a fresh conversation as often as one is wanted."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress

from twopipes._channels.base import Channel
from twopipes._channels.sockets import connect_tcp, connect_unix
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._tools.check.conversation import CannotOpen, LiveConversation, Observer, ProbeTimeouts
from twopipes.errors import LocalProtocolError

__all__ = ["AddressTarget", "ChannelTarget", "CommandTarget", "ServerTarget", "target_for"]


class ServerTarget(ABC):
    """A server that can be talked to any number of times.

    Attributes:
        description: What it is, for messages.
        is_process: Whether each conversation has a process of its own, whose end can be watched.
        timeouts: How long to wait for what.
        conversations: Every conversation that there was, in order. What they show by themselves is judged at the end.
        observer: Told of every byte, if somebody wants to keep the wire.
        harmless: By revision, what to ask instead of ``ping`` of a server that does not answer it.
        attempts: By revision, the first conversation that was to be opened in it. What the server said then can be read there, also
            when it has ended.
    """

    is_process = False

    def __init__(self, description: str, *, timeouts: ProbeTimeouts | None = None, observer: Observer | None = None) -> None:
        self.description = description
        self.timeouts = timeouts if timeouts is not None else ProbeTimeouts()
        self.observer = observer
        self.conversations: list[LiveConversation] = []
        self.harmless: dict[str, str] = {}
        self.attempts: dict[str, LiveConversation] = {}
        self._attempting = asyncio.Lock()
        self._count = 0

    async def open(self) -> LiveConversation:
        """A fresh conversation in which nothing was said yet. Whoever asks for it closes it.

        Raises:
            StartFailed: The command cannot be started.
            ChannelBroken: Nobody listens there.
        """
        number, self._count = self._count, self._count + 1
        conversation = await self._open(number)
        conversation.harmless_in = self.harmless
        self.conversations.append(conversation)
        return conversation

    async def attempt(self, revision: str) -> LiveConversation:
        """What came of the first attempt to open a conversation in some revision: to be read, not to be used."""
        async with self._attempting:
            if revision not in self.attempts:
                conversation = await self.open()
                try:
                    with suppress(CannotOpen):
                        await conversation.open(revision)
                finally:
                    await conversation.close()
                self.attempts[revision] = conversation
        return self.attempts[revision]

    @abstractmethod
    async def _open(self, number: int) -> LiveConversation: ...


class CommandTarget(ServerTarget):
    """A command: each conversation is with a process of its own, in its own group, and its stderr is kept."""

    is_process = True

    def __init__(self, command: ServerCommand, *, timeouts: ProbeTimeouts | None = None, observer: Observer | None = None) -> None:
        super().__init__(command.describe(), timeouts=timeouts, observer=observer)
        self.command = command

    async def _open(self, number: int) -> LiveConversation:
        child = await Child.start(self.command)
        return LiveConversation(child.channel, timeouts=self.timeouts, child=child, number=number, observer=self.observer)


class AddressTarget(ServerTarget):
    """A socket on which a server listens: ``unix:/path`` or ``tcp://host:port``."""

    def __init__(self, address: str, *, timeouts: ProbeTimeouts | None = None, observer: Observer | None = None) -> None:
        super().__init__(address, timeouts=timeouts, observer=observer)

    async def _open(self, number: int) -> LiveConversation:
        kind, _, where = self.description.partition(":")
        if kind == "unix":
            channel: Channel = await connect_unix(where)
        elif kind == "tcp":
            host, _, port = where.removeprefix("//").rpartition(":")
            channel = await connect_tcp(host.strip("[]"), int(port))
        else:
            raise LocalProtocolError(f"{self.description!r} is no address; write unix:/path or tcp://host:port")
        return LiveConversation(channel, timeouts=self.timeouts, number=number, observer=self.observer)


class ChannelTarget(ServerTarget):
    """A server in this process.

    Args:
        connect: Makes a context that gives the client's end of a fresh channel and, when it ends, sees to the end of the server.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Channel]],
        *,
        description: str = "a server in this process",
        timeouts: ProbeTimeouts | None = None,
        observer: Observer | None = None,
    ) -> None:
        super().__init__(description, timeouts=timeouts, observer=observer)
        self._connect = connect

    async def _open(self, number: int) -> LiveConversation:
        stack = AsyncExitStack()
        channel = await stack.enter_async_context(self._connect())

        async def closing() -> None:
            async with asyncio.timeout(self.timeouts.step + self.timeouts.exit):
                await stack.aclose()

        return LiveConversation(channel, timeouts=self.timeouts, closing=closing, number=number, observer=self.observer)


def target_for(
    target: ServerCommand | str, *, timeouts: ProbeTimeouts | None = None, observer: Observer | None = None
) -> ServerTarget:
    """What a command line names: a command, ``unix:/path`` or ``tcp://host:port``."""
    if isinstance(target, ServerCommand):
        return CommandTarget(target, timeouts=timeouts, observer=observer)
    return AddressTarget(target, timeouts=timeouts, observer=observer)
