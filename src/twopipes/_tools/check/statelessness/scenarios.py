"""How often clients launch a server."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.scenario import scenario

# Launches for one request each that are not just restarts.
_HABIT = 3


@scenario("ST-04")
async def counts_its_launches(fake: FakeServer) -> None:
    """A healthy server: the requests of the client to each process are counted."""
    await fake.client_exited()
    served = [
        sum(message.is_request and message.method != "server/discover" for message in connection.received_lines)
        for connection in fake.connections
    ]
    if sum(served) < _HABIT:
        fake.give_up("the client sends too few requests to tell")
    if max(served) > 1 and len(served) > 1:
        fake.give_up(f"the client launched the server {len(served)} times, and the check cannot tell whether it had a reason")
    fake.expect("ST-04", max(served) > 1, f"the client launched the server {len(served)} times, for one request each")
