"""Resources that clients subscribe to."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.messages import members
from twopipes._tools.check.scenario import scenario


@scenario("RS-05")
async def waits_for_a_subscription(fake: FakeServer) -> None:
    """A modern client that subscribes to resources listens, and sends neither of the old methods."""
    await fake.client_exited()
    old = fake.first("resources/subscribe") or fake.first("resources/unsubscribe")
    wanted = [members(message.params.get("notifications")) for message in fake.requests("subscriptions/listen")]
    if old is None and not any("resourceSubscriptions" in each for each in wanted):
        fake.give_up("the client does not subscribe to resources")
    fake.forbid("RS-05", old, lambda message: f"the client sent {message.method}, which {fake.revision} does not have")
