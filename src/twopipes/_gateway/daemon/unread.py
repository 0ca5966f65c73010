"""A channel from which some bytes were read already."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twopipes._channels.base import Channel


class UnreadChannel(Channel):
    """Returns ``first`` from the first :meth:`read`, and is the inner channel from then on."""

    def __init__(self, inner: Channel, first: bytes) -> None:
        self._inner = inner
        self._first = first

    async def read(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        return await self._inner.read()

    def offer_to(self, take: Callable[[bytes], bool]) -> None:
        self._inner.offer_to(take)

    def write(self, data: bytes) -> None:
        self._inner.write(data)

    def drain(self) -> Coroutine[Any, Any, None]:
        return self._inner.drain()

    def flush(self) -> Coroutine[Any, Any, None]:
        return self._inner.flush()

    def close_write(self) -> Coroutine[Any, Any, None]:
        return self._inner.close_write()

    def close(self) -> Coroutine[Any, Any, None]:
        return self._inner.close()

    @property
    def buffered(self) -> int:
        return self._inner.buffered

    @property
    def is_reader_gone(self) -> bool:
        return self._inner.is_reader_gone

    @property
    def description(self) -> str:
        return self._inner.description
