"""Cancellation, from the side of a client that gives up what it asked."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from twopipes._tools.check.conversation import NoResponse, ReceivedLine
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.setups import about, progress_of, slow_call

_STOP = "Stop the work when the notification comes, and send nothing more with the id or the progress token of that request."
_CROWD = 60
# Seconds. A call that takes longer is not one to make a crowd of.
_QUICK = 0.5
_UNUSED = 987654
# Of five calls that wait, how many are cancelled after the next one is sent.
_SOON = 2


@probe("CA-03", "CA-04", "CA-09", needs="call")
async def a_cancelled_call_falls_silent(case: Case) -> None:
    """A slow call is cancelled in the midst of its work; then it is silent for as long as it would have taken."""
    conversation = case.conversation
    slow = await slow_call(case, may_be_endless=True)
    began, token = conversation.position, "to-be-cancelled"
    request_id = conversation.start("tools/call", slow.params, meta={"progressToken": token})
    if slow.notes:
        await conversation.wait_for(lambda line: progress_of(line, token), since=began)
    else:
        await conversation.request(case.harmless)
    if conversation.responses_to(request_id):
        case.give_up("the call was over before it could be cancelled")
    cancelled = conversation.position
    conversation.notify("notifications/cancelled", {"requestId": request_id, "reason": "the check wants to see whether it stops"})
    await conversation.request(case.harmless)  # whoever answers this has read what was sent before
    await asyncio.sleep(case.timeouts.grace)
    since = conversation.position
    await conversation.until(lambda: None, slow.took + case.timeouts.grace)
    answers = conversation.responses_to(request_id)
    # An answer that was written before the cancellation was read is not a fault. One that tells of a failure, where the same
    # call has just succeeded, was written because of it; and so was any answer to a call that never ends.
    wrong = [
        response
        for response in answers
        if response.received_line.number >= since
        or ((response.error or not slow.ends) and response.received_line.number >= cancelled)
    ]
    if answers and not wrong:
        case.give_up("the answer crossed the cancellation")
    first = wrong[0] if wrong else None
    told = first.summary if first else ""
    case.expect("CA-03", not wrong, f"a call that was cancelled was answered all the same, with {told}", fix=_STOP, about=first)
    late = next((line for line in conversation.received_lines[since:] if about(line, request_id=request_id, token=token)), None)
    why = (
        f"a call that was cancelled was answered with {told}" if first else "a call that was cancelled still tells of its progress"
    )
    case.expect("CA-04", not wrong and late is None, why, fix=_STOP, about=first or late)
    back = next((line for line in conversation.received_lines[began:] if line.method == "notifications/cancelled"), None)
    case.expect(
        "CA-09",
        back is None,
        "the server sent a notifications/cancelled about a call, which is no subscription",
        fix="Send that notification to end a subscription, and for nothing else.",
        about=back,
    )


@probe("CA-05", fresh_conversation=True)
async def cancellations_that_make_no_sense_are_ignored(case: Case) -> None:
    """Cancellations of nothing, of what is over, and malformed ones: nothing comes back, and the server goes on."""
    conversation = case.conversation
    finished = await conversation.request(case.harmless)
    since = conversation.position
    fix = "Look the request up; if it is not there, or the notification cannot be read, do nothing."
    strange: list[Any] = [_UNUSED, finished.id, {}, None]
    for params in [None, {}, *({"requestId": each} for each in strange)]:
        conversation.notify("notifications/cancelled", params)
    try:
        message = await conversation.quiet(since=since)
        await conversation.request(case.harmless)
    except NoResponse as error:
        case.expect("CA-05", False, f"after cancellations that make no sense: {error}", fix=fix)
        return
    back = next((line for line in message if _is_answer(line)), None)
    case.expect("CA-05", back is None, "a cancellation that makes no sense was answered", fix=fix, about=back)


@probe("CA-07", needs="call")
async def cancellations_and_answers_cross(case: Case) -> None:
    """Many calls, each cancelled sooner or later: each gets one answer or none, and the server goes on."""
    conversation, random = case.conversation, Random(7)  # noqa: S311 - the same races each time
    calls = case.features.safe_calls(case.permissions)
    quick = next((call for call in calls if "slow" not in call.name.lower()), calls[0])
    # A server may work off the calls one by one, and need not stop any: what comes after them waits for all of them.
    took = (await conversation.request("tools/call", quick.params)).took
    if took > _QUICK:
        case.give_up(f"{quick.name!r} takes too long for calls and cancellations to cross")
    timeouts = case.timeouts.response + 2 * _CROWD * took
    waiting: list[Any] = []
    ids: list[Any] = []
    for _ in range(_CROWD):
        ids.append(conversation.start("tools/call", quick.params))
        waiting.append(ids[-1])
        for each in [each for each in waiting if random.randrange(5) < _SOON]:
            conversation.notify("notifications/cancelled", {"requestId": each})
            waiting.remove(each)
        if random.randrange(2):
            await asyncio.sleep(0)
    for each in waiting:
        conversation.notify("notifications/cancelled", {"requestId": each})
    fix = "Forget a request when it is answered or cancelled, whichever comes first, and answer only what is not forgotten."
    try:
        await conversation.request(case.harmless, within=timeouts)
        await conversation.quiet()
    except NoResponse as error:
        case.expect("CA-07", False, f"after {_CROWD} calls that were cancelled: {error}", fix=fix)
    twice = next((each for each in ids if len(conversation.responses_to(each)) > 1), None)
    last = None if twice is None else conversation.responses_to(twice)[-1]
    why = f"the request {twice!r}, which was cancelled, got more than one answer"
    case.expect("CA-07", twice is None, why, fix=fix, about=last)


@probe("CA-13", needs="call")
async def ids_of_another_type_cancel_nothing(case: Case) -> None:
    """A slow call with a number for its id is not cancelled by the same digits as a string, and the other way round."""
    conversation = case.conversation
    slow = await slow_call(case)
    calls = {51: "51", "52": 52}
    for request_id, other in calls.items():
        conversation.start("tools/call", slow.params, request_id=request_id)
        conversation.notify("notifications/cancelled", {"requestId": other})
    for request_id, other in calls.items():
        try:
            response = await conversation.response_to(request_id, within=case.timeouts.lull + 10 * slow.took)
            kept, told = response.is_result, f"got {response.summary}"
        except NoResponse:
            kept, told = False, "got no answer"
        case.expect(
            "CA-13",
            kept,
            f"a call with the id {request_id!r} {told} after a cancellation of {other!r}, which is another id",
            fix="Compare ids with their JSON type.",
        )


def _is_answer(line: ReceivedLine) -> bool:
    return any("method" not in part for part in line.parts)
