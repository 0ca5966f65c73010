"""Tasks of 2025-11-25 that a server runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopipes._tools.check.conversation import ALL_CAPABILITIES, Response
from twopipes._tools.check.probe import Case, SafeCall, probe
from twopipes._tools.check.tasks_2025.requester import RELATED, TaskRunner, wrong_with_capability, wrong_with_task
from twopipes._tools.check.verdict import Skip

_NO_SUCH_METHOD = -32601
_INVALID_REQUEST = -32600
_STATUS = "notifications/tasks/status"
# The names under which test servers have tools that fail, break or ask; they are not tried as tasks that simply end.
_SPECIAL = frozenset({"fail", "boom", "ask", "ask_url", "ask_twice", "ask_at_once", "sample", "roots_tool"})


@probe("TK-01", needs="tasks")
async def the_capability_is_made_of_objects(case: Case) -> None:
    """What the server declares about tasks has the right shape."""
    wrong = wrong_with_capability(case.features.capabilities["tasks"], "tools.call")
    case.expect(
        "TK-01",
        not wrong,
        f"the capability for tasks is not as it has to be: {wrong}",
        fix='Declare "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}, or as much of it as there is.',
        about=case.conversation.opening,
    )


@probe("TK-02", needs="call")
async def a_task_member_is_passed_over(case: Case) -> None:
    """A server that does not declare tasks is called as if it did."""
    if case.features.has("tasks.requests.tools.call"):
        raise Skip("the server declares tasks for tools")
    call = case.safe_call()
    plain = await case.conversation.request("tools/call", call.params)
    response = await case.conversation.request("tools/call", {**call.params, "task": {}})
    if not plain.is_result:
        raise Skip(f"{call.name} cannot be called: it got {plain.summary}")
    case.expect(
        "TK-02",
        response.is_result and "task" not in response.result,
        f"a call of {call.name} with a task member got {response.summary}, and a plain one {plain.summary}; tasks are not declared",
        fix="Pass over the member task unless you declare tasks for that request.",
        about=response,
    )


@probe("TK-03", needs=("call", "tasks.requests.tools.call"))
async def a_tool_that_has_to_be_a_task_refuses_a_plain_call(case: Case) -> None:
    """A tool that requires a task is called without one."""
    call = next((each for each in case.features.safe_calls(case.permissions) if _support(each) == "required"), None)
    if call is None:
        raise Skip("no tool that may be called requires a task")
    response = await case.conversation.request("tools/call", call.params)
    case.expect(
        "TK-03",
        response.code in {_NO_SUCH_METHOD, _INVALID_REQUEST},  # the page has both codes, in different places
        f"{call.name} requires a task, and a plain call of it got {response.summary}",
        fix="Answer with the error -32601.",
        about=response,
    )


@probe(
    "TK-05",
    "TK-06",
    "TK-07",
    "TK-08",
    "TK-09",
    "TK-10",
    "TK-11",
    "TK-15",
    fresh_conversation=True,
    needs=("call", "tasks.requests.tools.call"),
)
async def a_task_lives_and_ends(case: Case) -> None:
    """A tool is called as a task, which is asked for while it runs and after its end."""
    call = _plain_tool(case)
    runner = _runner(case, call)
    if _support(call) == "optional":
        plain = await case.conversation.request("tools/call", call.params)
        runner.plain = plain.result if plain.is_result else None
    await runner.judge_life()


@probe("TK-05", "TK-09", fresh_conversation=True, needs=("call", "tasks.requests.tools.call"))
async def a_task_is_cancelled(case: Case) -> None:
    """A task is cancelled as soon as it runs."""
    await _runner(case, _plain_tool(case)).judge_cancel()


@probe("TK-05", "TK-12", fresh_conversation=True, needs=("call", "tasks.requests.tools.call"))
async def notifications_about_tasks_are_whole(case: Case) -> None:
    """If the server tells of a task by itself, it tells all of it."""
    runner = _runner(case, _plain_tool(case))
    await runner.settle(await runner.create())
    await case.conversation.quiet()
    told = [line for line in case.conversation.received_lines if line.method == _STATUS]
    if not told:
        raise Skip("the server sends no notifications about tasks, which is its right")
    for line in told:
        wrong = wrong_with_task(line.params)
        why = f"a notification about a task is not a whole task: {wrong}"
        case.expect("TK-12", not wrong, why, fix="Put all members of the task into the params.", about=line)


@probe("TK-05", "TK-14", fresh_conversation=True, needs=("call", "tasks.requests.tools.call"))
async def a_tool_that_fails_fails_its_task(case: Case) -> None:
    """The tool ``fail``, as a task."""
    runner = _runner(case, _named(case, "fail"))
    task_id = await runner.create()
    result = await case.conversation.request("tasks/result", {"taskId": task_id})
    if result.result.get("isError") is not True:
        raise Skip(f"the result of fail has no isError, it is {result.summary}")
    status, seen = await runner.settle(task_id)
    case.expect(
        "TK-14",
        status == "failed",
        f"a task whose tool result has isError ended as {status!r}",
        fix="End the task as failed, and keep the result for tasks/result.",
        about=seen[-1],
    )


@probe(
    "TK-05",
    "TK-11",
    "TK-13",
    fresh_conversation=True,
    needs=("call", "tasks.requests.tools.call"),
    client_capabilities=ALL_CAPABILITIES,
)
async def a_task_asks(case: Case) -> None:
    """The tool ``ask``, as a task: it needs input, and asks while its result is waited for."""
    conversation = case.conversation
    asked: list[dict[str, Any]] = []
    willing = conversation.answers["elicitation/create"]

    def response(question: dict[str, Any]) -> Any:
        asked.append(question)
        return willing

    conversation.answers["elicitation/create"] = response
    runner = _runner(case, _named(case, "ask"))
    task_id = await runner.create()
    status, seen = await runner.settle(task_id)
    early = bool(asked)
    await conversation.request("tasks/result", {"taskId": task_id})
    if not asked:
        raise Skip("the tool ask has asked nothing")
    case.expect(
        "TK-13",
        status == "input_required" or early,
        f"a task that needs input was {status!r} before its result was asked for",
        fix="Set the status to input_required, and ask while tasks/result is open.",
        about=seen[-1],
    )
    params = asked[0].get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    related = meta.get(RELATED) if isinstance(meta, dict) else None
    case.expect(
        "TK-11",
        isinstance(related, dict) and related.get("taskId") == task_id,
        "a question that belongs to a task does not name it",
        fix=f"Put the id of the task into the _meta of the request, under {RELATED}.",
        about=await conversation.wait_for("elicitation/create"),
    )


def _runner(case: Case, call: SafeCall) -> TaskRunner:
    async def ask(method: str, params: Mapping[str, Any]) -> Response:
        return await case.conversation.request(method, params)

    return TaskRunner(
        case,
        ask,
        method="tools/call",
        params=call.params,
        declared=case.features.capabilities["tasks"],
        timeouts=case.timeouts.response,
        grace=case.timeouts.grace,
    )


def _plain_tool(case: Case) -> SafeCall:
    """A tool that can be a task, and simply ends; the one that takes its time first.

    Raises:
        Skip: There is none.
    """
    found = [each for each in case.features.safe_calls(case.permissions) if _can_be_task(each) and each.name not in _SPECIAL]
    if not found:
        raise Skip("no tool that may be called can be a task")
    return min(found, key=lambda call: call.name != "slow")


def _named(case: Case, name: str) -> SafeCall:
    found = [each for each in case.features.safe_calls(case.permissions) if _can_be_task(each) and each.name == name]
    if not found:
        raise Skip(f"the server has no tool {name!r} that may be called as a task")
    return found[0]


def _support(call: SafeCall) -> Any:
    execution = call.tool.get("execution")
    return execution.get("taskSupport") if isinstance(execution, dict) else None


def _can_be_task(call: SafeCall) -> bool:
    return _support(call) in {"optional", "required"}
