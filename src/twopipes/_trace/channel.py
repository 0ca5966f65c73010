"""Recorded channels and children. A channel that wraps another one reports what passes; neither side notices it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from twopipes._channels.base import Channel
from twopipes._channels.wrapped import WrappedChannel
from twopipes._process.exit_status import ExitStatus, signal_name
from twopipes._trace.format import Kind
from twopipes._trace.recorder import Recorder
from twopipes.errors import ChannelBroken


class Observer(Protocol):
    """Receives what passes a channel: a :class:`Recorder`, or a live display."""

    def chunk(self, kind: Kind, data: bytes, *, connection: int = 0) -> None:
        """Called with bytes of one direction, split anywhere."""

    @property
    def event(self) -> Callable[..., object]:
        """Called with the name of an event, and its details as keywords; see :meth:`Recorder.event`."""


class RecordedChannel(WrappedChannel):
    """Reports every byte in both directions, and the end of both, to an observer.

    Args:
        inner: The channel.
        observer: Receives the reports.
        reads: The direction that is read from the channel: ``<`` for a client, ``>`` for a server.
        connection: The number of the connection, if several share a recording.
    """

    def __init__(self, inner: Channel, observer: Observer, *, reads: Kind, connection: int = 0) -> None:
        super().__init__(inner)
        self._observer = observer
        self._reads = reads
        self._writes: Kind = ">" if reads == "<" else "<"
        self._connection = connection
        self._ended: set[Kind] = set()

    async def read(self) -> bytes:
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
        self._inner.write(data)
        if data:
            # After write(), which may raise. A copy, because the caller may change its buffer before the recorder has written it.
            self._observer.chunk(self._writes, bytes(data), connection=self._connection)

    async def close_write(self) -> None:
        await self._inner.close_write()
        self._end(self._writes)

    def _end(self, kind: Kind, reason: str | None = None) -> None:
        if kind not in self._ended:
            self._ended.add(kind)
            self._observer.event("eof", stream=kind, reason=reason, connection=self._connection)


class ChildRecording:
    """Records a child: its pipes, its stderr, the signals it gets, and its exit. It is a ``ProcessObserver``.

    ``connection`` is the number of the connection, if a server is started several times.
    """

    def __init__(self, recorder: Observer, *, connection: int = 0) -> None:
        self.connection = connection
        self._recorder = recorder

    def started(self, pid: int, channel: Channel) -> Channel:
        self._recorder.event("spawn", pid=pid, connection=self.connection)
        return self.recorded(channel)

    def recorded(self, channel: Channel) -> Channel:
        """Wrap a channel in a recording one."""
        return RecordedChannel(channel, self._recorder, reads="<", connection=self.connection)

    def stderr(self, data: bytes) -> None:
        self._recorder.chunk("!", data, connection=self.connection)

    def signalled(self, number: int) -> None:
        self._recorder.event("signal", signal=signal_name(number), connection=self.connection)

    def exited(self, status: ExitStatus) -> None:
        self._recorder.event("exit", code=status.code, signal=status.signal_name, connection=self.connection)


async def close_recorder(recorder: Recorder, seconds: float = 2.0) -> None:
    """Close a recorder without blocking the event loop; see :meth:`Recorder.close`. Cancelling is safe: the recorder still ends."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    def notify() -> None:
        with suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(closed.set)

    recorder.finish(notify)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await closed.wait()
    recorder.close(0.0 if not closed.is_set() else seconds)  # it has ended, or is given up
