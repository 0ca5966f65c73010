"""Tools: how they are listed and named."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import is_complete, named, quoted, walked

_WALKS = 3
_TASK_SUPPORT = ("forbidden", "optional", "required")


@probe("TL-11", "TL-12", needs="tools")
async def output_schemas_are_what_the_revision_has(case: Case) -> None:
    """Each outputSchema that is listed is a schema: of an object up to 2025-11-25, of anything later."""
    tools = [tool for tool in case.features.tools if "outputSchema" in tool]
    if not tools:
        case.give_up("no tool has an outputSchema")
    odd = [tool for tool in tools if not isinstance(tool["outputSchema"], dict) or tool["outputSchema"].get("type") != "object"]
    case.expect(
        "TL-11",
        not odd,
        f'tools/list gives an outputSchema without "type":"object" at its root for {_names(odd)}',
        fix="Put the value into an object in this revision, or leave the outputSchema out and give the value as text.",
        about=quoted(odd),
    )
    odd = [tool for tool in tools if not isinstance(tool["outputSchema"], dict)]
    case.expect(
        "TL-12",
        not odd,
        f"tools/list gives an outputSchema that is no JSON object for {_names(odd)}",
        fix="Write the schema as an object; one that allows everything is {}.",
        about=quoted(odd),
    )


def _names(tools: list[dict[str, Any]]) -> str:
    return named([tool.get("name") for tool in tools])


@probe("TL-15", needs="tools")
async def a_name_means_one_tool(case: Case) -> None:
    """No name is listed twice, on whatever page; and the same letters in the other case are another name."""
    listed = [tool["name"] for tool in case.features.tools if isinstance(tool.get("name"), str)]
    twice = [name for name, count in Counter(listed).items() if count > 1]
    case.expect(
        "TL-15",
        not twice,
        f"tools/list has more than one tool of the name {named(twice)}",
        fix="Give each tool a name of its own; put the name of its group before it, with a dot.",
        about=quoted([tool for tool in case.features.tools if tool.get("name") in twice]),
    )
    call = next((each for each in case.features.safe_calls(case.permissions) if each.name.swapcase() not in listed), None)
    if call is None:
        return
    response = await case.conversation.request("tools/call", {"name": call.name.swapcase(), "arguments": dict(call.arguments)})
    case.expect(
        "TL-15",
        not is_complete(response) or response.result.get("isError") is True,
        f"a call of {call.name.swapcase()!r}, which is not listed, was served as if it were {call.name!r}",
        fix="Compare names as they are.",
        about=response,
    )


@probe("TL-16", needs="tools")
async def the_order_stays(case: Case) -> None:
    """The tools are listed several times, in two conversations: always in the same order."""
    walks = [await walked(case.conversation, "tools/list", "tools", "name") for _ in range(_WALKS)]
    walks.append(await walked(await case.open_conversation(), "tools/list", "tools", "name"))
    if any(sorted(walk) != sorted(walks[0]) for walk in walks):
        case.give_up("the tools themselves changed from one list to the next")
    if len(walks[0]) < 2:
        case.give_up("there is no order among fewer than two tools")
    other = next((walk for walk in walks if walk != walks[0]), None)
    case.expect(
        "TL-16",
        other is None,
        f"the same tools were listed in another order: first {named(walks[0])}, later {named(other or [])}",
        fix="List tools in the order in which they were made, or sorted by name; a set has no order.",
    )


@probe("TL-21", needs="tools")
async def task_support_is_one_of_three_words(case: Case) -> None:
    """What tools say about running as tasks is one of the words that there are for it."""
    tools = [tool for tool in case.features.tools if "execution" in tool]
    if not tools:
        case.give_up("no tool has the member execution")
    odd = [tool for tool in tools if not _is_known(tool["execution"])]
    case.expect(
        "TL-21",
        not odd,
        f"tools/list has an unknown taskSupport for {_names(odd)}",
        fix="Write execution.taskSupport as forbidden, optional or required, or leave execution out.",
        about=quoted(odd),
    )


def _is_known(execution: object) -> bool:
    return isinstance(execution, dict) and execution.get("taskSupport", "forbidden") in _TASK_SUPPORT
