"""Subscriptions to changes, in either era: a listen on the stateless wire, ``resources/subscribe`` and list changes in a session.

A subscription survives a restart of the server: it is renewed, and everything it watches is reported as changed once, because
changes may have been missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from twopipes._client.callbacks import EVENT_SIZE
from twopipes._client.connection import ClientConnection
from twopipes._protocol.types import SubscriptionFilter
from twopipes._session.ledger import SentRequest
from twopipes._session.subscriptions import LIST_CHANGED, RESOURCE_UPDATED, Change
from twopipes.errors import LocalProtocolError, TwopipesError

__all__ = ["Change", "Subscription"]

_KINDS = {method: kind for kind, method in LIST_CHANGED.items()}


def change_of(method: str, params: Any) -> Change | None:
    """Return the change that a notification reports; ``None`` if it is about something else."""
    if method == RESOURCE_UPDATED:
        return Change("resource", params.uri)
    kind = _KINDS.get(method)
    return None if kind is None else Change(kind)  # type: ignore[arg-type]


class Subscription:
    """The changes that ``client.subscribe(...)`` asked for. Iterate over it, and close it or leave its block.

    ::

        async with client.subscribe(tools=True) as changes:
            async for change in changes:
                print(change.kind)

    Equal changes that wait to be read count as one. ``Limits.max_backlog`` limits how many different ones may wait. If ``dropped``
    has grown, the reader was too slow: anything it watches may have changed.

    Attributes:
        wanted: The changes that were asked for.
        honoured: The changes that the server delivers; ``None`` until it has acknowledged the subscription (SU-07).
        dropped: The number of changes that were dropped because too many others waited to be read.
    """

    def __init__(
        self,
        wanted: SubscriptionFilter,
        *,
        start: Callable[[Subscription], None],
        end: Callable[[Subscription], None],
        on_notification: Callable[[str, Any], None],
        max_backlog: int | None,
    ) -> None:
        self.wanted = wanted
        self.honoured: SubscriptionFilter | None = None
        self.dropped = 0
        self._max_backlog = max_backlog
        self._waiting = 0
        self._on_start = start
        self._on_end = end
        self._on_notification = on_notification
        self._asked: SentRequest | None = None
        self._connection: ClientConnection | None = None
        self._changes: dict[Change, None] = {}
        self._error: TwopipesError | None = None
        self._is_started = False
        self._is_over = False
        self._is_renewed = False
        self._has_news = asyncio.Event()
        self._acknowledged = asyncio.Event()

    # For the reader

    def __aiter__(self) -> Self:
        self._start()
        return self

    async def __anext__(self) -> Change:
        """Return the next change. The iteration ends when the subscription is closed or the server has ended it.

        Raises:
            LocalProtocolError: The server delivers none of the changes.
            TwopipesError: The server refused the subscription, or the connection is lost for good.
        """
        self._start()
        while not self._changes:
            if self._is_over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            if self.honoured is not None and not _everything(self.honoured):
                # Waiting would never end. A modern server without subscriptions refuses the request in this case.
                raise LocalProtocolError(f"the server does not report changes {_described(self.wanted)}")
            self._has_news.clear()
            await self._has_news.wait()
        change = next(iter(self._changes))
        del self._changes[change]
        self._waiting -= _size_of(change)
        return change

    async def ready(self) -> SubscriptionFilter:
        """Wait for the acknowledgement of the server, and return which changes it delivers (SU-07).

        Raises:
            TwopipesError: The server refused the subscription, or the connection is lost.
        """
        self._start()
        await self._acknowledged.wait()
        if self.honoured is None:
            raise self._error or LocalProtocolError("the subscription was closed before the server acknowledged it")
        return self.honoured

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def aclose(self) -> None:
        """Close it, as :meth:`close` does. Async generators have a method of this name."""
        self.close()

    def close(self) -> None:
        """End the subscription and every iteration over it. Further calls do nothing."""
        if not self._is_over:
            self._finish(None)
            if self._asked is not None and self._connection is not None:
                self._connection.end_listen(self._asked)
            if self._is_started:
                self._on_end(self)

    def _start(self) -> None:
        if not self._is_started and not self._is_over:
            self._is_started = True
            self._on_start(self)

    # For the client

    @property
    def is_over(self) -> bool:
        """Whether the subscription has ended."""
        return self._is_over

    def attach(self, connection: ClientConnection) -> None:
        """Open the subscription on a modern connection, and again on each new one (SU-16)."""
        self._connection = connection
        self._asked = connection.listen(self.wanted, self)

    def detach(self) -> None:
        """Handle the loss of the connection. Another one may follow."""
        self._asked = self._connection = None
        self._is_renewed = True

    def changed(self, change: Change) -> None:
        """Add a change that a legacy server reported, if this subscription wants it."""
        if self._wants(change):
            self._add(change)

    def fail(self, error: TwopipesError) -> None:
        """End the subscription with an error, because there will be no further connection."""
        if not self._is_over:
            self._finish(error)

    def acknowledged(self, delivers: SubscriptionFilter) -> None:
        """Handle the acknowledgement of the server."""
        self.honoured = delivers
        self._acknowledged.set()
        self._has_news.set()
        if self._is_renewed:
            self._is_renewed = False
            for change in _everything(delivers):
                self._add(change)

    def notified(self, method: str, params: Any) -> None:
        """Handle a notification of this subscription."""
        self._on_notification(method, params)
        change = change_of(method, params)
        if change is not None:
            self._add(change)

    def ended(self, error: TwopipesError | None) -> None:
        """Handle the end of the listen request: the server ended or refused it, or was lost and may be restarted."""
        if self._asked is not None:
            self._asked = None
            if not self._is_over:
                self._finish(error)
                self._on_end(self)

    def _wants(self, change: Change) -> bool:
        delivers = self.honoured
        if delivers is None:
            return False
        match change.kind:
            case "tools":
                return bool(delivers.tools_list_changed)
            case "prompts":
                return bool(delivers.prompts_list_changed)
            case "resources":
                return bool(delivers.resources_list_changed)
            case _:
                # SU-09, RS-04: a server may report a part of the resource.
                watched = delivers.resource_subscriptions or ()
                return any(change.uri == uri or change.uri.startswith(uri.rstrip("/") + "/") for uri in watched)

    def _add(self, change: Change) -> None:
        if change in self._changes:
            return
        size = _size_of(change)
        if self._changes and self._max_backlog is not None and self._waiting + size > self._max_backlog:
            self.dropped += 1
            return
        self._changes[change] = None
        self._waiting += size
        self._has_news.set()

    def _finish(self, error: TwopipesError | None) -> None:
        self._is_over = True
        self._error = error
        self._has_news.set()
        self._acknowledged.set()


def _size_of(change: Change) -> int:
    return EVENT_SIZE + len(change.uri)


def _described(wanted: SubscriptionFilter) -> str:
    return ", ".join(f"of the list of {each.kind}" if not each.uri else f"of {each.uri}" for each in _everything(wanted))


def _everything(delivers: SubscriptionFilter) -> Sequence[Change]:
    lists = {
        "tools": delivers.tools_list_changed,
        "prompts": delivers.prompts_list_changed,
        "resources": delivers.resources_list_changed,
    }
    return [
        *(Change(kind) for kind, wanted in lists.items() if wanted),  # type: ignore[arg-type]
        *(Change("resource", uri) for uri in delivers.resource_subscriptions or ()),
    ]
