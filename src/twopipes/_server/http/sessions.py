"""The sessions of legacy clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from twopipes._http.options import HttpOptions
from twopipes._http.refusal import Refusal
from twopipes._jsonrpc import Request
from twopipes._server.call_runner import CallRunner
from twopipes._server.http.asgi import refuse

if TYPE_CHECKING:
    from twopipes._server.app import Server
    from twopipes._server.http.app import Arrived

_UNKNOWN: Final = Refusal(404, "there is no such session; send initialize without Mcp-Session-Id to open another one")


class LegacySessions:
    """Opens, finds and ends the sessions of legacy clients."""

    def __init__(self, server: Server[Any], options: HttpOptions, runner: dict[str, Any]) -> None:
        self._server = server
        self._options = options
        self._runner = runner

    def connections(self) -> Iterator[CallRunner]:
        """The connection of each session."""
        yield from ()

    async def open(self, arrived: Arrived, message: Request, size: int) -> None:
        """Open a session with ``initialize``."""
        await refuse(arrived.send, _UNKNOWN, more=arrived.cors)

    async def post(self, arrived: Arrived, session_id: str, body: bytes) -> None:
        """Handle a message of a session."""
        await refuse(arrived.send, _UNKNOWN, more=arrived.cors)

    async def serve_other(self, arrived: Arrived) -> None:
        """Handle GET, which opens or resumes a stream, and DELETE, which ends a session."""
        await refuse(arrived.send, _UNKNOWN, more=arrived.cors)

    async def close(self) -> None:
        """End every session."""
