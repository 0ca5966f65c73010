"""Tasks of 2025-11-25 that a server runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopipes._codes import INVALID_REQUEST, METHOD_NOT_FOUND
from twopipes._tools.check.conversation import ALL_CAPABILITIES
from twopipes._tools.check.messages import Response, members
from twopipes._tools.check.probe import Case, SafeCall, probe
from twopipes._tools.check.tasks_2025.receiver import RELATED, TaskReceiver, fault_of_capability, fault_of_task
from twopipes._tools.check.verdict import Skip

_NEEDS = ("call", "tasks.requests.tools.call")
# The names under which test servers have tools that fail or ask. They are not tried as tasks that simply end.
_SPECIAL = frozenset({"fail", "boom", "ask", "ask_url", "ask_twice", "ask_at_once", "sample", "roots_tool"})


@probe("TK-01", needs="tasks")
async def the_capability_consists_of_objects(case: Case) -> None:
    """The capability tasks of the server has the right shape."""
    fault = fault_of_capability(case.features.capabilities["tasks"], "tools.call")
    case.expect("TK-01", not fault, f"the capability tasks has a fault: {fault}", about=case.conversation.opening)


@probe("TK-02", needs="call")
async def a_task_member_is_ignored(case: Case) -> None:
    """A server that does not declare tasks is called with a task member."""
    if case.features.has("tasks.requests.tools.call"):
        raise Skip("the server declares tasks for tools")
    call = case.safe_call()
    plain = await case.conversation.request("tools/call", call.params)
    response = await case.conversation.request("tools/call", {**call.params, "task": {}})
    if not plain.is_result:
        raise Skip(f"{call.name} cannot be called: it got {plain.summary}")
    why = f"tasks are not declared; a call of {call.name} with a task member got {response.summary}, and one without it a result"
    case.expect("TK-02", response.is_result and "task" not in response.result, why, about=response)


@probe("TK-03", needs=_NEEDS)
async def a_tool_that_requires_a_task_rejects_a_plain_call(case: Case) -> None:
    """A tool that requires a task is called without one."""
    call = next((each for each in case.safe_calls if _support(each) == "required"), None)
    if call is None:
        raise Skip("no tool that may be called requires a task")
    response = await case.conversation.request("tools/call", call.params)
    is_rejected = response.code in {METHOD_NOT_FOUND, INVALID_REQUEST}  # the page has both codes, in different places
    case.expect("TK-03", is_rejected, f"{call.name} requires a task, and a plain call got {response.summary}", about=response)


@probe("TK-05", "TK-06", "TK-07", "TK-08", "TK-09", "TK-10", "TK-11", "TK-15", fresh_conversation=True, needs=_NEEDS)
async def a_task_runs_and_ends(case: Case) -> None:
    """A tool is called as a task, which is requested while it runs and after its end."""
    call = _tool(case)
    receiver = _receiver(case, call)
    if _support(call) == "optional":
        receiver.plain = (await case.conversation.request("tools/call", call.params)).result
    await receiver.judge_life()


@probe("TK-05", "TK-09", fresh_conversation=True, needs=_NEEDS)
async def a_task_is_cancelled(case: Case) -> None:
    """A task is cancelled as soon as it runs."""
    await _receiver(case, _tool(case)).judge_cancel()


@probe("TK-05", "TK-12", fresh_conversation=True, needs=_NEEDS)
async def notifications_about_tasks_are_complete(case: Case) -> None:
    """Notifications about a task, if the server sends any, contain the whole task."""
    receiver = _receiver(case, _tool(case))
    await receiver.settle(await receiver.create())
    await case.conversation.quiet()
    notes = [line for line in case.conversation.received_lines if line.method == "notifications/tasks/status"]
    if not notes:
        raise Skip("the server sends no notifications about tasks, which is allowed")
    for line in notes:
        fault = fault_of_task(line.params)
        case.expect("TK-12", not fault, f"a notification about a task is not a whole task: {fault}", about=line)


@probe("TK-05", "TK-14", fresh_conversation=True, needs=_NEEDS)
async def a_tool_that_fails_fails_its_task(case: Case) -> None:
    """The tool ``fail`` is called as a task."""
    receiver = _receiver(case, _tool(case, "fail"))
    task_id = await receiver.create()
    result = await receiver.get(task_id, "tasks/result")
    if result.result.get("isError") is not True:
        raise Skip(f"the result of fail has no isError: it got {result.summary}")
    status, seen = await receiver.settle(task_id)
    case.expect("TK-14", status == "failed", f"a task whose tool result has isError ended as {status!r}", about=seen[-1])


@probe("TK-05", "TK-11", "TK-13", fresh_conversation=True, needs=_NEEDS, client_capabilities=ALL_CAPABILITIES)
async def a_task_asks(case: Case) -> None:
    """The tool ``ask`` is called as a task: it needs input, and asks while its result is requested."""
    conversation = case.conversation
    asked: list[dict[str, Any]] = []
    answer = conversation.answers["elicitation/create"]

    def respond(question: dict[str, Any]) -> Any:
        asked.append(question)
        return answer

    conversation.answers["elicitation/create"] = respond
    receiver = _receiver(case, _tool(case, "ask"))
    task_id = await receiver.create()
    status, seen = await receiver.settle(task_id)
    is_early = bool(asked)
    await receiver.get(task_id, "tasks/result")
    if not asked:
        raise Skip("the tool ask asked nothing")
    why = f"a task that needs input was {status!r} before its result was requested"
    case.expect("TK-13", status == "input_required" or is_early, why, about=seen[-1])
    related = members(members(members(asked[0].get("params")).get("_meta")).get(RELATED))
    line = await conversation.wait_for("elicitation/create")
    case.expect("TK-11", related.get("taskId") == task_id, "a question of a task does not name the task", about=line)


def _receiver(case: Case, call: SafeCall) -> TaskReceiver:
    async def ask(method: str, params: Mapping[str, Any]) -> Response:
        return await case.conversation.request(method, params)

    declared, timeouts = case.features.capabilities["tasks"], case.timeouts
    return TaskReceiver(
        case, ask, method="tools/call", params=call.params, declared=declared, timeout=timeouts.response, grace=timeouts.grace
    )


def _tool(case: Case, name: str = "") -> SafeCall:
    """Return a tool that can be a task: the named one, or one that simply ends, preferably a slow one."""
    can_be_task = [each for each in case.safe_calls if _support(each) in {"optional", "required"}]
    found = [each for each in can_be_task if (each.name == name if name else each.name not in _SPECIAL)]
    if not found:
        raise Skip(f"the server has no tool{f' {name!r}' if name else ''} that may be called as a task")
    return min(found, key=lambda call: call.name != "slow")


def _support(call: SafeCall) -> Any:
    return members(call.tool.get("execution")).get("taskSupport")
