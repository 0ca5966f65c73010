"""One server behind the gateway: started when it is needed, supervised, and used by any number of hosts."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw, Struct

from twopipes._client.connect import Era, Given, revisions_of, with_http, with_process
from twopipes._client.era_cache import PROCESS_WIDE, EraCache
from twopipes._client.options import ClientConfig, RequestOptions
from twopipes._client.stray_output import StrayOutput
from twopipes._client.supervisor import Supervisor
from twopipes._client.targets import Target, target_of
from twopipes._gateway.back_client import BackClient
from twopipes._gateway.front_call import ClientIdentity, FrontCall
from twopipes._gateway.known_tools import KnownTools
from twopipes._gateway.questions import Questions
from twopipes._gateway.translate import GATEWAY
from twopipes._gateway.watches import Watches
from twopipes._process.command import ServerCommand
from twopipes._process.shutdown import ShutdownPlan
from twopipes._process.stderr import StderrLine
from twopipes._protocol.dialect import dialect
from twopipes._protocol.types import LoggingLevel, LogParams
from twopipes._session.events import ClientOpened
from twopipes._session.identity import ClientProfile
from twopipes._session.ledger import Call
from twopipes._session.subscriptions import LIST_CHANGED, Change
from twopipes.errors import ClientClosed, ConnectionLost, TwopipesError
from twopipes.settings import Limits, RestartPolicy, Timeouts

if TYPE_CHECKING:
    from twopipes._client.http_auth import ClientAuth
    from twopipes._trace.recorder import Recorder

# The host decides how long it waits for a call.
_NO_LIMIT = Timeouts(request=None, total=None)
# The first run of npx or uvx downloads the server. A server that needs long to start must not be taken for a legacy one.
_TO_OPEN = Timeouts(connect=300.0, probe=10.0)

Opened = ClientOpened


class BackConfig(Struct, frozen=True, kw_only=True):
    """How to connect to the server behind the gateway; see :func:`twopipes.connect`."""

    era: Era = "auto"
    revision: str | None = None
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    headers: Mapping[str, str] | None = None
    auth: ClientAuth | None = None
    restart: RestartPolicy = RestartPolicy(when="always")
    timeouts: Timeouts = _TO_OPEN  # for the opening and the shutdown, and for requests of the gateway itself
    limits: Limits = Limits()
    shutdown: ShutdownPlan | None = None
    era_cache: EraCache = PROCESS_WIDE
    trace: str | os.PathLike[str] | None = None
    redact: Iterable[str] = ()
    on_stderr: Callable[[StderrLine], Any] | None = None
    on_stray_output: Callable[[StrayOutput], Any] | None = None


class Back:
    """A server behind the gateway. Nothing is started before :meth:`ready` or :meth:`request`.

    Args:
        target: What :func:`twopipes.connect` takes. A command given as a list gets the whole environment of this process, as if
            the host had started it.
        config: How to connect to it.

    Attributes:
        watches: What hosts watch at it.
        opened: What the server reported about itself when it was opened last; ``None`` before that.
        calls: The calls that it works on.
        calls_total: How many calls it got.
        started_at: When it was opened last, in Unix time.
        last_error: Why it was lost, or could not be opened, the last time.
        on_changed: Called with each change of a list or a resource.
        on_log: Called with each log message, and its params as received.
        on_notification: Called with the method and the raw params of any other notification.
        on_opened: Called when it was opened, also after a restart.
        on_restart: Called before a restart with the error that caused it.
        on_given_up: Called with the last error when it crashed too often to be restarted.
        on_exit: Called when the connection to it has ended.
    """

    def __init__(self, target: Given, *, config: BackConfig | None = None) -> None:
        self.config = config or BackConfig()
        self.target = _target(target, self.config)
        self.opened: Opened | None = None
        self.calls: dict[FrontCall, None] = {}
        self.calls_total = 0
        self.started_at: float | None = None
        self.last_error: TwopipesError | None = None
        self.on_changed: list[Callable[[Change], None]] = []
        self.on_log: list[Callable[[LogParams, Raw], None]] = []
        self.on_notification: list[Callable[[str, Any], None]] = []
        self.on_opened: list[Callable[[Opened], None]] = []
        self.on_restart: list[Callable[[TwopipesError], None]] = []
        self.on_given_up: list[Callable[[TwopipesError], None]] = []
        self.on_exit: list[Callable[[], None]] = []
        self.questions = Questions()
        self.questions.notify = self.notify
        self.tools = KnownTools()
        self.watches = Watches(self.changed)
        self._client: BackClient | None = None
        self._opening: asyncio.Task[BackClient] | None = None
        self._alone = asyncio.Lock()  # never two processes at once: they may need the same port or file
        self._identity: ClientIdentity | None = None  # with which it was opened last
        self._retiring: asyncio.Task[None] | None = None  # ends the process before a reload
        self._finished = asyncio.Event()  # set when the calls of that process are over
        self._earlier_restarts = 0
        self._was_opened = False
        self._is_closed = False
        self._recorder: Recorder | None = None
        self._level: LoggingLevel | None = None

    # State

    @property
    def is_running(self) -> bool:
        """Whether it was opened and not stopped since. It may be restarting."""
        return self._client is not None

    @property
    def restarts(self) -> int:
        """How often it was restarted after a crash."""
        return self._earlier_restarts + (0 if self._client is None else self._client.restarts)

    @property
    def pid(self) -> int | None:
        """The process id, if it is a process that was started here and runs."""
        return None if self._client is None or self._client.connection is None else self._client.pid

    @property
    def stderr(self) -> tuple[str, ...]:
        """The last lines that it wrote to stderr."""
        return () if self._client is None else tuple(self._client.stderr)

    # For hosts

    def needs_server(self, call: Call) -> bool:
        """Whether a call needs the running server."""
        return True

    async def ready(self, client: ClientIdentity, call: Call | None = None) -> Opened:
        """Start the server if necessary, with the identity and the capabilities of this client, and return what it reported.

        Args:
            client: The client of the host.
            call: What it asks for. A kept server answers some calls before it runs.

        Raises:
            TwopipesError: It cannot be opened.
        """
        await self._running_client(client)
        assert self.opened is not None
        return self.opened

    async def request(self, method: str, params: Mapping[str, Any] | None, call: FrontCall) -> Raw:
        """Send a request of a host, and return the result as received.

        Raises:
            McpError: The server refused it.
            ServerExited: The server exited, and the request is not safe to send twice.
            TwopipesError: It cannot be opened, or the connection was lost.
        """
        client = self._client or await self._running_client(call.client)
        options = RequestOptions(
            raw=True,
            timeouts=_NO_LIMIT,
            on_progress=None if call.call.progress_token is None else call.report_progress,
            log_level=call.log_level,
            client_meta=call.client_meta,
            answer_all=None if call.call.dialect.modern else partial(self.questions.answer_in, call),
            origin=call,
        )
        self.calls[call] = None
        self.calls_total += 1
        try:
            if call.call.dialect.modern and client.era == "modern":  # questions are in results, which pass as they are
                result: Raw = await client.request_raw(method, params, options)
            else:
                async with self.questions.during(call):
                    result = await self.questions.visit_first(call, partial(client.request_raw, method, params, options))
        except ClientClosed:
            if self._is_closed:
                raise
            raise ConnectionLost(method, None, why="the server was stopped or restarted, and the call had not finished") from None
        finally:
            del self.calls[call]
            if not self.calls:
                self._finished.set()
        if method == "tools/list":
            self.tools.add(result)
        return result

    async def fetch(self, method: str, params: Mapping[str, Any], client: ClientIdentity) -> Raw:
        """Send a request of the gateway itself, for this client, to a running server, and return the result as received.

        Raises:
            TwopipesError: As for :meth:`request`; also if the server does not respond in time.
        """
        if self._client is None:
            raise ClientClosed
        about = self.dialect.client_meta(client.info or GATEWAY, client.capabilities) if self.dialect.modern else None
        options = RequestOptions(raw=True, timeouts=self.config.timeouts, client_meta=about)
        result: Raw = await self._client.request_raw(method, params, options)
        return result

    def notify(self, method: str, params: Any = UNSET) -> bool:
        """Send a notification of a host as it is, if the server runs. Return whether it was sent."""
        connection = None if self._client is None else self._client.connection
        if connection is None:
            return False
        return connection.forward(method, params)

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Set the lowest level of the log messages of a legacy server."""
        self._level = level
        client = self._client
        if client is not None and client.era == "legacy" and client.capabilities.allows("logging"):
            await client.set_log_level(level)

    # Start and stop

    async def stop(self) -> None:
        """End the server. The next request starts it again."""
        await self._stop_opening()
        client = self._detach()
        if client is not None:
            async with self._alone:
                await client.close()

    def reload(self, grace: float) -> asyncio.Task[BackClient] | None:
        """Start the server again with new code, if it was started at all, and announce its lists.

        The earlier process may finish its calls within ``grace`` seconds. Requests that come meanwhile wait for the new one. It is
        started when the earlier one is gone, because both may need the same port or file.

        Returns:
            The opening, which fails if the new code cannot be opened. The next request then tries again.
        """
        if self._identity is None or self._is_closed:
            return None
        if self._opening is not None:
            self._opening.cancel()
        client = self._detach()
        if client is not None:  # before the opening, so that it gets the lock first
            self._retiring = asyncio.create_task(self._retire(client, grace), name=f"end {self.target.description}")
        return self._begin(self._reload(self._identity))

    async def _reload(self, identity: ClientIdentity) -> BackClient:
        client = await self._open(identity)
        for kind in LIST_CHANGED:
            if client.capabilities.allows(kind):
                self.changed(Change(kind))
        return client

    async def _retire(self, client: BackClient, grace: float) -> None:
        async with self._alone:
            if self.calls and not self._is_closed:
                self._finished.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(grace):
                        await self._finished.wait()
            await client.close()

    def _detach(self) -> BackClient | None:
        client, self._client = self._client, None
        if client is not None:
            self._earlier_restarts += client.restarts
            self.watches.detach()
        return client

    async def close(self) -> None:
        """End the server for good."""
        self._is_closed = True
        self._finished.set()
        await self.stop()
        if self._retiring is not None:
            await asyncio.wait([self._retiring])
        async with self._alone:  # an opening that was cancelled ends its process first
            pass
        if self._recorder is not None:
            from twopipes._trace.channel import close_recorder  # only for a trace

            recorder, self._recorder = self._recorder, None
            await close_recorder(recorder)

    async def _running_client(self, identity: ClientIdentity) -> BackClient:
        while self._client is None:
            if self._is_closed:
                raise ClientClosed
            opening = self._opening or self._begin(self._open(identity))
            try:
                return await asyncio.shield(opening)
            except TwopipesError as error:
                raise copy(error) from None  # several hosts may wait; each gets its own exception
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not opening.cancelled() or (task is not None and task.cancelling()):
                    raise
                # The opening was cancelled, and not this caller, by stop() or reload(): wait for the next one.
        return self._client

    def _begin(self, opening: Coroutine[Any, Any, BackClient]) -> asyncio.Task[BackClient]:
        self._opening = asyncio.create_task(opening, name=f"open {self.target.description}")
        self._opening.add_done_callback(self._opening_done)
        return self._opening

    def _opening_done(self, task: asyncio.Task[BackClient]) -> None:
        if self._opening is task:
            self._opening = None
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            self.last_error = error if isinstance(error, TwopipesError) else self.last_error

    async def _stop_opening(self) -> None:
        if self._opening is not None:
            opening = self._opening
            opening.cancel()
            with suppress(asyncio.CancelledError, TwopipesError):
                await opening

    async def _open(self, identity: ClientIdentity) -> BackClient:
        self._identity = identity
        async with self._alone:
            supervisor = Supervisor(self._client_config(identity))
            supervisor.on_given_up = self._given_up
            client = BackClient(supervisor, self)
            await supervisor.start()
        self._client = client
        self._reopened()
        return client

    def _client_config(self, identity: ClientIdentity) -> ClientConfig:
        config = self.config
        return ClientConfig(
            target=self._recorded(self.target),
            profile=ClientProfile(
                info=identity.info or GATEWAY,
                capabilities=self.questions.declared(identity),
                revisions=revisions_of(config.era, config.revision),
                transparent=True,
            ),
            questions=self.questions,
            timeouts=config.timeouts,
            limits=config.limits,
            restart=config.restart,
            shutdown=config.shutdown or self.target.plan or ShutdownPlan.default(config.timeouts.shutdown),
            era_cache=config.era_cache,
            validate="off",
            undeclared="raise",
            on_log=None,
            on_notification=None,
            on_stderr=config.on_stderr,
            on_stray_output=config.on_stray_output,
            on_restart=self._restarting,
        )

    def _recorded(self, target: Target) -> Target:
        if self.config.trace is None:
            return target
        from twopipes._client.recording import RecordedTarget, record  # only for a trace
        from twopipes._trace.recorder import names_to_redact  # likewise

        if self._recorder is None:
            self._recorder = record(target, self.config.trace, names_to_redact(self.config.redact))
        return RecordedTarget(target, self._recorder)

    # Called by the client

    def reopened(self) -> None:
        """Handle a restart of the server."""
        self._reopened()

    def lost(self) -> None:
        """Handle the end of the connection."""
        for callback in self.on_exit:
            callback()

    def changed(self, change: Change) -> None:
        """Handle a change of a list or a resource."""
        for callback in self.on_changed:
            callback(change)

    def notified(self, method: str, params: Any, raw: Any) -> None:
        """Handle any other notification that does not belong to a request."""
        if method == "notifications/message" and isinstance(params, LogParams):
            for on_log in self.on_log:
                on_log(params, raw)
            return
        for on_notification in self.on_notification:
            on_notification(method, raw)

    def _restarting(self, error: TwopipesError) -> None:
        self.last_error = error
        for callback in self.on_restart:
            callback(error)

    def _given_up(self, error: TwopipesError) -> None:
        self.last_error = error
        for callback in self.on_given_up:
            callback(error)

    def _reopened(self) -> None:
        client = self._client
        if client is None:
            return
        self.opened = client.opened
        self.questions.server = self.opened.server_info
        self.started_at = time.time()
        is_first, self._was_opened = not self._was_opened, True
        self._renew(client, may_have_changed=not is_first)
        for callback in self.on_opened:
            callback(self.opened)

    def _renew(self, client: BackClient, *, may_have_changed: bool) -> None:
        """Set the level and subscribe to what hosts watch, unless that is done."""
        if self._level is not None:
            client.restore_level(self._level)
        self.watches.attach(client, may_have_changed=may_have_changed)

    @property
    def dialect(self) -> Any:
        """The dialect of the server; it must have been opened."""
        assert self.opened is not None
        return dialect(self.opened.revision)


def _target(given: Given, config: BackConfig) -> Target:
    # A command as the host would start it.
    target = target_of(ServerCommand(given, environment="inherit") if isinstance(given, list | tuple) else given)
    if config.env is not None or config.cwd is not None:
        target = with_process(target, config.env, config.cwd)
    if config.headers is not None or config.auth is not None:
        target = with_http(target, config.headers, config.auth)
    return target
