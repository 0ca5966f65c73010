"""Ping, from the side of a server."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer, Said, scenario
from twopipes._tools.check.healthy_responses import SILENCE
from twopipes._tools.check.timeouts.scenarios import a_while, gives_up, said_to


@scenario("PI-02", name="pings-while-the-client-waits")
async def pings_while_the_client_waits(fake: FakeServer) -> None:
    """The answers to initialize and to the first call of a tool wait until the client has answered a ping."""
    pinged: dict[str, Said | None] = {}

    async def ping(said: Said) -> None:
        if said.method not in pinged:
            pinged[said.method or ""] = None
            pinged[said.method or ""] = await fake.ask("ping", within=a_while(fake))

    fake.on["initialize"] = fake.on["tools/call"] = ping
    await fake.heard("initialize")
    await fake.left()
    for method, answer in pinged.items():
        fake.expect(
            "PI-02",
            answer is not None and isinstance(answer.members.get("result"), dict),
            f"a ping got no result while {method} was not answered yet",
            mend="Read and answer all the time, also while you wait for an answer of your own, and before the session is open.",
            about=answer or said_to(fake, '"ping"'),
        )


@scenario("PI-03", name="never-answers-a-ping", judged=False)
async def never_answers_a_ping(fake: FakeServer) -> None:
    """Pings are not answered; everything else is."""
    fake.on["ping"] = lambda _said: SILENCE
    await gives_up(fake, "PI-03", await fake.heard("ping"))
    await fake.left()
