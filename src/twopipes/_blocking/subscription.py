"""Changes as they happen, for a thread that waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from twopipes._blocking.loop import LoopThread
from twopipes._client.subscription import Subscription as AsyncSubscription
from twopipes._protocol.types import SubscriptionFilter
from twopipes._session.subscriptions import Change
from twopipes.errors import ClientClosed, RequestTimedOut

__all__ = ["Subscription"]

T = TypeVar("T")


class Subscription:
    """What ``client.subscribe(...)`` gives: iterate over it, or ask it with :meth:`get`, and close it, or leave its block.

    ::

        with client.subscribe(tools=True) as changes:
            for change in changes:
                print(change.kind)

    Iterating waits for as long as it takes; :meth:`close` in another thread ends it, and so does Ctrl-C. Equal changes that wait to
    be read are one change. Of different ones as many wait as ``Limits.max_backlog`` allows. When :attr:`dropped` has grown, the
    reader was too slow: whatever it watches may have changed.
    """

    def __init__(self, inner: AsyncSubscription, house: LoopThread, patience: float | None, client: object) -> None:
        self._inner = inner
        self._house = house
        self._patience = patience
        self._client = client  # one that nobody holds is closed
        self._is_begun = False

    @property
    def wanted(self) -> SubscriptionFilter:
        """What was asked for."""
        return self._inner.wanted

    @property
    def honoured(self) -> SubscriptionFilter | None:
        """What the server really delivers; ``None`` until it has said so (SU-07)."""
        return self._inner.honoured

    @property
    def dropped(self) -> int:
        """How many changes were dropped because too many others waited to be read."""
        return self._inner.dropped

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self._inner.is_over

    def ready(self) -> SubscriptionFilter:
        """Waits until the server has said what it will deliver, and returns that (SU-07).

        Raises:
            RequestTimedOut: It has not said so within the client's ``timeouts.request``.
            TwopipesError: It refused, or the connection is gone.
        """
        try:
            return self._house.run(lambda: _within(self._patience, self._inner.ready()))
        except TimeoutError:
            patience = self._patience or 0.0
            raise RequestTimedOut("subscriptions/listen", None, waited=patience, limit="idle") from None

    def get(self, timeout: float | None = None) -> Change | None:
        """The next change; ``None`` when there will be none any more.

        Args:
            timeout: Seconds to wait for it; by default as long as it takes. Zero takes what is there.

        Raises:
            TimeoutError: Nothing has changed in that time.
            TwopipesError: The connection is gone for good.
        """
        began_before, self._is_begun = self._is_begun, True
        try:
            return self._house.run(lambda: self._next(timeout), unclaimed=self._put_back)
        except ClientClosed:
            if began_before and self._inner.is_over:  # the client was closed, and this with it
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
            self._inner.hear(change)

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

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends it; whoever iterates comes to the end. From any thread, any number of times."""
        if self._inner.is_over or self._house.is_foreign:
            return
        with suppress(ClientClosed):
            self._house.run(self._inner.aclose)

    def _start(self) -> None:
        if not self._is_begun:
            self._house.run(self._inner.__aenter__)
            self._is_begun = True


async def _within(seconds: float | None, awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await awaitable
