"""What the hosts watch at one server: its lists and its resources. A restart of the server does not end it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from twopipes._gateway.back_client import BackClient, OnChange, OnOver, Watch
from twopipes._protocol.types import SubscriptionFilter
from twopipes._session.subscriptions import LIST_CHANGED
from twopipes.errors import TwopipesError

_ALL_LISTS: Final = SubscriptionFilter(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True)


class Watches:
    """The subscriptions at one server. Hosts that watch the same resource share one.

    Args:
        on_change: Called with each change.
    """

    def __init__(self, on_change: OnChange) -> None:
        self._on_over: list[OnOver] = []
        self._on_change = on_change
        self._client: BackClient | None = None
        self._lists: Watch | None = None
        self._wants_lists = False
        self._watched: Counter[str] = Counter()
        self._resources: dict[str, Watch] = {}

    @property
    def has_resources(self) -> bool:
        """Whether a host waits for changes of a resource."""
        return bool(self._watched)

    def lists(self) -> Watch | None:
        """Report changes of the lists from now on, as far as the server declares them. Return the subscription, if there is one."""
        self._wants_lists = True
        if self._client is not None:
            self._renew_lists(self._client, may_have_changed=False)
        return self._lists

    async def add(self, uri: str) -> None:
        """Report changes of a resource from now on. Each call needs one of :meth:`remove`.

        Raises:
            TwopipesError: The server refused it.
        """
        self._watched[uri] += 1
        try:
            if self._client is not None and _is_missing(self._resources.get(uri)):
                self._resources[uri] = self._new(self._client, SubscriptionFilter(resource_subscriptions=[uri]))
            if uri in self._resources:
                await self._resources[uri].ready()
        except BaseException:
            self.remove(uri)
            raise

    def remove(self, uri: str) -> None:
        """Undo one :meth:`add`."""
        self._watched[uri] -= 1
        if self._watched[uri] <= 0:
            del self._watched[uri]
            watch = self._resources.pop(uri, None)
            if watch is not None:
                watch.close()

    @contextmanager
    def observed(self, on_over: OnOver) -> Iterator[None]:
        """Call a function when the server has ended a subscription, or is lost for good, with what it was about and the error.

        The next opening of the server, or the next host, subscribes again.
        """
        self._on_over.append(on_over)
        try:
            yield
        finally:
            self._on_over.remove(on_over)

    # For the back

    def attach(self, client: BackClient, *, may_have_changed: bool) -> None:
        """Subscribe to what hosts watch, unless that is done. After a crash, the client itself renews its subscriptions."""
        self._client = client
        self._renew_lists(client, may_have_changed=may_have_changed)
        for uri in self._watched:
            if _is_missing(self._resources.get(uri)):
                wanted = SubscriptionFilter(resource_subscriptions=[uri])
                self._resources[uri] = self._new(client, wanted, may_have_changed=may_have_changed)
                self._resources[uri].begin()

    def detach(self) -> None:
        """Handle the end of the client, which closes its subscriptions. Another one may follow."""
        self._client = self._lists = None
        self._resources.clear()

    def _renew_lists(self, client: BackClient, *, may_have_changed: bool) -> None:
        if self._wants_lists and _is_missing(self._lists) and _declares_lists(client):
            self._lists = self._new(client, _ALL_LISTS, may_have_changed=may_have_changed)
            self._lists.begin()

    def _new(self, client: BackClient, wanted: SubscriptionFilter, *, may_have_changed: bool = False) -> Watch:
        return client.watch(wanted, self._on_change, self._over, may_have_changed=may_have_changed)

    def _over(self, wanted: SubscriptionFilter, error: TwopipesError | None) -> None:
        for callback in list(self._on_over):
            callback(wanted, error)


def _is_missing(watch: Watch | None) -> bool:
    return watch is None or watch.is_over


def _declares_lists(client: BackClient) -> bool:
    return any(client.capabilities.allows(kind, "listChanged") for kind in LIST_CHANGED)
