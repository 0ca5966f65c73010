"""Ping of clients."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import SILENCE
from twopipes._tools.check.messages import ClientMessage
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.timeouts.scenarios import gives_up


@scenario("PI-02")
async def pings_while_the_client_waits(fake: FakeServer) -> None:
    """The responses to initialize and to the first call wait until the client has answered a ping."""
    answers: dict[str, ClientMessage | None] = {}

    async def ping(message: ClientMessage) -> None:
        method = message.method or ""
        if method not in answers:
            answers[method] = None
            answers[method] = await fake.ask("ping", within=fake.timeouts.brief)

    fake.on["initialize"] = fake.on["tools/call"] = ping
    await fake.exited_after("initialize")
    for method, response in answers.items():
        why = f"a ping got no result while the client waited for the response to {method}"
        fake.expect("PI-02", response and response.is_result, why, about=response or fake.sent_with('"ping"'))


@scenario("PI-03", judged=False)
async def never_answers_a_ping(fake: FakeServer) -> None:
    """Pings get no response; everything else does."""
    fake.on["ping"] = lambda _: SILENCE
    await gives_up(fake, "PI-03", await fake.wait_for("ping"))
    await fake.client_exited()
