"""Results that a modern server allows its client to keep for a while (section CH of the rules).

Nothing is fetched here and no clock is read. A request that may be answered from here is asked for with :meth:`ResultCache.get`; if
that gives nothing, a ticket is drawn, the request is sent, and its answer goes to :meth:`ResultCache.put` with the ticket::

    result = cache.get("resources/read", uri, now=clock())
    if result is None:
        ticket = cache.begin("resources/read", uri)
        result = await ask("resources/read", ReadResourceParams(uri))
        cache.put(ticket, result, now=clock())

The ticket is there for the change that is announced while the answer is under way: the answer may be older than the change, so it
is given to the caller and not kept. A legacy session has no such results; a client does not come here with what one gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from weakref import WeakSet

from msgspec import DecodeError, EncodeError, Struct, structs
from msgspec import json as msgspec_json

from twopipes._protocol.types import CacheableResult, ReadResourceResult, ResourceUpdatedParams

__all__ = ["CACHEABLE", "Page", "ResultCache", "Ticket"]

CACHEABLE: Final = frozenset(
    {"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
)
"""The methods whose results may be kept (CH-01)."""

# CH-07. There is no notification for templates alone; they are resources too.
_STALE_BY: Final = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}
_RESOURCE_UPDATED: Final = "notifications/resources/updated"
_READ: Final = "resources/read"
_MS: Final = 1000.0  # in a second
# Milliseconds. Longer than any process lives, and small enough to be counted with: a server may say any number.
_LONGEST_TTL: Final = 10**15
# What cannot be written as JSON, or not be read again: nested as deep as the stack, halves of characters, endless numbers.
_UNSPEAKABLE: Final = (RecursionError, ValueError, OverflowError, EncodeError, DecodeError)


class Page(Struct, frozen=True):
    """The key of a single page of a list. The key of a whole list, walked to its end, is the empty string."""

    cursor: str | None = None


class Ticket:
    """The right to keep one answer, until a change is announced that concerns it. Good for one answer."""

    __slots__ = ("__weakref__", "is_good", "key", "method", "number")

    def __init__(self, method: str, key: str | Page, number: int) -> None:
        self.method = method
        self.key = key
        self.number = number
        self.is_good = True


class _Entry(Struct, frozen=True):
    """A result as JSON: small, of known size, and out of everybody's reach. Reading it costs less than copying objects would."""

    kind: type[CacheableResult]
    raw: bytes
    uris: frozenset[str]  # of the resources that a read brought
    fresh_until: float
    number: int  # of its ticket


class ResultCache:
    """What one client may answer itself.

    Each client has its own, and that is how a ``private`` result never reaches anybody with other rights (CH-06).

    Nobody can change what is kept: each caller gets a result of its own, down to the last schema.

    Args:
        max_entries: Results to hold; the one that was not asked for the longest gives way.
        max_bytes: What they may take together, as JSON. A result that is larger by itself is not kept.
    """

    def __init__(self, *, max_entries: int = 1_000, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: dict[tuple[str, str | Page], _Entry] = {}  # the one that was asked for last is the last
        self._bytes = 0
        self._tickets_drawn = 0
        # Weak, because a request that fails never brings its ticket back.
        self._under_way: WeakSet[Ticket] = WeakSet()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, method: str, key: str | Page = "", *, now: float) -> CacheableResult | None:
        """The result of that method for that key if it is there and fresh; ``None`` means: ask the server (CH-03, CH-04)."""
        entry = self._entries.get((method, key))
        if entry is None:
            return None
        if now >= entry.fresh_until:
            self._remove(method, key)
            return None
        try:
            result = msgspec_json.decode(entry.raw, type=entry.kind)
        except _UNSPEAKABLE:  # this caller is deeper in the stack than the one who brought it
            self._remove(method, key)
            return None
        self._entries[method, key] = self._entries.pop((method, key))
        return result

    def begin(self, method: str, key: str | Page = "") -> Ticket:
        """Draws a ticket, before the request is sent.

        Args:
            method: The method.
            key: Everything in the params that decides about the result: the URI of a read, a :class:`Page` of a list, nothing for
                the whole of a list and for the discovery (CH-04). A request with params of an extension is not to be kept at all.
        """
        self._tickets_drawn += 1
        ticket = Ticket(method, key, self._tickets_drawn)
        self._under_way.add(ticket)
        return ticket

    def put(self, ticket: Ticket, result: object, *, now: float) -> bool:
        """Keeps an answer if that is allowed, and uses the ticket up.

        Every answer may be handed in. Not kept are: what is not cacheable or not a complete result, such as a question to the
        client, and therefore also what the request gives once the question is answered (CH-05); what has no time to live (CH-03);
        what a change has overtaken (CH-07).

        Args:
            ticket: The one that was drawn before the request was sent.
            result: The answer.
            now: When it arrived.

        Returns:
            Whether it is kept.
        """
        is_good = ticket.is_good
        self.discard(ticket)
        if not is_good or ticket.method not in CACHEABLE or not isinstance(result, CacheableResult):
            return False
        if result.result_type not in {None, "complete"}:
            return False
        before = self._entries.get((ticket.method, ticket.key))
        if before is not None and before.number > ticket.number and now < before.fresh_until:
            return False  # the answer to a later question was faster
        # Whether or not the new one can be kept, the old one is not the newest any more.
        self._remove(ticket.method, ticket.key)
        if result.ttl_ms is None or result.ttl_ms <= 0:
            return False
        ttl_ms = min(result.ttl_ms, _LONGEST_TTL)
        try:
            raw = msgspec_json.encode(structs.replace(result, ttl_ms=ttl_ms))
        except _UNSPEAKABLE:  # it can be used, and asked for again
            return False
        if len(raw) > self._max_bytes or self._max_entries < 1:
            return False
        uris = frozenset(each.uri for each in result.contents) if isinstance(result, ReadResourceResult) else frozenset[str]()
        entry = _Entry(type(result), raw, uris, now + ttl_ms / _MS, ticket.number)
        self._entries[ticket.method, ticket.key] = entry
        self._bytes += len(raw)
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            self._remove(*next(iter(self._entries)))
        return True

    def discard(self, ticket: Ticket) -> None:
        """Gives a ticket back: its request asks the user first, or will be sent in another form, and is not to be kept (CH-05)."""
        ticket.is_good = False
        self._under_way.discard(ticket)

    def on_notification(self, method: str, params: object = None) -> None:
        """Drops what a notification of the server makes stale, at once (CH-07). Every notification may be handed in.

        Args:
            method: The notification.
            params: Its params, typed or as a mapping.
        """
        for stale in _STALE_BY.get(method, ()):
            self.drop(stale)
        if method == _RESOURCE_UPDATED:
            uri = (
                params.uri
                if isinstance(params, ResourceUpdatedParams)
                else params.get("uri")
                if isinstance(params, Mapping)
                else None
            )
            self.drop(_READ, uri if isinstance(uri, str) else None)

    def drop(self, method: str, key: str | Page | None = None) -> None:
        """Drops the results of a method; its answers that are under way will not be kept either.

        Args:
            method: The method.
            key: One result only. With the URI of a read, also the resources below and above it: a server may announce a folder
                by a file in it, or the other way round (RS-04, SU-09). Without a key, all of them, as when a cursor was
                rejected (CH-09).
        """
        for (known_method, known_key), entry in list(self._entries.items()):
            if known_method == method and (_concerns(key, known_key) or key in entry.uris):
                self._remove(known_method, known_key)
        for ticket in list(self._under_way):
            # Nobody knows yet which resources the answer to a read will hold (RS-02), so a change of any of them counts.
            if ticket.method == method and (method == _READ or _concerns(key, ticket.key)):
                self.discard(ticket)

    def clear(self) -> None:
        """Drops everything, also what is under way: the server is another one now."""
        self._entries.clear()
        self._bytes = 0
        for ticket in list(self._under_way):
            self.discard(ticket)

    def _remove(self, method: str, key: str | Page) -> None:
        entry = self._entries.pop((method, key), None)
        if entry is not None:
            self._bytes -= len(entry.raw)


def _concerns(changed: str | Page | None, known: str | Page) -> bool:
    if changed is None or changed == known:
        return True
    return isinstance(changed, str) and isinstance(known, str) and (_is_below(changed, known) or _is_below(known, changed))


def _is_below(uri: str, other: str) -> bool:
    """Tells whether a URI names a part of another resource: a step down the path, a query of it or a place in it."""
    above = other.rstrip("/")
    return bool(above) and uri.startswith(above) and uri[len(above) : len(above) + 1] in {"", "/", "?", "#"}
