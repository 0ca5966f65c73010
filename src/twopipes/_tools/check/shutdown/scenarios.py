"""Shutdown, termination and restart, from the side of a server."""

from __future__ import annotations

import sys
from typing import Any

from twopipes._tools.check.fake_server import ClientMessage, FakeConnection, FakeServer, scenario
from twopipes._tools.check.healthy_responses import SILENCE
from twopipes._tools.check.verdict import Skip
from twopipes._trace.format import Event

_CALL = "tools/call"
# Servers that a client may start, one after the other, when each of them dies, before it counts as without end.
_MOST_LIVES = 25
_OPENINGS = ("initialize", "server/discover")
# Seconds. Who waits for a server waits longer than this, and the check sees it, however busy the machine is.
_NO_TIME = 0.05


@scenario("SD-01", needs_process=True)
async def leaves_at_the_end_of_its_input(fake: FakeServer) -> None:
    """A healthy server: it takes no signal to end it, only the end of its input."""
    _must_have_signals()
    await fake.client_exited()
    _must_have_left(fake)
    _expect_the_end_of_input(fake)


@scenario("SD-01", needs_process=True)
async def stays_at_the_end_of_its_input(fake: FakeServer) -> None:
    """The server does not care about the end of its input, and ends at the first signal."""
    _must_have_signals()
    fake.ends_with_input = False
    await fake.client_exited()
    _must_have_left(fake)
    if not _expect_the_end_of_input(fake) or not _expect_no_server(fake, "does not care about the end of its input"):
        return
    first = min([*_signals(fake), *_ends(fake)])
    _expect_a_wait(fake, fake.connection.input_ended_at or 0.0, first, "closed the server's stdin")
    if fake.is_modern:
        return  # there, SIGTERM before SIGKILL is only what is usual
    fake.expect(
        "SD-01",
        _signals(fake),
        "the server did not end with its input, and was killed without SIGTERM before",
        fix="Send SIGTERM first, and SIGKILL only to a server that does not care about that either.",
    )


@scenario("SD-01", relay=("--ignore-term",))
async def stays_at_a_signal(fake: FakeServer) -> None:
    """The server cares neither about the end of its input nor about SIGTERM."""
    _must_have_signals()
    fake.ends_with_input = False
    await fake.client_exited()
    _must_have_left(fake)
    if not _expect_no_server(fake, "cares neither about the end of its input nor about SIGTERM") or fake.is_modern:
        return
    told = [each for each in fake.connection.signals if each[0] <= _limit(fake)]
    if {name for _, name in told} == {"SIGTERM"}:
        _expect_a_wait(fake, told[0][0], min(_ends(fake)), "sent SIGTERM")


def _must_have_signals() -> None:
    if sys.platform == "win32":
        raise Skip("there are no signals on Windows that a process could tell of")


def _must_have_left(fake: FakeServer) -> None:
    """Raises Skip for clients that do not end by themselves, as a host does not, and for those that are too slow."""
    if not fake.connections:
        raise Skip("the client did not launch the server")
    if fake.baseline is None or not fake.baseline.left:
        raise Skip("the client does not end by itself, so that it does not end its server")
    if fake.was_cut_short(fake.connection.input_ended_at or fake.now()):
        raise Skip("the client had hardly begun to end its server when its time was over")


def _limit(fake: FakeServer) -> float:
    """Until when the client itself can have done something to its server. Later, we have."""
    ended = fake.timeouts.client if fake.left_at is None else fake.left_at
    return ended + fake.timeouts.step / 2


def _signals(fake: FakeServer) -> list[float]:
    """When the client has sent signals. Those that come later, when everything is cleared away, are ours."""
    return [at for at, _ in fake.connection.signals if at <= _limit(fake)]


def _ends(fake: FakeServer) -> list[float]:
    """When the server was gone, for the same reason as far as that was not our doing."""
    events = [each for each in fake.connection.entries if isinstance(each, Event)]
    return [event.at for event in events if event.name == "eof" and event.stream == "<" and event.at <= _limit(fake)]


def _expect_a_wait(fake: FakeServer, since: float, until: float, what: str) -> None:
    """How long a client waits is its own choice; that it waits at all is not."""
    fake.expect(
        "SD-01",
        until - since >= _NO_TIME,
        f"the client {what}, and used force only {max(until - since, 0.0) * 1000:.0f} ms later",
        fix="Give the server a second or two to end by itself before the next step.",
    )


def _expect_the_end_of_input(fake: FakeServer) -> bool:
    told = [name for at, name in fake.connection.signals if at <= _limit(fake)]
    how = f"by {told[0]}" if told else "by SIGKILL"
    return fake.expect(
        "SD-01",
        getattr(fake.connection.channel, "saw_end", True),
        f"the client ended its server {how}, without closing its stdin first and giving it time",
        fix="Close the server's stdin, and wait for its end for a second or two, before you send any signal.",
    )


def _expect_no_server(fake: FakeServer, which: str) -> bool:
    how = "waited for it without end" if fake.left_at is None else "left it running"
    return fake.expect(
        "SD-01",
        _ends(fake) and fake.left_at is not None,
        f"the client closed the stdin of a server that {which}, and {how}",
        fix="Wait for the server's end, then send SIGTERM, wait again, then SIGKILL.",
    )


@scenario("SD-03", "SD-04", "SD-05", "SD-06")
async def dies_once_during_a_call(fake: FakeServer) -> None:
    """The server exits instead of answering the first call; the next one that is started is healthy."""
    died: list[ClientMessage] = []

    def die(message: ClientMessage) -> Any:
        if died:
            return None
        died.append(message)
        fake.end_server()
        return SILENCE

    fake.on[_CALL] = die
    await fake.wait_for(_CALL)
    await fake.client_exited()
    after = [
        message
        for message in fake.received_lines
        if message.number > died[0].number and message.connection is not died[0].connection
    ]
    waits_for_ever = fake.left_at is None and not after
    if fake.baseline is None or not fake.baseline.left or fake.was_cut_short(died[0].at):
        for rule in ("SD-03", "SD-05"):
            fake.skip(rule, "the client does not end by itself, or not in time, so the check cannot tell whether it still waits")
    else:
        why = "the server exited during a call, and the client neither went on nor ended"
        fix = "When the server's stdout ends, let everything fail that waits for an answer from it."
        fake.expect("SD-03", not waits_for_ever, why, fix=fix, about=died[0])
        fake.expect("SD-05", not waits_for_ever, why, fix="Send the call again to a fresh server, or report that it was lost.")
    # Those before it do not count: a client may have started one only to find out its era.
    again = [connection for connection in fake.connections if connection.number > died[0].connection.number]
    fake.expect(
        "SD-04",
        bool(again),
        "the server exited during a call, and the client did not start it again",
        fix="Start the server again; it has kept nothing, so that there is nothing to lose.",
        about=died[0],
    )
    _expect_a_handshake(fake, [connection for connection in again if connection.received_lines])


def _expect_a_handshake(fake: FakeServer, again: list[FakeConnection]) -> None:
    if not again:
        fake.skip("SD-06", "the client did not start its server again")
    for connection in again:
        first = connection.received_lines[0]
        fake.expect(
            "SD-06",
            first.method in _OPENINGS,
            f"the first that the client said to a server that it had started again was {first.method}",
            fix="Begin with initialize (or with the probe): the session has ended with the process.",
            about=first,
        )


@scenario("SD-04")
async def dies_at_every_call(fake: FakeServer) -> None:
    """Every server that is started exits at the first call."""

    def die(_said: ClientMessage) -> Any:
        if len(fake.connections) > _MOST_LIVES:
            return None
        fake.end_server(1)
        return SILENCE

    fake.on[_CALL] = die
    await fake.wait_for(_CALL)
    await fake.client_exited()
    if len(fake.connections) == 1:
        fake.skip("SD-04", "the client did not start its server again")
        return
    fake.expect(
        "SD-04",
        len(fake.connections) <= _MOST_LIVES,
        f"the server died at every call, and the client started it {len(fake.connections)} times",
        fix="Wait longer before each further start, and give up after a few.",
    )
