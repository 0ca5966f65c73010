"""Keeps one server within reach: opens it, opens it again when it is lost, and says when there is no more sense in that.

One task owns the connection, from ``connect()`` to ``close()``. Callers only ever wait for futures, so it does not matter which
task, or which thread, calls what, and no cancel scope or exception group can reach them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any

from twopipes._client.callbacks import Callbacks
from twopipes._client.connection import ClientConnection
from twopipes._client.opening import Opener, ServerHandle
from twopipes._process.child import Child
from twopipes._process.restarts import Restarts
from twopipes._process.shutdown import ShutdownPlan, ShutdownReport
from twopipes.errors import ClientClosed, ServerExited, TwopipesError
from twopipes.settings import RestartPolicy

if TYPE_CHECKING:
    from twopipes._client.recording import RecordedTarget

__all__ = ["Supervisor"]


class Supervisor:
    """Holds the connection to one server.

    Args:
        opener: Opens it.
        description: What it is, for messages.
        reopens: Whether it can be opened more than once.
        policy: When to open it again.
        plan: How to end it.
        reopened: Called with each connection after the first one, before anybody else gets it.
        lost: Told when a connection is over.
        callbacks: Calls ``on_restart``.
        on_restart: Told why a server is started again.
        recorded: What to release at the very end, where the conversation is recorded.

    Attributes:
        loop: The event loop that all this lives in.
        reached: The server as it was last reached.
        report: How it was ended, after :meth:`close`.
        restarts: How often it was started again.
    """

    def __init__(
        self,
        opener: Opener,
        *,
        description: str,
        reopens: bool,
        policy: RestartPolicy,
        plan: ShutdownPlan,
        reopened: Callable[[ClientConnection], None],
        lost: Callable[[], None],
        callbacks: Callbacks,
        on_restart: Callable[[TwopipesError], Any] | None = None,
        recorded: RecordedTarget | None = None,
    ) -> None:
        self.description = description
        self.policy = policy
        self.reached: ServerHandle | None = None
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
        self._connection: ClientConnection | None = None
        self._usable = self._unsettled()
        self._owner: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    # What the client asks for

    async def start(self) -> None:
        """Opens the first connection.

        Raises:
            TwopipesError: It cannot be opened; nothing is left behind.
        """
        self._owner = self.loop.create_task(self._own(), name=f"the connection to {self.description}")
        try:
            await asyncio.shield(self._usable)
        except BaseException:
            await self.close()
            raise

    @property
    def connection(self) -> ClientConnection | None:
        """The open connection; ``None`` while there is none."""
        connection = self._connection
        return connection if connection is not None and not connection.ended.done() else None

    async def wait(self, seconds: float | None) -> ClientConnection:
        """The open connection, once there is one again.

        Raises:
            TimeoutError: There is none within so many seconds.
            TwopipesError: There will be none.
        """
        if (connection := self.connection) is not None:
            return connection
        if self._closing is not None:
            raise ClientClosed
        if self._owner is not None and self._owner.done() and self._may_try_again():
            self._usable = self._unsettled()
            self._owner = self.loop.create_task(self._own(), name=f"the connection to {self.description}")
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._usable)
        except TwopipesError as error:
            raise copy(error) from None  # each caller gets one of its own, with a traceback of its own

    async def close(self) -> None:
        """Ends everything. Whoever calls second waits for the first, and cancelling the call does not stop the ending."""
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
        return None if self.reached is None else self.reached.link.child

    @property
    def will_restart(self) -> bool:
        """Whether a server that was lost just now will be started again."""
        return self._closing is None and self.reached is not None and self._may_restart(self.reached)

    # The owner

    async def _own(self) -> None:
        """Keeps the server, and ends it when that is over, also where nobody closes the client before the loop ends."""
        try:
            try:
                await self._keep()
            except Exception as error:
                self._fail(error)
            finally:
                if self.reached is not None:
                    self.report = await self.reached.end(self._plan)
        except asyncio.CancelledError:
            if self._recorded is not None:
                self._recorded.abandon()  # if the loop ends, nobody will close us
            raise

    async def _keep(self) -> None:
        """Opens, waits for the end, opens again, until there is no sense in it."""
        error: TwopipesError | None = None
        while True:
            uptime = 0.0
            try:
                reached = await self._open()
            except TwopipesError as failed:
                if error is None:  # the caller of connect() hears of it, and may try again
                    self._fail(failed)
                    return
                error = failed
            else:
                began = self.loop.time()
                await asyncio.shield(reached.connection.ended)
                uptime = self.loop.time() - began
                error = reached.exited()
                await reached.end(self._plan)
                if not self._may_restart(reached):
                    self._fail(error)
                    return
            delay = self._crashes.crashed(self.loop.time(), uptime)
            if delay is None:
                self._fail(_given_up(error, self._crashes.why(self.loop.time())))
                return
            if self._on_restart is not None:
                self._callbacks.call("on_restart", self._on_restart, error)
            await asyncio.sleep(delay)
            self.restarts += 1

    async def _open(self) -> ServerHandle:
        again = self.reached is not None
        reached = self.reached = await self._opener.open()
        connection = reached.connection
        connection.on_end = self._on_end
        if not connection.ended.done():  # it may have died in the meantime
            if again:
                self._reopened(connection)
            self._connection = connection
            self._usable.set_result(connection)
        return reached

    def _on_end(self) -> None:
        self._connection = None
        if self._usable.done():
            self._usable = self._unsettled()
        self._lost()

    def _may_restart(self, reached: ServerHandle) -> bool:
        return self._reopens and self.policy.covers(reached.opened.era)

    def _may_try_again(self) -> bool:
        """Whether a server that was given up has been left alone for long enough."""
        return (
            self._reopens
            and self.reached is not None
            and self._may_restart(self.reached)
            and not self._crashes.is_open(self.loop.time())
        )

    def _fail(self, error: Exception) -> None:
        if not self._usable.done():
            self._usable.set_exception(error)

    def _unsettled(self) -> asyncio.Future[ClientConnection]:
        future: asyncio.Future[ClientConnection] = self.loop.create_future()
        # Nobody may be waiting when it fails; whoever comes later reads it then.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future

    async def _close(self) -> None:
        owner = self._owner
        if self.reached is not None:
            self.reached.hang_up()  # whoever waits for an answer learns of it now
        self._fail(ClientClosed())
        if owner is not None:
            owner.cancel()
            with suppress(asyncio.CancelledError):
                await owner  # who ends the server
        if self._recorded is not None:
            await self._recorded.release()


def _given_up(error: TwopipesError, why: str) -> TwopipesError:
    if isinstance(error, ServerExited):
        error.given_up = why
    else:
        error.add_note(why)
    return error
