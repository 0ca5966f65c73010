"""Walking the pages of a list (section PG of the rules): what to ask for next, and when it is enough."""

from __future__ import annotations

from math import inf
from typing import Any, Final, Generic, TypeVar

from msgspec import structs

from twopipes._error_text import OptionHint
from twopipes._protocol.types import ListPromptsResult, ListResourcesResult, ListResourceTemplatesResult, ListToolsResult
from twopipes.errors import InvalidParams, LocalProtocolError, RemoteProtocolError, TwopipesError
from twopipes.settings import Limits

__all__ = ["PageWalk"]

AnyPage = ListToolsResult | ListPromptsResult | ListResourcesResult | ListResourceTemplatesResult
PageT = TypeVar("PageT", ListToolsResult, ListPromptsResult, ListResourcesResult, ListResourceTemplatesResult)

# Where the items of a page are.
_ITEMS: Final[dict[type[AnyPage], str]] = {
    ListToolsResult: "tools",
    ListPromptsResult: "prompts",
    ListResourcesResult: "resources",
    ListResourceTemplatesResult: "resource_templates",
}
_DEFAULT_LIMITS: Final = Limits()
_MS: Final = 1000.0  # in a second
# Milliseconds. Longer than any process lives, and small enough to be counted with: a server may say any number (CH-03).
_LONGEST_TTL: Final = 10**15


class PageWalk(Generic[PageT]):
    """One walk through one list.

    Ask with :attr:`cursor`, feed what came, and go on until :attr:`is_done`::

        walk = PageWalk("tools/list")
        while not walk.is_done:
            walk.feed(await ask("tools/list", ListParams(walk.cursor)), now=clock())
        everything = walk.result()

    Args:
        method: The method, for what is said when something is wrong.
        limits: ``max_pages`` and ``max_listed`` are read here.
        legacy: Whether the server speaks a revision of the handshake era. Their texts are silent about an empty cursor, and a
            server that says ``""`` there means that there is no more; asked for it, it would begin again.
    """

    def __init__(self, method: str, *, limits: Limits = _DEFAULT_LIMITS, legacy: bool = False) -> None:
        self.method = method
        self.cursor: str | None = None
        """What to ask for next, as the server gave it (PG-02); ``None`` for the first page."""
        self.is_done = False
        """Whether every page is there."""
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
        """Takes the page that :attr:`cursor` was asked for.

        Args:
            page: It may be empty and yet have a successor; nobody knows how long a page is (PG-02).
            now: When it arrived.

        Returns:
            Whether there is more to ask for.

        Raises:
            RemoteProtocolError: The list goes round in circles, or is longer than the limits allow (PG-06).
            LocalProtocolError: The walk is over already.
        """
        if self.is_done:
            raise LocalProtocolError(
                f"the last page of {self.method} has been fed already; a second walk needs a PageWalk of its own"
            )
        if self._first is None:
            self._first = page
        self._items += getattr(page, _ITEMS[type(page)])
        self._pages += 1
        # CH-03: each page counts from its own arrival, and the whole is as fresh as the first of them to go stale.
        self._fresh_until = min(self._fresh_until, now + min(max(page.ttl_ms or 0, 0), _LONGEST_TTL) / _MS)
        self._last_fed = now
        # CH-08: they share one scope. Where they do not, the narrower one holds for the whole.
        self._is_public = self._is_public and page.cache_scope == "public"
        self._step(page.next_cursor)
        return not self.is_done

    def _step(self, following: str | None) -> None:
        limits = self._limits
        if limits.max_listed is not None and len(self._items) > limits.max_listed:
            raise RemoteProtocolError(
                f"{self.method} gave {len(self._items)} items on {self._pages} pages, and at most {limits.max_listed} are taken",
                hint=OptionHint("max_listed", 2 * limits.max_listed, "if there really are so many"),
            )
        # PG-03, PG-04: only absence or null is the end; an empty string is a cursor like any other.
        if following is None or (self._legacy and not following):
            self.is_done = True
            return
        if following in self._followed:
            raise RemoteProtocolError(
                f"page {self._pages} of {self.method} leads back to a page that was there already, so the list has no end; "
                "this is for the server's author to mend. The cursor",
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
        """The request for a page has failed. Tells whether to begin again, without a cursor and with nothing in hand (CH-09).

        So it is when the server rejects a cursor that it gave itself: the list changed under the walk, or the server was replaced.
        Once only: a server that rejects its cursors every time would keep us walking for ever.
        """
        if self.cursor is None or self._restarted or self.is_done or not isinstance(error, InvalidParams):
            return False
        self._restarted = True
        self._forget()
        return True

    @property
    def items(self) -> list[Any]:
        """What has come so far, in the server's order."""
        return list(self._items)

    def result(self) -> PageT:
        """All pages as one, without a cursor.

        ``ttl_ms`` is what was left of the shortest-lived page when the last one arrived, and absent where a page said nothing or 0:
        a whole with a stale page is stale. The ``_meta`` is that of the first page.

        Raises:
            LocalProtocolError: There are pages left to ask for.
        """
        first = self._first
        if first is None or not self.is_done:
            raise LocalProtocolError(f"{self.method} has more pages; feed them first")
        left = int((self._fresh_until - self._last_fed) * _MS)
        return structs.replace(
            first,
            **{_ITEMS[type(first)]: list(self._items)},
            next_cursor=None,
            ttl_ms=left if left > 0 else None,
            cache_scope=None if first.cache_scope is None else "public" if self._is_public else "private",
        )
