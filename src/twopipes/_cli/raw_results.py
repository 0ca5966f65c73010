"""The results of a server exactly as it sent them, for ``--format json``.

The types of the client drop unknown members, which a program may need.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, DecodeError, Raw
from msgspec import json as msgspec_json

from twopipes._channels.address import parse_address
from twopipes._cli.server_options import ServerTarget
from twopipes._client.targets import CommandTarget, Endpoint, OnStderr, SocketTarget, Target
from twopipes._jsonrpc import Batch, ErrorResponse, Request, Response, decode
from twopipes._process.command import ServerCommand
from twopipes._trace.format import Kind
from twopipes._wire import LineDecoder
from twopipes.errors import RequestId


class RawResults:
    """The results on one connection. Observes a channel, as a recorder does."""

    def __init__(self) -> None:
        self.error: dict[str, Any] | None = None  # the last one
        self._results: dict[str, list[Raw]] = {}  # of each method, in the order of arrival
        self._methods: dict[RequestId, str] = {}
        self._lines: dict[Kind, LineDecoder] = {}

    def last(self, method: str) -> Raw | None:
        """Return the last result of a method; ``None`` if there is none."""
        found = self._results.get(method)
        return found[-1] if found else None

    def items(self, method: str, member: str) -> list[Raw]:
        """Return the items of a list, from all its pages."""
        found: list[Raw] = []
        for page in self._results.get(method, ()):
            members = msgspec_json.decode(page, type=dict[str, Raw])
            found += msgspec_json.decode(members.get(member, b"[]"), type=list[Raw])
        return found

    def observe(self, endpoint: Endpoint) -> Endpoint:
        """Observe the channel of a new connection."""
        self._lines.clear()
        endpoint.observe(self)
        return endpoint

    def chunk(self, kind: Kind, data: bytes, *, connection: int = 0) -> None:
        """Process bytes that the client sent or received."""
        for line in self._lines.setdefault(kind, LineDecoder()).feed(data):
            message = decode(line, max_batch=None) if isinstance(line, bytes) else line
            for each in message.members if isinstance(message, Batch) else [message]:
                if kind == "<":
                    self._received(each)
                elif isinstance(each, Request):
                    self._sent(each)

    def event(self, name: Any, **facts: Any) -> None:
        """Ignore the end of a stream."""

    def _sent(self, request: Request) -> None:
        self._methods[request.id] = request.method
        params = {} if request.params is UNSET else _plain(request.params)
        if request.method.endswith("/list") and not (isinstance(params, dict) and params.get("cursor") is not None):
            self._results.pop(request.method, None)  # the first page again

    def _received(self, message: object) -> None:
        if isinstance(message, Response) and (method := self._methods.pop(message.id, None)) is not None:
            self._results.setdefault(method, []).append(message.result)
        elif isinstance(message, ErrorResponse):
            self.error = _plain(msgspec_json.encode(message.error))


def observed_target(server: ServerTarget, results: RawResults) -> Target:
    """Return the target for a server whose results are kept."""
    if isinstance(server.target, ServerCommand):
        return _ObservedCommand(server.target, results)
    return _observed_url(server, results) if server.is_url else _ObservedSocket(server.target, results)


def _observed_url(server: ServerTarget, results: RawResults) -> Target:
    from twopipes._client.http_target import HttpTarget  # commands that start a server do not need it

    class ObservedUrl(HttpTarget):
        async def open(self, on_stderr: OnStderr | None) -> Endpoint:
            return results.observe(await super().open(on_stderr))

    return ObservedUrl(str(server.target), server.headers, server.token)


class _ObservedCommand(CommandTarget):
    def __init__(self, command: ServerCommand, results: RawResults) -> None:
        super().__init__(command)
        self._results = results

    async def open(self, on_stderr: OnStderr | None, **options: Any) -> Endpoint:
        return self._results.observe(await super().open(on_stderr, **options))


class _ObservedSocket(SocketTarget):
    def __init__(self, address: str, results: RawResults) -> None:
        super().__init__(parse_address(address))
        self._results = results

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        return self._results.observe(await super().open(on_stderr))


def _plain(raw: Raw | bytes) -> Any:
    try:
        return msgspec_json.decode(raw)
    except (DecodeError, RecursionError):  # the client reports the error
        return None
