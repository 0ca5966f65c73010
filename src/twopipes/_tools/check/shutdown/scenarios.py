"""Shutdown and restart of servers by clients."""

from __future__ import annotations

import os
from typing import Any

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import SILENCE
from twopipes._tools.check.messages import ClientMessage
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip
from twopipes._trace.format import Event

_CALL = "tools/call"
# Servers that a client may start one after the other, if each of them dies, before it counts as endless.
_ENDLESS = 25
# Seconds. A client that waits at all waits longer than this, even on a busy machine.
_NO_WAIT = 0.05


@scenario("SD-01", needs_process=True)
async def exits_at_the_end_of_its_input(fake: FakeServer) -> None:
    """A healthy server: the end of its input ends it, without a signal."""
    await _client_ended_server(fake)
    _judge_end_of_input(fake)


@scenario("SD-01", needs_process=True)
async def ignores_the_end_of_its_input(fake: FakeServer) -> None:
    """The server ignores the end of its input, and exits at the first signal."""
    fake.ends_with_input = False
    await _client_ended_server(fake)
    if not _judge_end_of_input(fake) or not _judge_end(fake, "ignores the end of its input"):
        return
    signals = [at for at, _ in _signals(fake)]
    _judge_wait(fake, fake.connection.input_ended_at or 0.0, min([*signals, *_ends(fake)]), "closed the server's stdin")
    if not fake.is_modern:  # there, SIGTERM before SIGKILL is only usual
        fake.expect("SD-01", signals, "the server did not exit at the end of its input, and was killed without SIGTERM")


@scenario("SD-01", relay=("--ignore-term",))
async def ignores_a_signal(fake: FakeServer) -> None:
    """The server ignores the end of its input and SIGTERM."""
    fake.ends_with_input = False
    await _client_ended_server(fake)
    if not _judge_end(fake, "ignores the end of its input and SIGTERM") or fake.is_modern:
        return
    signals = _signals(fake)
    if {name for _, name in signals} == {"SIGTERM"}:
        _judge_wait(fake, signals[0][0], min(_ends(fake)), "sent SIGTERM")


async def _client_ended_server(fake: FakeServer) -> None:
    """Wait until the client exits. Skip clients that do not exit by themselves, as hosts, and those that are too slow."""
    if os.name == "nt":
        raise Skip("on Windows there are no signals that a process could report")
    await fake.client_exited()
    if not fake.connections:
        raise Skip("the client did not launch the server")
    if fake.baseline is None or not fake.baseline.left:
        raise Skip("the client does not exit by itself, so it does not end its server")
    if fake.was_cut_short(fake.connection.input_ended_at or fake.now()):
        raise Skip("the client had hardly begun to end its server at the timeout")


def _limit(fake: FakeServer) -> float:
    """Return the time until which the client itself may have ended its server. Later, the check has."""
    return (fake.timeouts.client if fake.left_at is None else fake.left_at) + fake.timeouts.step / 2


def _signals(fake: FakeServer) -> list[tuple[float, str]]:
    """Return the signals of the client, with their times."""
    return [(at, name) for at, name in fake.connection.signals if at <= _limit(fake)]


def _ends(fake: FakeServer) -> list[float]:
    """Return when the server ended, if the client ended it."""
    events = [each for each in fake.connection.entries if isinstance(each, Event)]
    return [event.at for event in events if event.name == "eof" and event.stream == "<" and event.at <= _limit(fake)]


def _judge_wait(fake: FakeServer, since: float, until: float, what: str) -> None:
    """Judge that a client waits at all; how long is its own choice."""
    why = f"the client {what}, and used force {max(until - since, 0.0) * 1000:.0f} ms later"
    fake.expect("SD-01", until - since >= _NO_WAIT, why)


def _judge_end_of_input(fake: FakeServer) -> bool:
    name = next((name for _, name in _signals(fake)), "SIGKILL")
    why = f"the client ended its server with {name}, without closing its stdin first and waiting"
    return fake.expect("SD-01", getattr(fake.connection.channel, "saw_end", True), why)


def _judge_end(fake: FakeServer, which: str) -> bool:
    outcome = "waited for it endlessly" if fake.left_at is None else "left it running"
    why = f"the client closed the stdin of a server that {which}, and {outcome}"
    return fake.expect("SD-01", _ends(fake) and fake.left_at is not None, why)


@scenario("SD-03", "SD-04", "SD-05", "SD-06", transport="stream")
async def exits_once_during_a_call(fake: FakeServer) -> None:
    """The server exits instead of responding to the first call; the next server is healthy."""
    lost: list[ClientMessage] = []

    def exit_once(message: ClientMessage) -> Any:
        if lost:
            return None
        lost.append(message)
        fake.end_server()
        return SILENCE

    fake.on[_CALL] = exit_once
    await fake.exited_after(_CALL)
    call = lost[0]
    later = [message for message in fake.received_lines if message.number > call.number]
    hangs = fake.left_at is None and all(message.connection is call.connection for message in later)
    for rule in ("SD-03", "SD-05"):
        if fake.baseline is None or not fake.baseline.left or fake.was_cut_short(call.at):
            fake.skip(rule, "the client does not exit by itself, or not in time, so the check cannot tell whether it hangs")
        else:
            fake.expect(rule, not hangs, "the server exited during a call, and the client neither continued nor exited", about=call)
    # Earlier connections do not count: a client may start a server only to find out its era.
    again = [connection for connection in fake.connections if connection.number > call.connection.number]
    fake.expect("SD-04", again, "the server exited during a call, and the client did not start it again", about=call)
    openings = [connection.received_lines[0] for connection in again if connection.received_lines]
    if not openings:
        fake.skip("SD-06", "the client did not start its server again")
    for first in openings:
        why = f"the first message of the client to a restarted server was {first.method}"
        fake.expect("SD-06", first.method in ("initialize", "server/discover"), why, about=first)


@scenario("SD-04")
async def exits_at_every_call(fake: FakeServer) -> None:
    """Every server exits at the first call."""

    def exit_always(_: ClientMessage) -> Any:
        if len(fake.connections) > _ENDLESS:
            return None
        fake.end_server(1)
        return SILENCE

    fake.on[_CALL] = exit_always
    await fake.exited_after(_CALL)
    starts = len(fake.connections)
    if starts == 1:
        fake.give_up("the client did not start its server again")
    fake.expect("SD-04", starts <= _ENDLESS, f"the server exited at every call, and the client started it {starts} times")
