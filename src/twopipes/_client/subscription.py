"""Hearing of changes, whatever the era: a listen on the stateless wire, ``resources/subscribe`` and list changes in a session.

A subscription outlives a restart of the server: it is made again, and because nobody knows what was missed, everything it watches
is reported as changed once.
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
    """The change that a notification tells of; ``None`` if it tells of something else."""
    if method == RESOURCE_UPDATED:
        return Change("resource", params.uri)
    kind = _KINDS.get(method)
    return None if kind is None else Change(kind)  # type: ignore[arg-type]


class Subscription:
    """What ``client.subscribe(...)`` gives: iterate over it, and close it, or leave its block.

    ::

        async with client.subscribe(tools=True) as changes:
            async for change in changes:
                print(change.kind)

    Equal changes that wait to be read are one change. Of different ones as many wait as ``Limits.max_backlog`` allows. When
    ``dropped`` has grown, the reader was too slow: whatever it watches may have changed.

    Attributes:
        wanted: What was asked for.
        honoured: What the server really delivers; ``None`` until it has said so (SU-07).
        dropped: How many changes were dropped because too many others waited to be read.
    """

    def __init__(
        self,
        wanted: SubscriptionFilter,
        *,
        begin: Callable[[Subscription], None],
        end: Callable[[Subscription], None],
        heard: Callable[[str, Any], None],
        max_backlog: int | None,
    ) -> None:
        self.wanted = wanted
        self.honoured: SubscriptionFilter | None = None
        self.dropped = 0
        self._max_backlog = max_backlog
        self._waiting = 0
        self._begin = begin
        self._end = end
        self._heard = heard
        self._asked: SentRequest | None = None
        self._connection: ClientConnection | None = None
        self._changes: dict[Change, None] = {}
        self._error: TwopipesError | None = None
        self._is_begun = False
        self._is_over = False
        self._is_resumed = False
        self._stirred = asyncio.Event()
        self._acknowledged = asyncio.Event()

    # For the reader

    def __aiter__(self) -> Self:
        self._start()
        return self

    async def __anext__(self) -> Change:
        """The next change. Ends when the subscription is closed or the server has ended it.

        Raises:
            LocalProtocolError: The server delivers nothing of what was asked for, so there is nothing to wait for.
            TwopipesError: It refused, or the connection is gone for good.
        """
        self._start()
        while not self._changes:
            if self._is_over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            if self.honoured is not None and not _everything(self.honoured):
                # As a server of the stateless wire that knows no subscriptions refuses them, so that nobody waits for nothing.
                raise LocalProtocolError(f"the server tells of no such change: {_said(self.wanted)}")
            self._stirred.clear()
            await self._stirred.wait()
        change = next(iter(self._changes))
        del self._changes[change]
        self._waiting -= _size_of(change)
        return change

    async def ready(self) -> SubscriptionFilter:
        """Waits until the server has said what it will deliver, and returns that (SU-07).

        Raises:
            TwopipesError: It refused, or the connection is gone.
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
        """As :meth:`close`; the name that generators have."""
        self.close()

    def close(self) -> None:
        """Ends it; whoever iterates comes to the end. A second call changes nothing."""
        if not self._is_over:
            self._finish(None)
            if self._asked is not None and self._connection is not None:
                self._connection.end_listen(self._asked)
            if self._is_begun:
                self._end(self)

    def _start(self) -> None:
        if not self._is_begun and not self._is_over:
            self._is_begun = True
            self._begin(self)

    # For the client

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self._is_over

    def attach(self, connection: ClientConnection) -> None:
        """Makes the subscription on a modern connection; once more on each new one (SU-16)."""
        self._connection = connection
        self._asked = connection.listen(self.wanted, self)

    def detach(self) -> None:
        """The connection is lost; another one may come."""
        self._asked = self._connection = None
        self._is_resumed = True

    def hear(self, change: Change) -> None:
        """Something changed, by an untagged notification of a session."""
        if self._wants(change):
            self._add(change)

    def fail(self, error: TwopipesError) -> None:
        """There will be no other connection."""
        if not self._is_over:
            self._finish(error)

    def acknowledged(self, delivers: SubscriptionFilter) -> None:
        """The server will deliver this much."""
        self.honoured = delivers
        self._acknowledged.set()
        self._stirred.set()
        if self._is_resumed:
            self._is_resumed = False
            for change in _everything(delivers):
                self._add(change)

    def notified(self, method: str, params: Any) -> None:
        """A notification of this very subscription."""
        self._heard(method, params)
        change = change_of(method, params)
        if change is not None:
            self._add(change)

    def ended(self, error: TwopipesError | None) -> None:
        """The listen is over: the server has ended it, refused it, or is gone. In the last case another one may follow."""
        if self._asked is not None:
            self._asked = None
            if not self._is_over:
                self._finish(error)
                self._end(self)

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
                # SU-09, RS-04: a server may tell of a part of what was asked for.
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
        self._stirred.set()

    def _finish(self, error: TwopipesError | None) -> None:
        self._is_over = True
        self._error = error
        self._stirred.set()
        self._acknowledged.set()


def _size_of(change: Change) -> int:
    return EVENT_SIZE + len(change.uri)


def _said(wanted: SubscriptionFilter) -> str:
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
