"""One running server: its endpoint, the connection to it, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from twopipes._client.callbacks import CallbackRunner
from twopipes._client.channel_connection import ChannelConnection
from twopipes._client.connection import ClientConnection
from twopipes._client.options import ClientConfig
from twopipes._client.stray_output import StrayCollector
from twopipes._client.targets import Endpoint
from twopipes._process.child import Child
from twopipes._process.shutdown import ShutdownPlan, ShutdownReport
from twopipes._session.client import ClientSession
from twopipes._session.events import ClientOpened
from twopipes.errors import ClientClosed, ConnectionLost, ServerExited, TwopipesError

# Seconds for a child to exit once its output has ended, so that the error can report its exit code. Usually it takes milliseconds.
_EXIT_WAIT = 1.0
# Seconds to read the remaining output of a child that has exited. Its data is in the pipe, but the end of file may never come.
_OUTPUT_WAIT = 0.5


class ServerHandle:
    """A running server."""

    def __init__(
        self,
        endpoint: Endpoint,
        session: ClientSession,
        config: ClientConfig,
        *,
        stray: StrayCollector,
        callbacks: CallbackRunner,
        notified: Callable[[str, Any, int, Any], None],
    ) -> None:
        self.endpoint = endpoint
        self.opened: ClientOpened | None = None  # once the connection is open
        self.exited_unexpectedly = False  # whether the server ended the connection before it was asked to
        self.connection = _connection_to(
            endpoint,
            session,
            stray=stray,
            answer=config.questions.answer_call,
            notified=notified,
            callbacks=callbacks,
            post_mortem=self._post_mortem,
        )
        self._stray = stray
        self._description = config.target.description
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Task[ShutdownReport] | None = None
        self._watching = None if endpoint.child is None else self._loop.create_task(self._watch(endpoint.child))

    async def _watch(self, child: Child) -> None:
        """End the connection when the child exits, even if another process still holds its output open."""
        await child.wait()
        await asyncio.sleep(_OUTPUT_WAIT)
        self.connection.stop_reading()

    async def _post_mortem(self) -> Callable[[ConnectionLost], TwopipesError]:
        """Wait briefly for the child to exit after its output has ended, so that the errors can report how."""
        self.exited_unexpectedly = True
        if self.endpoint.child is not None:
            try:
                async with asyncio.timeout(_EXIT_WAIT):
                    await self.endpoint.child.wait()
            except TimeoutError:
                pass  # it closed its output but still runs; it will be shut down
        return self.exit_error

    def exit_error(self, lost: ConnectionLost | None = None) -> TwopipesError:
        """Return an error that describes how the server ended, for one lost request or for none."""
        child = self.endpoint.child
        why = self.connection.why_ended
        method, request_id = (None, None) if lost is None else (lost.method, lost.request_id)
        if child is None or why:
            return ConnectionLost(method or f"anything more of {self._description}", request_id, why=why)
        return ServerExited(
            phase="serving" if self.opened is not None else "opening" if self.connection.received_anything else "starting",
            argv=child.argv,
            exit=child.exit,
            stderr=child.stderr.lines(),
            stray_stdout=self._stray.lines(),
            lived=child.lived,
            method=method,
            request_id=request_id,
        )

    def hang_up(self) -> None:
        """End the connection at once, from this side. The server may still be running."""
        self.connection.end(lambda lost: ClientClosed(lost.method, lost.request_id))

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
            return ShutdownReport(ended_by=ended_by)
        finally:
            if self._watching is not None:
                self._watching.cancel()
            await self.connection.close()
            await self.endpoint.release()


def _connection_to(endpoint: Endpoint, session: ClientSession, **collaborators: Any) -> ClientConnection:
    link = endpoint.http
    if link is None:
        return ChannelConnection(session, endpoint.channel, **collaborators)
    from twopipes._client.http_connection import HttpClientConnection

    return HttpClientConnection(session, link.exchange, tool_headers=link.tool_headers, observers=link.observers, **collaborators)
