"""How servers handle cancelled calls, and how they give up their own questions."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from twopipes._tools.check.cancellation.notices import CANCELLED, UNUSED_ID, judge_notice
from twopipes._tools.check.conversation import ALL_CAPABILITIES, DEFAULT_ANSWERS
from twopipes._tools.check.messages import ReceivedLine, same_id
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.setups import about, open_question, progress_of, slow_call

_CALLS = 60
# Seconds. A longer call is not repeated that often.
_QUICK = 0.5
# A server that knows tasks may run its question as one.
_WITH_TASKS = {
    **ALL_CAPABILITIES,
    "tasks": {"cancel": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
}
_TIME = "2026-01-01T00:00:00Z"
_WORKING = {"taskId": "check-task-1", "status": "working", "createdAt": _TIME, "lastUpdatedAt": _TIME, "ttl": 60000}


@probe("CA-03", "CA-04", "CA-09", needs="call")
async def a_cancelled_call_stays_silent(case: Case) -> None:
    """Cancels a slow call, and waits as long as the call would have taken."""
    conversation = case.conversation
    slow = await slow_call(case, may_be_endless=True)
    began, token = conversation.position, "to-be-cancelled"
    request_id = conversation.start("tools/call", slow.params, meta={"progressToken": token})
    if slow.notes:
        await conversation.wait_for(lambda line: progress_of(line, token), since=began)
    else:
        await conversation.request(case.harmless)
    if conversation.responses_to(request_id):
        case.give_up("the call ended before it could be cancelled")
    cancelled = conversation.position
    conversation.notify(CANCELLED, {"requestId": request_id, "reason": "the check tests whether the call stops"})
    await conversation.request(case.harmless)  # after this response, the server has read the cancellation
    await asyncio.sleep(case.timeouts.grace)
    since = conversation.position
    await conversation.until(lambda: None, slow.took + case.timeouts.grace)
    responses = conversation.responses_to(request_id)
    # A response may cross the cancellation. But an error, where the same call has just succeeded, was sent because of it, and so
    # was any response to a call that never ends.
    wrong = [
        response
        for response in responses
        if response.received_line.number >= since
        or ((response.error or not slow.ends) and response.received_line.number >= cancelled)
    ]
    if responses and not wrong:
        case.give_up("the response crossed the cancellation")
    first = wrong[0] if wrong else None
    answered = f"a cancelled call got {first.summary}" if first else ""
    case.forbid("CA-03", first, answered)
    late = next((line for line in conversation.received_lines[since:] if about(line, request_id=request_id, token=token)), None)
    case.forbid("CA-04", first or late, answered or "a cancelled call still reports progress")
    back = [line for line in conversation.received_lines[began:] if line.method == CANCELLED]
    case.forbid("CA-09", back, f"the server sent {CANCELLED} for a call, which is not a subscription")


@probe("CA-05", fresh_conversation=True)
async def pointless_cancellations_are_ignored(case: Case) -> None:
    """Cancels requests that do not exist or have ended, and sends malformed cancellations."""
    conversation = case.conversation
    finished = await conversation.request(case.harmless)
    since = conversation.position
    odd_ids: list[Any] = [UNUSED_ID, finished.id, {}, None]
    for params in [None, {}, *({"requestId": each} for each in odd_ids)]:
        conversation.notify(CANCELLED, params)
    lines = await conversation.quiet(since=since)
    later = await conversation.try_request(case.harmless)
    case.expect("CA-05", not later.silence, f"after cancellations of unknown requests, {case.harmless} got {later.summary}")
    responses = [line for line in lines if any("method" not in part for part in line.parts)]
    case.forbid("CA-05", responses, "a cancellation of an unknown request, or a malformed one, was answered")


@probe("CA-07", needs="call")
async def cancellations_and_responses_cross(case: Case) -> None:
    """Cancels many calls at different times: each gets one response or none, and the server continues."""
    conversation, random = case.conversation, Random(7)  # noqa: S311 - the same races each time
    calls = case.safe_calls
    quick = next((call for call in calls if "slow" not in call.name.lower()), calls[0])
    # A server may run the calls one by one and need not stop any, so a later request waits for all of them.
    took = (await conversation.request("tools/call", quick.params)).took
    if took > _QUICK:
        case.give_up(f"{quick.name!r} takes too long for calls and cancellations to cross")
    waiting: list[Any] = []
    ids: list[Any] = []
    for _ in range(_CALLS):
        ids.append(conversation.start("tools/call", quick.params))
        waiting.append(ids[-1])
        for each in [each for each in waiting if random.randrange(5) < 2]:
            conversation.notify(CANCELLED, {"requestId": each})
            waiting.remove(each)
        if random.randrange(2):
            await asyncio.sleep(0)
    for each in waiting:
        conversation.notify(CANCELLED, {"requestId": each})
    later = await conversation.try_request(case.harmless, within=case.timeouts.response + 2 * _CALLS * took)
    case.expect("CA-07", not later.silence, f"after {_CALLS} cancelled calls, {case.harmless} got {later.summary}")
    await conversation.quiet()
    twice = next((each for each in ids if len(conversation.responses_to(each)) > 1), None)
    last = None if twice is None else conversation.responses_to(twice)[-1]
    case.forbid("CA-07", last, f"the cancelled request {twice!r} got more than one response")


@probe("CA-13", needs="call")
async def ids_of_another_type_cancel_nothing(case: Case) -> None:
    """Cancels a slow call by its id as a string instead of a number, and the other way round."""
    conversation = case.conversation
    slow = await slow_call(case)
    calls = {51: "51", "52": 52}
    for request_id, other in calls.items():
        conversation.start("tools/call", slow.params, request_id=request_id)
        conversation.notify(CANCELLED, {"requestId": other})
    for request_id, other in calls.items():
        response = await conversation.awaited(request_id, case.timeouts.lull + 10 * slow.took)
        summary = "no response" if response is None else response.summary
        why = f"a call with the id {request_id!r} got {summary} after a cancellation of {other!r}"
        case.expect("CA-13", response is not None and response.is_result, why)


@probe("CA-01", "CA-02", "CA-06", "CA-11", "CA-12", needs=("call", "question"), client_capabilities=_WITH_TASKS)
async def a_question_is_given_up_with_its_call(case: Case) -> None:
    """Cancels a call while the server waits for the client's answer, and answers late."""
    if case.is_modern:
        case.give_up("in modern revisions a server has no requests of its own to give up")
    conversation = case.conversation
    opened = await open_question(case, conversation)
    question, asked = opened.question, opened.question.message["id"]
    is_task = "task" in question.params
    if is_task:
        conversation.send({"jsonrpc": "2.0", "id": asked, "result": {"task": _WORKING}})
    since = conversation.position
    conversation.notify(CANCELLED, {"requestId": opened.call})
    lines = await conversation.quiet(since=since)
    notice = next((line for line in lines if line.method == CANCELLED), None)
    wrong = notice if is_task and notice is not None and same_id(notice.params.get("requestId"), asked) else None
    if not is_task:
        case.skip("CA-11", "the server did not run its question as a task")
    elif wrong is not None or any(line.method == "tasks/cancel" for line in lines):
        case.forbid("CA-11", wrong, f"the server gave up {question.method}, which is a task, with {CANCELLED}")
    else:
        case.skip("CA-11", "the server did not give up its task")
    if notice is None:
        case.give_up("the server did not give up its question when its call was cancelled, which is allowed")
    own = [part["id"] for line in conversation.received_lines for part in line.parts if "method" in part and "id" in part]
    judge_notice(case, notice, ["CA-02"], given_up=asked, sent=own)
    await _answer_late(case, question)


async def _answer_late(case: Case, question: ReceivedLine) -> None:
    conversation = case.conversation
    since = conversation.position
    conversation.send({"jsonrpc": "2.0", "id": question.message["id"], "result": DEFAULT_ANSWERS[question.method or ""]})
    lines = await conversation.quiet(since=since)
    complaints = [line for line in lines if any("error" in part for part in line.parts)]
    case.forbid("CA-06", complaints, "the server sent an error after a late answer to a question that it had given up")
    later = await conversation.try_request(case.harmless)
    case.expect("CA-06", not later.silence, "after a late answer to a question that it had given up, the server no longer responds")
