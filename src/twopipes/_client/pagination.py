"""Fetching all pages of a list (section PG of the rules): which page comes next, and when to stop."""

from __future__ import annotations

from math import inf
from typing import Any, Final, Generic, TypeVar

from msgspec import structs

from twopipes._client.cache import MAX_TTL
from twopipes._error_text import OptionHint
from twopipes._protocol.types import ListPromptsResult, ListResourcesResult, ListResourceTemplatesResult, ListToolsResult
from twopipes.errors import InvalidParams, LocalProtocolError, RemoteProtocolError, TwopipesError
from twopipes.settings import Limits

AnyPage = ListToolsResult | ListPromptsResult | ListResourcesResult | ListResourceTemplatesResult
PageT = TypeVar("PageT", ListToolsResult, ListPromptsResult, ListResourcesResult, ListResourceTemplatesResult)

# The attribute that holds the items of a page.
_ITEMS: Final[dict[type[AnyPage], str]] = {
    ListToolsResult: "tools",
    ListPromptsResult: "prompts",
    ListResourcesResult: "resources",
    ListResourceTemplatesResult: "resource_templates",
}
_DEFAULT_LIMITS: Final = Limits()


class PageWalk(Generic[PageT]):
    """One walk through one list: request the page at :attr:`cursor`, feed the response, and repeat until :attr:`is_done`.

    The cursor of the next page is as the server sent it (PG-02); ``None`` for the first page.
    """

    def __init__(self, method: str, *, limits: Limits = _DEFAULT_LIMITS, legacy: bool = False) -> None:
        self.method = method
        self.cursor: str | None = None
        self.is_done = False
        self._limits = limits
        self._legacy = legacy
        self._restarted = False
        self._forget()

    def _forget(self) -> None:
        self.cursor = None
        self._first: PageT | None = None
        self._items: list[Any] = []
        self._pages = 0
        self._followed: set[str] = set()
        self._last_fed = 0.0
        self._fresh_until = inf
        self._is_public = True

    def feed(self, page: PageT, *, now: float) -> bool:
        """Add the page at :attr:`cursor`, and return whether there are more. An empty page may have a successor (PG-02)."""
        if self.is_done:
            raise LocalProtocolError(f"the last page of {self.method} has already arrived; use another PageWalk for a second walk")
        if self._first is None:
            self._first = page
        self._items += getattr(page, _ITEMS[type(page)])
        self._pages += 1
        # CH-03: each page is fresh from its own arrival on, and the list is stale as soon as one page is.
        self._fresh_until = min(self._fresh_until, now + min(max(page.ttl_ms or 0, 0), MAX_TTL) / 1000)
        self._last_fed = now
        # CH-08: all pages should have the same scope. If they do not, the narrower one applies to the list.
        self._is_public = self._is_public and page.cache_scope == "public"
        self._step(page.next_cursor)
        return not self.is_done

    def _step(self, following: str | None) -> None:
        """Set the next cursor. The list must not be longer than the limits allow, nor the cursors form a loop (PG-06)."""
        limits = self._limits
        if limits.max_listed is not None and len(self._items) > limits.max_listed:
            raise RemoteProtocolError(
                f"{self.method} returned {len(self._items)} items on {self._pages} pages; the limit is {limits.max_listed}",
                hint=OptionHint("max_listed", 2 * limits.max_listed, "if there really are so many"),
            )
        # PG-03, PG-04: only a missing cursor or null ends the list; an empty string is a cursor like any other. Legacy revisions
        # do not define it: servers that send one mean that there are no more pages, and would start again at the first page.
        if following is None or (self._legacy and not following):
            self.is_done = True
            return
        if following in self._followed:
            raise RemoteProtocolError(
                f"page {self._pages} of {self.method} leads back to an earlier page, so the list never ends; "
                "this is a bug of the server. The cursor",
                excerpt=following.encode("utf-8", "backslashreplace")[: limits.max_excerpt],
            )
        if limits.max_pages is not None and self._pages >= limits.max_pages:
            raise RemoteProtocolError(
                f"{self.method} has more than {self._pages} pages ({len(self._items)} items so far)",
                hint=OptionHint("max_pages", 2 * limits.max_pages, "if there really are so many"),
            )
        self._followed.add(following)
        self.cursor = following

    def restart(self, error: TwopipesError) -> bool:
        """Decide whether to start again from the first page after a request has failed (CH-09).

        That helps if the list changed or the server was replaced. A server that always rejects its cursors would cause a loop.
        """
        if self.cursor is None or self._restarted or self.is_done or not isinstance(error, InvalidParams):
            return False
        self._restarted = True
        self._forget()
        return True

    def result(self) -> PageT:
        """Return all pages as one, without a cursor. The ``_meta`` is that of the first page.

        ``ttl_ms`` is the remaining lifetime of the first page to expire, at the arrival of the last page.
        """
        first = self._first
        if first is None or not self.is_done:
            raise LocalProtocolError(f"{self.method} has more pages; feed them first")
        left = int((self._fresh_until - self._last_fed) * 1000)
        return structs.replace(
            first,
            **{_ITEMS[type(first)]: list(self._items)},
            next_cursor=None,
            ttl_ms=left if left > 0 else None,
            cache_scope=None if first.cache_scope is None else "public" if self._is_public else "private",
        )
