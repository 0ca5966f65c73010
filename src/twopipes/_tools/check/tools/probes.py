"""Tools of servers: the list, and the changes of all lists."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twopipes._tools.check.messages import members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import has_worked, named, quoted, walked
from twopipes._tools.check.setups import listening, stop_listening

_WALKS = 3


@probe("TL-11", "TL-12", needs="tools")
async def output_schemas_fit_the_revision(case: Case) -> None:
    """Each listed outputSchema is a schema: of an object until 2025-11-25, of any value later."""
    tools = _tools_with(case, "outputSchema")
    invalid = [tool for tool in tools if members(tool["outputSchema"]).get("type") != "object"]
    _forbid_tools(case, "TL-11", invalid, 'an outputSchema without "type":"object" at its root')
    invalid = [tool for tool in tools if not isinstance(tool["outputSchema"], dict)]
    _forbid_tools(case, "TL-12", invalid, "an outputSchema that is not a JSON object")


def _tools_with(case: Case, member: str) -> list[dict[str, Any]]:
    found = [tool for tool in case.features.tools if member in tool]
    return found or case.give_up(f"no tool has the member {member}")


def _forbid_tools(case: Case, rule: str, tools: list[dict[str, Any]], what: str) -> None:
    case.expect(rule, not tools, f"tools/list has {what} for {named([tool.get('name') for tool in tools])}", about=quoted(tools))


@probe("TL-15", needs="tools")
async def names_are_unique_and_case_sensitive(case: Case) -> None:
    """No name is listed twice, on any page; and a name in the other case is not served."""
    listed = [tool["name"] for tool in case.features.tools if isinstance(tool.get("name"), str)]
    twice = [name for name, count in Counter(listed).items() if count > 1]
    why = f"tools/list has more than one tool named {named(twice)}"
    case.expect("TL-15", not twice, why, about=quoted([tool for tool in case.features.tools if tool.get("name") in twice]))
    call = next((each for each in case.safe_calls if each.name.swapcase() not in listed), None)
    if call is not None:
        swapped = call.name.swapcase()
        response = await case.conversation.request("tools/call", {"name": swapped, "arguments": dict(call.arguments)})
        why = f"a call of {swapped!r}, which is not listed, was served as if it were {call.name!r}"
        case.expect("TL-15", not has_worked(response), why, about=response)


@probe("TL-16", needs="tools")
async def the_order_stays(case: Case) -> None:
    """The tools are listed several times, in two conversations: always in the same order."""
    walks = [await walked(case.conversation, "tools") for _ in range(_WALKS)]
    walks.append(await walked(await case.open_conversation(), "tools"))
    if any(sorted(walk) != sorted(walks[0]) for walk in walks):
        case.give_up("the tools themselves changed from one list to the next")
    if len(walks[0]) < 2:
        case.give_up("fewer than two tools have no order")
    other = next((walk for walk in walks if walk != walks[0]), [])
    case.expect("TL-16", not other, f"the order of the same tools changed from {named(walks[0])} to {named(other)}")


@probe("TL-21", needs="tools")
async def task_support_has_a_known_value(case: Case) -> None:
    """execution.taskSupport of each tool is one of the three values."""
    tools = _tools_with(case, "execution")
    invalid = [tool for tool in tools if not _has_known_support(tool["execution"])]
    _forbid_tools(case, "TL-21", invalid, "an unknown taskSupport")


def _has_known_support(execution: Any) -> bool:
    return isinstance(execution, dict) and execution.get("taskSupport", "forbidden") in ("forbidden", "optional", "required")


@probe("TL-17", needs="tools.listChanged", section_only=True)
async def changes_of_tools_are_announced(case: Case) -> None:
    """The tool `mutate` of test servers adds or removes a tool."""
    await _judge_changes(case, "TL-17", "tools", "mutate")


@probe("RS-07", needs="resources.listChanged", section_only=True)
async def changes_of_resources_are_announced(case: Case) -> None:
    """The tool `mutate_resources` of test servers adds or removes a resource."""
    await _judge_changes(case, "RS-07", "resources", "mutate_resources")


@probe("PM-05", needs="prompts.listChanged", section_only=True)
async def changes_of_prompts_are_announced(case: Case) -> None:
    """The tool `mutate_prompts` of test servers adds or removes a prompt."""
    await _judge_changes(case, "PM-05", "prompts", "mutate_prompts")


async def _judge_changes(case: Case, rule: str, kind: str, tool: str) -> None:
    conversation, params, notification = case.conversation, case.fixture(tool), f"notifications/{kind}/list_changed"
    listens = []
    if case.is_modern:
        since = conversation.position
        await conversation.request("tools/call", params)
        stray = [line for line in await conversation.quiet(since=since) if line.method == notification]
        if stray:
            case.forbid(rule, stray, f"{notification} was sent to a client that does not listen")
        listens.append(await listening(conversation, {f"{kind}ListChanged": True}))
    before = sorted(await walked(conversation, kind))
    since = conversation.position
    await conversation.request("tools/call", params)
    line = await conversation.wait_for(notification, since=since)
    if line is None and sorted(await walked(conversation, kind)) == before:
        case.give_up(f"the tool {tool!r} changed nothing that {kind}/list shows")
    whom = " to a client that listens for it" if case.is_modern else ""
    case.expect(rule, line, f"the result of {kind}/list has changed, and no {notification} was sent{whom}")
    stop_listening(conversation, *listens)
