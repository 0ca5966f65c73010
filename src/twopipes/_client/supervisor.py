"""Keeps one server connected: opens it, reopens it when it is lost, and decides when to stop.

One task owns the connection from ``connect()`` to ``close()``. Callers only wait for futures. They may therefore be in any task or
thread, and no cancel scope or exception group can reach them.

Opening means to launch the server or connect to it, to detect its era, and to relaunch it if it did not survive the probe. The
protocol steps of that are in :mod:`twopipes._session.client_handshake`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct, structs

from twopipes._client.callbacks import CallbackRunner
from twopipes._client.connection import ClientConnection
from twopipes._client.era_cache import EraRecord
from twopipes._client.options import ClientConfig
from twopipes._client.server_handle import ServerHandle
from twopipes._client.stray_output import StrayCollector
from twopipes._error_text import OptionHint
from twopipes._process.restarts import Restarts
from twopipes._process.shutdown import ShutdownReport
from twopipes._process.stderr import StderrLine
from twopipes._session.client import ClientSession
from twopipes._session.events import ClientOpened, OpeningEnded
from twopipes.errors import ClientClosed, OpeningFailed, ServerExited, TwopipesError

T = TypeVar("T")
ErrorT = TypeVar("ErrorT", bound=TwopipesError)


class _Decision(Struct, frozen=True):
    """What follows the loss of a server: a restart after ``delay`` seconds, or none; then ``why`` may give the reason."""

    delay: float | None = None
    why: str = ""


class _Failed(Struct, frozen=True):
    """A failed attempt to open a server."""

    error: TwopipesError
    respawn: bool  # a fresh process, opened as a legacy server, may still work (DE-06)
    read_nothing: bool  # the process exited without reading any input, so another attempt would fail in the same way


class Supervisor:
    """Holds the connection to one server."""

    # Set by the client before start().
    # called with each notification without a request, its size in bytes, and its params as received
    on_notification: Callable[[str, Any, int, Any], None]
    on_reopened: Callable[[ClientConnection], None]  # called with each connection after the first, before callers can use it
    on_lost: Callable[[], None]  # called when a connection has ended
    on_given_up: Callable[[TwopipesError], None] | None = None  # called when the policy allows no more restarts
    on_over: Callable[[TwopipesError], None] | None = None  # called when a server was lost and is not restarted, for any reason
    # Set by start().
    opened: ClientOpened

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.callbacks = CallbackRunner(self.loop, config.limits.max_backlog)
        on_stray = config.on_stray_output
        self.stray = StrayCollector(None if on_stray is None else partial(self.callbacks.call, "on_stray_output", on_stray))
        self.handle: ServerHandle | None = None  # the server that was opened last
        self.connection: ClientConnection | None = None
        self.is_closing = False
        self.report: ShutdownReport | None = None
        self.restarts = 0
        # The era is cached only if there is a choice.
        self._identity = config.target.identity if config.profile.eras == "both" else None
        self._crashes = Restarts(config.restart, random=random.random)
        self._decision: _Decision | None = None  # about the last loss, until there is a connection again
        self._opened_at = 0.0
        self._session: ClientSession | None = None  # of the last attempt
        self._probing: ClientConnection | None = None  # it is being opened, and its server has written nothing to stderr yet
        self._usable = self._new_future()
        self._owner: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    # For the client

    async def start(self) -> None:
        """Open the first connection. If that fails, everything that was started has ended."""
        self._start_owner()
        try:
            await asyncio.shield(self._usable)
        except BaseException:
            await self.close()
            raise

    async def wait(self, seconds: float | None) -> ClientConnection:
        """Return the open connection, after waiting at most ``seconds`` for a restart if necessary."""
        if self.connection is not None:
            return self.connection
        try:
            async with asyncio.timeout(seconds):
                if self._owner is not None and self._decision is not None and self._decision.delay is None:
                    await asyncio.wait([self._owner])  # it still shuts the lost server down
                if self.is_closing:
                    raise ClientClosed
                is_over = self._owner is not None and self._owner.done()
                if is_over and self._is_restartable and not self._crashes.is_open(self.loop.time()):  # enough time has passed
                    self._usable = self._new_future()
                    self._start_owner()
                return await asyncio.shield(self._usable)
        except TwopipesError as error:
            raise copy(error) from None  # several callers may wait; each gets its own exception and traceback

    async def close(self) -> None:
        """End everything. A second caller waits for the first. Cancelling the call does not stop the shutdown."""
        if self._closing is None:
            self.is_closing = True
            self._closing = self.loop.create_task(self._close(), name=f"the end of {self.config.target.description}")
        await asyncio.shield(self._closing)

    @property
    def recovers(self) -> bool:
        """Whether a lost request can be sent again: the server is being restarted, or is already connected again."""
        if self.is_closing:
            return False
        return self.connection is not None or (self._decision is not None and self._decision.delay is not None)

    @property
    def reopens(self) -> bool:
        """Whether a call can open a lost server again, now or when enough time has passed since its crashes."""
        return not self.is_closing and self._is_restartable

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
        self._owner = self.loop.create_task(self._own(), name=f"the connection to {self.config.target.description}")

    async def _own(self) -> None:
        """Run the server and shut it down at the end, also if the event loop ends before the client is closed."""
        try:
            try:
                await self._keep_open()
            except Exception as error:
                self._fail(error)
            finally:
                if self.handle is not None:
                    self.report = await self.handle.end(self.config.shutdown)
        except asyncio.CancelledError:
            self.config.target.abandon()  # the event loop may be ending, without a call of close()
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
                self._use(handle)
                await asyncio.shield(handle.connection.ended)
                error = handle.exit_error()
                await handle.end(self.config.shutdown)
            if self._decision is None or self._decision.delay is None:
                final = self.explain(error)
                self._fail(final)
                if self.on_given_up is not None and self._decision is not None and self._decision.why:
                    self.on_given_up(final)
                if self.on_over is not None:
                    self.on_over(final)
                return
            if self.config.on_restart is not None:
                self.callbacks.call("on_restart", self.config.on_restart, error)
            await asyncio.sleep(self._decision.delay)
            self.restarts += 1

    def _use(self, handle: ServerHandle) -> None:
        """Give callers the connection of a server that was just opened."""
        is_first = self.handle is None
        connection = handle.connection
        self.handle = handle
        self._opened_at = self.loop.time()
        if connection.ended.done():  # it ended before on_end was set
            self._decision = self._decide(uptime=0.0)
            return
        connection.on_end = self._on_end
        if not is_first:
            self.on_reopened(connection)
        self._decision = None
        self.connection = connection
        self._usable.set_result(connection)

    def _on_end(self) -> None:
        self.connection = None
        self._decision = self._decide(uptime=self.loop.time() - self._opened_at)
        if self._usable.done():
            self._usable = self._new_future()
        self.on_lost()

    def _fail(self, error: Exception) -> None:
        if not self._usable.done():
            self._usable.set_exception(error)

    def _new_future(self) -> asyncio.Future[ClientConnection]:
        future: asyncio.Future[ClientConnection] = self.loop.create_future()
        # Retrieve the exception so that asyncio does not warn if no caller is waiting; later callers still see it.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future

    async def _close(self) -> None:
        if self.handle is not None:
            self.handle.hang_up()  # callers that wait for a response get ClientClosed now
        self._fail(ClientClosed())
        if self._owner is not None:
            self._owner.cancel()
            with suppress(asyncio.CancelledError):
                await self._owner  # it shuts the server down
        await self.config.target.release()

    # The decision about restarts

    def _decide(self, *, uptime: float) -> _Decision:
        """Decide, once for each loss, whether the server is restarted. Everything else reads the decision."""
        if self.is_closing or not self._is_restartable:
            return _Decision()
        now = self.loop.time()
        delay = self._crashes.crashed(now, uptime)
        return _Decision(delay, self._crashes.why(now) if delay is None else "")

    @property
    def _is_restartable(self) -> bool:
        target, restart = self.config.target, self.config.restart
        if not target.reopens or self.handle is None:
            return False
        # HT-42: over HTTP, a legacy connection ends only because the server has ended the session, so another one is opened.
        return restart.covers(self.opened.era) or (target.renews_sessions and restart.when != "never")

    # Opening

    async def _open(self) -> ServerHandle:
        config = self.config
        identity = self._identity
        limit = config.timeouts.connect
        deadline = None if limit is None else self.loop.time() + limit
        known = None if identity is None else await self._cached(config.era_cache.recall, identity)
        handle = await self._attempt(deadline, known)
        if isinstance(handle, _Failed) and handle.read_nothing:
            raise handle.error
        if isinstance(handle, _Failed) and known is not None and (known.era == "legacy" or handle.respawn):
            # DE-07: the cached era is wrong; or a modern server, which survived the probe before, exited for another reason.
            known = None
            handle = await self._attempt(deadline, known)
        died = isinstance(handle, _Failed) and handle.respawn and not handle.read_nothing and config.target.reopens
        if died:
            handle = await self._attempt(deadline, EraRecord("legacy", "", "died"))  # DE-06
        if isinstance(handle, _Failed):
            raise handle.error
        opened = self.opened
        if identity is not None and (known is None or known.era != opened.era):
            record = EraRecord(opened.era, opened.revision, "died" if died else handle.connection.session.probed)
            try:
                await self._cached(config.era_cache.remember, identity, record)
            except BaseException:  # cancelled while the disk was slow: the caller never sees this server
                await handle.end(config.shutdown)
                raise
        return handle

    async def _cached(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a method of the era cache; in a thread if it uses a file, because the disk may be slow."""
        if self.config.era_cache.path is None:
            return function(*arguments)
        return await asyncio.to_thread(function, *arguments)

    async def _attempt(self, deadline: float | None, known: EraRecord | None) -> ServerHandle | _Failed:
        """Open one channel and try to open a session over it. After a failure, everything is shut down before this returns."""
        config = self.config
        timeouts = config.timeouts
        endpoint = await config.target.open(self._on_stderr)
        left = None if deadline is None else max(0.0, deadline - self.loop.time())
        # A server that was modern before is not taken for a legacy one because it is slow today.
        is_slow = (known is not None and known.era == "modern") or not config.target.may_be_silent
        probe = left if is_slow else timeouts.probe
        session = ClientSession(
            config.profile,
            timeouts=structs.replace(timeouts, connect=left, probe=probe),
            limits=config.limits,
            skip_probe=known is not None and known.era == "legacy",
        )
        if self._session is not None:
            # SD-05: a request that is resent to a fresh process is a new request with a new id.
            session.outgoing.last_id = self._session.outgoing.last_id
        self._session = session
        handle = ServerHandle(endpoint, session, config, stray=self.stray, callbacks=self.callbacks, notified=self.on_notification)
        self._probing = handle.connection
        try:
            async with asyncio.timeout(left):
                outcome = await handle.connection.open()
        except TimeoutError:
            outcome = OpeningEnded(
                OpeningFailed(
                    f"the server did not finish its opening within the connect limit of {timeouts.connect:.3g} s",
                    hint=OptionHint("connect", 2 * (timeouts.connect or 0.0), "if the server needs longer"),
                )
            )
        except BaseException:
            await handle.end(config.shutdown)
            raise
        finally:
            self._probing = None
        if isinstance(outcome, ClientOpened):
            handle.opened = self.opened = outcome
            config.questions.server = outcome.server_info
            return handle
        return await self._failed(handle, outcome)

    async def _failed(self, handle: ServerHandle, outcome: OpeningEnded) -> _Failed:
        error: TwopipesError = outcome.error
        child = handle.endpoint.child
        read_nothing = False
        # Collect the error before the shutdown: what the server writes while it is shut down is not the cause.
        if handle.exited_unexpectedly and child is not None:
            error = handle.exit_error()
            read_nothing = not child.running and child.unread_input == handle.connection.sent
        elif isinstance(error, OpeningFailed):
            error = OpeningFailed(
                error.why,
                offered=error.offered,
                supported=self.config.profile.revisions,
                hint=error.hint,
                stderr=() if child is None else child.stderr.lines(),
                stray_stdout=self.stray.lines(),
            )
        await handle.end(self.config.shutdown)
        return _Failed(error, outcome.respawn, read_nothing)

    def _on_stderr(self, line: StderrLine) -> None:
        if self._probing is not None:
            # Only the first line extends the probe: a server that only ever logs must not delay it for ever.
            self._probing.note_activity()
            self._probing = None
        if self.config.on_stderr is not None:
            self.callbacks.call("on_stderr", self.config.on_stderr, line, size=len(line.text))
