"""Lists that change: whoever has a right to hear of it is told, for tools, resources and prompts alike."""

from __future__ import annotations

from msgspec import Struct

from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import walked

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


class _Kind(Struct, frozen=True, kw_only=True):
    """What can change: its list, the test server's tool that changes it, and how that is told."""

    rule: str
    member: str
    key: str
    fixture: str

    @property
    def method(self) -> str:
        return f"{self.member}/list"

    @property
    def notification(self) -> str:
        return f"notifications/{self.member}/list_changed"

    @property
    def wish(self) -> str:
        return f"{self.member}ListChanged"

    async def listed(self, conversation: LiveConversation) -> list[str]:
        return sorted(await walked(conversation, self.method, self.member, self.key))


@probe("TL-17", needs="tools.listChanged", section_only=True)
async def changes_of_tools_are_told(case: Case) -> None:
    """The test server's tool `mutate` adds a tool or takes one away."""
    await _judge(case, _Kind(rule="TL-17", member="tools", key="name", fixture="mutate"))


@probe("RS-07", needs="resources.listChanged", section_only=True)
async def changes_of_resources_are_told(case: Case) -> None:
    """The test server's tool `mutate_resources` adds a resource or takes one away."""
    await _judge(case, _Kind(rule="RS-07", member="resources", key="uri", fixture="mutate_resources"))


@probe("PM-05", needs="prompts.listChanged", section_only=True)
async def changes_of_prompts_are_told(case: Case) -> None:
    """The test server's tool `mutate_prompts` adds a prompt or takes one away."""
    await _judge(case, _Kind(rule="PM-05", member="prompts", key="name", fixture="mutate_prompts"))


async def _judge(case: Case, kind: _Kind) -> None:
    conversation, params = case.conversation, case.fixture(kind.fixture)
    listening: int | None = None
    if case.is_modern:
        position = conversation.position
        await conversation.request("tools/call", params)
        told = next((line for line in await conversation.quiet(since=position) if line.method == kind.notification), None)
        if told is not None:
            case.expect(
                kind.rule,
                condition=False,
                why=f"{kind.notification} came to a client that does not listen",
                fix="On the stateless wire, tell of changes only within a subscriptions/listen that asked for it.",
                about=told,
            )
        listening = conversation.start("subscriptions/listen", {"notifications": {kind.wish: True}})
        await conversation.wait_for(
            lambda line: line.method == _ACKNOWLEDGED or conversation.responses_to(listening), since=position
        )
        if conversation.responses_to(listening) or all(
            line.method != _ACKNOWLEDGED for line in conversation.received_lines[position:]
        ):
            case.give_up("the server did not acknowledge a listen, without which no notification is due")
    before = await kind.listed(conversation)
    position = conversation.position
    await conversation.request("tools/call", params)
    line = await conversation.wait_for(kind.notification, since=position)
    if line is None and await kind.listed(conversation) == before:
        case.give_up(f"the tool {kind.fixture!r} changed nothing that {kind.method} shows")
    how = " to a client that listens for it" if case.is_modern else ""
    case.expect(
        kind.rule,
        line is not None,
        f"{kind.method} gives other {kind.member} than before, and no {kind.notification} came{how}",
        fix=f"Send {kind.notification} when they change, or do not declare {kind.member}.listChanged.",
    )
    if listening is not None:
        conversation.notify("notifications/cancelled", {"requestId": listening})
