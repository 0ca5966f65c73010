"""A channel around a channel that applies faults."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from twopipes._channels.base import Channel
from twopipes._channels.wrapped import WrappedChannel
from twopipes._trace.message import Direction
from twopipes._trace.split_lines import Cutter
from twopipes.errors import ChannelBroken, ChannelClosed, LocalProtocolError
from twopipes.testing.faults import FaultPlan, WireReader
from twopipes.testing.wire_log import WireLog


class _Held(NamedTuple):
    """A line that a fault holds back."""

    data: bytes
    timer: asyncio.TimerHandle


class FaultyChannel(WrappedChannel):
    """The client's channel, with faults between it and the server. ``kill`` ends the server at once, without waiting."""

    def __init__(self, inner: Channel, plan: FaultPlan, log: WireLog, *, connection: int, kill: Callable[[], object]) -> None:
        super().__init__(inner)
        self._plan = plan
        self._log = log
        self._connection = connection
        self._kill = kill
        self._loop = asyncio.get_running_loop()
        self._reader = WireReader()
        self._cutters: dict[Direction, Cutter] = {">": Cutter(sys.maxsize), "<": Cutter(sys.maxsize)}
        self._held: dict[Direction, list[_Held]] = {">": [], "<": []}
        self._arrived = bytearray()
        self._reading: asyncio.Task[bytes] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._at_end = False
        self._is_dead = False
        self._is_closed = False

    async def read(self) -> bytes:
        """Like the inner channel, with faults; see :meth:`Channel.read`."""
        if self._waiter is not None:
            raise LocalProtocolError(
                f"{self.description} is already being read by another task; a channel has one reader at a time"
            )
        while True:
            if self._is_closed:
                raise ChannelClosed(f"{self.description} was closed on this side")
            if self._arrived:
                arrived = bytes(self._arrived)
                self._arrived.clear()
                return arrived
            if self._at_end:
                return b""
            await self._wait()

    async def _wait(self) -> None:
        """Wait until something has arrived: from the inner channel, or after a delay."""
        if self._reading is None:
            # In a task of its own, which is not cancelled with this one, so that nothing that was read is lost.
            self._reading = self._loop.create_task(self._inner.read())
            self._reading.add_done_callback(_retrieve_exception)
        self._waiter = self._loop.create_future()
        try:
            both: list[asyncio.Future[Any]] = [self._reading, self._waiter]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiter = None
        if self._reading.done() and not self._at_end:
            reading, self._reading = self._reading, None
            if chunk := reading.result():
                self._feed("<", chunk)
            else:
                self._finish("<")
                self._at_end = True

    def write(self, data: bytes) -> None:
        """Like the inner channel, with faults; see :meth:`Channel.write`."""
        if self._is_dead:
            raise ChannelBroken(f"{self.description}: a fault has killed the server")
        self._inner.write(b"")  # raises what the inner channel would raise, even if the faults drop everything
        self._feed(">", data)

    async def close_write(self) -> None:
        """Like the inner channel; see :meth:`Channel.close_write`. Delayed lines are sent first."""
        with suppress(ChannelBroken, ChannelClosed):
            self._finish(">")
        await self._inner.close_write()

    async def close(self) -> None:
        """Like the inner channel; see :meth:`Channel.close`."""
        self._is_closed = True
        self._drop_held()
        self._wake()
        await self._inner.close()
        if self._reading is not None:
            await asyncio.wait([self._reading])  # it ends because the channel is closed

    # Lines

    def _feed(self, direction: Direction, data: bytes) -> None:
        for cut in self._cutters[direction].feed(data):
            if self._is_dead:
                return
            self._cross(direction, cut.data)

    def _cross(self, direction: Direction, line: bytes) -> None:
        seen = self._reader.read(direction, line)
        crossing, seconds = [line + b"\n"], 0.0
        for fault in self._plan.strike(seen, connection=self._connection):
            method = f" {seen.method}" if seen.method and not fault.method else ""
            self._log.event("note", reason=f"{fault}{method}", connection=self._connection)
            if fault.what == "kill":
                self._is_dead = self._at_end = True
                self._drop_held()
                self._wake()
                self._kill()
                return
            crossing = self._plan.crossing(fault, crossing)
            seconds += fault.seconds
        for each in crossing:
            if seconds:
                self._hold(direction, each, seconds)
            else:
                self._put(direction, each)

    def _put(self, direction: Direction, data: bytes) -> None:
        if direction == ">":
            self._inner.write(data)
        else:
            self._arrived += data
            self._wake()

    def _hold(self, direction: Direction, data: bytes, seconds: float) -> None:
        def release() -> None:
            self._held[direction].remove(held)
            with suppress(ChannelBroken, ChannelClosed):  # the server is gone
                self._put(direction, data)

        held = _Held(data, self._loop.call_later(seconds, release))
        self._held[direction].append(held)

    def _finish(self, direction: Direction) -> None:
        """End a direction: send the delayed lines, and a last line without a newline."""
        released, self._held[direction] = self._held[direction], []
        for held in released:
            held.timer.cancel()
            self._put(direction, held.data)
        for cut in self._cutters[direction].rest():
            self._put(direction, cut.data)

    def _drop_held(self) -> None:
        for lines in self._held.values():
            for held in lines:
                held.timer.cancel()
            lines.clear()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _retrieve_exception(task: asyncio.Task[bytes]) -> None:
    """Retrieve the exception so that asyncio does not warn if no caller is waiting."""
    if not task.cancelled():
        task.exception()
