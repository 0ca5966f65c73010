"""Carrying a replay out: the live server, its pipes, and how long to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from twopipes.channels.base import Channel
from twopipes.client.targets import Link, target_of
from twopipes.errors import ChannelBroken, ChannelClosed
from twopipes.trace.replay import Expected, Replay
from twopipes.wire import LineDecoder, LineRejected

__all__ = ["Ended", "Patience", "carry_out"]

# Seconds to wait for notifications alone: they belong to nothing that could be answered, and may be fewer this time.
_FOR_NOTIFICATIONS = 2.0
# How much slower than the recorded server a live one may be.
_SLOWER = 3
# Seconds for a server on a socket to say the rest, once our part is said.
_FOR_THE_REST = 2.0
# Seconds between the end of a server's output and its death, which are one thing to whoever looks at it.
_FOR_ITS_DEATH = 2.0
# Waits in a row that ended without a word of the server; then it counts as one that says nothing any more.
_SILENCES = 2


class Patience(Struct, frozen=True):
    """How long to wait for the live server.

    Attributes:
        seconds: For an answer or a question.
        is_exact: The user said so; otherwise a server that was slow when it was recorded gets more.
    """

    seconds: float
    is_exact: bool = False

    def for_(self, waiting: Sequence[Expected]) -> float:
        """Seconds to wait for these."""
        longest = 0.0 if self.is_exact else _SLOWER * max(expected.waited for expected in waiting)
        if all(expected.kind == "notification" for expected in waiting):
            return min(self.seconds, _FOR_NOTIFICATIONS) + longest
        return max(self.seconds, longest)


class Ended(Struct, frozen=True):
    """How the live server was when its part was over, in words, and the last lines of its stderr."""

    how: str
    stderr: list[str]


async def carry_out(replay: Replay, target: Any, patience: Patience) -> Ended:
    """Starts or connects to the server, says the recorded client's part, and ends it. Nothing of it is left.

    Cancelling is safe: the server is ended all the same.

    Raises:
        StartFailed: It cannot be started.
        ChannelBroken: Nobody listens at the socket.
    """
    link = await target_of(target).open(None)
    decoder = LineDecoder()
    try:
        how = await _converse(replay, link.channel, decoder, patience)
        if how is None:
            await _close(replay, link, decoder)
            how = "it did all that was asked"
        elif link.child is not None and replay.has_ended:
            how = await _death_of(link)
    finally:
        if link.child is not None:
            await link.child.shut_down()
        await link.release()
    return Ended(how, link.child.stderr.lines() if link.child is not None else [])


async def _converse(replay: Replay, channel: Channel, decoder: LineDecoder, patience: Patience) -> str | None:
    """Says and hears everything; returns why that could not go on, or ``None`` when it is done."""
    clock = asyncio.get_running_loop().time
    first: Expected | None = None
    deadline = 0.0
    silences = 0
    while True:
        try:
            for line in replay.due():
                # Not waiting for it to be taken: a server that waits for us to read would wait for ever.
                channel.write(line)
            if replay.is_done:
                return None
            waiting = replay.waiting_for
            # The time runs for one thing: an answer or a question, and for a notification only where nothing else is left.
            wanted = next((expected for expected in waiting if expected.kind != "notification"), waiting[0])
            if wanted is not first:
                first = wanted
                deadline = clock() + patience.for_(waiting)
            async with asyncio.timeout_at(deadline):
                data = await channel.read()
        except TimeoutError:
            replay.give_up()
            if first is not None and first.kind != "notification":
                silences += 1
                if silences == _SILENCES:
                    return f"it says nothing any more; the wait for {first.describe()} was given up"
            continue
        except (ChannelBroken, ChannelClosed):
            data = b""
        if not data:
            _take(replay, decoder.finish())
            replay.receive_end()
            return "it closed its output"
        if _take(replay, decoder.feed(data)):
            silences = 0


def _take(replay: Replay, lines: list[bytes | LineRejected]) -> bool:
    for line in lines:
        if isinstance(line, LineRejected):
            replay.receive_noise(line.excerpt)
        else:
            replay.receive(line)
    return bool(lines)


async def _close(replay: Replay, link: Link, decoder: LineDecoder) -> None:
    """Ends our part, and hears what the server still says."""
    reading = asyncio.create_task(_hear_the_rest(replay, link.channel, decoder))
    try:
        if link.child is not None:
            await link.child.shut_down()
        else:
            with suppress(ChannelBroken, ChannelClosed, TimeoutError):
                async with asyncio.timeout(_FOR_THE_REST):
                    await link.channel.close_write()
                    await asyncio.shield(reading)
            await link.channel.close()
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


async def _hear_the_rest(replay: Replay, channel: Channel, decoder: LineDecoder) -> None:
    with suppress(ChannelBroken, ChannelClosed):
        while data := await channel.read():
            _take(replay, decoder.feed(data))
        _take(replay, decoder.finish())


async def _death_of(link: Link) -> str:
    if link.child is None:  # pragma: no cover - asked of children alone
        return "it closed its output"
    with suppress(TimeoutError):
        async with asyncio.timeout(_FOR_ITS_DEATH):
            return f"it ended in the middle, by {(await link.child.wait()).describe()}"
    return "it closed its output in the middle, and lives on"
