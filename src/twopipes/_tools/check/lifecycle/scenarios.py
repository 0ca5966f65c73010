"""The handshake, from the side of a server."""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._protocol.revisions import LEGACY
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import SERVER_INFO, SILENCE, Fault
from twopipes._tools.check.verdict import Skip
from twopipes._trace.format import Event

_STRANGE = "1999-01-01"
# What may come before a session is open: a client that knows both eras asks server/discover, and everybody may ping.
_EARLY = {"initialize", "server/discover", "ping"}
# What belongs to other capabilities than tools.
_OF_OTHERS = (
    *("resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe"),
    *("prompts/list", "prompts/get", "completion/complete", "logging/setLevel"),
)


@scenario("LC-01", "LC-05")
async def is_slow_to_answer_the_handshake(fake: FakeServer) -> None:
    """The result of initialize takes a while: nothing but ping is asked before it comes."""
    asked_early: list[ClientMessage] = []

    async def dawdle(message: ClientMessage) -> None:
        await asyncio.sleep(2 * fake.timeouts.grace)
        line = message.connection.received_lines
        asked_early.extend(each for each in line if each.is_request and each.method not in _EARLY and not each.is_modern)

    fake.on["initialize"] = dawdle
    handshake = await fake.wait_for("initialize")
    await fake.client_exited()
    before = [message for message in asked_early if message.number < handshake.number]
    fake.expect(
        "LC-01",
        not before,
        f"the client asked {before[0].method if before else 'something'} before initialize",
        fix="Open a session by initialize; nothing but the probe of a client of both eras comes before it.",
        about=before[0] if before else None,
    )
    after = [message for message in asked_early if message.number > handshake.number]
    fake.expect(
        "LC-05",
        not after,
        f"the client asked {after[0].method if after else 'something'} before initialize was answered",
        fix="Wait for the result of initialize before you ask anything.",
        about=after[0] if after else None,
    )


@scenario("LC-07", judged=False)  # the version is the client's choice, and not that of the run
async def agrees_to_whatever_the_client_asks_for(fake: FakeServer) -> None:
    """The server supports just the version that the client asks for: then the client supports it as well."""

    def agree(message: ClientMessage) -> dict[str, Any]:
        # As in the healthy answer otherwise.
        asked = message.params.get("protocolVersion")
        return {"protocolVersion": asked, "capabilities": dict(fake.healthy.capabilities), "serverInfo": SERVER_INFO}

    fake.on["initialize"] = agree
    handshake = await fake.wait_for("initialize")
    asked = handshake.params.get("protocolVersion")
    fix = "Ask for the newest version that you support."
    if not fake.expect("LC-07", isinstance(asked, str), f"the client asks for the version {asked!r}", fix=fix, about=handshake):
        return
    went_on = await fake.until(lambda: _what_followed(fake, handshake), fake.timeouts.client)
    await fake.client_exited()
    fake.expect(
        "LC-07",
        went_on,
        f"the client asked for {asked!r}, the server agreed to that, and the client did not go on",
        fix=fix,
        about=handshake,
    )


def _what_followed(fake: FakeServer, handshake: ClientMessage) -> ClientMessage | None:
    """The first thing by which a client shows that it has a session now."""
    openings = _EARLY | {"notifications/cancelled"}
    later = (message for message in fake.received_lines if message.number > handshake.number and message.method is not None)
    return next((message for message in later if message.method not in openings), None)


@scenario("LC-10", judged=False)
async def answers_with_a_version_from_nowhere(fake: FakeServer) -> None:
    """The server names an unsupported version: the client asks nothing more of it, and leaves."""

    def offer(message: ClientMessage) -> dict[str, Any]:
        return {**fake.healthy.response("initialize", message.params, is_modern=False), "protocolVersion": _STRANGE}

    fake.on["initialize"] = offer
    handshake = await fake.wait_for("initialize")
    await fake.client_exited()
    more = _what_followed(fake, handshake)
    fake.expect(
        "LC-10",
        more is None,
        f"the server chose {_STRANGE}, and the client went on with {more.method if more else 'something'}",
        fix="Look at the version in the result of initialize; if you do not support it, close the connection and say why.",
        about=more,
    )
    if fake.was_cut_short(handshake.at):
        return
    fake.expect(
        "LC-10",
        more is not None or _has_left(fake, handshake),
        f"the server chose {_STRANGE}, and the client stayed connected until it was ended",
        fix="Close the connection to a server whose version you do not support, and say why.",
        about=handshake,
    )


def _has_left(fake: FakeServer, handshake: ClientMessage) -> bool:
    """Whether the client let go of a connection of its own accord, before the check had to end it."""
    events = [each for each in handshake.connection.entries if isinstance(each, Event) and each.name == "eof"]
    return fake.left_at is not None or any(event.at < fake.timeouts.client for event in events)


@scenario("LC-11", judged=False)
async def has_nothing_but_tools(fake: FakeServer) -> None:
    """The server declares tools and nothing else, and so nothing else is asked of it."""
    fake.healthy.capabilities = {"tools": {}}
    # The first revision has no capability for completion, so that nobody can say that it was not declared.
    undeclared = [each for each in _OF_OTHERS if each != "completion/complete" or fake.revision > LEGACY[0]]
    for method in undeclared:
        fake.on[method] = lambda message: Fault(-32601, f"there is no method {message.method!r} here")
    handshake = await fake.wait_for("initialize")
    await fake.client_exited()
    if _what_followed(fake, handshake) is None:
        raise Skip("the client had no session with a server that has nothing but tools")
    asked = [message for message in fake.requests() if message.method in undeclared and not message.is_modern]
    methods = dict.fromkeys(message.method or "" for message in asked)
    fake.expect(
        "LC-11",
        not asked,
        f"the server declares tools and nothing else, and the client sent {', '.join(methods)}",
        fix="Look at the capabilities in the result of initialize, and leave alone what is not among them.",
        about=asked[0] if asked else None,
    )


@scenario("LC-12")
async def never_answers_the_handshake(fake: FakeServer) -> None:
    """The handshake gets no answer: however the client gives it up, it does not cancel it."""
    fake.on["initialize"] = lambda _said: SILENCE
    handshake = await fake.wait_for("initialize")
    gave_up = await fake.until(
        lambda: handshake.connection.input_ended_at or _cancels(fake, handshake) or None, fake.timeouts.stimulus
    )
    if gave_up is None and not fake.is_over:
        fake.end_server()
        fake.give_up(f"the client was still waiting for the answer to initialize after {fake.timeouts.stimulus:g} s")
    await fake.client_exited()
    cancel = _cancels(fake, handshake)
    fake.expect(
        "LC-12",
        cancel is None,
        "the client gave initialize up with notifications/cancelled",
        fix="Close the connection instead: there is nothing on it without a handshake.",
        about=cancel,
    )


def _cancels(fake: FakeServer, handshake: ClientMessage) -> ClientMessage | None:
    told = fake.notifications("notifications/cancelled")
    return next((message for message in told if message.params.get("requestId") == handshake.id), None)


@scenario("LC-13", needs_process=True)
async def refuses_the_handshake(fake: FakeServer) -> None:
    """The handshake gets an error: the client does not die of it."""
    fake.on["initialize"] = lambda _said: Fault(-32603, "this server is out of order")
    await fake.wait_for("initialize")
    await fake.client_exited()
    if fake.exit is None:
        fake.give_up("the client did not end by itself, so the check cannot tell how it would have")
    fake.expect(
        "LC-13",
        fake.exit.signal is None,
        f"the server refused the handshake, and the client ended with {fake.exit.describe()}",
        fix="Tell the user what the server said, and go on or end in good order.",
    )
