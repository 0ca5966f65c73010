"""The front of the gateway: a server whose handlers are calls on the server behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Literal

from msgspec import Raw, structs

from twopipes._channels.base import Channel
from twopipes._gateway import translate
from twopipes._gateway.back import Back, Opened
from twopipes._gateway.backs import Backs
from twopipes._gateway.front_call import ClientIdentity, FrontCall
from twopipes._gateway.host_connection import HostConnection
from twopipes._protocol.dialect import dialect
from twopipes._protocol.meta_keys import is_extension_name
from twopipes._protocol.methods import KNOWN_METHODS, NEEDED_CAPABILITIES, NOTIFICATIONS
from twopipes._protocol.types import (
    LOGGING_LEVELS,
    Implementation,
    LoggingLevel,
    LogParams,
    Result,
    ServerCapabilities,
)
from twopipes._server.app import Server
from twopipes._server.call_runner import CallRunner
from twopipes._server.context import Context, Next
from twopipes._session.events import NotificationReceived
from twopipes._session.identity import ServerProfile
from twopipes._session.server import ServerSession
from twopipes._session.subscriptions import Change, honoured
from twopipes._version import __version__
from twopipes.errors import MethodNotFound, TwopipesError
from twopipes.settings import InputPolicy, Limits, ServerSettings

_KNOWN_NOTIFICATIONS: Final = frozenset(row.method for row in NOTIFICATIONS)
# The level of a legacy host that chose none, for a modern server, which sends no log messages without one.
_DEFAULT_LEVEL: Final[LoggingLevel] = "info"


class GatewayServer(Server[None]):
    """A server that passes everything to the server behind it, in either era and over every binding.

    Args:
        backs: The server behind it, or one for each connection.
        eras: What it offers to hosts.
        settings: As for :class:`twopipes.Server`.
        limits: Likewise.
        questions: Likewise.
        name: The name for messages. Hosts see the name of the server behind.
        option_names: How the user writes the options that errors point to, by their keys in ``twopipes._error_text``. Others are
            not mentioned.
    """

    def __init__(
        self,
        backs: Backs,
        *,
        eras: Literal["both", "legacy", "modern"] = "both",
        settings: ServerSettings | None = None,
        limits: Limits | None = None,
        questions: InputPolicy | None = None,
        name: str = "twopipes",
        option_names: Mapping[str, str] | None = None,
    ) -> None:
        limits = limits or Limits()
        # The server behind decides how many calls it runs at once.
        settings = structs.replace(settings or ServerSettings(), max_running=limits.max_in_flight or 1 << 16)
        super().__init__(name, version=__version__, eras=eras, settings=settings, limits=limits, questions=questions)
        self._option_names = option_names or {}
        self.backs = backs
        backs.on_made = self._observe
        self._served: dict[CallRunner, Opened] = {}  # the opening of the server that each connection knows
        self._levels: dict[CallRunner, LoggingLevel] = {}  # that legacy hosts chose
        self._watched: dict[CallRunner, set[str]] = {}  # by legacy hosts

    # What Server does for its own tools

    @property
    def _profile(self) -> ServerProfile:
        opened = None if self.backs.isolated else next((back.opened for back in self.backs), None)
        return self._profile_of(opened)

    def _profile_of(self, opened: Opened | None) -> ServerProfile:
        if opened is None:
            return ServerProfile(info=self.info, revisions=self._revisions)
        return ServerProfile(
            info=opened.server_info or Implementation(self.info.name, self.info.version),
            capabilities=_carried(opened.capabilities),
            instructions=opened.instructions,
            revisions=self._revisions,
        )

    def _new_session(self, *, limits: Limits | None = None, shared: bool = False) -> ServerSession:
        session = super()._new_session(limits=limits, shared=shared)
        session.log_level = "debug"  # what a server sends to a host that chose no level is its own decision
        return session

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        # All backs are the same server, so any of them knows its tools.
        return next((schema for back in self.backs if (schema := back.tools.header_schema_of(name)) is not None), None)

    def _connect(self, channel: Channel, lifespan: Any = None) -> HostConnection:
        return HostConnection(self._new_session(), channel, **self._runner_options(lifespan))

    def _session_options(self) -> dict[str, Any]:
        return {"delegates": True, "transparent": True}

    def _runner_options(self, lifespan: Any) -> dict[str, Any]:
        return {**super()._runner_options(lifespan), "on_notification": self._from_host, "on_stop": self._stopped}

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[Any]:
        async with super()._running() as lifespan:
            try:
                yield lifespan
            finally:
                await self.backs.close()

    # Requests of hosts

    async def _handle(self, context: Context) -> Result:
        try:
            return await self._forward(context)
        except TwopipesError as error:
            raise translate.failure(error, context.call, self._option_names) from error

    async def _forward(self, context: Context) -> Result:
        call = context.call
        method = call.method
        back, opened = await self._ready(context)
        source = dialect(opened.revision)
        if method in KNOWN_METHODS and method not in source.served:
            raise MethodNotFound(f"the server speaks revision {opened.revision}, which has no {method}")
        front_call = FrontCall(context)
        if not source.modern:
            back.questions.check_resumed(front_call)
        params, front_call.client_meta = translate.request(call, source)
        if source.modern:
            legacy_level = self._levels.get(front_call.runner, _DEFAULT_LEVEL)
            front_call.log_level = call.log_level if call.dialect.modern else legacy_level
        raw = await back.request(method, params, front_call)
        return translate.result(method, raw, source, call.dialect, server=opened.server_info)

    async def _ready(self, context: Context) -> tuple[Back, Opened]:
        runner = context._connection
        back = self.backs.of(runner)
        opened = back.opened if back.is_running else None
        if opened is None:
            call = context.call
            back.questions.is_shared |= runner.session.is_shared  # any client may send the next request
            opened = await back.ready(ClientIdentity(call.client_info, call.capabilities), call)
        if self._served.get(runner) is not opened:
            self._served[runner] = opened
            runner.session.profile = self._profile_of(opened)
        return back, opened

    async def _through_middleware(self, context: Context, call_next: Next) -> Result:
        """Handle what the session can handle itself, after the server behind has done its part."""
        if context.call.method == "ping":
            return await call_next(context)
        try:
            back, opened = await self._ready(context)
            needed = NEEDED_CAPABILITIES.get(context.call.method)
            # What this side declares: keep serves log levels for servers that do not.
            if needed is not None and not context._connection.session.profile.capabilities.allows(*needed):
                raise MethodNotFound(f"this server does not support {context.call.method}")
            match context.call.method:
                case "initialize":
                    back.watch_lists()
                    return translate.introduction(await call_next(context), context.call, opened)
                case "server/discover":
                    return translate.introduction(await call_next(context), context.call, opened)
                case "logging/setLevel":
                    await self._set_level(back, context)
                case "resources/subscribe":
                    await self._watch(back, context)
                case "resources/unsubscribe":
                    self._unwatch(back, context)
                case "subscriptions/listen":
                    return await self._listen(back, opened, context, call_next)
            return await call_next(context)
        except TwopipesError as error:
            raise translate.failure(error, context.call, self._option_names) from error

    async def _set_level(self, back: Back, context: Context) -> None:
        self._levels[context._connection] = context.call.params.level
        levels = [level for runner, level in self._levels.items() if self.backs.find(runner) is back]
        await back.set_log_level(min(levels, key=LOGGING_LEVELS.index))

    async def _watch(self, back: Back, context: Context) -> None:
        uri = context.call.params.uri
        watched = self._watched.setdefault(context._connection, set())
        if uri not in watched:
            await back.watch(uri)
            watched.add(uri)

    def _unwatch(self, back: Back, context: Context) -> None:
        uri = context.call.params.uri
        watched = self._watched.get(context._connection, set())
        if uri in watched:
            watched.remove(uri)
            back.unwatch(uri)

    async def _listen(self, back: Back, opened: Opened, context: Context, call_next: Next) -> Result:
        wanted = honoured(context.call.params.notifications, opened.capabilities)
        watched: list[str] = []
        try:
            if wanted.tools_list_changed or wanted.prompts_list_changed or wanted.resources_list_changed:
                lists = back.watch_lists()
                if lists is not None:
                    await lists.ready()
            for uri in wanted.resource_subscriptions or ():
                await back.watch(uri)
                watched.append(uri)
            return await call_next(context)
        finally:
            for uri in watched:
                back.unwatch(uri)

    def _from_host(self, runner: CallRunner, event: NotificationReceived) -> None:
        """Pass a notification of a host on, if the server knows it or if it is unknown to both."""
        back = self.backs.find(runner)
        if back is None or back.opened is None:
            return
        source = dialect(back.opened.revision)
        if event.method not in _KNOWN_NOTIFICATIONS or source.knows_notification(event.method, sender="client"):
            back.notify(event.method, event.raw)

    async def _stopped(self, runner: CallRunner) -> None:
        """Forget a host that is gone."""
        back = self.backs.find(runner)
        self._served.pop(runner, None)
        self._levels.pop(runner, None)
        for uri in self._watched.pop(runner, ()):
            if back is not None:
                back.unwatch(uri)
        await self.backs.release(runner)

    # Notifications of the server behind

    def _observe(self, back: Back) -> None:
        back.questions.is_shared = self.backs.shared
        back.questions.hosts = partial(self._hosts_of, back)
        back.on_changed.append(partial(self._changed_behind, back))
        back.on_log.append(partial(self._log_behind, back))
        back.on_notification.append(partial(self._notified_behind, back))
        back.on_opened.append(partial(self._opened_behind, back))

    def _hosts_of(self, back: Back) -> list[CallRunner]:
        return [runner for runner in self._connections if self.backs.find(runner) is back]

    def _opened_behind(self, back: Back, opened: Opened) -> None:
        for runner in self._hosts_of(back):
            self._served[runner] = opened
            runner.session.profile = self._profile_of(opened)

    def _changed_behind(self, back: Back, change: Change) -> None:
        for runner in self._hosts_of(back):
            runner.announce(change)

    def _log_behind(self, back: Back, params: LogParams, raw: Raw) -> None:
        # A modern server logs only about requests, so a host without one is not meant.
        is_modern = back.opened is not None and dialect(back.opened.revision).modern
        hosts = {call.runner for call in back.calls} if is_modern else self._hosts_of(back)
        self._log_to(hosts, back, params.level, raw)

    def _log_to(self, hosts: Iterable[CallRunner], back: Back, level: LoggingLevel, raw: Any) -> None:
        """Send a log message to each of the sessions that wants its level, and to the calls that want it."""
        method = "notifications/message"
        done: set[CallRunner] = set()
        for runner in hosts:
            if runner.session.wants_log(level):
                runner.forward(method, raw)
                done.add(runner)
        for call in list(back.calls):
            is_new = call.call.route is not None or call.runner not in done
            if call.call.dialect.modern and is_new and call.runner.session.wants_log(level, call.call):
                call.runner.forward(method, raw, call.context)
                done.add(call.runner)

    def _notified_behind(self, back: Back, method: str, raw: Any) -> None:
        hosts = self._hosts_of(back)
        if method == "notifications/elicitation/complete":
            hosts = back.questions.visitors(raw, hosts)
        for runner in hosts:
            spoken = runner.session.session_dialect
            is_known = method in _KNOWN_NOTIFICATIONS
            if not is_known or (spoken is not None and spoken.knows_notification(method, sender="server")):
                runner.forward(method, raw)


def _carried(capabilities: ServerCapabilities) -> ServerCapabilities:
    """Return the capabilities that the gateway can declare: extensions with an invalid name are left out."""
    extensions = capabilities.extensions
    if extensions is None or all(map(is_extension_name, extensions)):
        return capabilities
    return structs.replace(capabilities, extensions={k: v for k, v in extensions.items() if is_extension_name(k)} or None)
