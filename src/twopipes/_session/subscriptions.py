"""Subscriptions to changes, on the server (section SU of the rules).

A legacy session is notified of every list that declared ``listChanged`` and of the resources that it subscribed to. A modern client
opens any number of ``subscriptions/listen`` requests. Each gets its own copy of what it asked for, tagged with its own id (SU-04,
SU-10).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from msgspec import Struct

from twopipes._protocol.types import ServerCapabilities, SubscriptionFilter
from twopipes._session.ledger import Call
from twopipes.errors import InternalError
from twopipes.settings import Limits

ListKind = Literal["tools", "prompts", "resources"]

_LISTS: Final[tuple[ListKind, ...]] = ("tools", "prompts", "resources")
LIST_CHANGED: Final = {kind: f"notifications/{kind}/list_changed" for kind in _LISTS}
RESOURCE_UPDATED: Final = "notifications/resources/updated"


class Change(Struct, frozen=True):
    """A change that a client may subscribe to: of a list or of one resource. Equal changes count as one."""

    kind: ListKind | Literal["resource"]
    uri: str = ""

    @property
    def method(self) -> str:
        """The method of its notification."""
        return RESOURCE_UPDATED if self.kind == "resource" else LIST_CHANGED[self.kind]


def honoured(asked: SubscriptionFilter, capabilities: ServerCapabilities) -> SubscriptionFilter:
    """Return the part of a filter that this server delivers: declared (SU-06) and asked for (SU-05)."""
    lists: dict[str, Any] = {f"{kind}_list_changed": True for kind in _kinds(asked) if capabilities.allows(kind, "listChanged")}
    uris = asked.resource_subscriptions if capabilities.allows("resources", "subscribe") else None
    return SubscriptionFilter(**lists, resource_subscriptions=list(dict.fromkeys(uris)) if uris else None)


def _kinds(wanted: SubscriptionFilter) -> list[str]:
    return [kind for kind in LIST_CHANGED if getattr(wanted, f"{kind}_list_changed")]


class Subscriptions:
    """The open listens of one connection, by their calls, and the resources that its legacy session watches."""

    def __init__(self, *, limits: Limits) -> None:
        self._limits = limits
        self._filters: dict[Call, SubscriptionFilter] = {}
        self._listeners: dict[str, dict[Call, None]] = {kind: {} for kind in LIST_CHANGED}
        self._watchers: dict[str, dict[Call, None]] = {}
        self._session_watches: set[str] = set()
        self._watched = 0

    def __len__(self) -> int:
        return len(self._filters)

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._filters))

    def __contains__(self, call: Call) -> bool:
        return call in self._filters

    def listen(self, call: Call, wanted: SubscriptionFilter) -> None:
        """Open a listen with a filter returned by :func:`honoured`, unless there are too many listens or resources (SU-18)."""
        uris = wanted.resource_subscriptions or []
        if self._limits.max_listens is not None and len(self._filters) >= self._limits.max_listens:
            raise InternalError(f"{len(self._filters):,} subscriptions are open already; end one before opening another")
        self._make_room(len(uris))
        self._filters[call] = wanted
        for kind in _kinds(wanted):
            self._listeners[kind][call] = None
        for uri in uris:
            self._watchers.setdefault(uri, {})[call] = None
        self._watched += len(uris)

    def end(self, call: Call) -> bool:
        """Close a listen; nothing more is delivered to it (SU-11). Return False if it does not exist."""
        wanted = self._filters.pop(call, None)
        if wanted is None:
            return False
        for kind in _kinds(wanted):
            del self._listeners[kind][call]
        for uri in wanted.resource_subscriptions or []:
            watchers = self._watchers[uri]
            del watchers[call]
            if not watchers:
                del self._watchers[uri]
            self._watched -= 1
        return True

    def watch(self, uri: str) -> None:
        """Handle ``resources/subscribe`` of the legacy session, unless there are too many (RS-03)."""
        if uri not in self._session_watches:
            self._make_room(1)
            self._session_watches.add(uri)
            self._watched += 1

    def unwatch(self, uri: str) -> None:
        """Handle ``resources/unsubscribe`` of the legacy session; it is not an error if there was no subscription."""
        if uri in self._session_watches:
            self._session_watches.remove(uri)
            self._watched -= 1

    def session_wants(self, change: Change, capabilities: ServerCapabilities) -> bool:
        """Whether the legacy session is notified: of lists by the declared flag, of resources if subscribed (RS-04)."""
        if change.kind == "resource":
            return any(uri in self._session_watches for uri in with_parents(change.uri))
        return capabilities.allows(change.kind, "listChanged")

    def listens_for(self, change: Change) -> list[Call]:
        """Return the listens that get a copy, each once, in the order they were opened (SU-10)."""
        if change.kind != "resource":
            return list(self._listeners[change.kind])
        found: dict[Call, None] = {}
        for uri in with_parents(change.uri):
            found.update(self._watchers.get(uri, {}))
        return [call for call in self._filters if call in found] if found else []

    def every_change(self) -> list[Change]:
        """Return a change of each list and of each watched resource, for the case that changes were missed."""
        uris = dict.fromkeys([*self._watchers, *self._session_watches])
        return [*(Change(kind) for kind in LIST_CHANGED), *(Change("resource", uri) for uri in uris)]

    def _make_room(self, uris: int) -> None:
        limit = self._limits.max_watched
        if limit is not None and self._watched + uris > limit:
            raise InternalError(f"{self._watched:,} resources are watched already; the limit is {limit:,}")


def with_parents(uri: str) -> Iterator[str]:
    """Yield a URI and its parents: a watcher of ``file:///a`` or ``file:///a/`` is notified of ``file:///a/b`` (SU-09)."""
    yield uri
    end = len(uri)
    start = uri.find("://") + 3 if "://" in uri else 0
    while (end := uri.rfind("/", start, end)) > 0:
        if end + 1 < len(uri):
            yield uri[: end + 1]
        yield uri[:end]
