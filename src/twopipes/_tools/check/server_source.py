"""The server under test, which opens any number of conversations."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress

from twopipes._channels.address import parse_address
from twopipes._channels.base import Channel
from twopipes._client.targets import SocketTarget
from twopipes._process.child import Child
from twopipes._process.command import ServerCommand
from twopipes._tools.check.conversation import LiveConversation, Observer
from twopipes._tools.check.messages import CannotOpen, ProbeTimeouts


class ServerTarget(ABC):
    """A server under test."""

    is_process = False  # whether each conversation has its own process, whose exit can be observed
    is_http = False  # whether messages are exchanged over HTTP, not as the lines of a stream

    def __init__(self, description: str, *, timeouts: ProbeTimeouts | None = None, observer: Observer | None = None) -> None:
        self.description = description
        self.timeouts = timeouts if timeouts is not None else ProbeTimeouts()
        self.observer = observer  # receives every byte, to record the wire
        self.conversations: list[LiveConversation] = []  # every one so far; their messages are judged at the end
        self.harmless: dict[str, str] = {}  # by revision, the method to use instead of ping, for a server that does not answer it
        self.attempts: dict[str, LiveConversation] = {}  # by revision, the first conversation that tried to open it
        self._attempting = asyncio.Lock()
        self._count = 0

    async def open(self) -> LiveConversation:
        """Start a new conversation, in which nothing is sent yet. The caller closes it.

        Raises:
            StartFailed: The command cannot be started.
            ChannelBroken: The address refuses connections.
        """
        number, self._count = self._count, self._count + 1
        conversation = await self._open(number)
        conversation.harmless_in = self.harmless
        self.conversations.append(conversation)
        return conversation

    async def attempt(self, revision: str) -> LiveConversation:
        """Return the first conversation that tried to open a revision, for reading only: it may have ended."""
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
    """A command: each conversation has its own process and process group. Its stderr is kept."""

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
        self._socket = SocketTarget(parse_address(address))

    async def _open(self, number: int) -> LiveConversation:
        channel = (await self._socket.open(None)).channel
        assert channel is not None
        return LiveConversation(channel, timeouts=self.timeouts, number=number, observer=self.observer)


class ChannelTarget(ServerTarget):
    """A server in this process.

    Args:
        connect: Returns a context manager that yields the client's end of a new channel, and ends the server on exit.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Channel]],
        *,
        timeouts: ProbeTimeouts | None = None,
        observer: Observer | None = None,
    ) -> None:
        super().__init__("a server in this process", timeouts=timeouts, observer=observer)
        self._connect = connect

    async def _open(self, number: int) -> LiveConversation:
        stack = AsyncExitStack()
        channel = await stack.enter_async_context(self._connect())

        async def closing() -> None:
            async with asyncio.timeout(self.timeouts.step + self.timeouts.exit):
                await stack.aclose()

        return LiveConversation(channel, timeouts=self.timeouts, closing=closing, number=number, observer=self.observer)


def target_for(
    target: ServerCommand | str,
    *,
    headers: Mapping[str, str] | None = None,
    timeouts: ProbeTimeouts | None = None,
    observer: Observer | None = None,
) -> ServerTarget:
    """Return the target of a command, ``unix:/path``, ``tcp://host:port`` or an HTTP URL, which gets ``headers``."""
    if isinstance(target, ServerCommand):
        return CommandTarget(target, timeouts=timeouts, observer=observer)
    if target.startswith(("http://", "https://")):
        from twopipes._tools.check.http.target import HttpTarget  # noqa: PLC0415 - a cycle: it is a ServerTarget

        return HttpTarget(target, headers=headers, timeouts=timeouts, observer=observer)
    return AddressTarget(target, timeouts=timeouts, observer=observer)
