"""The cache of results that a modern server allows its client to keep for a while (section CH of the rules).

The cache sends nothing and reads no clock. If :meth:`ResultCache.get` finds nothing, begin a fetch, send the request, and pass the
result to :meth:`ResultCache.put`. If a change is announced during the fetch, the result may be older than the change, so it is not
stored.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from msgspec import DecodeError, EncodeError, Struct, structs
from msgspec import json as msgspec_json

from twopipes._protocol.revisions import CACHEABLE
from twopipes._protocol.types import CacheableResult, ReadResourceResult, ResourceUpdatedParams

# CH-07. Templates have no notification of their own; they change with the list of resources.
_STALE_BY: Final = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}
_RESOURCE_UPDATED: Final = "notifications/resources/updated"
_READ: Final = "resources/read"
# Milliseconds. Longer than any process lives, and small enough for arithmetic: a server may send any number.
MAX_TTL: Final = 10**15
# Raised for values that cannot be written as JSON or read back: too deep nesting, lone surrogates, infinite numbers.
_NOT_JSON: Final = (RecursionError, ValueError, OverflowError, EncodeError, DecodeError)


class Fetch(Struct, eq=False, weakref=True):
    """A request in progress whose result may be stored, unless a change is announced meanwhile."""

    method: str
    key: str  # everything in the params that affects the result: the URI of a read, nothing for a list (CH-04)
    number: int
    is_valid: bool = True


class _Entry(Struct, frozen=True):
    """A result as JSON: small, of known size, and safe from changes. Decoding it costs less than copying objects would."""

    kind: type[CacheableResult]
    raw: bytes
    uris: frozenset[str]  # of the resources in the result of a read
    fresh_until: float
    number: int  # of its fetch


class ResultCache:
    """The cached results of one client. The least recently used one is removed first.

    Clients do not share a cache, so a ``private`` result never reaches a client with other rights (CH-06). Each lookup returns a
    new object, so callers cannot change the cached result.
    """

    def __init__(self, *, max_entries: int = 1_000, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: dict[tuple[str, str], _Entry] = {}  # the most recently used one is the last
        self._bytes = 0
        self._fetches = 0
        # Weak references, because a request that fails never ends its fetch.
        self._in_progress: WeakSet[Fetch] = WeakSet()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, method: str, key: str = "", *, now: float) -> CacheableResult | None:
        """Return the cached result if there is a fresh one; ``None`` means that the server must be asked (CH-03, CH-04)."""
        entry = self._entries.get((method, key))
        if entry is None:
            return None
        if now >= entry.fresh_until:
            self._remove(method, key)
            return None
        try:
            result = msgspec_json.decode(entry.raw, type=entry.kind)
        except _NOT_JSON:  # this caller is deeper in the stack than the one that stored it
            self._remove(method, key)
            return None
        self._entries[method, key] = self._entries.pop((method, key))
        return result

    def begin(self, method: str, key: str = "") -> Fetch:
        """Begin a fetch, before the request is sent. A request with params of an extension must not be cached."""
        self._fetches += 1
        fetch = Fetch(method, key, self._fetches)
        self._in_progress.add(fetch)
        return fetch

    def put(self, fetch: Fetch, result: object, *, now: float) -> bool:
        """End the fetch, and store its result if that is allowed. Returns whether it was stored.

        These are not stored: results that are not cacheable or not complete, such as a question to the client, nor the result that
        follows once it is answered (CH-05); results without a time to live (CH-03); results that a change has made stale (CH-07).
        """
        is_valid = fetch.is_valid
        self.discard(fetch)
        if not is_valid or fetch.method not in CACHEABLE or not isinstance(result, CacheableResult):
            return False
        if result.result_type not in {None, "complete"}:
            return False
        before = self._entries.get((fetch.method, fetch.key))
        if before is not None and before.number > fetch.number and now < before.fresh_until:
            return False  # the response to a later request arrived first
        # The old result is outdated, whether or not the new one can be stored.
        self._remove(fetch.method, fetch.key)
        if result.ttl_ms is None or result.ttl_ms <= 0:
            return False
        ttl_ms = min(result.ttl_ms, MAX_TTL)
        try:
            raw = msgspec_json.encode(structs.replace(result, ttl_ms=ttl_ms))
        except _NOT_JSON:  # the caller can still use it
            return False
        if len(raw) > self._max_bytes or self._max_entries < 1:
            return False
        uris = frozenset(each.uri for each in result.contents) if isinstance(result, ReadResourceResult) else frozenset[str]()
        entry = _Entry(type(result), raw, uris, now + ttl_ms / 1000, fetch.number)
        self._entries[fetch.method, fetch.key] = entry
        self._bytes += len(raw)
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            self._remove(*next(iter(self._entries)))
        return True

    def discard(self, fetch: Fetch) -> None:
        """End a fetch whose result must not be stored, for example because the server asked the user something (CH-05)."""
        fetch.is_valid = False
        self._in_progress.discard(fetch)

    def on_notification(self, method: str, params: object = None) -> None:
        """Drop the results that a notification makes stale (CH-07). Any notification may be passed."""
        for stale in _STALE_BY.get(method, ()):
            self.drop(stale)
        if method == _RESOURCE_UPDATED:
            self.drop(_READ, params.uri if isinstance(params, ResourceUpdatedParams) else None)

    def drop(self, method: str, key: str | None = None) -> None:
        """Drop the results of a method, or only that of one URI, and those of its fetches in progress.

        With a URI, drop also the resources below and above it: a server may announce a file for its folder, or the reverse (RS-04,
        SU-09).
        """
        for (known_method, known_key), entry in list(self._entries.items()):
            if known_method == method and (_concerns(key, known_key) or key in entry.uris):
                self._remove(known_method, known_key)
        for fetch in list(self._in_progress):
            # The result of a read may contain any resource (RS-02), so a change of any resource makes it stale.
            if fetch.method == method and (method == _READ or _concerns(key, fetch.key)):
                self.discard(fetch)

    def clear(self) -> None:
        """Drop everything, including fetches in progress, because the server was replaced."""
        self._entries.clear()
        self._bytes = 0
        for fetch in list(self._in_progress):
            self.discard(fetch)

    def _remove(self, method: str, key: str) -> None:
        entry = self._entries.pop((method, key), None)
        if entry is not None:
            self._bytes -= len(entry.raw)


def _concerns(changed: str | None, known: str) -> bool:
    if changed is None or changed == known:
        return True
    return _is_below(changed, known) or _is_below(known, changed)


def _is_below(uri: str, other: str) -> bool:
    """Whether a URI names a part of another resource: a path below it, a query or a fragment."""
    above = other.rstrip("/")
    return bool(above) and uri.startswith(above) and uri[len(above) : len(above) + 1] in {"", "/", "?", "#"}
