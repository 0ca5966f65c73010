"""Subscriptions for threads that wait for changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Self, TypeVar

from twopipes._blocking.loop import LoopThread
from twopipes._client.subscription import Subscription as AsyncSubscription
from twopipes._protocol.types import SubscriptionFilter
from twopipes._session.subscriptions import Change
from twopipes.errors import ClientClosed, RequestTimedOut

T = TypeVar("T")


class Subscription:
    """The changes that ``client.subscribe(...)`` asked for. Iterate over it or call :meth:`get`; close it or leave its block.

    ::

        with client.subscribe(tools=True) as changes:
            for change in changes:
                print(change.kind)

    Iterating waits without a timeout; :meth:`close` in another thread ends it, and so does Ctrl-C. Equal changes that wait to be
    read count as one. ``Limits.max_backlog`` limits how many different ones may wait. If :attr:`dropped` has grown, the reader was
    too slow: anything it watches may have changed.
    """

    def __init__(self, inner: AsyncSubscription, loop_thread: LoopThread, timeout: float | None, client: object) -> None:
        self._inner = inner
        self._loop_thread = loop_thread
        self._timeout = timeout
        self._client = client  # a client is closed when it is garbage-collected, so keep a reference
        self._is_started = False

    @property
    def wanted(self) -> SubscriptionFilter:
        """The changes that were asked for."""
        return self._inner.wanted

    @property
    def honoured(self) -> SubscriptionFilter | None:
        """The changes that the server delivers; ``None`` until it has acknowledged the subscription (SU-07)."""
        return self._inner.honoured

    @property
    def dropped(self) -> int:
        """The number of changes that were dropped because too many others waited to be read."""
        return self._inner.dropped

    @property
    def is_over(self) -> bool:
        """Whether the subscription has ended."""
        return self._inner.is_over

    def ready(self) -> SubscriptionFilter:
        """Wait for the acknowledgement of the server, and return which changes it delivers (SU-07).

        Raises:
            RequestTimedOut: There is no acknowledgement within the client's ``timeouts.request``.
            TwopipesError: The server refused the subscription, or the connection is lost.
        """
        try:
            return self._loop_thread.run(lambda: _within(self._timeout, self._inner.ready()))
        except TimeoutError:
            raise RequestTimedOut("subscriptions/listen", None, waited=self._timeout or 0.0, limit="idle") from None

    def get(self, timeout: float | None = None) -> Change | None:
        """Return the next change; ``None`` if the subscription has ended.

        Args:
            timeout: Seconds to wait; ``None`` waits without limit. Zero returns only a change that is already there.

        Raises:
            TimeoutError: Nothing changed within the timeout.
            TwopipesError: The connection is lost for good.
        """
        was_started, self._is_started = self._is_started, True
        try:
            return self._loop_thread.run(lambda: self._next(timeout), unclaimed=self._put_back)
        except ClientClosed:
            if was_started and self._inner.is_over:  # the client was closed, and this with it
                return None
            raise

    async def _next(self, seconds: float | None) -> Change | None:
        try:
            return await _within(seconds, anext(self._inner))
        except StopAsyncIteration:
            return None
        except TimeoutError:
            raise TimeoutError(f"nothing has changed within {seconds:.3g} s") from None

    def _put_back(self, change: Change | None) -> None:
        if change is not None:
            self._inner.changed(change)

    def __iter__(self) -> Self:
        self._start()
        return self

    def __next__(self) -> Change:
        change = self.get()
        if change is None:
            raise StopIteration
        return change

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the subscription and every iteration over it. Any thread may call this, any number of times."""
        if self._inner.is_over or self._loop_thread.is_foreign:
            return
        with suppress(ClientClosed):
            self._loop_thread.run(self._inner.aclose)

    def _start(self) -> None:
        if not self._is_started:
            self._loop_thread.run(self._inner.__aenter__)
            self._is_started = True


async def _within(seconds: float | None, awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await awaitable
