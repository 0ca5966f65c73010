"""What every front of a gateway does: its handlers are calls on servers behind it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

from msgspec import structs

from twopipes._channels.base import Channel
from twopipes._gateway import translate
from twopipes._gateway.back import Back, Opened
from twopipes._gateway.front_call import FrontCall
from twopipes._gateway.host_connection import HostConnection
from twopipes._protocol.dialect import dialect
from twopipes._protocol.methods import KNOWN_METHODS, NOTIFICATIONS
from twopipes._protocol.types import LoggingLevel, Result
from twopipes._server.app import Server
from twopipes._server.call_runner import CallRunner
from twopipes._server.context import Context, Next
from twopipes._session.events import NotificationReceived
from twopipes._session.server import ServerSession
from twopipes._version import __version__
from twopipes.errors import MethodNotFound, TwopipesError
from twopipes.settings import InputPolicy, Limits, ServerSettings

KNOWN_NOTIFICATIONS: Final = frozenset(row.method for row in NOTIFICATIONS)
"""The notifications of any revision."""
# The level of a legacy host that chose none, for a modern server, which sends no log messages without one.
_DEFAULT_LEVEL: Final[LoggingLevel] = "info"

Rewrite = Callable[[dict[str, Any], FrontCall], None]
"""Changes the params of a request, in place, before a server gets them."""


class PassingServer(Server[None]):
    """A server that passes requests to servers behind it, in either era and over every binding.

    Args:
        eras: What it offers to hosts.
        settings: As for :class:`twopipes.Server`.
        limits: Likewise.
        questions: Likewise.
        name: The name for messages.
        option_names: How the user writes the options that errors point to, by their keys in ``twopipes._error_text``. Others are
            not mentioned.
    """

    def __init__(
        self,
        *,
        eras: Literal["both", "legacy", "modern"] = "both",
        settings: ServerSettings | None = None,
        limits: Limits | None = None,
        questions: InputPolicy | None = None,
        name: str = "twopipes",
        option_names: Mapping[str, str] | None = None,
    ) -> None:
        limits = limits or Limits()
        # A server behind decides how many calls it runs at once.
        settings = structs.replace(settings or ServerSettings(), max_running=limits.max_in_flight or 1 << 16)
        super().__init__(name, version=__version__, eras=eras, settings=settings, limits=limits, questions=questions)
        self._option_names = option_names or {}
        self._levels: dict[CallRunner, LoggingLevel] = {}  # that legacy hosts chose

    # Implemented by each front

    @abstractmethod
    async def _forward(self, context: Context) -> Result:
        """Handle a request by passing it on."""

    @abstractmethod
    async def _perform(self, context: Context, call_next: Next) -> Result:
        """Handle what the session can handle itself, after the servers behind have done their part."""

    @abstractmethod
    def _from_host(self, runner: CallRunner, event: NotificationReceived) -> None:
        """Handle a notification of a host."""

    @abstractmethod
    async def _stopped(self, runner: CallRunner) -> None:
        """Forget a host that is gone."""

    # What Server does for its own tools

    def _new_session(self, *, limits: Limits | None = None, shared: bool = False) -> ServerSession:
        session = super()._new_session(limits=limits, shared=shared)
        session.log_level = "debug"  # what a server sends to a host that chose no level is its own decision
        return session

    def _connect(self, channel: Channel, lifespan: Any = None) -> HostConnection:
        return HostConnection(self._new_session(), channel, **self._runner_options(lifespan))

    def _session_options(self) -> dict[str, Any]:
        return {"delegates": True, "transparent": True}

    def _runner_options(self, lifespan: Any) -> dict[str, Any]:
        return {**super()._runner_options(lifespan), "on_notification": self._from_host, "on_stop": self._stopped}

    async def _handle(self, context: Context) -> Result:
        try:
            return await self._forward(context)
        except TwopipesError as error:
            raise translate.failure(error, context.call, self._option_names) from error

    async def _through_middleware(self, context: Context, call_next: Next) -> Result:
        if context.call.method == "ping":
            return await call_next(context)
        try:
            return await self._perform(context, call_next)
        except TwopipesError as error:
            raise translate.failure(error, context.call, self._option_names) from error

    # For each front

    async def _pass_on(self, back: Back, opened: Opened, context: Context, rewrite: Rewrite | None = None) -> Result:
        """Send a request of a host to a server, and return its result for the host."""
        call = context.call
        method = call.method
        source = dialect(opened.revision)
        if method in KNOWN_METHODS and method not in source.served:
            raise MethodNotFound(f"the server speaks revision {opened.revision}, which has no {method}")
        front_call = FrontCall(context)
        if not source.modern:
            back.questions.check_resumed(front_call)
        params, front_call.client_meta = translate.request(call, source)
        if rewrite is not None:
            rewrite(params, front_call)
        if source.modern:
            legacy_level = self._levels.get(front_call.runner, _DEFAULT_LEVEL)
            front_call.log_level = call.log_level if call.dialect.modern else legacy_level
        raw = await back.request(method, params, front_call)
        return translate.result(method, raw, source, call.dialect, server=opened.server_info)

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

    def _hosts_for_log(self, back: Back, hosts: Iterable[CallRunner]) -> Iterable[CallRunner]:
        """Return the hosts that a log message of a server is meant for. A modern server logs only about requests."""
        is_modern = back.opened is not None and dialect(back.opened.revision).modern
        return {call.runner for call in back.calls} if is_modern else hosts

    def _notify_hosts(self, hosts: list[CallRunner], back: Back, method: str, raw: Any) -> None:
        """Pass a notification of a server to the hosts whose revision knows it, or to all of them if none does."""
        if method == "notifications/elicitation/complete":
            hosts = back.questions.visits.completed(raw, hosts)
        for runner in hosts:
            spoken = runner.session.session_dialect
            is_known = method in KNOWN_NOTIFICATIONS
            if not is_known or (spoken is not None and spoken.knows_notification(method, sender="server")):
                runner.forward(method, raw)
