"""One running server: its endpoint, the connection to it, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from twopipes._client.connection import ClientConnection
from twopipes._client.stray_output import StrayCollector
from twopipes._client.targets import Endpoint
from twopipes._process.child import Child
from twopipes._process.shutdown import ShutdownPlan, ShutdownReport
from twopipes._session.events import ClientOpened
from twopipes.errors import ClientClosed, ConnectionLost, ServerExited, TwopipesError

__all__ = ["ServerHandle"]

# Seconds for a child to exit once its output has ended, so that the error can report its exit code. Usually it takes milliseconds.
_EXIT_WAIT = 1.0
# Seconds to read the remaining output of a child that has exited. Its data is in the pipe, but the end of file may never come.
_OUTPUT_WAIT = 0.5


class ServerHandle:
    """A running server.

    Attributes:
        endpoint: The channel and the child.
        connection: The session over that channel.
        opened: The server's identity and capabilities. Set once the connection is open.
        exited_unexpectedly: Whether the server ended the connection before it was asked to.
    """

    connection: ClientConnection
    opened: ClientOpened

    def __init__(self, endpoint: Endpoint, stray: StrayCollector, description: str) -> None:
        self.endpoint = endpoint
        self.exited_unexpectedly = False
        self._stray = stray
        self._description = description
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Task[ShutdownReport] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def phase(self) -> Literal["starting", "opening", "serving"]:
        """The progress of the server so far."""
        if hasattr(self, "opened"):
            return "serving"
        return "opening" if self.connection.received_anything else "starting"

    def watch(self) -> None:
        """End the connection when the child exits, even if another process still holds its output open."""
        if self.endpoint.child is not None:
            self._watching = self._loop.create_task(self._watch(self.endpoint.child))

    async def _watch(self, child: Child) -> None:
        await child.wait()
        await asyncio.sleep(_OUTPUT_WAIT)
        self.connection.stop_reading()

    async def post_mortem(self) -> Callable[[ConnectionLost], TwopipesError]:
        """Wait briefly for the child to exit after its output has ended. Returns :meth:`explain`, which can then report how."""
        self.exited_unexpectedly = True
        child = self.endpoint.child
        if child is not None:
            try:
                async with asyncio.timeout(_EXIT_WAIT):
                    await child.wait()
            except TimeoutError:
                pass  # it closed its output but still runs; it will be shut down
        return self.explain

    def explain(self, lost: ConnectionLost) -> TwopipesError:
        """Return the error for one lost request, with what is known about the server's end."""
        return self.exit_error(lost) if self.endpoint.child is not None or self.connection.why_ended else lost

    def exit_error(self, lost: ConnectionLost | None = None) -> TwopipesError:
        """Return an error that describes how the server ended."""
        child = self.endpoint.child
        if child is None or self.connection.why_ended:
            method, request_id = (f"anything more of {self._description}", None) if lost is None else (lost.method, lost.request_id)
            return ConnectionLost(method, request_id, why=self.connection.why_ended)
        return ServerExited(
            phase=self.phase,
            argv=child.argv,
            exit=child.exit,
            stderr=child.stderr.lines(),
            stray_stdout=self._stray.lines(),
            lived=child.lived,
            method=None if lost is None else lost.method,
            request_id=None if lost is None else lost.request_id,
        )

    def hang_up(self) -> None:
        """End the connection at once, from this side. The server may still be running."""
        self.connection.end(_closed)

    async def end(self, plan: ShutdownPlan) -> ShutdownReport:
        """Shut the server down: fail waiting callers at once, end the child by its plan, release everything.

        A second caller waits for the first. Cancelling stops neither the shutdown nor this wait: only the owner task calls this,
        and an event loop that ends waits for the owner. If the end of the loop cancels the shutdown itself, it starts again.
        """
        self.hang_up()
        cancelled: asyncio.CancelledError | None = None
        while True:
            if self._ending is None or self._ending.cancelled():
                self._ending = self._loop.create_task(self._end(plan))
            ending = self._ending
            try:
                report = await asyncio.shield(ending)
            except asyncio.CancelledError as error:
                if not ending.cancelled():
                    cancelled = error
                continue
            if cancelled is not None:
                raise cancelled
            return report

    async def _end(self, plan: ShutdownPlan) -> ShutdownReport:
        child = self.endpoint.child
        try:
            if child is not None:
                return await child.shut_down(plan)
            ended_by = "already gone" if self.exited_unexpectedly else "close"
            return ShutdownReport(steps=(), exit=None, ended_by=ended_by, took=0.0)
        finally:
            if self._watching is not None:
                self._watching.cancel()
            await self.connection.close()
            await self.endpoint.release()


def _closed(lost: ConnectionLost) -> TwopipesError:
    return ClientClosed(lost.method, lost.request_id)
