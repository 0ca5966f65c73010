"""All subscriptions of one client, and what the wire needs for them in either era."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from twopipes._client.cache import ResultCache
from twopipes._client.caller import Caller
from twopipes._client.connection import ClientConnection
from twopipes._client.subscription import Subscription, change_of
from twopipes._client.supervisor import Supervisor
from twopipes._protocol.types import SubscribeParams, SubscriptionFilter, UnsubscribeParams
from twopipes._session.subscriptions import honoured
from twopipes.errors import LocalProtocolError, TwopipesError

__all__ = ["Subscriptions"]


class Subscriptions:
    """Holds the subscriptions, makes them again after a restart, and hands untagged notifications to those that want them.

    In a session, one ``resources/subscribe`` serves everybody who watches the same resource; the last one to leave takes it back.
    """

    def __init__(self, supervisor: Supervisor, caller: Caller, cache: ResultCache, *, max_backlog: int | None) -> None:
        self._supervisor = supervisor
        self._caller = caller
        self._cache = cache
        self._max_backlog = max_backlog
        self._subscriptions: dict[Subscription, None] = {}
        self._watched: Counter[str] = Counter()
        # What each of them counts for above, so that it gives back that much and no more.
        self._held: dict[Subscription, list[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def subscription(self, wanted: SubscriptionFilter) -> Subscription:
        """A new one; it begins when it is first used."""
        return Subscription(
            wanted, begin=self._begin, end=self._end, heard=self._cache.on_notification, max_backlog=self._max_backlog
        )

    def heard(self, method: str, params: Any) -> None:
        """A notification of a session: for everybody who wants it."""
        change = change_of(method, params)
        if change is not None:
            for subscription in list(self._subscriptions):
                subscription.hear(change)

    def lost(self) -> None:
        """The connection is over."""
        for subscription in self._subscriptions:
            subscription.detach()
        if self._subscriptions:
            self._task(self._fail_all())

    def reopened(self, connection: ClientConnection) -> None:
        """There is another one (SU-16, SD-06)."""
        self._watched.clear()
        self._held.clear()
        for subscription in list(self._subscriptions):
            self._attach(subscription, connection)

    def close(self) -> None:
        """The client is closed: everybody who iterates comes to the end."""
        for subscription in list(self._subscriptions):
            subscription.close()
        for task in self._tasks:
            task.cancel()

    # Underneath

    def _begin(self, subscription: Subscription) -> None:
        if asyncio.get_running_loop() is not self._supervisor.loop:
            raise LocalProtocolError("a subscription is read in the event loop in which the client was connected")
        self._subscriptions[subscription] = None
        connection = self._supervisor.connection
        if connection is not None:
            self._attach(subscription, connection)
        else:
            self._task(self._begin_later(subscription))

    async def _begin_later(self, subscription: Subscription) -> None:
        """There is no connection now. A restart takes everything along that is held here; there may be none, though."""
        try:
            await self._supervisor.wait(None)
        except TwopipesError as error:
            subscription.fail(error)
            self._subscriptions.pop(subscription, None)

    async def _fail_all(self) -> None:
        """Tells everybody, if there is no other connection to come: none is wanted, or all attempts at one have failed."""
        try:
            await self._supervisor.wait(None)
        except TwopipesError as error:
            for subscription in list(self._subscriptions):
                subscription.fail(error)
            self._subscriptions.clear()
            self._held.clear()

    def _end(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription, None)
        held = self._held.pop(subscription, [])
        connection = self._supervisor.connection
        if connection is None:
            return
        for uri in held:
            if self._watched[uri] > 1:
                self._watched[uri] -= 1
            elif self._watched.pop(uri, 0):
                connection.send_and_forget("resources/unsubscribe", UnsubscribeParams(uri))

    def _attach(self, subscription: Subscription, connection: ClientConnection) -> None:
        if connection.session.dialect.modern:
            try:
                subscription.attach(connection)
            except TwopipesError as error:
                subscription.fail(error)
                self._subscriptions.pop(subscription, None)
        else:
            self._task(self._watch(subscription, connection))

    async def _watch(self, subscription: Subscription, connection: ClientConnection) -> None:
        """Subscribes to each resource in a session, and takes that for the acknowledgement."""
        if subscription.is_over:
            return
        delivers = honoured(subscription.wanted, connection.session.server_capabilities)
        held = self._held[subscription] = []
        try:
            for uri in delivers.resource_subscriptions or ():
                if self._held.get(subscription) is not held:
                    return  # whoever closed it in the meantime has given back what it held
                held.append(uri)
                self._watched[uri] += 1
                if self._watched[uri] == 1:
                    await connection.wait(connection.send("resources/subscribe", SubscribeParams(uri)))
        except TwopipesError as error:
            if not connection.ended.done():  # otherwise the next connection has its turn
                subscription.fail(error)
                self._end(subscription)
            return
        if not subscription.is_over:
            subscription.acknowledged(delivers)

    def _task(self, coroutine: Any) -> None:
        task = self._supervisor.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
