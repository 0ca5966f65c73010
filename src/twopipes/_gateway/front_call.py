"""A call of a host on its way through the gateway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw, Struct

from twopipes._gateway import translate
from twopipes._protocol.types import ClientCapabilities, Implementation, LoggingLevel
from twopipes._server.call_runner import CallRunner
from twopipes._server.context import Context
from twopipes._session.ledger import Call


class ClientIdentity(Struct, frozen=True):
    """The client of a host: its name, and what it can do."""

    info: Implementation | None
    capabilities: ClientCapabilities


class FrontCall(Struct, eq=False):
    """A call of a host, while the server behind the gateway works on it.

    Attributes:
        context: The call, and the connection to the host.
        client_meta: What the request to a modern server contains about the host's client.
        log_level: The lowest level of log messages that a modern server sends about it.
    """

    context: Context[Any]
    client_meta: Mapping[str, Any] | None = None
    log_level: LoggingLevel | None = None

    @property
    def call(self) -> Call:
        """The request."""
        return self.context.call

    @property
    def runner(self) -> CallRunner:
        """The connection to the host."""
        return self.context._connection

    @property
    def client(self) -> ClientIdentity:
        """The client that sent it."""
        return ClientIdentity(self.call.client_info, self.call.capabilities)

    def report_progress(self, raw: Raw) -> None:
        """Pass a progress report of the server on, with the token of the host."""
        call = self.call
        if call.progress_token is not None:
            params = translate.progress(raw, call.progress_token, call.dialect)
            self.runner.forward("notifications/progress", params, self.context)
