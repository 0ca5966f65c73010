"""A server that ``keep`` looks after: answered from its manifest while it starts, started late, stopped when it is idle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from copy import copy
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Raw, Struct, structs

from twopipes._client.era_cache import PROCESS_WIDE, EraCache
from twopipes._client.targets import CommandTarget
from twopipes._gateway.back import Back, BackConfig, Opened
from twopipes._gateway.back_client import BackClient
from twopipes._gateway.backs import Backs
from twopipes._gateway.front import GatewayServer
from twopipes._gateway.front_call import ClientIdentity, FrontCall
from twopipes._gateway.idle import IdleTimer
from twopipes._gateway.manifest import LISTS, Manifest, ManifestKey, load, read_lists, save
from twopipes._gateway.watch import Watcher
from twopipes._process.command import ServerCommand
from twopipes._process.stderr import StderrLine, StderrPolicy
from twopipes._protocol.types import LogParams, ServerCapabilities
from twopipes._server.log import logger
from twopipes._session.identity import ServerProfile
from twopipes._session.ledger import Call
from twopipes._session.subscriptions import LIST_CHANGED, Change
from twopipes.errors import ServerExited, TwopipesError
from twopipes.settings import RestartPolicy, Sandbox

# Seconds at the end to finish a manifest that is being written.
_FINISH: Final = 0.5
# Seconds for calls in flight to finish before a server whose files have changed is restarted.
_GRACE: Final = 5.0
# Requests that need no running server once its manifest is known. The level and the subscriptions are set when it starts.
_NEEDS_NO_SERVER: Final = frozenset(("initialize", "server/discover", "logging/setLevel", "resources/unsubscribe"))
# Seconds between two readings of the lists: a server may announce changes all the time.
_PAUSE: Final = 1.0
# Why a watched server that exited when it was started is not started by each call: the same code would exit again.
_UNCHANGED: Final = "no watched file has changed since; save one of them to start it again"
_LOGGER: Final = "twopipes.keep"
_PYTHON_LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class KeepSettings(Struct, frozen=True, kw_only=True):
    """How a server is kept.

    Attributes:
        is_lazy: Whether it is started by the first request that needs it, and not by the first message of the host.
        idle: Seconds without a request after which it is stopped; ``None`` for never.
        has_manifest: Whether it is answered from the manifest of its previous run until it has started.
        log: The file to which its stderr is appended; by default it is copied to ours.
        watch: The files and folders that restart it when they change.
        sandbox: What it may reach; by default all that we may.
    """

    is_lazy: bool = False
    idle: float | None = None
    has_manifest: bool = True
    log: str | None = None
    watch: tuple[str, ...] = ()
    sandbox: Sandbox | None = None


def kept_server(argv: Sequence[str], settings: KeepSettings) -> KeptServer:
    """Return a server that passes everything to a command, which it keeps running. Nothing is started yet."""
    return KeptServer(Backs(lambda: KeptBack(kept_command(argv, settings), settings)), settings, listed_as=argv)


def kept_command(argv: Sequence[str], settings: KeepSettings) -> ServerCommand:
    """Return the command of a kept server. It gets our whole environment, as if the host had started it."""
    stderr: StderrPolicy = "inherit" if settings.log is None else Path(settings.log)
    return ServerCommand(argv, environment="inherit", stderr=stderr, sandbox=settings.sandbox)


class KeptServer(GatewayServer):
    """The front of a kept server. It also declares what ``keep`` itself sends: log messages and changes of the lists.

    With ``listed_as``, the command, ``twopipes keep status`` shows it as the server of this process.
    """

    def __init__(self, backs: Backs, keep: KeepSettings, *, listed_as: Sequence[str] | None = None) -> None:
        super().__init__(backs)
        self._keep = keep
        self._listed_as = listed_as

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[Any]:
        async with super()._running() as lifespan, self._listed():
            if not self._keep.watch:
                yield lifespan
                return
            watcher = Watcher(self._keep.watch, self._files_changed)
            await watcher.start()
            try:
                yield lifespan
            finally:
                watcher.close()

    def _listed(self) -> AbstractAsyncContextManager[None]:
        if self._listed_as is not None:
            from twopipes._gateway.daemon.listed import listed  # only for a process with one server

            return listed(self._listed_as, self.backs)
        return nullcontext()

    def _files_changed(self, paths: list[str]) -> None:
        for back in self.backs:
            assert isinstance(back, KeptBack)
            back.files_changed(paths)

    def _observe(self, back: Back) -> None:
        super()._observe(back)
        assert isinstance(back, KeptBack)
        back.on_report.append(lambda params: self._log_to(self._hosts_of(back), back, params.level, params))

    def _profile_of(self, opened: Opened | None) -> ServerProfile:
        profile = super()._profile_of(opened)
        declared = profile.capabilities
        changes: dict[str, Any] = {} if declared.logging is not None else {"logging": {}}
        if self._keep.has_manifest or self._keep.watch:
            changes |= {kind: {**(getattr(declared, kind) or {}), "listChanged": True} for kind in _listed(declared)}
        return structs.replace(profile, capabilities=structs.replace(declared, **changes))


def _listed(capabilities: ServerCapabilities) -> list[str]:
    return [kind for kind in LIST_CHANGED if capabilities.allows(kind)]


class KeptBack(Back):
    """A server that is ready for some requests before it runs: those that its manifest answers.

    Args:
        command: The server.
        settings: How it is kept.
        config: How to connect to it; by default :func:`kept_config`.
    """

    def __init__(self, command: ServerCommand, settings: KeepSettings, *, config: BackConfig | None = None) -> None:
        super().__init__(CommandTarget(command), config=config or kept_config(settings))
        self.settings = settings
        self.manifest: Manifest | None = None  # of the previous run; then that of the last opening
        self.on_report: list[Callable[[LogParams], None]] = []  # called with what hosts should know about it
        self.on_known: list[Callable[[], object]] = []  # called when known is set, and when an opening has failed
        self._command = command
        self._key: ManifestKey | None = None
        self._client_identity: ClientIdentity | None = None  # of the first host
        self._broken: ServerExited | None = None  # why the code of a watched server does not start
        self._idle = IdleTimer(settings.idle, self._on_idle)
        self._starting: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._is_stale = False  # the lists may have changed since they were read
        self._announced: set[str] = set()  # the lists whose change was passed on since then
        self._read_at = -_PAUSE
        self._is_ending = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None

    @property
    def known(self) -> Opened | None:
        """What is known about the server: from its last opening, or from its manifest."""
        return self.opened or (None if self.manifest is None else self.manifest.opened)

    # For hosts

    def needs_server(self, call: Call) -> bool:
        """As :meth:`Back.needs_server`; some calls are answered from the manifest."""
        return not self._answers(call)

    async def ready(self, client: ClientIdentity, call: Call | None = None) -> Opened:
        """As :meth:`Back.ready`; a call that the manifest answers does not wait for the server."""
        self._introduce(client)
        if self._answers(call):
            if not self.settings.is_lazy and not self._was_opened and self._starting is None:
                self._starting = asyncio.create_task(self._start(client), name=f"start {self.target.description}")
            assert self.manifest is not None
            return self.manifest.opened
        return await super().ready(client)

    async def request(self, method: str, params: Mapping[str, Any] | None, call: FrontCall) -> Raw:
        """As :meth:`Back.request`; a list is answered from the manifest while the server does not run."""
        if method in LISTS and self._answers(call.call):
            assert self.manifest is not None
            raw = self.manifest.lists[method]
            if method == "tools/list":
                self.tools.add(raw)
            return raw
        with self._idle.used():
            return await super().request(method, params, call)

    def _introduce(self, client: ClientIdentity) -> None:
        """Remember the first client, and load the manifest for its kind."""
        if self._client_identity is None:
            self._client_identity = client
            if self.settings.has_manifest:
                self._key = ManifestKey.of(self._command, client.info, client.capabilities)
                self.manifest = None if self._key is None else load(self._key)
            if self.manifest is not None:
                self._decided()

    def _decided(self) -> None:
        for callback in self.on_known:
            callback()

    def _answers(self, call: Call | None) -> bool:
        """Whether the manifest answers a call, so that the server need not run: it was not started, was stopped, or has crashed."""
        if self.manifest is None or call is None or (self._client is not None and self._client.connection is not None):
            return False
        if self.is_running and self.opened is not None and self.opened.revision != self.manifest.opened.revision:
            return False  # the host was introduced to the server that crashed
        if call.method in LISTS:
            return call.method in self.manifest.lists and getattr(call.params, "cursor", None) is None
        if call.method == "subscriptions/listen":
            return not call.params.notifications.resource_subscriptions
        return call.method in _NEEDS_NO_SERVER

    # Start and stop

    async def _start(self, client: ClientIdentity) -> None:
        """Start the server although no request waits for it. A failure is reported; the next request tries again."""
        try:
            await super().ready(client)
        except TwopipesError as error:
            self._report("error", f"The server cannot be started: {error}")

    async def _running_client(self, identity: ClientIdentity) -> BackClient:
        if self._broken is not None and self._opening is None and not self.is_running:
            raise copy(self._broken)
        return await super()._running_client(identity)

    def _opening_done(self, task: asyncio.Task[BackClient]) -> None:
        super()._opening_done(task)
        error = None if task.cancelled() else task.exception()
        if self.settings.watch and self._opening is None and isinstance(error, ServerExited):
            self._broken = copy(error)
            self._broken.given_up = _UNCHANGED
        self._decided()

    async def stop(self) -> None:
        """As :meth:`Back.stop`; the next request also starts a watched server whose code was broken."""
        await super().stop()
        self._broken = None

    def files_changed(self, paths: list[str]) -> None:
        """Start the server again, because these files have changed."""
        self._broken = None
        opening = self.reload(_GRACE)
        if opening is not None:
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            self._report("info", f"The server is restarted, because {paths[0]}{more} changed.")
            opening.add_done_callback(self._reloaded)

    def _reloaded(self, opening: asyncio.Task[BackClient]) -> None:
        error = None if opening.cancelled() else opening.exception()
        if error is not None:
            self._report("error", f"The server cannot be started with the changed files: {error}")

    def _on_idle(self) -> None:
        if self.watches.has_resources:  # a host waits for updates of resources, which only a running server sends
            with self._idle.used():
                return
        if self.is_running and (self._stopping is None or self._stopping.done()):
            self._stopping = asyncio.create_task(self._stop_idle(), name=f"stop {self.target.description}")

    async def _stop_idle(self) -> None:
        if not self._idle.is_used:  # a request may have come since
            await self.stop()

    async def close(self) -> None:
        """End the server for good, and finish its manifest if that takes a moment only."""
        self._idle.stop()
        self._is_ending.set()
        if self._refreshing is not None and self.is_running:
            await asyncio.wait([self._refreshing], timeout=_FINISH)
        for task in (self._starting, self._refreshing):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if self._stopping is not None:
            await asyncio.shield(self._stopping)
        await super().close()

    # The manifest

    def _renew(self, client: Any, *, may_have_changed: bool) -> None:
        # With a manifest it is known which lists have changed; see _refresh.
        super()._renew(client, may_have_changed=may_have_changed and not self.settings.has_manifest)

    def _reopened(self) -> None:
        super()._reopened()
        self._refresh_soon()

    def changed(self, change: Change) -> None:
        """Pass a change on; one of a list makes the manifest stale."""
        super().changed(change)
        if change.kind != "resource":
            self._announced.add(change.kind)
            self._refresh_soon()

    def _refresh_soon(self) -> None:
        if not self.settings.has_manifest:
            with self._idle.used():  # the time until it is idle starts now
                return
        self._is_stale = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh(), name=f"list {self.target.description}")

    async def _refresh(self) -> None:
        """Read the lists of the server, announce those that differ from what hosts may have seen, and store them."""
        loop = asyncio.get_running_loop()
        while self._is_stale and self.is_running:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._read_at + _PAUSE):
                    await self._is_ending.wait()
            opened, announced = self.opened, self._announced
            assert opened is not None
            self._is_stale, self._announced, self._read_at = False, set(), loop.time()
            try:
                with self._idle.used():
                    lists = await read_lists(self._fetch, opened.capabilities, max_pages=self.config.limits.max_pages)
            except TwopipesError:
                return  # it was lost; its next opening reads them
            known, self.manifest = self.manifest, Manifest.of(opened, lists)
            if "tools/list" in lists:
                self.tools.add(lists["tools/list"])
            if known is not None:
                self._correct(known, self.manifest, announced | self._announced)
            if self._key is not None and self.manifest != known:
                await asyncio.to_thread(save, self._key, self.manifest)

    def _correct(self, known: Manifest, found: Manifest, announced: set[str]) -> None:
        """Announce what differs, unless the server has done so."""
        for kind in sorted(known.differences(found) - announced):
            super().changed(Change(kind))
        if known.opened.capabilities != found.opened.capabilities:
            self._report("warning", "The server offers other capabilities than in its previous run; connect again to use them.")

    async def _fetch(self, method: str, params: Mapping[str, Any]) -> Raw:
        assert self._client_identity is not None
        return await self.fetch(method, params, self._client_identity)

    # Reports to hosts

    def _restarting(self, error: TwopipesError) -> None:
        super()._restarting(error)
        self._report("warning", f"The server is restarted: {error}")

    def _given_up(self, error: TwopipesError) -> None:
        super()._given_up(error)
        self._report("error", f"The server is not restarted any more: {error}")

    def _report(self, level: Literal["info", "warning", "error"], text: str) -> None:
        # Not its further lines: the last lines of the server's stderr are there already.
        logger.log(_PYTHON_LEVELS[level], "%s", text.partition("\n")[0])
        for callback in self.on_report:
            callback(LogParams(level, text, _LOGGER))


def kept_config(settings: KeepSettings, on_stderr: Callable[[StderrLine], Any] | None = None) -> BackConfig:
    """Return how to connect to a kept server: patiently, and with the era that is known from an earlier run."""
    return BackConfig(
        on_stderr=on_stderr,
        restart=RestartPolicy(when="always"),
        era_cache=EraCache(EraCache.default_path()) if settings.has_manifest else PROCESS_WIDE,
    )
