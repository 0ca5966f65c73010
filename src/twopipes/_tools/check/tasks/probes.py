"""The tasks extension of the modern revisions, in servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopipes._codes import CAPABILITY_MISSING, INVALID_PARAMS, METHOD_NOT_FOUND
from twopipes._protocol.revisions import META_LOG_LEVEL
from twopipes._tools.check.messages import Response, members
from twopipes._tools.check.probe import Case, SafeCall, probe
from twopipes._tools.check.setups import acknowledgement, opened_listen
from twopipes._tools.check.tasks_2025.receiver import EXTENSION, NO_SUCH_TASK, TERMINAL, Reply, are_guessable, fault_of_task, poll
from twopipes._tools.check.verdict import Skip

_WITHOUT: Mapping[str, Any] = {"elicitation": {"form": {}}}
_WITH: Mapping[str, Any] = {**_WITHOUT, "extensions": {EXTENSION: {}}}
_CALLS = 8


@probe("TX-01", needs="extensions")
async def the_extension_is_declared_as_an_object(case: Case) -> None:
    """The server declares the extension in server/discover."""
    is_object = isinstance(_declared(case), dict)
    case.expect("TX-01", is_object, f"{EXTENSION} is not declared as an object", about=case.conversation.opening)


@probe("TX-02", needs=("extensions", "call"))
async def undeclared_calls_do_not_become_tasks(case: Case) -> None:
    """Tools are called by a client that does not declare the extension."""
    _declared(case)
    for call in case.safe_calls[:_CALLS]:
        response = await case.conversation.request("tools/call", call.params, client_capabilities=_WITHOUT)
        why = f"a call of {call.name} became a task, and the request does not declare the extension"
        case.expect("TX-02", not _is_task(response), why, about=response)
        if response.code == CAPABILITY_MISSING and "elicitation" not in str(response.error):
            why = f"a call of {call.name} was rejected because of a missing capability, and the error does not name {EXTENSION}"
            case.expect("TX-02", EXTENSION in str(response.error.get("data")), why, about=response)


@probe("TX-03", "TX-05", "TX-06", "TX-15", fresh_conversation=True, needs=("extensions", "call"))
async def a_call_becomes_a_task_and_ends(case: Case) -> None:
    """A call becomes a task, which is requested at once and until it has ended."""
    call, response = await _created(case)
    fault = _fault(response)
    case.expect("TX-03", not fault, f"the task of a call of {call.name} is not complete: {fault}", about=response)
    listed = await case.conversation.request("tools/list", client_capabilities=_WITH)
    case.expect("TX-03", not _is_task(listed), "tools/list got a result of type task", about=listed)
    task_id = _id_of(response)
    state = await _about(case, task_id)
    case.expect("TX-05", state.is_result, f"tasks/get of a new task got {state.summary}", about=state)
    _judge_state(case, state)
    _judge_state(case, await _settled(case, task_id))
    ids = [task_id, *[_id_of(await _call(case, call.params)) for _ in range(2)]]
    case.expect("TX-15", not are_guessable(ids), f"the ids of tasks can be guessed: {', '.join(ids)}")


def _judge_state(case: Case, state: Reply) -> None:
    if not state.is_result:
        return
    status, kind = state.result.get("status"), state.result.get("resultType")
    member = {"completed": "result", "failed": "error", "input_required": "inputRequests"}.get(str(status))
    fault = _fault(state)
    if not fault and kind not in {"complete", "task"}:  # the text has one, two of its examples the other
        fault = f"its resultType is {kind!r}"
    if not fault and member is not None and not isinstance(state.result.get(member), dict):
        fault = f"it is {status} and has no {member}"
    case.expect("TX-06", not fault, f"the response to tasks/get has a fault: {fault}", about=state)


@probe("TX-07", "TX-08", fresh_conversation=True, needs=("extensions", "call"))
async def updates_and_cancels_are_acknowledged(case: Case) -> None:
    """A task is updated with unrequested input, and cancelled."""
    _, created = await _created(case)
    task_id = _id_of(created)
    stray = await _about(case, task_id, "tasks/update", inputResponses={"twopipes-check-stray": {"action": "decline"}})
    if stray.code == INVALID_PARAMS and await _has_ended(case, task_id):
        case.skip("TX-08", "the task had ended before it could be updated")
    else:
        why = f"tasks/update with an answer to an unknown question got {stray.summary}"
        case.expect("TX-08", stray.is_result, why, about=stray)
    if stray.is_result:
        case.expect("TX-07", _is_empty(stray), "the result of tasks/update is not empty", about=stray)
    cancelled = await _about(case, task_id, "tasks/cancel")
    if cancelled.is_result:
        case.expect("TX-07", _is_empty(cancelled), "the result of tasks/cancel is not empty", about=cancelled)
    elif not await _has_ended(case, task_id):
        case.forbid("TX-07", cancelled, f"tasks/cancel of a running task got {cancelled.summary}")


@probe("TX-09", needs="extensions", silence_fails=True)
async def unknown_tasks_and_undeclared_requests_are_rejected(case: Case) -> None:
    """An unknown task is requested, with and without the extension declared."""
    _declared(case)
    for declared, code, what in (
        (_WITH, INVALID_PARAMS, "of an unknown task"),
        ({}, CAPABILITY_MISSING, f"of a client that does not declare {EXTENSION}"),
    ):
        response = await case.conversation.request("tasks/get", {"taskId": NO_SUCH_TASK}, client_capabilities=declared)
        case.expect("TX-09", response.code == code, f"tasks/get {what} got {response.summary}", about=response)


@probe("TX-10", fresh_conversation=True, needs=("extensions", "call"))
async def a_tool_that_fails_completes_its_task(case: Case) -> None:
    """The tool ``fail`` is called as a task."""
    params = case.fixture("fail")
    _declared(case)
    response = await _call(case, params)
    if not _is_task(response):
        raise Skip("a call of fail does not become a task")
    last = await _settled(case, _id_of(response))
    status = last.result.get("status")
    if status not in TERMINAL:
        raise Skip("the task did not end in time")
    is_kept = status == "completed" and members(last.result.get("result")).get("isError") is True
    case.expect("TX-10", is_kept, f"a task whose tool returned isError ended as {status!r}, or without that result", about=last)


@probe("TX-11", silence_fails=True)
async def nothing_remains_of_the_older_tasks(case: Case) -> None:
    """The methods, the capability and the task member of 2025-11-25 are unknown."""
    conversation = case.conversation
    for method, params in (("tasks/result", {"taskId": NO_SUCH_TASK}), ("tasks/list", {})):
        response = await conversation.request(method, params, client_capabilities=_WITH)
        why = f"{method}, which modern revisions do not have, got {response.summary}"
        case.expect("TX-11", response.code == METHOD_NOT_FOUND, why, about=response)
    why = f"the capability tasks of 2025-11-25 is declared in {case.revision}"
    case.expect("TX-11", "tasks" not in case.features.capabilities, why, about=conversation.opening)
    for call in case.safe_calls[:1]:
        plain = await conversation.request("tools/call", call.params)
        response = await conversation.request("tools/call", {**call.params, "task": {"ttl": 60_000}})
        is_ignored = response.is_result == plain.is_result and "task" not in response.result and not _is_task(response)
        why = f"a call of {call.name} with the task member of 2025-11-25 got {response.summary}, and without it {plain.summary}"
        case.expect("TX-11", is_ignored, why, about=response)


@probe("TX-12", fresh_conversation=True, needs=("extensions", "call"))
async def listens_for_tasks_are_acknowledged_with_their_ids(case: Case) -> None:
    """A listen for a task and for an unknown one, with the extension declared and without."""
    conversation = case.conversation
    _, created = await _created(case)
    wanted = {"notifications": {"taskIds": [_id_of(created), NO_SUCH_TASK]}}
    with_it, without = (conversation.start("subscriptions/listen", wanted, client_capabilities=each) for each in (_WITH, {}))
    granted, undeclared = await _granted(case, with_it), await _granted(case, without)
    if not granted:
        raise Skip("the server does not announce tasks on a listen, which is allowed")
    why = "a listen for an unknown task was acknowledged"
    case.expect("TX-12", set(granted) == {_id_of(created)}, why, about=acknowledgement(conversation, with_it))
    response, acknowledged = conversation.response(without), acknowledgement(conversation, without)
    if response is None and acknowledged is None:
        raise Skip("a listen for tasks that does not declare the extension was neither acknowledged nor rejected")
    result = "was acknowledged" if response is None else f"got {response.summary} instead of error {CAPABILITY_MISSING}"
    is_rejected = not undeclared and response is not None and response.code == CAPABILITY_MISSING
    why = f"a listen for tasks that does not declare the extension {result}"
    case.expect("TX-12", is_rejected, why, about=response or acknowledged)


@probe("TX-13", fresh_conversation=True, needs=("extensions", "call"))
async def tasks_have_no_progress_and_no_cancelled(case: Case) -> None:
    """A request with a progress token and a log level becomes a task, and is then cancelled like an open request."""
    conversation = case.conversation
    call, _ = await _created(case)
    response = await _call(case, call.params, meta={"progressToken": "twopipes-check-progress", META_LOG_LEVEL: "debug"})
    if not _is_task(response):
        raise Skip(f"a call of {call.name} does not become a task each time")
    conversation.notify("notifications/cancelled", {"requestId": response.id})
    # Requested after the cancellation was read: a task that has ended by then shows nothing.
    status = (await _about(case, _id_of(response))).result.get("status")
    last = await _settled(case, _id_of(response))
    later = conversation.received_lines[response.received_line.number :]
    for method, what in (("notifications/progress", "progress"), ("notifications/message", "a log message")):
        for line in [line for line in later if line.method == method][:1]:
            case.forbid("TX-13", line, f"{what} was sent for a task")
    if status in TERMINAL and status != "cancelled":
        raise Skip(f"the task of a call of {call.name} had ended before notifications/cancelled was read")
    why = "notifications/cancelled for a request that had become a task cancelled the task"
    case.expect("TX-13", last.result.get("status") != "cancelled", why, about=last)


@probe("TX-16", needs="call", client_capabilities={"extensions": {EXTENSION: {}}})
async def the_extension_has_no_meaning_after_a_handshake(case: Case) -> None:
    """Tools are called in a conversation with a handshake that declares the extension."""
    for call in case.safe_calls[:_CALLS]:
        response = await case.conversation.request("tools/call", call.params)
        why = f"a call of {call.name} became a task of the extension, which {case.revision} does not have"
        case.expect("TX-16", not _is_task(response), why, about=response)


def _declared(case: Case) -> Any:
    """Return the value of the extension in the capabilities of the server; raise Skip if it is not declared."""
    extensions = members(case.features.capabilities.get("extensions"))
    if EXTENSION not in extensions:
        raise Skip(f"the server does not declare the extension {EXTENSION}")
    return extensions[EXTENSION]


async def _created(case: Case) -> tuple[SafeCall, Response]:
    """Return a call that became a task, and its response; raise Skip if no call does."""
    _declared(case)
    for call in sorted(case.safe_calls, key=lambda each: each.name != "slow")[:_CALLS]:
        response = await _call(case, call.params)
        if _is_task(response) and isinstance(response.result.get("taskId"), str):
            return call, response
    raise Skip("no tool that may be called becomes a task")


async def _call(case: Case, params: Mapping[str, Any], **options: Any) -> Response:
    return await case.conversation.request("tools/call", params, client_capabilities=_WITH, **options)


async def _about(case: Case, task_id: str, method: str = "tasks/get", **more: Any) -> Response:
    return await case.conversation.request(method, {"taskId": task_id, **more}, client_capabilities=_WITH)


async def _settled(case: Case, task_id: str) -> Reply:
    return (await poll(lambda: _about(case, task_id), within=case.timeouts.response, interval="pollIntervalMs"))[-1]


async def _has_ended(case: Case, task_id: str) -> bool:
    return (await _about(case, task_id)).result.get("status") in TERMINAL


async def _granted(case: Case, request_id: Any) -> list[Any]:
    """Return the ids of tasks in the acknowledgement of a listen; empty if it has none, or was rejected."""
    line = await opened_listen(case.conversation, request_id)
    found = members(line.params.get("notifications")).get("taskIds") if line is not None else None
    return found if isinstance(found, list) else []


def _id_of(response: Response) -> str:
    task_id = response.result.get("taskId")
    if not isinstance(task_id, str):
        raise Skip("a call that became a task before did not become one again")
    return task_id


def _is_task(response: Response) -> bool:
    return response.result.get("resultType") == "task"


def _is_empty(response: Response) -> bool:
    return response.result.get("resultType") == "complete" and not response.result.keys() - {"resultType", "_meta"}


def _fault(response: Reply) -> str:
    return fault_of_task(response.result, ttl="ttlMs", interval="pollIntervalMs")
