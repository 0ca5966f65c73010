"""How clients handle error codes."""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import Fault, text
from twopipes._tools.check.messages import ClientMessage
from twopipes._tools.check.scenario import scenario


@scenario("ER-07")
async def responds_with_a_custom_code(fake: FakeServer) -> None:
    """Fails the first call with -32603, and the third with -32001, which some clients use for a timeout of their own."""
    calls: list[ClientMessage] = []
    concurrent: list[ClientMessage] = []

    async def respond(message: ClientMessage) -> Any:
        calls.append(message)
        match len(calls):
            case 1:
                return Fault(-32603, "this call failed")
            case 2:
                # A client that calls one tool after the other does not make the third call before this response.
                await asyncio.sleep(fake.timeouts.grace)
                concurrent.extend(calls[2:])
            case 3:
                return Fault(-32001, "this call failed, too")
        return None

    fake.add_tool("third", text("Done."))
    fake.on["tools/call"] = respond
    await fake.wait_for("tools/call", count=3)
    await fake.client_exited()
    if concurrent:
        fake.give_up("the client calls its tools concurrently, so its reaction to an error is not visible")
    third = calls[2]
    fake.forbid("ER-07", third.cancellation, "the client cancelled a call that got the error -32001, as after a timeout")
    missing = "" if fake.first(after=third) else fake.what_is_missing
    why = f"the client continued after the error -32603, but not after the error -32001: it did not send {missing}"
    fake.expect("ER-07", not missing, why, about=third)
