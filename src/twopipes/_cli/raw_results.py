"""The results of a server exactly as it sent them, for ``--format json``.

The types of the client drop unknown members, which a program may need.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from msgspec import UNSET, DecodeError, Raw
from msgspec import json as msgspec_json

from twopipes._channels.base import Channel
from twopipes._client.targets import CommandTarget, Endpoint, OnStderr, Target, target_of
from twopipes._jsonrpc import Batch, ErrorResponse, Request, Response, decode
from twopipes._process.command import ServerCommand
from twopipes._wire import LineDecoder
from twopipes.errors import RequestId

__all__ = ["RawResults", "tee_target"]


class RawResults:
    """The results on one connection.

    Attributes:
        results: The results of each method, in the order of arrival.
        error: The last error.
    """

    def __init__(self) -> None:
        self.results: dict[str, list[Raw]] = {}
        self.error: dict[str, Any] | None = None
        self._methods: dict[RequestId, str] = {}
        self._sent_lines = LineDecoder()
        self._received_lines = LineDecoder()

    def last(self, method: str) -> Raw | None:
        """Return the last result of a method; ``None`` if there is none."""
        found = self.results.get(method)
        return found[-1] if found else None

    def items(self, method: str, member: str) -> list[Raw]:
        """Return the items of a list, from all its pages."""
        found: list[Raw] = []
        for page in self.results.get(method, ()):
            members = msgspec_json.decode(page, type=dict[str, Raw])
            found += msgspec_json.decode(members.get(member, b"[]"), type=list[Raw])
        return found

    def reset(self) -> None:
        """Forget partial lines, for a new channel."""
        self._sent_lines, self._received_lines = LineDecoder(), LineDecoder()

    def sent(self, data: bytes) -> None:
        """Process bytes that the client sent."""
        for line in self._sent_lines.feed(data):
            message = decode(line) if isinstance(line, bytes) else line
            if isinstance(message, Request):
                self._methods[message.id] = message.method
                if message.method.endswith("/list") and not _has_cursor(message.params):
                    self.results.pop(message.method, None)  # the first page again

    def received(self, data: bytes) -> None:
        """Process bytes that the client received."""
        for line in self._received_lines.feed(data):
            message = decode(line, max_batch=None) if isinstance(line, bytes) else line
            for each in message.members if isinstance(message, Batch) else [message]:
                if isinstance(each, Response) and (method := self._methods.pop(each.id, None)) is not None:
                    self.results.setdefault(method, []).append(each.result)
                elif isinstance(each, ErrorResponse):
                    self.error = _plain(msgspec_json.encode(each.error))


def tee_target(given: ServerCommand | str, results: RawResults) -> Target:
    """Wrap a target of ``connect``, so that results are copied.

    Args:
        given: A command, or the address of a socket.
        results: Where they are kept.
    """
    return _TeeCommand(given, results) if isinstance(given, ServerCommand) else _TeeSocket(given, results)


class _TeeCommand(CommandTarget):
    """A command. It remains a :class:`CommandTarget`, which a recorder needs."""

    def __init__(self, command: ServerCommand, results: RawResults) -> None:
        super().__init__(command)
        self._results = results

    async def open(self, on_stderr: OnStderr | None, **options: Any) -> Endpoint:
        return _tee(await super().open(on_stderr, **options), self._results)


class _TeeSocket(Target):
    """A socket."""

    def __init__(self, address: str, results: RawResults) -> None:
        self._inner = target_of(address)
        self.description = self._inner.description
        self.identity = self._inner.identity
        self._results = results

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        return _tee(await self._inner.open(on_stderr), self._results)


def _tee(link: Endpoint, results: RawResults) -> Endpoint:
    results.reset()
    link.channel = _TeeChannel(link.channel, results)
    return link


class _TeeChannel(Channel):
    """A channel that copies the bytes of another one."""

    def __init__(self, inner: Channel, results: RawResults) -> None:
        self._inner = inner
        self._results = results

    async def read(self) -> bytes:
        chunk = await self._inner.read()
        self._results.received(chunk)
        return chunk

    def write(self, data: bytes) -> None:
        self._results.sent(data)
        self._inner.write(data)

    def drain(self) -> Coroutine[Any, Any, None]:
        return self._inner.drain()

    def flush(self) -> Coroutine[Any, Any, None]:
        return self._inner.flush()

    def close_write(self) -> Coroutine[Any, Any, None]:
        return self._inner.close_write()

    def close(self) -> Coroutine[Any, Any, None]:
        return self._inner.close()

    @property
    def buffered(self) -> int:
        return self._inner.buffered

    @property
    def description(self) -> str:
        return self._inner.description


def _has_cursor(params: Any) -> bool:
    found = {} if params is UNSET else _plain(params)
    return isinstance(found, dict) and found.get("cursor") is not None


def _plain(raw: Raw | bytes) -> Any:
    try:
        return msgspec_json.decode(raw)
    except (DecodeError, RecursionError):  # the client reports the error
        return None
