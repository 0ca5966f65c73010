"""The server side of ``twopipes keep status``, ``logs`` and ``stop``: requests to a process that keeps servers."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, Literal, Protocol

from twopipes._channels.base import Channel
from twopipes._gateway.daemon.memory import resident_bytes
from twopipes._gateway.daemon.messages import MAX_LINE
from twopipes._gateway.daemon.requests import LogsRequest, Request, ServeRequest, StatusRequest, StopRequest, decode_request
from twopipes._gateway.daemon.unread import UnreadChannel
from twopipes._server.log import logger
from twopipes._version import __version__
from twopipes.errors import ChannelBroken, ChannelClosed, TwopipesError

# Seconds. A relay sends its request as soon as it is connected.
REQUEST_WITHIN: Final = 10.0


class Controlled(Protocol):
    """A server as the commands see it."""

    @property
    def identity(self) -> str:
        """A short name that no other server of this process has."""

    @property
    def argv(self) -> list[str]:
        """Its command."""

    def matches(self, name: str) -> bool:
        """Whether a user means this server."""

    def describe(self) -> dict[str, Any]:
        """Return its row of ``keep status``."""

    def lines(self) -> list[str]:
        """Return the last lines that it wrote to stderr."""

    async def stop(self) -> None:
        """End its process. The next request starts it again."""


class ControlServer:
    """Answers the commands about the servers of this process. It refuses to serve hosts; the daemon does.

    Args:
        kind: ``daemon``, or ``keep`` for a process that keeps one server for one host.
        started: The Unix time since when this process keeps servers.
    """

    def __init__(self, kind: Literal["daemon", "keep"], started: float) -> None:
        self._kind = kind
        self._started = started

    def _servers(self) -> Iterable[Controlled]:
        raise NotImplementedError

    def _own_lines(self) -> list[str]:
        """Return what this process itself has logged."""
        return []

    async def accept(self, channel: Channel) -> None:
        """Handle one connection."""
        try:
            request, first = await _read_request(channel)
            if request is not None:
                await self._handle(request, UnreadChannel(channel, first) if first else channel)
        except ValueError as error:
            await reply(channel, {"error": str(error)})
        except (ChannelBroken, ChannelClosed, TimeoutError):
            pass  # the peer is gone, or sent nothing

    async def _handle(self, request: Request, channel: Channel) -> None:
        match request:
            case ServeRequest():
                await self._serve(request, channel)
            case StatusRequest():
                await reply(channel, self._describe())
            case LogsRequest():
                await reply(channel, self._logs(request.server))
            case StopRequest():
                await reply(channel, await self._stop(request.server))

    async def _serve(self, request: ServeRequest, channel: Channel) -> None:
        await reply(channel, {"error": f"process {os.getpid()} does not share its server"})

    def _describe(self) -> dict[str, Any]:
        return {
            "kind": self._kind,
            "pid": os.getpid(),
            "version": __version__,
            "started": self._started,
            "memory": resident_bytes(os.getpid()),
            "servers": [server.describe() for server in self._chosen(None)],
        }

    def _logs(self, name: str | None) -> dict[str, Any]:
        logs = [{"id": each.identity, "command": each.argv, "lines": each.lines()} for each in self._chosen(name)]
        return {"kind": self._kind, "pid": os.getpid(), "servers": logs, "lines": self._own_lines() if name is None else []}

    async def _stop(self, name: str | None) -> dict[str, Any]:
        chosen = self._chosen(name)
        await asyncio.gather(*(server.stop() for server in chosen))
        return self._stopped(chosen)

    def _stopped(self, servers: Iterable[Controlled]) -> dict[str, Any]:
        stopped = [{"id": each.identity, "command": each.argv} for each in servers]
        return {"kind": self._kind, "pid": os.getpid(), "stopped": stopped}

    def _chosen(self, name: str | None) -> list[Controlled]:
        chosen = [server for server in self._servers() if name is None or server.matches(name)]
        return sorted(chosen, key=lambda server: server.identity)


async def _read_request(channel: Channel) -> tuple[Request | None, bytes]:
    """Return the first line of a connection, decoded, and the bytes after it; ``None`` if the peer closed it."""
    data = b""
    async with asyncio.timeout(REQUEST_WITHIN):
        while b"\n" not in data:
            chunk = await channel.read()
            if not chunk:
                return None, b""
            data += chunk
            if len(data) > MAX_LINE:
                raise ValueError(f"invalid request: it is longer than {MAX_LINE} bytes")
    line, _, first = data.partition(b"\n")
    return decode_request(line), first


async def reply(channel: Channel, message: dict[str, Any]) -> None:
    """Send one line, if the peer still reads."""
    with suppress(TimeoutError, ChannelBroken, ChannelClosed):
        async with asyncio.timeout(REQUEST_WITHIN):
            channel.write(json.dumps(message).encode() + b"\n")
            await channel.flush()


def log_error(error: Exception) -> None:
    """Log what went wrong with one connection."""
    logger.error("Error: %s", error if isinstance(error, TwopipesError | OSError) else repr(error))
