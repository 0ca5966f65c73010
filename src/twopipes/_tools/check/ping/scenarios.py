"""Ping, from the side of a server."""

from __future__ import annotations

from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import SILENCE
from twopipes._tools.check.quotes import sent_with
from twopipes._tools.check.timeouts.scenarios import gives_up


@scenario("PI-02", name="pings-while-the-client-waits")
async def pings_while_the_client_waits(fake: FakeServer) -> None:
    """The answers to initialize and to the first call of a tool wait until the client has answered a ping."""
    pinged: dict[str, ClientMessage | None] = {}

    async def ping(message: ClientMessage) -> None:
        if message.method not in pinged:
            pinged[message.method or ""] = None
            pinged[message.method or ""] = await fake.ask("ping", within=fake.timeouts.brief)

    fake.on["initialize"] = fake.on["tools/call"] = ping
    await fake.wait_for("initialize")
    await fake.client_exited()
    for method, response in pinged.items():
        fake.expect(
            "PI-02",
            response is not None and isinstance(response.members.get("result"), dict),
            f"a ping got no result while {method} was not answered yet",
            fix="Read and answer all the time, also while you wait for an answer of your own, and before the session is open.",
            about=response or sent_with(fake, '"ping"'),
        )


@scenario("PI-03", name="never-answers-a-ping", judged=False)
async def never_answers_a_ping(fake: FakeServer) -> None:
    """Pings are not answered; everything else is."""
    fake.on["ping"] = lambda _said: SILENCE
    await gives_up(fake, "PI-03", await fake.wait_for("ping"))
    await fake.client_exited()
