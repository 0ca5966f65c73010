"""Error codes, from the side of a server."""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import Fault, text

_CALLS = 3


@scenario("ER-07", name="answers-with-a-code-of-its-own")
async def answers_with_a_code_of_its_own(fake: FakeServer) -> None:
    """The first call fails with -32603, the third with -32001, which some take for a timeout: to a client both are errors."""
    calls: list[ClientMessage] = []
    at_once: list[ClientMessage] = []

    async def response(message: ClientMessage) -> Any:
        calls.append(message)
        match len(calls):
            case 1:
                return Fault(-32603, "this call failed")
            case 2:
                # Whoever calls one tool after the other does not call the third before this is answered.
                await asyncio.sleep(fake.timeouts.grace)
                at_once.extend(calls[2:])
            case 3:
                return Fault(-32001, "this call failed, too")
        return None

    fake.add_tool("third", text("Done."))
    fake.on["tools/call"] = response
    await fake.wait_for("tools/call", count=_CALLS)
    await fake.client_exited()
    third = calls[_CALLS - 1]
    if at_once:
        fake.give_up("the client calls its tools all at once, so the check cannot tell what it does after an error")
    cancelled = [
        message for message in fake.notifications("notifications/cancelled") if message.params.get("requestId") == third.id
    ]
    fix = "Treat every error that comes as an answer of the server alike, whatever your own library means by that code."
    fake.expect(
        "ER-07",
        not cancelled,
        "the client cancelled a call that had been answered, as if the code -32001 meant a timeout",
        fix=fix,
        about=cancelled[0] if cancelled else None,
    )
    went_on = any(message.number > third.number for message in fake.requests())
    missing = "" if went_on else fake.what_is_missing
    fake.expect(
        "ER-07",
        not missing,
        f"the client went on after the error -32603, and not after the error -32001: it did not ask for {missing}",
        fix=fix,
        about=third,
    )
