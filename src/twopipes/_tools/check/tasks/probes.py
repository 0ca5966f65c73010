"""Tasks as an extension of the stateless wire, from the side of a client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from twopipes._protocol.revisions import META_LOG_LEVEL, META_SUBSCRIPTION_ID
from twopipes._tools.check.conversation import Answer, Heard, same_id
from twopipes._tools.check.probe import Case, SafeCall, probe
from twopipes._tools.check.tasks_2025.requester import NO_SUCH_TASK, TERMINAL, are_guessable, wrong_with_task
from twopipes._tools.check.verdict import Skip

_EXTENSION = "io.modelcontextprotocol/tasks"
_CAN: Mapping[str, Any] = {"extensions": {_EXTENSION: {}}, "elicitation": {"form": {}}}
_CANNOT: Mapping[str, Any] = {"elicitation": {"form": {}}}
_INVALID_PARAMS = -32602
_NO_SUCH_METHOD = -32601
_NEEDS_CAPABILITY = -32021
_SELDOM, _OFTEN = 1.0, 0.02
_POLLS = 200
_CALLS = 8
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_MEND_ACKNOWLEDGE = 'Answer with {"resultType": "complete"} and nothing else; the effect may come later.'


@probe("TX-01", needs="extensions")
async def the_extension_is_declared_as_an_object(case: Case) -> None:
    """What server/discover says of the extension."""
    declared = _declared(case)
    case.expect(
        "TX-01",
        isinstance(declared, dict),
        f"{_EXTENSION} is declared, and not as an object",
        mend=f'Declare "extensions": {{"{_EXTENSION}": {{}}}}.',
        about=case.talk.opening,
    )


@probe("TX-02", needs=("extensions", "call"))
async def nobody_gets_a_task_unasked(case: Case) -> None:
    """Tools are called by a client that does not declare the extension."""
    _declared(case)
    for call in case.features.safe_calls(case.permissions)[:_CALLS]:
        answer = await case.talk.request("tools/call", call.params, can=_CANNOT)
        case.expect(
            "TX-02",
            answer.result.get("resultType") != "task",
            f"a call of {call.name} became a task, and the request does not declare the extension",
            mend="Look into the clientCapabilities of this very request before you make a task of it.",
            about=answer,
        )
        if answer.code == _NEEDS_CAPABILITY and "elicitation" not in str(answer.error):
            case.expect(
                "TX-02",
                _EXTENSION in str(answer.error.get("data")),
                f"a call of {call.name} was refused for want of a capability, and the error does not name {_EXTENSION}",
                mend="Name the extension in data.requiredCapabilities.extensions.",
                about=answer,
            )


@probe("TX-03", "TX-05", "TX-06", "TX-15", fresh=True, needs=("extensions", "call"))
async def a_call_becomes_a_task_and_ends(case: Case) -> None:
    """A call becomes a task, which is asked for at once and until it has ended."""
    call, answer = await _made(case)
    wrong = wrong_with_task(answer.result, ttl="ttlMs", interval="pollIntervalMs")
    case.expect(
        "TX-03",
        not wrong,
        f"the task that a call of {call.name} became is not whole: {wrong}",
        mend="Answer with taskId, status, createdAt, lastUpdatedAt and ttlMs beside resultType.",
        about=answer,
    )
    listed = await case.talk.request("tools/list", can=_CAN)
    case.expect("TX-03", listed.result.get("resultType") != "task", "tools/list got a result of type task", about=listed)
    task_id = _id_of(answer)
    got = await _get(case, task_id)
    case.expect(
        "TX-05",
        got.is_result,
        f"tasks/get of a task that was just made got {got.told}",
        mend="Keep the task before you answer with its id.",
        about=got,
    )
    _judge_state(case, got)
    last = await _settled(case, task_id)
    _judge_state(case, last)
    ids = [task_id, *[_id_of(await _again(case, call)) for _ in range(2)]]
    case.expect(
        "TX-15",
        not are_guessable(ids),
        f"the ids of tasks can be guessed: {', '.join(ids)}",
        mend="Take a random UUID, or as many random bits.",
    )


def _judge_state(case: Case, got: Answer) -> None:
    if not got.is_result:
        return
    status = got.result.get("status")
    kind = got.result.get("resultType")
    belongs = {"completed": "result", "failed": "error", "input_required": "inputRequests"}.get(str(status))
    wrong = wrong_with_task(got.result, ttl="ttlMs", interval="pollIntervalMs")
    if not wrong and kind not in {"complete", "task"}:  # the text has one, two of its examples the other
        wrong = f"its resultType is {kind!r}"
    if not wrong and belongs is not None and not isinstance(got.result.get(belongs), dict):
        wrong = f"it is {status}, and has no {belongs}"
    mend = "Put the state into the result, with resultType complete, and result, error or inputRequests as the status wants it."
    case.expect("TX-06", not wrong, f"the answer to tasks/get is not right: {wrong}", mend=mend, about=got)


@probe("TX-07", "TX-08", fresh=True, needs=("extensions", "call"))
async def updates_and_cancels_are_acknowledged(case: Case) -> None:
    """A task is updated with what nobody asked for, and cancelled."""
    _call, answer = await _made(case)
    task_id = _id_of(answer)
    params = {"taskId": task_id, "inputResponses": {"twopipes-check-stray": {"action": "decline"}}}
    stray = await case.talk.request("tasks/update", params, can=_CAN)
    ended = stray.code == _INVALID_PARAMS and (await _get(case, task_id)).result.get("status") in TERMINAL
    if ended:
        case.skip("TX-08", "the task had ended before it could be updated")
    else:
        case.expect(
            "TX-08",
            stray.is_result,
            f"tasks/update with an answer to no question got {stray.told}",
            mend="Pass over answers whose keys are not open.",
            about=stray,
        )
    if stray.is_result:
        why = "the answer to tasks/update is not empty"
        case.expect("TX-07", _is_empty(stray), why, mend=_MEND_ACKNOWLEDGE, about=stray)
    cancelled = await case.talk.request("tasks/cancel", {"taskId": task_id}, can=_CAN)
    if cancelled.is_result:
        why = "the answer to tasks/cancel is not empty"
        case.expect("TX-07", _is_empty(cancelled), why, mend=_MEND_ACKNOWLEDGE, about=cancelled)
    elif (await _get(case, task_id)).result.get("status") not in TERMINAL:
        why = f"tasks/cancel of a task that runs got {cancelled.told}"
        case.expect("TX-07", condition=False, why=why, mend=_MEND_ACKNOWLEDGE, about=cancelled)


@probe("TX-09", needs="extensions", answered=True)
async def strangers_and_strange_tasks_are_refused(case: Case) -> None:
    """A task that is not there, and a caller that does not declare the extension."""
    _declared(case)
    unknown = await _get(case, NO_SUCH_TASK)
    case.expect(
        "TX-09",
        unknown.code == _INVALID_PARAMS,
        f"tasks/get of a task that is not there got {unknown.told}",
        mend="Answer with the error -32602.",
        about=unknown,
    )
    stranger = await case.talk.request("tasks/get", {"taskId": NO_SUCH_TASK}, can={})
    case.expect(
        "TX-09",
        stranger.code == _NEEDS_CAPABILITY,
        f"tasks/get of a caller that does not declare {_EXTENSION} got {stranger.told}",
        mend="Look for the extension first; answer with the error -32021 that names it.",
        about=stranger,
    )


@probe("TX-10", fresh=True, needs=("extensions", "call"))
async def a_tool_that_fails_completes_its_task(case: Case) -> None:
    """The tool ``fail``, as a task."""
    params = case.fixture("fail")
    _declared(case)
    answer = await case.talk.request("tools/call", params, can=_CAN)
    if answer.result.get("resultType") != "task":
        raise Skip("a call of fail does not become a task")
    last = await _settled(case, _id_of(answer))
    status = last.result.get("status")
    if status not in TERMINAL:
        raise Skip("the task did not end in time")
    result = last.result.get("result")
    case.expect(
        "TX-10",
        status == "completed" and isinstance(result, dict) and result.get("isError") is True,
        f"a task whose tool fails by isError ended as {status!r}, or without that result",
        mend="Complete the task with the result; failed is for errors of the protocol.",
        about=last,
    )


@probe("TX-11", answered=True)
async def nothing_is_left_of_the_older_tasks(case: Case) -> None:
    """The methods, the capability and the member of 2025-11-25 are unknown."""
    for method, params in (("tasks/result", {"taskId": NO_SUCH_TASK}), ("tasks/list", {})):
        answer = await case.talk.request(method, params, can=_CAN)
        why = f"{method}, which the stateless wire does not have, got {answer.told}"
        case.expect("TX-11", answer.code == _NO_SUCH_METHOD, why, mend="Answer with the error -32601.", about=answer)
    case.expect(
        "TX-11",
        "tasks" not in case.features.capabilities,
        "the capability tasks of 2025-11-25 is declared on the stateless wire",
        mend=f"Declare {_EXTENSION} among the extensions instead.",
        about=case.talk.opening,
    )
    for call in case.features.safe_calls(case.permissions)[:1]:
        plain = await case.talk.request("tools/call", call.params)
        answer = await case.talk.request("tools/call", {**call.params, "task": {"ttl": 60_000}})
        case.expect(
            "TX-11",
            answer.is_result == plain.is_result and "task" not in answer.result and answer.result.get("resultType") != "task",
            f"a call of {call.name} with the member task of 2025-11-25 got {answer.told}, and a plain one {plain.told}",
            mend="Pass over the member task.",
            about=answer,
        )


@probe("TX-12", fresh=True, needs=("extensions", "call"))
async def listens_for_tasks_name_what_is_told(case: Case) -> None:
    """A listen for one task, and for one that is not there, with the extension and without."""
    talk = case.talk
    _call, made = await _made(case)
    wanted = {"notifications": {"taskIds": [_id_of(made), NO_SUCH_TASK]}}
    with_it = talk.start("subscriptions/listen", wanted, can=_CAN)
    without = talk.start("subscriptions/listen", wanted, can={})
    granted, unasked = await _taken(case, with_it), await _taken(case, without)
    if granted is None:
        raise Skip("the server does not tell of tasks on a listen, which is its right")
    case.expect(
        "TX-12",
        all(each == _id_of(made) for each in granted),
        "a listen for a task that is not there was acknowledged",
        mend="Acknowledge the ids of tasks that there are.",
        about=_acknowledgement(case, with_it),
    )
    answer = next(iter(talk.answers_to(without)), None)
    if answer is None and _acknowledgement(case, without) is None:
        raise Skip("a listen for tasks that does not declare the extension was neither acknowledged nor refused")
    case.expect(
        "TX-12",
        unasked is None and answer is not None and answer.code == _NEEDS_CAPABILITY,
        "a listen for tasks that does not declare the extension "
        + ("was acknowledged" if answer is None else f"got {answer.told}, and not the error -32021"),
        mend="Answer with the error -32021 that names the extension.",
        about=answer or _acknowledgement(case, without),
    )


@probe("TX-13", fresh=True, needs=("extensions", "call"))
async def tasks_have_no_progress_and_no_cancelled(case: Case) -> None:
    """The request that became a task is cancelled, as if it were still open; progress and log messages were asked for."""
    talk = case.talk
    call, _first = await _made(case)
    wishes = {"progressToken": "twopipes-check-progress", META_LOG_LEVEL: "debug"}
    answer = await talk.request("tools/call", call.params, can=_CAN, meta=wishes)
    if answer.result.get("resultType") != "task":
        raise Skip(f"a call of {call.name} does not become a task each time")
    talk.notify("notifications/cancelled", {"requestId": answer.id})
    # Asked for after the cancel was read: a task that has ended by then shows nothing.
    status = (await _get(case, _id_of(answer))).result.get("status")
    last = await _settled(case, _id_of(answer))
    _judge_words(case, answer)
    if status in TERMINAL and status != "cancelled":
        raise Skip(f"the task that a call of {call.name} became had ended before notifications/cancelled was read")
    case.expect(
        "TX-13",
        last.result.get("status") != "cancelled",
        "notifications/cancelled for the request that had become a task cancelled the task",
        mend="Take notifications/cancelled for requests that are open; a task is cancelled by tasks/cancel.",
        about=last,
    )


def _judge_words(case: Case, answer: Answer) -> None:
    """What is said for a request that has become a task, after its answer. Nobody else has asked for any of it."""
    for method, what in (("notifications/progress", "progress"), ("notifications/message", "a log message")):
        late = next((each for each in case.talk.heard_lines[answer.heard.number :] if each.method == method), None)
        if late is not None:
            why = f"{what} was sent for a task"
            case.expect("TX-13", condition=False, why=why, mend="Put what there is to say into statusMessage.", about=late)


@probe("TX-16", needs="call", can={"extensions": {_EXTENSION: {}}})
async def the_extension_means_nothing_after_a_handshake(case: Case) -> None:
    """Tools are called in a conversation with a handshake that declares the extension."""
    for call in case.features.safe_calls(case.permissions)[:_CALLS]:
        answer = await case.talk.request("tools/call", call.params)
        case.expect(
            "TX-16",
            answer.result.get("resultType") != "task",
            f"a call of {call.name} became a task of the extension, in a revision that does not have it",
            mend="Make tasks of the extension on the stateless wire alone.",
            about=answer,
        )


def _declared(case: Case) -> Any:
    """What the server declares of the extension.

    Raises:
        Skip: Nothing.
    """
    extensions = case.features.capabilities.get("extensions")
    if not isinstance(extensions, dict) or _EXTENSION not in extensions:
        raise Skip(f"the server does not declare the extension {_EXTENSION}")
    return extensions[_EXTENSION]


async def _made(case: Case) -> tuple[SafeCall, Answer]:
    """A call that became a task, and its answer.

    Raises:
        Skip: No call does.
    """
    _declared(case)
    calls = case.features.safe_calls(case.permissions)
    for call in sorted(calls, key=lambda each: each.name != "slow")[:_CALLS]:
        answer = await _again(case, call)
        if answer.result.get("resultType") == "task" and isinstance(answer.result.get("taskId"), str):
            return call, answer
    raise Skip("no call that may be made becomes a task")


async def _again(case: Case, call: SafeCall) -> Answer:
    return await case.talk.request("tools/call", call.params, can=_CAN)


def _id_of(answer: Answer) -> str:
    found = answer.result.get("taskId")
    if not isinstance(found, str):
        raise Skip("a call that became a task before did not become one again")
    return found


async def _get(case: Case, task_id: str) -> Answer:
    return await case.talk.request("tasks/get", {"taskId": task_id}, can=_CAN)


async def _settled(case: Case, task_id: str) -> Answer:
    """The state of a task when it has ended, needs something, or takes too long."""
    loop = asyncio.get_running_loop()
    end = loop.time() + case.waits.answer
    got = await _get(case, task_id)
    for _ in range(_POLLS):
        if got.result.get("status") != "working" or loop.time() > end:
            break
        interval = got.result.get("pollIntervalMs")
        await asyncio.sleep(min(_SELDOM, max(_OFTEN, interval / 1000)) if isinstance(interval, int) else _OFTEN)
        got = await _get(case, task_id)
    return got


def _is_empty(answer: Answer) -> bool:
    return answer.result.get("resultType") == "complete" and not answer.result.keys() - {"resultType", "_meta"}


async def _taken(case: Case, request_id: Any) -> list[Any] | None:
    """The ids of tasks that a listen was promised; ``None`` if it was refused, or promised nothing of the kind."""
    talk = case.talk
    await talk.until(lambda: _acknowledgement(case, request_id) or talk.answers_to(request_id) or None, talk.waits.answer)
    heard = _acknowledgement(case, request_id)
    filters = heard.params.get("notifications") if heard is not None else None
    found = filters.get("taskIds") if isinstance(filters, dict) else None
    return found if isinstance(found, list) and found else None


def _acknowledgement(case: Case, request_id: Any) -> Heard | None:
    for heard in case.talk.heard_lines:
        meta = heard.params.get("_meta") if heard.method == _ACKNOWLEDGED else None
        if isinstance(meta, dict) and same_id(meta.get(META_SUBSCRIPTION_ID), request_id):
            return heard
    return None
