"""Subscriptions to changes, in either era: a listen on the stateless wire, ``resources/subscribe`` and list changes in a session.

A subscription survives a restart of the server: it is renewed, and everything it watches is reported as changed once, because
changes may have been missed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any, Self

from msgspec import structs

from twopipes._client.cache import ResultCache
from twopipes._client.callbacks import EVENT_SIZE
from twopipes._client.connection import ClientConnection
from twopipes._client.supervisor import Supervisor
from twopipes._process.restarts import Restarts
from twopipes._protocol.types import SubscribeParams, SubscriptionFilter, UnsubscribeParams
from twopipes._session.ledger import SentRequest
from twopipes._session.subscriptions import LIST_CHANGED, RESOURCE_UPDATED, Change, ListKind, honoured
from twopipes.errors import ConnectionLost, HttpError, InternalError, LocalProtocolError, TwopipesError
from twopipes.settings import RestartPolicy

_KINDS = {method: kind for kind, method in LIST_CHANGED.items()}


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
        is_over: Whether the subscription has ended.
    """

    def __init__(self, wanted: SubscriptionFilter, owner: Subscriptions) -> None:
        self.wanted = wanted
        self.honoured: SubscriptionFilter | None = None
        self.dropped = 0
        self.is_over = False
        self._owner = owner
        self._waiting = 0  # bytes
        self._asked: SentRequest | None = None
        self._connection: ClientConnection | None = None
        self._changes: dict[Change, None] = {}
        self._error: TwopipesError | None = None
        self._is_started = False
        self._is_renewed = False
        self._opened_at: float | None = None  # when the server acknowledged it, while it is open
        self._losses: Restarts | None = None  # if it is lost while the connection goes on
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
            if self.is_over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            if self.honoured is not None and not _changes_in(self.honoured):
                # Waiting would never end. A modern server without subscriptions refuses the request in this case.
                wanted = [f"of {change.uri or f'the list of {change.kind}'}" for change in _changes_in(self.wanted)]
                raise LocalProtocolError(f"the server does not report changes {', '.join(wanted)}")
            self._has_news.clear()
            await self._has_news.wait()
        change = next(iter(self._changes))
        del self._changes[change]
        self._waiting -= EVENT_SIZE + len(change.uri)
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

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def aclose(self) -> None:
        """Close it, as :meth:`close` does. Async generators have a method of this name."""
        self.close()

    def close(self) -> None:
        """End the subscription and every iteration over it. Further calls do nothing."""
        if not self.is_over:
            self.fail(None)
            if self._asked is not None and self._connection is not None:
                self._connection.end_listen(self._asked)
            if self._is_started:
                self._owner.end(self)

    def _start(self) -> None:
        if not self._is_started and not self.is_over:
            self._is_started = True
            self._owner.start(self)

    # For the client

    def attach(self, connection: ClientConnection) -> None:
        """Open the subscription on a modern connection, and again on each new one (SU-16)."""
        self._connection = connection
        self._asked = connection.listen(self.wanted, self)

    def detach(self) -> None:
        """Handle the loss of the connection. Another one may follow."""
        self._asked = self._connection = self._opened_at = None
        self._is_renewed = True

    def pause(self, policy: RestartPolicy, *, now: float) -> float:
        """Return the seconds to wait before the subscription is opened again, after it was lost."""
        if self._losses is None:
            # A network may be down for hours: the pauses grow, but there is no last attempt.
            self._losses = Restarts(structs.replace(policy, max_restarts=None), random=random.random)
        return self._losses.crashed(now, 0.0 if self._opened_at is None else now - self._opened_at) or 0.0

    def changed(self, change: Change) -> None:
        """Add a change that a legacy server reported, if this subscription asked for it."""
        watched = [] if self.honoured is None else _changes_in(self.honoured)
        # SU-09, RS-04: a server may report a part of the resource.
        if any(
            change == each or (each.kind == change.kind == "resource" and change.uri.startswith(each.uri.rstrip("/") + "/"))
            for each in watched
        ):
            self._add(change)

    def fail(self, error: TwopipesError | None) -> None:
        """End the subscription, with an error if there will be no further connection."""
        if not self.is_over:
            self.is_over = True
            self._error = error
            self._has_news.set()
            self._acknowledged.set()

    def acknowledged(self, delivers: SubscriptionFilter) -> None:
        """Handle the acknowledgement of the server."""
        self.honoured = delivers
        self._opened_at = self._owner.loop.time()
        self._acknowledged.set()
        self._has_news.set()
        if self._is_renewed:
            self._is_renewed = False
            for change in _changes_in(delivers):
                self._add(change)

    def notified(self, method: str, params: Any) -> None:
        """Handle a notification of this subscription."""
        self._owner.cache.on_notification(method, params)
        if (change := _change_of(method, params)) is not None:
            self._add(change)

    def ended(self, error: TwopipesError | None) -> None:
        """Handle the end of the listen request: the server ended or refused it, or was lost and may be restarted."""
        if self._asked is not None:
            connection, self._asked = self._connection, None
            if self.is_over:
                return
            if connection is not None and error is not None and self._owner.renews(self, connection, error):
                self.detach()
            else:
                self.fail(error)
                self._owner.end(self)

    def _add(self, change: Change) -> None:
        if change in self._changes:
            return
        size = EVENT_SIZE + len(change.uri)
        limit = self._owner.max_backlog
        if self._changes and limit is not None and self._waiting + size > limit:
            self.dropped += 1
            return
        self._changes[change] = None
        self._waiting += size
        self._has_news.set()


class Subscriptions:
    """All subscriptions of one client: renews them after a restart, and distributes the notifications of a legacy server.

    In a legacy session, all subscriptions to the same resource share one ``resources/subscribe``; the last one to end unsubscribes.
    """

    def __init__(self, supervisor: Supervisor, cache: ResultCache) -> None:
        self.cache = cache
        self.loop = supervisor.loop
        self.max_backlog = supervisor.config.limits.max_backlog
        self._supervisor = supervisor
        self._subscriptions: dict[Subscription, None] = {}
        self._watched: Counter[str] = Counter()
        # The URIs that each subscription counts for in _watched, so that it releases exactly those.
        self._held: dict[Subscription, list[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def notified(self, method: str, params: Any) -> None:
        """Pass a notification of a legacy session to the subscriptions that asked for it."""
        if (change := _change_of(method, params)) is not None:
            for subscription in list(self._subscriptions):
                subscription.changed(change)

    def lost(self) -> None:
        """Handle the loss of the connection."""
        for subscription in self._subscriptions:
            subscription.detach()
        if self._subscriptions:
            self._task(self._wait_for_restart())

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

    def start(self, subscription: Subscription) -> None:
        """Start a subscription, now or after a restart of the server."""
        if asyncio.get_running_loop() is not self._supervisor.loop:
            raise LocalProtocolError("a subscription must be used in the event loop in which the client was connected")
        self._subscriptions[subscription] = None
        connection = self._supervisor.connection
        if connection is not None:
            self._attach(subscription, connection)
        else:
            self._task(self._wait_for_restart())

    def renews(self, subscription: Subscription, connection: ClientConnection, error: TwopipesError) -> bool:
        """Open a subscription again, after a pause, that was lost while its connection goes on. Return False if it has ended.

        Over HTTP each subscription is a stream of its own. An internal error also ends one that could be opened again: a server
        that cannot receive changes for a while ends its subscriptions so that no client relies on them.
        """
        policy = self._supervisor.config.restart
        is_temporary = isinstance(error, ConnectionLost | InternalError) or (isinstance(error, HttpError) and error.retryable)
        if not connection.renews_listens or not is_temporary or subscription.honoured is None or not policy.covers("modern"):
            return False
        self.cache.clear()  # changes may be missed
        self._task(self._renew(subscription, connection, subscription.pause(policy, now=self.loop.time())))
        return True

    async def _renew(self, subscription: Subscription, connection: ClientConnection, pause: float) -> None:
        await asyncio.sleep(pause)
        if not subscription.is_over and self._supervisor.connection is connection:  # another connection renews all of them
            self._attach(subscription, connection)

    def end(self, subscription: Subscription) -> None:
        """Forget a subscription, and unsubscribe from the resources that no other one watches."""
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

    async def _wait_for_restart(self) -> None:
        """Wait for a restart, which starts all subscriptions. Fail them if there is none."""
        try:
            await self._supervisor.wait(None)
        except TwopipesError as error:
            for subscription in list(self._subscriptions):
                subscription.fail(error)
            self._subscriptions.clear()
            self._held.clear()

    def _attach(self, subscription: Subscription, connection: ClientConnection) -> None:
        if not connection.session.dialect.modern:
            self._task(self._watch(subscription, connection))
            return
        try:
            subscription.attach(connection)
        except TwopipesError as error:
            subscription.fail(error)
            self._subscriptions.pop(subscription, None)

    async def _watch(self, subscription: Subscription, connection: ClientConnection) -> None:
        """Subscribe to each resource in a legacy session, and treat that as the acknowledgement."""
        if subscription.is_over:
            return
        delivers = honoured(subscription.wanted, connection.session.server_capabilities)
        held = self._held[subscription] = []
        try:
            for uri in delivers.resource_subscriptions or ():
                if self._held.get(subscription) is not held:
                    return  # it was closed meanwhile, and end() released what it held
                held.append(uri)
                self._watched[uri] += 1
                if self._watched[uri] == 1:
                    await connection.send("resources/subscribe", SubscribeParams(uri)).future
        except TwopipesError as error:
            if not connection.ended.done():  # after a loss, the next connection renews the subscription
                subscription.fail(error)
                self.end(subscription)
            return
        if not subscription.is_over:
            subscription.acknowledged(delivers)

    def _task(self, coroutine: Any) -> None:
        task = self._supervisor.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _change_of(method: str, params: Any) -> Change | None:
    if method == RESOURCE_UPDATED:
        return Change("resource", params.uri)
    return Change(_KINDS[method]) if method in _KINDS else None


def _changes_in(found: SubscriptionFilter) -> list[Change]:
    lists: dict[ListKind, bool | None] = {
        "tools": found.tools_list_changed,
        "prompts": found.prompts_list_changed,
        "resources": found.resources_list_changed,
    }
    resources = [Change("resource", uri) for uri in found.resource_subscriptions or ()]
    return [Change(kind) for kind, wanted in lists.items() if wanted] + resources
