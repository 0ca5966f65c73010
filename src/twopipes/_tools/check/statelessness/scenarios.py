"""Statelessness, from the side of a server that is launched."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer, scenario
from twopipes._tools.check.verdict import Skip

# Launches for one request each, before it is a habit and not a restart.
_HABIT = 3


@scenario("ST-04")
async def counts_how_often_it_is_launched(fake: FakeServer) -> None:
    """Nothing special: how many requests of the client each process serves."""
    await fake.client_exited()
    served = [
        sum(message.is_request and message.method != "server/discover" for message in connection.received_lines)
        for connection in fake.connections
    ]
    if sum(served) < _HABIT:
        raise Skip("the client asks too little to tell")
    if max(served) == 1:
        # Several clients, one after the other, would look the same; but each of them would do more than one thing.
        fake.expect(
            "ST-04",
            False,
            f"the client launched the server {len(served)} times, for one request each",
            fix="Keep the process; it can serve any number of conversations.",
        )
        return
    if len(served) > 1:
        raise Skip(f"the client launched the server {len(served)} times, and the check cannot tell whether it had a reason")
    fake.expect("ST-04", True, "")
