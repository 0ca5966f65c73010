"""Run a replay against a live server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from twopipes._channels.base import Channel
from twopipes._cli.server_options import ServerTarget
from twopipes._client.targets import Endpoint, target_of
from twopipes._tools.check.http.channel import HttpChannel
from twopipes._tools.check.http.wire import parse_url
from twopipes._tools.check.messages import ProbeTimeouts
from twopipes._tools.replay.script import Expected, Replay
from twopipes._wire import LineDecoder, LineRejected
from twopipes.errors import ChannelBroken, ChannelClosed

# Seconds to wait if only notifications are expected: no request depends on them, and there may be fewer this time.
_NOTIFICATION_TIMEOUT = 2.0
# How many times slower than the recorded server the live one may be.
_SLOWDOWN = 3
# Seconds for a server on a socket to send the rest after our last message.
_DRAIN_TIMEOUT = 2.0
# Seconds from the end of a server's output to its exit.
_EXIT_TIMEOUT = 2.0
# Lines and bytes that the live server may send beyond the recorded ones. All of them are kept in memory.
_MAX_EXTRA_LINES = 20_000
_MAX_EXTRA_BYTES = 128 * 1024 * 1024
# Timeouts in a row without any line from the server, after which the replay stops.
_MAX_SILENT_TIMEOUTS = 2


class ReplayTimeouts(Struct, frozen=True):
    """How long to wait for the live server."""

    seconds: float  # for a response, or a request of the server
    is_exact: bool = False  # whether the user chose it; otherwise a server that was slow when it was recorded gets more time

    def for_(self, waiting: Sequence[Expected]) -> float:
        """Return the seconds to wait for these messages."""
        longest = 0.0 if self.is_exact else _SLOWDOWN * max(expected.waited for expected in waiting)
        if all(expected.kind == "notification" for expected in waiting):
            return min(self.seconds, _NOTIFICATION_TIMEOUT) + longest
        return max(self.seconds, longest)


class ReplayEnd(Struct, frozen=True):
    """Why the replay ended, and the last lines of the server's stderr."""

    reason: str
    stderr: list[str]


async def run_replay(replay: Replay, server: ServerTarget, timeouts: ReplayTimeouts) -> ReplayEnd:
    """Start or connect to the server, send the recorded messages, and stop it.

    The server is stopped even if this is cancelled.
    """
    link = Endpoint(_http_channel(server)) if server.is_url else await target_of(server.target).open(None)
    channel = link.channel
    assert channel is not None  # only connect() uses HTTP without one
    receiver = _Receiver(replay)
    try:
        reason = await _exchange(replay, channel, receiver, timeouts)
        if reason is None:
            await _close(link, channel, receiver)
            reason = "it received all messages"
        elif link.child is not None and replay.has_ended and not receiver.is_flooded:
            reason = "it closed its output before the end of the replay, and is still running"
            with suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_TIMEOUT):
                    reason = f"it exited before the end of the replay: {(await link.child.wait()).describe()}"
    finally:
        if link.child is not None:
            await link.child.shut_down()
        await channel.close()
        await link.release()
    return ReplayEnd(reason, link.child.stderr.lines() if link.child is not None else [])


class _Receiver:
    """Passes the lines of the live server to the replay, and counts them to detect a flood."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._decoder = LineDecoder()
        self._lines = len(replay.expected) + _MAX_EXTRA_LINES
        self._bytes = sum(len(expected.message.data) for expected in replay.expected) + _MAX_EXTRA_BYTES

    def feed(self, data: bytes) -> bool:
        """Process the next bytes, and return whether they completed a line."""
        self._bytes -= len(data)
        return self._take(self._decoder.feed(data))

    def finish(self) -> None:
        """Process the end of the stream."""
        self._take(self._decoder.finish())

    @property
    def is_flooded(self) -> bool:
        """Whether the server sent far more than the recorded one."""
        return self._lines < 0 or self._bytes < 0

    def _take(self, lines: list[bytes | LineRejected]) -> bool:
        self._lines -= len(lines)
        for line in lines:
            if isinstance(line, LineRejected):
                self._replay.receive_noise(line.excerpt)
            else:
                self._replay.receive(line)
        return bool(lines)


async def _exchange(replay: Replay, channel: Channel, receiver: _Receiver, timeouts: ReplayTimeouts) -> str | None:
    """Send and receive all messages. Return why that stopped early, or ``None`` if it is complete."""
    clock = asyncio.get_running_loop().time
    first: Expected | None = None
    deadline = 0.0
    silent_timeouts = 0
    while True:
        try:
            for line in replay.due():
                # Do not drain: a server that waits for us to read would never read.
                channel.write(line)
            if replay.is_done:
                return None
            waiting = replay.waiting_for
            # The deadline belongs to one message: a response or a request; a notification only if nothing else is expected.
            wanted = next((expected for expected in waiting if expected.kind != "notification"), waiting[0])
            if wanted is not first:
                first = wanted
                deadline = clock() + timeouts.for_(waiting)
            async with asyncio.timeout_at(deadline):
                data = await channel.read()
        except TimeoutError:
            replay.give_up()
            if first is not None and first.kind != "notification":
                silent_timeouts += 1
                if silent_timeouts == _MAX_SILENT_TIMEOUTS:
                    return f"it stopped responding; gave up waiting for {first.describe()}"
            continue
        except (ChannelBroken, ChannelClosed):
            data = b""
        if not data:
            receiver.finish()
            replay.receive_end()
            return "it closed its output"
        if receiver.feed(data):
            silent_timeouts = 0
        if receiver.is_flooded:
            replay.receive_end()
            return "it sent far more messages than the recorded server"


def _http_channel(server: ServerTarget) -> Channel:
    """Return the lines of a server at a URL."""
    address = parse_url(str(server.target))
    return HttpChannel(address, timeouts=ProbeTimeouts(), headers=server.all_headers)


async def _close(link: Endpoint, channel: Channel, receiver: _Receiver) -> None:
    """Close our side, and read what the server still sends."""
    reading = asyncio.create_task(_read_rest(channel, receiver))
    try:
        if link.child is not None:
            await link.child.shut_down()
        else:
            with suppress(ChannelBroken, ChannelClosed, TimeoutError):
                async with asyncio.timeout(_DRAIN_TIMEOUT):
                    await channel.close_write()
                    await asyncio.shield(reading)
            await channel.close()
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


async def _read_rest(channel: Channel, receiver: _Receiver) -> None:
    with suppress(ChannelBroken, ChannelClosed):
        while not receiver.is_flooded and (data := await channel.read()):
            receiver.feed(data)
        receiver.finish()
