"""A channel around another one."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twopipes._channels.base import Channel


class WrappedChannel(Channel):
    """Passes everything to the inner channel. Subclasses change what they are about.

    ``offer_to`` is not passed on, because :meth:`read` of a subclass must see all data.
    """

    def __init__(self, inner: Channel) -> None:
        self._inner = inner

    def read(self) -> Coroutine[Any, Any, bytes]:
        """Like the inner channel; see :meth:`Channel.read`."""
        return self._inner.read()

    def write(self, data: bytes) -> None:
        """Like the inner channel; see :meth:`Channel.write`."""
        self._inner.write(data)

    def drain(self) -> Coroutine[Any, Any, None]:
        """Like the inner channel; see :meth:`Channel.drain`."""
        return self._inner.drain()

    def flush(self) -> Coroutine[Any, Any, None]:
        """Like the inner channel; see :meth:`Channel.flush`."""
        return self._inner.flush()

    def close_write(self) -> Coroutine[Any, Any, None]:
        """Like the inner channel; see :meth:`Channel.close_write`."""
        return self._inner.close_write()

    def close(self) -> Coroutine[Any, Any, None]:
        """Like the inner channel; see :meth:`Channel.close`."""
        return self._inner.close()

    @property
    def buffered(self) -> int:
        """Like the inner channel."""
        return self._inner.buffered

    @property
    def is_reader_gone(self) -> bool:
        """Like the inner channel."""
        return self._inner.is_reader_gone

    @property
    def description(self) -> str:
        """Like the inner channel."""
        return self._inner.description
