"""Keeps one server connected: opens it, reopens it when it is lost, and decides when to stop.

One task owns the connection from ``connect()`` to ``close()``. Callers only wait for futures. They may therefore be in any task or
thread, and no cancel scope or exception group can reach them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from twopipes._client.callbacks import CallbackRunner
from twopipes._client.connection import ClientConnection
from twopipes._client.opening import ServerOpener
from twopipes._client.server_handle import ServerHandle
from twopipes._process.child import Child
from twopipes._process.restarts import Restarts
from twopipes._process.shutdown import ShutdownPlan, ShutdownReport
from twopipes.errors import ClientClosed, ServerExited, TwopipesError
from twopipes.settings import RestartPolicy

if TYPE_CHECKING:
    from twopipes._client.recording import RecordedTarget

__all__ = ["Supervisor"]

ErrorT = TypeVar("ErrorT", bound=TwopipesError)


class _Decision(Struct, frozen=True):
    """What follows the loss of a server: a restart after ``delay`` seconds, or none; then ``why`` may give the reason."""

    delay: float | None = None
    why: str = ""


class Supervisor:
    """Holds the connection to one server.

    Args:
        opener: Opens the server.
        description: The server, for messages.
        reopens: Whether the server can be opened more than once.
        policy: When to restart it.
        plan: How to shut it down.
        reopened: Called with each connection after the first one, before callers can use it.
        lost: Called when a connection has ended.
        callbacks: Calls ``on_restart``.
        on_restart: The user's callback.
        recorded: The recording to close at the end, if there is one.

    Attributes:
        loop: The event loop of the client.
        handle: The server that was opened last.
        report: How it was shut down, after :meth:`close`.
        restarts: How often it was restarted.
    """

    def __init__(
        self,
        opener: ServerOpener,
        *,
        description: str,
        reopens: bool,
        policy: RestartPolicy,
        plan: ShutdownPlan,
        reopened: Callable[[ClientConnection], None],
        lost: Callable[[], None],
        callbacks: CallbackRunner,
        on_restart: Callable[[TwopipesError], Any] | None = None,
        recorded: RecordedTarget | None = None,
    ) -> None:
        self.description = description
        self.policy = policy
        self.handle: ServerHandle | None = None
        self.report: ShutdownReport | None = None
        self.restarts = 0
        self.loop = asyncio.get_running_loop()
        self._opener = opener
        self._reopens = reopens
        self._plan = plan
        self._reopened = reopened
        self._lost = lost
        self._callbacks = callbacks
        self._on_restart = on_restart
        self._recorded = recorded
        self._crashes = Restarts(policy, random=random.random)
        self._decision: _Decision | None = None  # about the last loss, until there is a connection again
        self._connection: ClientConnection | None = None
        self._opened_at = 0.0
        self._usable = self._new_future()
        self._owner: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    # For the client

    async def start(self) -> None:
        """Open the first connection.

        Raises:
            TwopipesError: It cannot be opened. Everything that was started has ended.
        """
        self._start_owner()
        try:
            await asyncio.shield(self._usable)
        except BaseException:
            await self.close()
            raise

    @property
    def connection(self) -> ClientConnection | None:
        """The open connection, if there is one now."""
        connection = self._connection
        return connection if connection is not None and not connection.ended.done() else None

    async def wait(self, seconds: float | None) -> ClientConnection:
        """Return the open connection, after waiting for a restart if necessary.

        Raises:
            TimeoutError: There is no connection within ``seconds``.
            TwopipesError: There will be no further connection.
        """
        if (connection := self.connection) is not None:
            return connection
        try:
            async with asyncio.timeout(seconds):
                if self._owner is not None and self._decision is not None and self._decision.delay is None:
                    await asyncio.wait([self._owner])  # it still shuts the lost server down
                if self._closing is not None:
                    raise ClientClosed
                if self._owner is not None and self._owner.done() and self._may_start():
                    self._usable = self._new_future()
                    self._start_owner()
                return await asyncio.shield(self._usable)
        except TwopipesError as error:
            raise copy(error) from None  # several callers may wait; each gets its own exception and traceback

    async def close(self) -> None:
        """End everything. A second caller waits for the first. Cancelling the call does not stop the shutdown."""
        if self._closing is None:
            self._closing = self.loop.create_task(self._close(), name=f"the end of {self.description}")
        await asyncio.shield(self._closing)

    @property
    def is_closing(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closing is not None

    @property
    def child(self) -> Child | None:
        """The process that was launched last, if one was."""
        return None if self.handle is None else self.handle.endpoint.child

    @property
    def recovers(self) -> bool:
        """Whether a lost request can be sent again: the server is being restarted, or is already connected again."""
        if self._closing is not None:
            return False
        return self.connection is not None or (self._decision is not None and self._decision.delay is not None)

    def explain(self, error: ErrorT) -> ErrorT:
        """Return a copy of the error that also says why the server is not restarted, if there is a reason."""
        error = copy(error)
        if self._decision is not None and self._decision.why:
            if isinstance(error, ServerExited):
                error.given_up = self._decision.why
            else:
                error.add_note(self._decision.why)
        return error

    # The owner task

    def _start_owner(self) -> None:
        self._decision = None
        self._owner = self.loop.create_task(self._own(), name=f"the connection to {self.description}")

    async def _own(self) -> None:
        """Run the server and shut it down at the end, also if the event loop ends before the client is closed."""
        try:
            try:
                await self._keep_open()
            except Exception as error:
                self._fail(error)
            finally:
                if self.handle is not None:
                    self.report = await self.handle.end(self._plan)
        except asyncio.CancelledError:
            if self._recorded is not None:
                self._recorded.abandon()  # the event loop may be ending, without a call of close()
            raise

    async def _keep_open(self) -> None:
        """Open the server, wait for its end, and open it again, until the decision is not to."""
        error: TwopipesError | None = None
        while True:
            try:
                handle = await self._open()
            except TwopipesError as failed:
                if error is None:  # the first attempt, or the first after a pause: its caller gets the error and may try again
                    self._fail(failed)
                    return
                error = failed
                self._decision = self._decide(uptime=0.0)
            else:
                await asyncio.shield(handle.connection.ended)
                error = handle.exit_error()
                await handle.end(self._plan)
            if self._decision is None or self._decision.delay is None:
                self._fail(self.explain(error))
                return
            if self._on_restart is not None:
                self._callbacks.call("on_restart", self._on_restart, error)
            await asyncio.sleep(self._decision.delay)
            self.restarts += 1

    async def _open(self) -> ServerHandle:
        is_first = self.handle is None
        handle = self.handle = await self._opener.open()
        connection = handle.connection
        connection.on_end = self._on_end
        self._opened_at = self.loop.time()
        if connection.ended.done():  # it ended before on_end was set
            self._decision = self._decide(uptime=0.0)
        else:
            if not is_first:
                self._reopened(connection)
            self._decision = None
            self._connection = connection
            self._usable.set_result(connection)
        return handle

    def _on_end(self) -> None:
        self._connection = None
        self._decision = self._decide(uptime=self.loop.time() - self._opened_at)
        if self._usable.done():
            self._usable = self._new_future()
        self._lost()

    # The decision about restarts

    def _decide(self, *, uptime: float) -> _Decision:
        """Decide, once for each loss, whether the server is restarted. Everything else reads the decision."""
        if self._closing is not None or not self._is_restartable:
            return _Decision()
        now = self.loop.time()
        return _Decision(self._crashes.crashed(now, uptime), self._crashes.why(now))

    def _may_start(self) -> bool:
        """Whether enough time has passed to start a server again that was given up."""
        return self._is_restartable and not self._crashes.is_open(self.loop.time())

    @property
    def _is_restartable(self) -> bool:
        return self._reopens and self.handle is not None and self.policy.covers(self.handle.opened.era)

    # Internals

    def _fail(self, error: Exception) -> None:
        if not self._usable.done():
            self._usable.set_exception(error)

    def _new_future(self) -> asyncio.Future[ClientConnection]:
        future: asyncio.Future[ClientConnection] = self.loop.create_future()
        # Retrieve the exception so that asyncio does not warn if no caller is waiting; later callers still see it.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future

    async def _close(self) -> None:
        owner = self._owner
        if self.handle is not None:
            self.handle.hang_up()  # callers that wait for a response get ClientClosed now
        self._fail(ClientClosed())
        if owner is not None:
            owner.cancel()
            with suppress(asyncio.CancelledError):
                await owner  # it shuts the server down
        if self._recorded is not None:
            await self._recorded.release()
