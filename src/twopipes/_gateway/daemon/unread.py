"""A channel from which some bytes were read already."""

from __future__ import annotations

from collections.abc import Callable

from twopipes._channels.base import Channel
from twopipes._channels.wrapped import WrappedChannel


class UnreadChannel(WrappedChannel):
    """Returns ``first`` from the first :meth:`read`, and is the inner channel from then on."""

    def __init__(self, inner: Channel, first: bytes) -> None:
        super().__init__(inner)
        self._first = first

    async def read(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        return await self._inner.read()

    def offer_to(self, take: Callable[[bytes], bool]) -> None:
        self._inner.offer_to(take)  # only used while the inner channel is read, so after the first bytes
