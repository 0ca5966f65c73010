"""Carrying a replay out: the live server, its pipes, and how long to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from twopipes._channels.base import Channel
from twopipes._client.targets import Link, target_of
from twopipes._tools.replay.script import Expected, Replay
from twopipes._wire import LineDecoder, LineRejected
from twopipes.errors import ChannelBroken, ChannelClosed

__all__ = ["Ended", "ReplayTimeouts", "run_replay"]

# Seconds to wait for notifications alone: they belong to nothing that could be answered, and may be fewer this time.
_FOR_NOTIFICATIONS = 2.0
# How much slower than the recorded server a live one may be.
_SLOWER = 3
# Seconds for a server on a socket to say the rest, once our part is said.
_FOR_THE_REST = 2.0
# Seconds between the end of a server's output and its death, which are one thing to whoever looks at it.
_FOR_ITS_DEATH = 2.0
# Lines and bytes that the live server may send beyond what was recorded. A server that sends more floods, and all of it is kept.
_MOST_LINES = 20_000
_MOST_BYTES = 128 * 1024 * 1024
# Waits in a row that ended without a word of the server; then it counts as one that says nothing any more.
_SILENCES = 2


class ReplayTimeouts(Struct, frozen=True):
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


async def run_replay(replay: Replay, target: Any, patience: ReplayTimeouts) -> Ended:
    """Starts or connects to the server, says the recorded client's part, and ends it. Nothing of it is left.

    Cancelling is safe: the server is ended all the same.

    Raises:
        StartFailed: It cannot be started.
        ChannelBroken: Nobody listens at the socket.
    """
    link = await target_of(target).open(None)
    intake = _Intake(replay)
    try:
        how = await _converse(replay, link.channel, intake, patience)
        if how is None:
            await _close(link, intake)
            how = "it did all that was asked"
        elif link.child is not None and replay.has_ended and not intake.has_enough:
            how = await _death_of(link)
    finally:
        if link.child is not None:
            await link.child.shut_down()
        await link.release()
    return Ended(how, link.child.stderr.lines() if link.child is not None else [])


class _Intake:
    """Hands what the live server says to the replay, line by line, until a server that floods has said too much."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._decoder = LineDecoder()
        self._lines = len(replay.expected) + _MOST_LINES
        self._bytes = sum(len(expected.message.data) for expected in replay.expected) + _MOST_BYTES

    def feed(self, data: bytes) -> bool:
        """Takes the next bytes; whether there was a line in them."""
        self._bytes -= len(data)
        return self._take(self._decoder.feed(data))

    def finish(self) -> None:
        """Takes the end."""
        self._take(self._decoder.finish())

    @property
    def has_enough(self) -> bool:
        """Whether the server has said so much more than it was recorded with that there is no sense in listening on."""
        return self._lines < 0 or self._bytes < 0

    def _take(self, lines: list[bytes | LineRejected]) -> bool:
        self._lines -= len(lines)
        for line in lines:
            if isinstance(line, LineRejected):
                self._replay.receive_noise(line.excerpt)
            else:
                self._replay.receive(line)
        return bool(lines)


async def _converse(replay: Replay, channel: Channel, intake: _Intake, patience: ReplayTimeouts) -> str | None:
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
            intake.finish()
            replay.receive_end()
            return "it closed its output"
        if intake.feed(data):
            silences = 0
        if intake.has_enough:
            replay.receive_end()
            return "it floods its client: it sent far more messages than it was recorded with"


async def _close(link: Link, intake: _Intake) -> None:
    """Ends our part, and hears what the server still says."""
    reading = asyncio.create_task(_hear_the_rest(link.channel, intake))
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


async def _hear_the_rest(channel: Channel, intake: _Intake) -> None:
    with suppress(ChannelBroken, ChannelClosed):
        while not intake.has_enough and (data := await channel.read()):
            intake.feed(data)
        intake.finish()


async def _death_of(link: Link) -> str:
    if link.child is None:  # pragma: no cover - asked of children alone
        return "it closed its output"
    with suppress(TimeoutError):
        async with asyncio.timeout(_FOR_ITS_DEATH):
            return f"it ended in the middle, by {(await link.child.wait()).describe()}"
    return "it closed its output in the middle, and lives on"
