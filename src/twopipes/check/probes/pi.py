"""Ping, from the side of a client."""

from __future__ import annotations

from contextlib import suppress

from twopipes.check.probe import Case, probe
from twopipes.check.talk import CLIENT_INFO, Unanswered
from twopipes.errors import METHOD_NOT_FOUND

_SLOW_CALLS = 3
# Seconds. A call that takes less says nothing about whether a ping had to wait for it.
_LONG = 2.0


@probe("PI-01")
async def a_ping_gets_an_empty_result(case: Case) -> None:
    """A ping is answered with a result, and nothing is in it."""
    mend = "Answer ping with an empty object as its result, whatever else goes on."
    try:
        answer = await case.talk.request("ping")
    except Unanswered as error:
        case.expect("PI-01", False, f"a ping was not answered: {error}", mend=mend)  # noqa: FBT003
        return
    kept = answer.is_result and not set(answer.result) - {"_meta"}
    case.expect("PI-01", kept, f"a ping got {answer.told}, not an empty result", mend=mend, about=answer)


@probe("PI-02")
async def a_ping_is_answered_at_any_time(case: Case) -> None:
    """A ping between the result of initialize and notifications/initialized, and one while tools are at work."""
    opening = await case.fresh_talk(opened=False)
    params = {"protocolVersion": case.revision, "capabilities": {}, "clientInfo": CLIENT_INFO}
    if (await opening.request("initialize", params)).is_result:
        early = opening.start("ping")
        await opening.until(lambda: opening.answers_to(early) or None, case.waits.answer)
        case.expect(
            "PI-02",
            any(answer.is_result for answer in opening.answers_to(early)),
            "a ping between the result of initialize and notifications/initialized got no result",
            mend="Answer ping before you ask whether the session is open.",
        )
        opening.notify("notifications/initialized")
    calls = case.features.safe_calls(case.permissions)
    calls = sorted(calls, key=lambda call: call.name != "slow")[:_SLOW_CALLS]
    if not calls:
        return
    talk = case.talk
    working = [talk.start("tools/call", call.params) for call in calls]
    ping = talk.start("ping")
    await talk.until(lambda: talk.answers_to(ping) or None, case.waits.answer)
    pinged = next(iter(talk.answers_to(ping)), None)
    if pinged is None:
        case.expect(
            "PI-02",
            False,  # noqa: FBT003 - nothing to ask any more
            f"a ping got no answer while {', '.join(call.name for call in calls)} worked",
            mend="Let tools work beside the loop that reads, so that it goes on reading.",
        )
        return
    done = [answer for each in working for answer in talk.answers_to(each)[:1] if answer.heard.number < pinged.heard.number]
    case.expect(
        "PI-02",
        len(done) < len(working) or max(answer.took for answer in done) < _LONG,
        f"a ping had to wait for {', '.join(call.name for call in calls)}",
        mend="Let tools work beside the loop that reads, so that it goes on reading.",
        about=pinged,
    )
    for each in working:
        with suppress(Unanswered):  # who comes next shall have the server for itself
            await talk.answer_to(each, within=_LONG)


@probe("PI-04")
async def there_is_no_ping_any_more(case: Case) -> None:
    """On the stateless wire ping is a method like any that does not exist."""
    answer = await case.talk.request("ping")
    case.expect(
        "PI-04",
        answer.code == METHOD_NOT_FOUND,
        f"ping, with the _meta of this revision, got {answer.told} instead of the error -32601",
        mend="Serve ping in sessions with a handshake alone.",
        about=answer,
    )
