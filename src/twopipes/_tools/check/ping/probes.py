"""Ping of servers."""

from __future__ import annotations

from twopipes._codes import METHOD_NOT_FOUND
from twopipes._tools.check.conversation import handshake
from twopipes._tools.check.messages import Response
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.setups import SlowCall, slow_call

# A busy machine may delay one response to a ping, but not all of them.
_RETRIES = 2


@probe("PI-01")
async def a_ping_gets_an_empty_result(case: Case) -> None:
    """A ping is answered with an empty result."""
    response = await case.conversation.try_request("ping")
    is_empty = response.is_result and not set(response.result) - {"_meta"}
    case.expect("PI-01", is_empty, f"a ping got {response.summary}, not an empty result", about=response)


@probe("PI-02", opens_own=True)
async def a_ping_is_answered_before_the_handshake_is_complete(case: Case) -> None:
    """A ping between the result of initialize and notifications/initialized is answered."""
    conversation = await case.open_conversation(opened=False)
    if (await conversation.request("initialize", handshake(case.revision))).is_result:
        response = await conversation.awaited(conversation.start("ping"))
        why = "a ping between the result of initialize and notifications/initialized got no result"
        case.expect("PI-02", response is not None and response.is_result, why)
        conversation.notify("notifications/initialized")


@probe("PI-02", needs="call")
async def a_ping_is_answered_during_a_call(case: Case) -> None:
    """A ping while a slow tool runs is answered before the call."""
    slow = await slow_call(case)
    response, is_in_time = await _pinged_during(case, slow)
    for _ in range(_RETRIES):
        if response is not None and not is_in_time:
            response, is_in_time = await _pinged_during(case, slow)
    why = "got no response" if response is None else "had to wait for the end of the call"
    case.expect("PI-02", is_in_time, f"a ping during a call of {slow.params['name']} {why}", about=response)


async def _pinged_during(case: Case, slow: SlowCall) -> tuple[Response | None, bool]:
    """Return the response to a ping that was sent after a call, and whether it came before that of the call."""
    conversation = case.conversation
    call, ping = conversation.start("tools/call", slow.params), conversation.start("ping")
    pinged = await conversation.awaited(ping)
    done = await conversation.awaited(call)  # also lets the next probe begin with an idle server
    return pinged, pinged is not None and (done is None or pinged.received_line.number < done.received_line.number)


@probe("PI-04", silence_fails=True)
async def modern_revisions_have_no_ping(case: Case) -> None:
    """In modern revisions ping is an unknown method."""
    response = await case.conversation.request("ping")
    case.expect_code("PI-04", response, METHOD_NOT_FOUND, "ping, with the _meta of this revision,")
