"""Progress of servers."""

from __future__ import annotations

from typing import Any

from twopipes._protocol.revisions import META_SUBSCRIPTION_ID
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation
from twopipes._tools.check.messages import ReceivedLine, Response, members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.progress.judging import OVER, is_token, judge_increase, judge_task
from twopipes._tools.check.setups import SlowCall, open_question, progress_of, slow_call, stop_listening
from twopipes._tools.check.verdict import Skip

_PROGRESS = "notifications/progress"
_NO_PROGRESS = "the server reported no progress, which is allowed"
# How often the state of a task is requested.
_POLLS = 50


async def _reporting_call(case: Case) -> SlowCall:
    slow = await slow_call(case)
    return slow if slow.notes else case.give_up(_NO_PROGRESS)


async def _called(case: Case, slow: SlowCall, **meta: Any) -> tuple[Response, list[ReceivedLine]]:
    """Make a slow call, and return its response and the progress until the server is quiet."""
    since = case.conversation.position
    within = case.timeouts.response + 3 * slow.took
    response = await case.conversation.request("tools/call", slow.params, meta=meta, within=within)
    await case.conversation.quiet()
    return response, _progress(case.conversation, since)


def _progress(conversation: LiveConversation, since: int) -> list[ReceivedLine]:
    return [line for line in conversation.received_lines[since:] if line.method == _PROGRESS]


@probe("PR-02", needs="call")
async def progress_needs_a_token(case: Case) -> None:
    """A slow call without a token gets no progress; one with a token gets it under that token only."""
    slow = await _reporting_call(case)
    _, stray = await _called(case, slow)
    case.forbid("PR-02", stray, "progress was reported for a call without a token")
    _, notes = await _called(case, slow, progressToken="mine")
    other = [line for line in notes if not progress_of(line, "mine")]
    why = 'progress of a call with the token "mine" has the token '
    case.forbid("PR-02", other, lambda line: why + repr(line.params.get("progressToken")))


@probe("PR-03", "PR-04", "PR-07", needs="call")
async def progress_increases_until_the_response(case: Case) -> None:
    """The progress of a slow call is followed to its end and a while longer; in modern revisions beside a subscription."""
    slow = await _reporting_call(case)
    conversation, listen = case.conversation, None
    if case.is_modern:
        wanted = {"notifications": {"toolsListChanged": True}}
        listen = conversation.start("subscriptions/listen", wanted, meta={"progressToken": "listening"})
    response, found = await _called(case, slow, progressToken="followed")
    notes = [line for line in found if progress_of(line, "followed")]
    if not notes:
        case.give_up(_NO_PROGRESS)
    judge_increase(case, notes)
    late = [line for line in notes if line.number > response.received_line.number]
    case.forbid("PR-04", late, "progress was reported after the response")
    of_listen = [line for line in found if META_SUBSCRIPTION_ID in line.meta or progress_of(line, "listening")]
    case.forbid("PR-07", of_listen, "progress carries a subscriptionId, or the token of a subscription")
    if listen is not None:
        stop_listening(conversation, listen)


@probe("PR-08", needs="call")
async def tokens_keep_their_type(case: Case) -> None:
    """Two slow calls at once have the tokens 7 and "7": each gets progress under its own."""
    slow = await _reporting_call(case)
    conversation, since = case.conversation, case.conversation.position
    tokens = (7, "7")
    calls = [conversation.start("tools/call", slow.params, meta={"progressToken": token}) for token in tokens]
    for each in calls:
        await conversation.response_to(each, within=case.timeouts.response + 3 * slow.took)
    notes = _progress(conversation, since)
    if not notes:
        case.give_up(_NO_PROGRESS)
    seen = ", ".join(sorted({repr(line.params.get("progressToken")) for line in notes}))
    for token in tokens:
        why = f'of two calls with the tokens 7 and "7", no progress has {token!r}, only {seen}'
        case.expect("PR-08", any(progress_of(line, token) for line in notes), why, about=notes[0])


@probe("PR-01", needs=("call", "question"), client_capabilities=ALL_CAPABILITIES)
async def questions_have_valid_tokens(case: Case) -> None:
    """If a question of a legacy server has a progress token, it is a string or an integer."""
    if case.is_modern:
        case.give_up("in modern revisions a server sends no requests, and so no tokens")
    question = (await open_question(case, case.conversation)).question
    if "progressToken" not in question.meta:
        case.give_up("the server asks without a progress token, which is allowed")
    token = question.meta["progressToken"]
    case.expect("PR-01", is_token(token), f"a request of the server has the progressToken {token!r}", about=question)


@probe("PR-06", fresh_conversation=True, needs=("call", "tasks.requests.tools.call"))
async def progress_of_a_task(case: Case) -> None:
    """A slow call becomes a task; its progress keeps the token until the task ends, and then stops."""
    conversation, since = case.conversation, case.conversation.position
    mark = "of-a-task"
    params = {**_task_call(case), "task": {"ttl": 60000}}
    created = await conversation.request("tools/call", params, meta={"progressToken": mark})
    task_id = members(created.result.get("task")).get("taskId")
    if task_id is None:
        case.give_up(f"the call did not become a task: {created.summary}")
    over = await _task_end(conversation, task_id)
    await conversation.quiet()
    judge_task(case, _progress(conversation, since), token=mark, over=over)


def _task_call(case: Case) -> dict[str, Any]:
    for call in case.safe_calls:
        if members(call.tool.get("execution")).get("taskSupport") in ("optional", "required"):
            return call.params
    raise Skip("no tool that may be called can become a task")


async def _task_end(conversation: LiveConversation, task_id: Any) -> ReceivedLine | None:
    """Poll a task; return the line that reports its end, or ``None`` if there is none."""
    for _ in range(_POLLS):
        response = await conversation.try_request("tasks/get", {"taskId": task_id})
        if response.silence:
            return None
        if response.result.get("status") in OVER:
            return response.received_line
        await conversation.until(lambda: None, conversation.timeouts.grace)
    return None
