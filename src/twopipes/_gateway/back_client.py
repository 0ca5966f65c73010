"""The client of the gateway: what the server sends without a request goes to the back as received."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Raw

from twopipes._client.client import Client
from twopipes._client.connection import ClientConnection
from twopipes._client.options import RequestOptions
from twopipes._client.subscription import Subscription, Subscriptions
from twopipes._client.supervisor import Supervisor
from twopipes._protocol.types import LoggingLevel, SetLevelParams, SubscriptionFilter, ToolAnnotations
from twopipes._session.events import ClientOpened
from twopipes._session.subscriptions import LIST_CHANGED, RESOURCE_UPDATED, Change
from twopipes.errors import TwopipesError

if TYPE_CHECKING:
    from twopipes._gateway.back import Back

OnChange = Callable[[Change], None]
OnOver = Callable[[SubscriptionFilter, TwopipesError | None], None]
_CHANGES: Final = frozenset((*LIST_CHANGED.values(), RESOURCE_UPDATED))


class BackClient(Client):
    """A client whose caller is a gateway."""

    def __init__(self, supervisor: Supervisor, back: Back) -> None:
        self._back = back
        super().__init__(supervisor)

    @property
    def connection(self) -> ClientConnection | None:
        """The connection to the server; ``None`` while it is restarted."""
        return self._supervisor.connection

    @property
    def opened(self) -> ClientOpened:
        """What the server reported when it was opened last."""
        return self._supervisor.opened

    def request_raw(self, method: str, params: Mapping[str, Any] | None, options: RequestOptions) -> Coroutine[Any, Any, Raw]:
        """Send a request with raw options, and return the result as received."""
        return self._caller.call(method, params, options)

    def watch(self, wanted: SubscriptionFilter, on_change: OnChange, on_over: OnOver, *, may_have_changed: bool) -> Watch:
        """Return a subscription that is not started yet."""
        return Watch(wanted, self._subscriptions, on_change, on_over, may_have_changed=may_have_changed)

    def restore_level(self, level: LoggingLevel) -> None:
        """Set the log level of a fresh legacy server, if it was not set there. After a crash the client does it."""
        if self.era != "legacy" or self._caller.log_level is not None or not self.capabilities.allows("logging"):
            return
        self._caller.log_level = level
        if self.connection is not None:
            self.connection.send_and_forget("logging/setLevel", SetLevelParams(level))

    def _notified(self, method: str, params: Any, size: int, raw: Any = UNSET) -> None:
        if method in _CHANGES:
            self._subscriptions.notified(method, params)
        else:
            self._back.notified(method, params, raw)

    def _reopened(self, connection: ClientConnection) -> None:
        super()._reopened(connection)
        self._back.reopened()

    def _lost(self) -> None:
        super()._lost()
        self._back.lost()

    def _annotations_of(self, name: str) -> ToolAnnotations | None:
        return self._back.tools.annotations_of(name)


class Watch(Subscription):
    """A subscription whose changes are passed on at once, so that they keep their order among other messages.

    ``on_over`` is called with what it was about when the server has ended it, or is lost for good, but not by :meth:`close`.
    """

    def __init__(
        self,
        wanted: SubscriptionFilter,
        owner: Subscriptions,
        on_change: OnChange,
        on_over: OnOver,
        *,
        may_have_changed: bool = False,
    ) -> None:
        super().__init__(wanted, owner)
        self._on_change = on_change
        self._on_over: OnOver | None = on_over
        self._is_renewed = may_have_changed

    def begin(self) -> None:
        """Subscribe, without waiting for the acknowledgement."""
        self._start()

    def close(self) -> None:
        """End it from this side."""
        self._on_over = None
        super().close()

    def fail(self, error: TwopipesError | None) -> None:
        """As :meth:`Subscription.fail`, and report it."""
        on_over, self._on_over = self._on_over, None
        super().fail(error)
        if on_over is not None:
            on_over(self.wanted, error)

    def _add(self, change: Change) -> None:
        self._on_change(change)
