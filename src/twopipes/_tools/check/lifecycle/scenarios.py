"""The handshake of clients."""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._protocol.revisions import LEGACY
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import SERVER_INFO, SILENCE, Fault
from twopipes._tools.check.messages import ClientMessage
from twopipes._tools.check.scenario import scenario
from twopipes._trace.format import Event

_UNKNOWN = "1999-01-01"
# Allowed before a session is open: a client of both eras probes with server/discover, and everyone may ping.
_EARLY = {"initialize", "server/discover", "ping"}
# The methods of other capabilities than tools.
_UNDECLARED = (
    *("resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe"),
    *("prompts/list", "prompts/get", "completion/complete", "logging/setLevel"),
)


@scenario("LC-01", "LC-05")
async def answers_the_handshake_slowly(fake: FakeServer) -> None:
    """The result of initialize takes a while: only ping may be sent before it."""
    early: list[ClientMessage] = []

    async def delay(message: ClientMessage) -> None:
        await asyncio.sleep(2 * fake.timeouts.grace)
        received = message.connection.received_lines
        early.extend(each for each in received if each.is_request and each.method not in _EARLY and not each.is_modern)

    fake.on["initialize"] = delay
    handshake = await fake.exited_after("initialize")
    before = [message for message in early if message.number < handshake.number]
    fake.forbid("LC-01", before, lambda message: f"the client sent {message.method} before initialize")
    after = [message for message in early if message.number > handshake.number]
    fake.forbid("LC-05", after, lambda message: f"the client sent {message.method} before the result of initialize")


@scenario("LC-07", judged=False)  # the version is the client's choice, not that of the run
async def agrees_to_the_requested_version(fake: FakeServer) -> None:
    """The server supports exactly the version that the client requests, so the client must support it as well."""

    def agree(message: ClientMessage) -> dict[str, Any]:
        version = message.params.get("protocolVersion")
        return {"protocolVersion": version, "capabilities": dict(fake.healthy.capabilities), "serverInfo": SERVER_INFO}

    fake.on["initialize"] = agree
    handshake = await fake.wait_for("initialize")
    version = handshake.params.get("protocolVersion")
    if not fake.expect("LC-07", isinstance(version, str), f"the client requests the version {version!r}", about=handshake):
        return
    continued = await fake.until(lambda: _continuation(fake, handshake), fake.timeouts.client)
    await fake.client_exited()
    fake.expect("LC-07", continued, f"the client requested {version!r}, got it, and did not continue", about=handshake)


def _continuation(fake: FakeServer, handshake: ClientMessage) -> ClientMessage | None:
    """Return the first message that shows that the client has a session."""
    openings = _EARLY | {None, "notifications/cancelled"}
    later = (message for message in fake.received_lines if message.number > handshake.number)
    return next((message for message in later if message.method not in openings), None)


@scenario("LC-10", judged=False)
async def responds_with_an_unknown_version(fake: FakeServer) -> None:
    """The server responds with a version that does not exist: the client sends nothing more, and disconnects."""

    def offer(message: ClientMessage) -> dict[str, Any]:
        return {**fake.healthy.response("initialize", message.params, is_modern=False), "protocolVersion": _UNKNOWN}

    fake.on["initialize"] = offer
    handshake = await fake.exited_after("initialize")
    more = _continuation(fake, handshake)
    fake.forbid("LC-10", more, lambda message: f"the server chose {_UNKNOWN}, and the client continued with {message.method}")
    if not fake.was_cut_short(handshake.at):
        events = [each for each in handshake.connection.entries if isinstance(each, Event) and each.name == "eof"]
        has_left = fake.left_at is not None or any(event.at < fake.timeouts.client for event in events)
        why = f"the server chose {_UNKNOWN}, and the client stayed connected until it was ended"
        fake.expect("LC-10", more is not None or has_left, why, about=handshake)


@scenario("LC-11", judged=False)
async def declares_only_tools(fake: FakeServer) -> None:
    """The server declares only tools, so the client requests nothing else."""
    fake.healthy.capabilities = {"tools": {}}
    # The first revision has no capability for completion.
    undeclared = [each for each in _UNDECLARED if each != "completion/complete" or fake.revision > LEGACY[0]]
    for method in undeclared:
        fake.on[method] = lambda message: Fault(-32601, f"unknown method {message.method!r}")
    handshake = await fake.exited_after("initialize")
    if _continuation(fake, handshake) is None:
        fake.give_up("the client did not open a session with a server that has only tools")
    asked = [message for message in fake.requests() if message.method in undeclared and not message.is_modern]
    methods = ", ".join(dict.fromkeys(message.method or "" for message in asked))
    fake.forbid("LC-11", asked, f"the server declares only tools, and the client sent {methods}")


@scenario("LC-12")
async def never_answers_the_handshake(fake: FakeServer) -> None:
    """The handshake gets no response: the client may give up, but does not cancel it."""
    fake.on["initialize"] = lambda _: SILENCE
    handshake = await fake.wait_for("initialize")
    gave_up = await fake.until(lambda: handshake.connection.input_ended_at or handshake.cancellation)
    if gave_up is None and not fake.is_over:
        fake.end_server()
        fake.give_up(f"the client was still waiting for the response to initialize after {fake.timeouts.stimulus:g} s")
    await fake.client_exited()
    fake.forbid("LC-12", handshake.cancellation, "the client cancelled initialize with notifications/cancelled")


@scenario("LC-13", needs_process=True)
async def rejects_the_handshake(fake: FakeServer) -> None:
    """The handshake gets an error: the client does not crash."""
    fake.on["initialize"] = lambda _: Fault(-32603, "this server is out of order")
    await fake.exited_after("initialize")
    if fake.exit is None:
        fake.give_up("the client did not exit by itself, so the check cannot tell how it would have")
    fake.expect("LC-13", fake.exit.signal is None, f"after a rejected handshake, the client exited with {fake.exit.describe()}")
