"""The front of the gateway: a server whose handlers are calls on the server behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from msgspec import Raw

from twopipes._gateway import translate
from twopipes._gateway.back import Back, Opened
from twopipes._gateway.backs import Backs
from twopipes._gateway.extensions import with_valid_extensions
from twopipes._gateway.front_call import ClientIdentity
from twopipes._gateway.passing import KNOWN_NOTIFICATIONS, PassingServer
from twopipes._protocol.dialect import dialect
from twopipes._protocol.methods import NEEDED_CAPABILITIES
from twopipes._protocol.types import LOGGING_LEVELS, Implementation, LogParams, Result, SubscriptionFilter
from twopipes._server.call_runner import CallRunner
from twopipes._server.context import Context, Next
from twopipes._session.events import NotificationReceived
from twopipes._session.identity import ServerProfile
from twopipes._session.subscriptions import Change, honoured
from twopipes.errors import MethodNotFound, TwopipesError


class GatewayServer(PassingServer):
    """A server that passes everything to the server behind it.

    Args:
        backs: The server behind it, or one for each connection. Hosts see its name.
        options: As for :class:`PassingServer`.
    """

    def __init__(self, backs: Backs, **options: Any) -> None:
        super().__init__(**options)
        self.backs = backs
        backs.on_made = self._observe
        self._served: dict[CallRunner, Opened] = {}  # the opening of the server that each connection knows
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
            capabilities=with_valid_extensions(opened.capabilities),
            instructions=opened.instructions,
            revisions=self._revisions,
        )

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        # All backs are the same server, so any of them knows its tools.
        return next((schema for back in self.backs if (schema := back.tools.header_schema_of(name)) is not None), None)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[Any]:
        async with super()._running() as lifespan:
            try:
                yield lifespan
            finally:
                await self.backs.close()

    # Requests of hosts

    async def _forward(self, context: Context) -> Result:
        back, opened = await self._ready(context)
        return await self._pass_on(back, opened, context)

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

    async def _perform(self, context: Context, call_next: Next) -> Result:
        back, opened = await self._ready(context)
        needed = NEEDED_CAPABILITIES.get(context.call.method)
        # What this side declares: keep serves log levels for servers that do not.
        if needed is not None and not context._connection.session.profile.capabilities.allows(*needed):
            raise MethodNotFound(f"this server does not support {context.call.method}")
        match context.call.method:
            case "initialize":
                back.watches.lists()
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

    async def _set_level(self, back: Back, context: Context) -> None:
        self._levels[context._connection] = context.call.params.level
        levels = [level for runner, level in self._levels.items() if self.backs.find(runner) is back]
        await back.set_log_level(min(levels, key=LOGGING_LEVELS.index))

    async def _watch(self, back: Back, context: Context) -> None:
        uri = context.call.params.uri
        watched = self._watched.setdefault(context._connection, set())
        if uri not in watched:
            await back.watches.add(uri)
            watched.add(uri)

    def _unwatch(self, back: Back, context: Context) -> None:
        uri = context.call.params.uri
        watched = self._watched.get(context._connection, set())
        if uri in watched:
            watched.remove(uri)
            back.watches.remove(uri)

    async def _listen(self, back: Back, opened: Opened, context: Context, call_next: Next) -> Result:
        wanted = honoured(context.call.params.notifications, opened.capabilities)
        watched: list[str] = []
        try:
            if wanted.tools_list_changed or wanted.prompts_list_changed or wanted.resources_list_changed:
                lists = back.watches.lists()
                if lists is not None:
                    await lists.ready()
            for uri in wanted.resource_subscriptions or ():
                await back.watches.add(uri)
                watched.append(uri)
            with back.watches.observed(partial(self._watch_over, back, context, wanted)):
                return await call_next(context)
        finally:
            for uri in watched:
                back.watches.remove(uri)

    def _watch_over(
        self, back: Back, context: Context, wanted: SubscriptionFilter, about: SubscriptionFilter, error: TwopipesError | None
    ) -> None:
        """End the subscription of a host that gets no more changes, so that it does not rely on it. It may subscribe again."""
        call = context.call
        if _overlap(wanted, about) and back.needs_server(call):
            failed = None if error is None else translate.failure(error, call, self._option_names)
            context._connection.end_listen(call, failed)

    def _from_host(self, runner: CallRunner, event: NotificationReceived) -> None:
        """Pass a notification of a host on, if the server knows it or if it is unknown to both."""
        back = self.backs.find(runner)
        if back is None or back.opened is None:
            return
        source = dialect(back.opened.revision)
        if event.method not in KNOWN_NOTIFICATIONS or source.knows_notification(event.method, sender="client"):
            back.notify(event.method, event.raw)

    async def _stopped(self, runner: CallRunner) -> None:
        """Forget a host that is gone."""
        back = self.backs.find(runner)
        self._served.pop(runner, None)
        self._levels.pop(runner, None)
        for uri in self._watched.pop(runner, ()):
            if back is not None:
                back.watches.remove(uri)
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
        self._log_to(self._hosts_for_log(back, self._hosts_of(back)), back, params.level, raw)

    def _notified_behind(self, back: Back, method: str, raw: Any) -> None:
        self._notify_hosts(self._hosts_of(back), back, method, raw)


def _overlap(wanted: SubscriptionFilter, about: SubscriptionFilter) -> bool:
    """Whether two subscriptions have a list or a resource in common."""
    lists = ("tools_list_changed", "prompts_list_changed", "resources_list_changed")
    uris = set(wanted.resource_subscriptions or ()) & set(about.resource_subscriptions or ())
    return bool(uris) or any(getattr(wanted, name) and getattr(about, name) for name in lists)
