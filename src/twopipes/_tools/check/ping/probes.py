"""Ping, from the side of a client."""

from __future__ import annotations

from twopipes._codes import METHOD_NOT_FOUND
from twopipes._tools.check.conversation import CLIENT_INFO, NoResponse, Response
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.setups import SlowCall, slow_call

# A ping that comes late once may have met with a machine that was busy; one that comes late each time had to wait.
_TRIES = 3


@probe("PI-01")
async def a_ping_gets_an_empty_result(case: Case) -> None:
    """A ping is answered with a result, and nothing is in it."""
    fix = "Answer ping with an empty object as its result, whatever else goes on."
    try:
        response = await case.conversation.request("ping")
    except NoResponse as error:
        case.expect("PI-01", False, f"a ping was not answered: {error}", fix=fix)
        return
    kept = response.is_result and not set(response.result) - {"_meta"}
    case.expect("PI-01", kept, f"a ping got {response.summary}, not an empty result", fix=fix, about=response)


@probe("PI-02", opens_own=True)
async def a_ping_is_answered_before_the_handshake_is_complete(case: Case) -> None:
    """A ping between the result of initialize and notifications/initialized."""
    opening = await case.open_conversation(opened=False)
    params = {"protocolVersion": case.revision, "capabilities": {}, "clientInfo": CLIENT_INFO}
    if (await opening.request("initialize", params)).is_result:
        early = opening.start("ping")
        await opening.until(lambda: opening.responses_to(early) or None, case.timeouts.response)
        case.expect(
            "PI-02",
            any(response.is_result for response in opening.responses_to(early)),
            "a ping between the result of initialize and notifications/initialized got no result",
            fix="Answer ping before you ask whether the session is open.",
        )
        opening.notify("notifications/initialized")


@probe("PI-02", needs="call")
async def a_ping_is_answered_during_a_call(case: Case) -> None:
    """A ping while a tool that takes its time is at work: it is answered before the call is."""
    slow = await slow_call(case)
    pinged, is_in_time = await _pinged_during(case, slow)
    for _ in range(_TRIES - 1):
        if pinged is not None and not is_in_time:
            pinged, is_in_time = await _pinged_during(case, slow)
    why = "got no answer" if pinged is None else "had to wait for the end of it"
    case.expect(
        "PI-02",
        is_in_time,
        f"a ping during a call of {slow.params['name']} {why}",
        fix="Let tools work beside the loop that reads, so that it goes on reading.",
        about=pinged,
    )


async def _pinged_during(case: Case, slow: SlowCall) -> tuple[Response | None, bool]:
    """The answer to a ping that was sent right behind a call, and whether it came before that of the call."""
    conversation = case.conversation
    call, ping = conversation.start("tools/call", slow.params), conversation.start("ping")
    await conversation.until(lambda: conversation.responses_to(ping) or None, case.timeouts.response)
    pinged = next(iter(conversation.responses_to(ping)), None)
    # Who comes next shall have the server for itself.
    await conversation.until(lambda: conversation.responses_to(call) or None, case.timeouts.response)
    done = next(iter(conversation.responses_to(call)), None)
    return pinged, pinged is not None and (done is None or pinged.received_line.number < done.received_line.number)


@probe("PI-04", silence_fails=True)
async def there_is_no_ping_any_more(case: Case) -> None:
    """On the stateless wire ping is a method like any that does not exist."""
    response = await case.conversation.request("ping")
    case.expect(
        "PI-04",
        response.code == METHOD_NOT_FOUND,
        f"ping, with the _meta of this revision, got {response.summary} instead of the error -32601",
        fix="Serve ping in sessions with a handshake alone.",
        about=response,
    )
