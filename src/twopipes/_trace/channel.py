"""A channel around a channel that writes down what crosses it. Nothing beneath or above knows that it is watched."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Protocol

from twopipes._channels.base import Channel
from twopipes._trace.format import Kind
from twopipes._trace.recorder import Recorder
from twopipes.errors import ChannelBroken

__all__ = ["Observer", "RecordedChannel", "close_recorder"]


class Observer(Protocol):
    """Who is told what crosses a channel: a :class:`Recorder`, or something that shows it at once."""

    def chunk(self, kind: Kind, data: bytes, *, connection: int = 0) -> None:
        """Bytes went this way, cut anywhere."""

    def event(self, name: Any, *, connection: int = 0, stream: Kind | None = None, reason: str | None = None) -> None:
        """A direction came to its end."""


class RecordedChannel(Channel):
    """Tells an observer of every byte in both directions, and of both ends.

    Args:
        inner: The channel.
        observer: Whom to tell.
        reads: What is read from the channel: ``<`` on the side of a client, ``>`` on that of a server.
        connection: Which one, where several share a recording.
    """

    def __init__(self, inner: Channel, observer: Observer, *, reads: Kind, connection: int = 0) -> None:
        self._inner = inner
        self._observer = observer
        self._reads = reads
        self._writes: Kind = ">" if reads == "<" else "<"
        self._connection = connection
        self._ended: set[Kind] = set()

    async def read(self) -> bytes:
        """As the channel beneath; see :meth:`Channel.read`."""
        try:
            chunk = await self._inner.read()
        except ChannelBroken as error:
            self._end(self._reads, str(error))
            raise
        if chunk:
            self._observer.chunk(self._reads, chunk, connection=self._connection)
        else:
            self._end(self._reads)
        return chunk

    def write(self, data: bytes) -> None:
        """As the channel beneath; see :meth:`Channel.write`."""
        self._inner.write(data)
        if data:
            # What was refused did not cross. Nobody may change afterwards what the recorder has not written yet.
            self._observer.chunk(self._writes, bytes(data), connection=self._connection)

    def drain(self) -> Coroutine[Any, Any, None]:
        """As the channel beneath; see :meth:`Channel.drain`."""
        return self._inner.drain()

    def flush(self) -> Coroutine[Any, Any, None]:
        """As the channel beneath; see :meth:`Channel.flush`."""
        return self._inner.flush()

    async def close_write(self) -> None:
        """As the channel beneath; see :meth:`Channel.close_write`."""
        await self._inner.close_write()
        self._end(self._writes)

    def close(self) -> Coroutine[Any, Any, None]:
        """As the channel beneath; see :meth:`Channel.close`."""
        return self._inner.close()

    @property
    def buffered(self) -> int:
        """As the channel beneath."""
        return self._inner.buffered

    @property
    def description(self) -> str:
        """As the channel beneath."""
        return self._inner.description

    def _end(self, kind: Kind, reason: str | None = None) -> None:
        if kind not in self._ended:
            self._ended.add(kind)
            self._observer.event("eof", stream=kind, reason=reason, connection=self._connection)


async def close_recorder(recorder: Recorder, seconds: float = 2.0) -> None:
    """Closes a recorder without holding up the event loop; see :meth:`Recorder.close`. Cancelling is safe: it ends by itself."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    def tell() -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(closed.set)

    recorder.finish(tell)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await closed.wait()
    recorder.close(0.0 if not closed.is_set() else seconds)  # it is all but over, or given up
