"""All subscriptions of one client, and the requests they need in either era."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from twopipes._client.cache import ResultCache
from twopipes._client.connection import ClientConnection
from twopipes._client.subscription import Subscription, change_of
from twopipes._client.supervisor import Supervisor
from twopipes._protocol.types import SubscribeParams, SubscriptionFilter, UnsubscribeParams
from twopipes._session.subscriptions import honoured
from twopipes.errors import LocalProtocolError, TwopipesError

__all__ = ["Subscriptions"]


class Subscriptions:
    """Holds the subscriptions, renews them after a restart, and distributes the notifications of a legacy server.

    In a legacy session, all subscriptions to the same resource share one ``resources/subscribe``; the last one to end unsubscribes.
    """

    def __init__(self, supervisor: Supervisor, cache: ResultCache) -> None:
        self._supervisor = supervisor
        self._cache = cache
        self._max_backlog = supervisor.config.limits.max_backlog
        self._subscriptions: dict[Subscription, None] = {}
        self._watched: Counter[str] = Counter()
        # The URIs that each subscription counts for in _watched, so that it releases exactly those.
        self._held: dict[Subscription, list[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def subscription(self, wanted: SubscriptionFilter) -> Subscription:
        """Create a subscription. It starts when it is first used."""
        return Subscription(
            wanted, start=self._start, end=self._end, on_notification=self._cache.on_notification, max_backlog=self._max_backlog
        )

    def notified(self, method: str, params: Any) -> None:
        """Pass a notification of a legacy session to the subscriptions that want it."""
        change = change_of(method, params)
        if change is not None:
            for subscription in list(self._subscriptions):
                subscription.changed(change)

    def lost(self) -> None:
        """Handle the loss of the connection."""
        for subscription in self._subscriptions:
            subscription.detach()
        if self._subscriptions:
            self._task(self._fail_all())

    def reopened(self, connection: ClientConnection) -> None:
        """Renew the subscriptions on a new connection (SU-16, SD-06)."""
        self._watched.clear()
        self._held.clear()
        for subscription in list(self._subscriptions):
            self._attach(subscription, connection)

    def close(self) -> None:
        """End all subscriptions, because the client is closed."""
        for subscription in list(self._subscriptions):
            subscription.close()
        for task in self._tasks:
            task.cancel()

    # Internals

    def _start(self, subscription: Subscription) -> None:
        if asyncio.get_running_loop() is not self._supervisor.loop:
            raise LocalProtocolError("a subscription must be used in the event loop in which the client was connected")
        self._subscriptions[subscription] = None
        connection = self._supervisor.connection
        if connection is not None:
            self._attach(subscription, connection)
        else:
            self._task(self._start_later(subscription))

    async def _start_later(self, subscription: Subscription) -> None:
        """Wait for a restart, which starts the subscription. Fail it if there is none."""
        try:
            await self._supervisor.wait(None)
        except TwopipesError as error:
            subscription.fail(error)
            self._subscriptions.pop(subscription, None)

    async def _fail_all(self) -> None:
        """Fail all subscriptions if there will be no further connection."""
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
        """Subscribe to each resource in a legacy session, and treat that as the acknowledgement."""
        if subscription.is_over:
            return
        delivers = honoured(subscription.wanted, connection.session.server_capabilities)
        held = self._held[subscription] = []
        try:
            for uri in delivers.resource_subscriptions or ():
                if self._held.get(subscription) is not held:
                    return  # it was closed meanwhile, and _end released what it held
                held.append(uri)
                self._watched[uri] += 1
                if self._watched[uri] == 1:
                    await connection.wait(connection.send("resources/subscribe", SubscribeParams(uri)))
        except TwopipesError as error:
            if not connection.ended.done():  # after a loss, the next connection renews the subscription
                subscription.fail(error)
                self._end(subscription)
            return
        if not subscription.is_over:
            subscription.acknowledged(delivers)

    def _task(self, coroutine: Any) -> None:
        task = self._supervisor.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
