"""Tasks as an extension of the stateless wire, from the side of a client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from twopipes._protocol.revisions import META_LOG_LEVEL, META_SUBSCRIPTION_ID
from twopipes._tools.check.conversation import ReceivedLine, Response, same_id
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
        fix=f'Declare "extensions": {{"{_EXTENSION}": {{}}}}.',
        about=case.conversation.opening,
    )


@probe("TX-02", needs=("extensions", "call"))
async def nobody_gets_a_task_unasked(case: Case) -> None:
    """Tools are called by a client that does not declare the extension."""
    _declared(case)
    for call in case.features.safe_calls(case.permissions)[:_CALLS]:
        response = await case.conversation.request("tools/call", call.params, client_capabilities=_CANNOT)
        case.expect(
            "TX-02",
            response.result.get("resultType") != "task",
            f"a call of {call.name} became a task, and the request does not declare the extension",
            fix="Look into the clientCapabilities of this very request before you make a task of it.",
            about=response,
        )
        if response.code == _NEEDS_CAPABILITY and "elicitation" not in str(response.error):
            case.expect(
                "TX-02",
                _EXTENSION in str(response.error.get("data")),
                f"a call of {call.name} was refused for want of a capability, and the error does not name {_EXTENSION}",
                fix="Name the extension in data.requiredCapabilities.extensions.",
                about=response,
            )


@probe("TX-03", "TX-05", "TX-06", "TX-15", fresh_conversation=True, needs=("extensions", "call"))
async def a_call_becomes_a_task_and_ends(case: Case) -> None:
    """A call becomes a task, which is asked for at once and until it has ended."""
    call, response = await _made(case)
    wrong = wrong_with_task(response.result, ttl="ttlMs", interval="pollIntervalMs")
    case.expect(
        "TX-03",
        not wrong,
        f"the task that a call of {call.name} became is not whole: {wrong}",
        fix="Answer with taskId, status, createdAt, lastUpdatedAt and ttlMs beside resultType.",
        about=response,
    )
    listed = await case.conversation.request("tools/list", client_capabilities=_CAN)
    case.expect("TX-03", listed.result.get("resultType") != "task", "tools/list got a result of type task", about=listed)
    task_id = _id_of(response)
    got = await _get(case, task_id)
    case.expect(
        "TX-05",
        got.is_result,
        f"tasks/get of a task that was just made got {got.summary}",
        fix="Keep the task before you answer with its id.",
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
        fix="Take a random UUID, or as many random bits.",
    )


def _judge_state(case: Case, got: Response) -> None:
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
    fix = "Put the state into the result, with resultType complete, and result, error or inputRequests as the status wants it."
    case.expect("TX-06", not wrong, f"the answer to tasks/get is not right: {wrong}", fix=fix, about=got)


@probe("TX-07", "TX-08", fresh_conversation=True, needs=("extensions", "call"))
async def updates_and_cancels_are_acknowledged(case: Case) -> None:
    """A task is updated with unrequested input, and cancelled."""
    _call, response = await _made(case)
    task_id = _id_of(response)
    params = {"taskId": task_id, "inputResponses": {"twopipes-check-stray": {"action": "decline"}}}
    stray = await case.conversation.request("tasks/update", params, client_capabilities=_CAN)
    ended = stray.code == _INVALID_PARAMS and (await _get(case, task_id)).result.get("status") in TERMINAL
    if ended:
        case.skip("TX-08", "the task had ended before it could be updated")
    else:
        case.expect(
            "TX-08",
            stray.is_result,
            f"tasks/update with an answer to no question got {stray.summary}",
            fix="Pass over answers whose keys are not open.",
            about=stray,
        )
    if stray.is_result:
        why = "the answer to tasks/update is not empty"
        case.expect("TX-07", _is_empty(stray), why, fix=_MEND_ACKNOWLEDGE, about=stray)
    cancelled = await case.conversation.request("tasks/cancel", {"taskId": task_id}, client_capabilities=_CAN)
    if cancelled.is_result:
        why = "the answer to tasks/cancel is not empty"
        case.expect("TX-07", _is_empty(cancelled), why, fix=_MEND_ACKNOWLEDGE, about=cancelled)
    elif (await _get(case, task_id)).result.get("status") not in TERMINAL:
        why = f"tasks/cancel of a task that runs got {cancelled.summary}"
        case.expect("TX-07", condition=False, why=why, fix=_MEND_ACKNOWLEDGE, about=cancelled)


@probe("TX-09", needs="extensions", silence_fails=True)
async def strangers_and_strange_tasks_are_refused(case: Case) -> None:
    """A task that is not there, and a caller that does not declare the extension."""
    _declared(case)
    unknown = await _get(case, NO_SUCH_TASK)
    case.expect(
        "TX-09",
        unknown.code == _INVALID_PARAMS,
        f"tasks/get of a task that is not there got {unknown.summary}",
        fix="Answer with the error -32602.",
        about=unknown,
    )
    stranger = await case.conversation.request("tasks/get", {"taskId": NO_SUCH_TASK}, client_capabilities={})
    case.expect(
        "TX-09",
        stranger.code == _NEEDS_CAPABILITY,
        f"tasks/get of a caller that does not declare {_EXTENSION} got {stranger.summary}",
        fix="Look for the extension first; answer with the error -32021 that names it.",
        about=stranger,
    )


@probe("TX-10", fresh_conversation=True, needs=("extensions", "call"))
async def a_tool_that_fails_completes_its_task(case: Case) -> None:
    """The tool ``fail``, as a task."""
    params = case.fixture("fail")
    _declared(case)
    response = await case.conversation.request("tools/call", params, client_capabilities=_CAN)
    if response.result.get("resultType") != "task":
        raise Skip("a call of fail does not become a task")
    last = await _settled(case, _id_of(response))
    status = last.result.get("status")
    if status not in TERMINAL:
        raise Skip("the task did not end in time")
    result = last.result.get("result")
    case.expect(
        "TX-10",
        status == "completed" and isinstance(result, dict) and result.get("isError") is True,
        f"a task whose tool fails by isError ended as {status!r}, or without that result",
        fix="Complete the task with the result; failed is for errors of the protocol.",
        about=last,
    )


@probe("TX-11", silence_fails=True)
async def nothing_is_left_of_the_older_tasks(case: Case) -> None:
    """The methods, the capability and the member of 2025-11-25 are unknown."""
    for method, params in (("tasks/result", {"taskId": NO_SUCH_TASK}), ("tasks/list", {})):
        response = await case.conversation.request(method, params, client_capabilities=_CAN)
        why = f"{method}, which the stateless wire does not have, got {response.summary}"
        case.expect("TX-11", response.code == _NO_SUCH_METHOD, why, fix="Answer with the error -32601.", about=response)
    case.expect(
        "TX-11",
        "tasks" not in case.features.capabilities,
        "the capability tasks of 2025-11-25 is declared on the stateless wire",
        fix=f"Declare {_EXTENSION} among the extensions instead.",
        about=case.conversation.opening,
    )
    for call in case.features.safe_calls(case.permissions)[:1]:
        plain = await case.conversation.request("tools/call", call.params)
        response = await case.conversation.request("tools/call", {**call.params, "task": {"ttl": 60_000}})
        case.expect(
            "TX-11",
            response.is_result == plain.is_result and "task" not in response.result and response.result.get("resultType") != "task",
            f"a call of {call.name} with the member task of 2025-11-25 got {response.summary}, and a plain one {plain.summary}",
            fix="Pass over the member task.",
            about=response,
        )


@probe("TX-12", fresh_conversation=True, needs=("extensions", "call"))
async def listens_for_tasks_name_what_is_told(case: Case) -> None:
    """A listen for one task, and for one that is not there, with the extension and without."""
    conversation = case.conversation
    _call, made = await _made(case)
    wanted = {"notifications": {"taskIds": [_id_of(made), NO_SUCH_TASK]}}
    with_it = conversation.start("subscriptions/listen", wanted, client_capabilities=_CAN)
    without = conversation.start("subscriptions/listen", wanted, client_capabilities={})
    granted, unasked = await _taken(case, with_it), await _taken(case, without)
    if granted is None:
        raise Skip("the server does not tell of tasks on a listen, which is its right")
    case.expect(
        "TX-12",
        all(each == _id_of(made) for each in granted),
        "a listen for a task that is not there was acknowledged",
        fix="Acknowledge the ids of tasks that there are.",
        about=_acknowledgement(case, with_it),
    )
    response = next(iter(conversation.responses_to(without)), None)
    if response is None and _acknowledgement(case, without) is None:
        raise Skip("a listen for tasks that does not declare the extension was neither acknowledged nor refused")
    case.expect(
        "TX-12",
        unasked is None and response is not None and response.code == _NEEDS_CAPABILITY,
        "a listen for tasks that does not declare the extension "
        + ("was acknowledged" if response is None else f"got {response.summary}, and not the error -32021"),
        fix="Answer with the error -32021 that names the extension.",
        about=response or _acknowledgement(case, without),
    )


@probe("TX-13", fresh_conversation=True, needs=("extensions", "call"))
async def tasks_have_no_progress_and_no_cancelled(case: Case) -> None:
    """The request that became a task is cancelled, as if it were still open; progress and log messages were asked for."""
    conversation = case.conversation
    call, _first = await _made(case)
    wishes = {"progressToken": "twopipes-check-progress", META_LOG_LEVEL: "debug"}
    response = await conversation.request("tools/call", call.params, client_capabilities=_CAN, meta=wishes)
    if response.result.get("resultType") != "task":
        raise Skip(f"a call of {call.name} does not become a task each time")
    conversation.notify("notifications/cancelled", {"requestId": response.id})
    # Asked for after the cancel was read: a task that has ended by then shows nothing.
    status = (await _get(case, _id_of(response))).result.get("status")
    last = await _settled(case, _id_of(response))
    _judge_words(case, response)
    if status in TERMINAL and status != "cancelled":
        raise Skip(f"the task that a call of {call.name} became had ended before notifications/cancelled was read")
    case.expect(
        "TX-13",
        last.result.get("status") != "cancelled",
        "notifications/cancelled for the request that had become a task cancelled the task",
        fix="Take notifications/cancelled for requests that are open; a task is cancelled by tasks/cancel.",
        about=last,
    )


def _judge_words(case: Case, response: Response) -> None:
    """What is said for a request that has become a task, after its answer. Nobody else has asked for any of it."""
    for method, what in (("notifications/progress", "progress"), ("notifications/message", "a log message")):
        late = next(
            (each for each in case.conversation.received_lines[response.received_line.number :] if each.method == method), None
        )
        if late is not None:
            why = f"{what} was sent for a task"
            case.expect("TX-13", condition=False, why=why, fix="Put what there is to say into statusMessage.", about=late)


@probe("TX-16", needs="call", client_capabilities={"extensions": {_EXTENSION: {}}})
async def the_extension_means_nothing_after_a_handshake(case: Case) -> None:
    """Tools are called in a conversation with a handshake that declares the extension."""
    for call in case.features.safe_calls(case.permissions)[:_CALLS]:
        response = await case.conversation.request("tools/call", call.params)
        case.expect(
            "TX-16",
            response.result.get("resultType") != "task",
            f"a call of {call.name} became a task of the extension, in a revision that does not have it",
            fix="Make tasks of the extension on the stateless wire alone.",
            about=response,
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


async def _made(case: Case) -> tuple[SafeCall, Response]:
    """A call that became a task, and its answer.

    Raises:
        Skip: No call does.
    """
    _declared(case)
    calls = case.features.safe_calls(case.permissions)
    for call in sorted(calls, key=lambda each: each.name != "slow")[:_CALLS]:
        response = await _again(case, call)
        if response.result.get("resultType") == "task" and isinstance(response.result.get("taskId"), str):
            return call, response
    raise Skip("no call that may be made becomes a task")


async def _again(case: Case, call: SafeCall) -> Response:
    return await case.conversation.request("tools/call", call.params, client_capabilities=_CAN)


def _id_of(response: Response) -> str:
    found = response.result.get("taskId")
    if not isinstance(found, str):
        raise Skip("a call that became a task before did not become one again")
    return found


async def _get(case: Case, task_id: str) -> Response:
    return await case.conversation.request("tasks/get", {"taskId": task_id}, client_capabilities=_CAN)


async def _settled(case: Case, task_id: str) -> Response:
    """The state of a task when it has ended, needs something, or takes too long."""
    loop = asyncio.get_running_loop()
    end = loop.time() + case.timeouts.response
    got = await _get(case, task_id)
    for _ in range(_POLLS):
        if got.result.get("status") != "working" or loop.time() > end:
            break
        interval = got.result.get("pollIntervalMs")
        await asyncio.sleep(min(_SELDOM, max(_OFTEN, interval / 1000)) if isinstance(interval, int) else _OFTEN)
        got = await _get(case, task_id)
    return got


def _is_empty(response: Response) -> bool:
    return response.result.get("resultType") == "complete" and not response.result.keys() - {"resultType", "_meta"}


async def _taken(case: Case, request_id: Any) -> list[Any] | None:
    """The ids of tasks that a listen was promised; ``None`` if it was refused, or promised nothing of the kind."""
    conversation = case.conversation
    await conversation.until(
        lambda: _acknowledgement(case, request_id) or conversation.responses_to(request_id) or None, conversation.timeouts.response
    )
    line = _acknowledgement(case, request_id)
    filters = line.params.get("notifications") if line is not None else None
    found = filters.get("taskIds") if isinstance(filters, dict) else None
    return found if isinstance(found, list) and found else None


def _acknowledgement(case: Case, request_id: Any) -> ReceivedLine | None:
    for line in case.conversation.received_lines:
        meta = line.params.get("_meta") if line.method == _ACKNOWLEDGED else None
        if isinstance(meta, dict) and same_id(meta.get(META_SUBSCRIPTION_ID), request_id):
            return line
    return None
