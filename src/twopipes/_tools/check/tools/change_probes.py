"""Lists that change: the notifications about tools, resources and prompts."""

from __future__ import annotations

from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import walked
from twopipes._tools.check.setups import listening, stop_listening


@probe("TL-17", needs="tools.listChanged", section_only=True)
async def changes_of_tools_are_announced(case: Case) -> None:
    """The tool `mutate` of test servers adds or removes a tool."""
    await _judge(case, "TL-17", "tools", "name", "mutate")


@probe("RS-07", needs="resources.listChanged", section_only=True)
async def changes_of_resources_are_announced(case: Case) -> None:
    """The tool `mutate_resources` of test servers adds or removes a resource."""
    await _judge(case, "RS-07", "resources", "uri", "mutate_resources")


@probe("PM-05", needs="prompts.listChanged", section_only=True)
async def changes_of_prompts_are_announced(case: Case) -> None:
    """The tool `mutate_prompts` of test servers adds or removes a prompt."""
    await _judge(case, "PM-05", "prompts", "name", "mutate_prompts")


async def _judge(case: Case, rule: str, kind: str, key: str, tool: str) -> None:
    conversation, params, notification = case.conversation, case.fixture(tool), f"notifications/{kind}/list_changed"
    listens = []
    if case.is_modern:
        since = conversation.position
        await conversation.request("tools/call", params)
        stray = [line for line in await conversation.quiet(since=since) if line.method == notification]
        if stray:
            case.forbid(rule, stray, f"{notification} was sent to a client that does not listen")
        listens.append(await listening(conversation, {f"{kind}ListChanged": True}))
    before = await _listed(conversation, kind, key)
    since = conversation.position
    await conversation.request("tools/call", params)
    line = await conversation.wait_for(notification, since=since)
    if line is None and await _listed(conversation, kind, key) == before:
        case.give_up(f"the tool {tool!r} changed nothing that {kind}/list shows")
    whom = " to a client that listens for it" if case.is_modern else ""
    case.expect(rule, line, f"the result of {kind}/list has changed, and no {notification} was sent{whom}")
    stop_listening(conversation, *listens)


async def _listed(conversation: LiveConversation, kind: str, key: str) -> list[str]:
    return sorted(await walked(conversation, f"{kind}/list", kind, key))
