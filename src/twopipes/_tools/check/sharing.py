"""Which probes share a conversation, and when one is fit to be handed on.

A process costs what it costs to start, and some servers take a second or more. What leaves nothing behind is therefore asked of one
and the same process; what leaves something behind, or wants a server that nobody has spoken to, has one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct, field
from msgspec.json import encode

from twopipes._protocol.revisions import MODERN
from twopipes._tools.check.conversation import LiveConversation, NoResponse
from twopipes._tools.check.probe import Probe
from twopipes._tools.check.server_source import ServerTarget

__all__ = ["ProbeGroup", "SharedConversation", "plan_groups"]

# Into how many conversations the probes of one revision that could all share one are divided, to go on side by side.
_SIDE_BY_SIDE = 2
# Fewer probes than this are not worth a process of their own.
_WORTH_A_GROUP = 12


class ProbeGroup(Struct, kw_only=True, eq=False):
    """Probes that are run one after the other, in a conversation that is handed on from each to the next.

    Attributes:
        revision: That is spoken.
        client_capabilities: Declared in the handshake; in a modern revision each request declares its own.
        judged: Whether what the conversation shows by itself counts.
        section: Whose probes alone it has; none where it takes what comes.
        probes: In their order.
    """

    revision: str
    client_capabilities: Mapping[str, Any] | None = None
    judged: bool = True
    section: str = ""
    probes: list[Probe] = field(default_factory=list)

    @property
    def is_common(self) -> bool:
        """Whether any conversation will do that was opened by a client which declares nothing and breaks no rule."""
        return not self.section and self.client_capabilities is None and self.judged


def plan_groups(probes: Iterable[tuple[Probe, str]]) -> list[ProbeGroup]:
    """Divides what is to be tried among conversations, the same way each time.

    Args:
        probes: Each with a revision that it is tried in.
    """
    groups: dict[tuple[Any, ...], ProbeGroup] = {}
    endings: list[tuple[Probe, str]] = []
    for probe, revision in probes:
        if probe.runs_last:
            endings.append((probe, revision))
            continue
        client_capabilities = None if revision in MODERN else probe.client_capabilities
        is_alone = probe.opens_own or probe.fresh_conversation
        alone = probe.name if is_alone else ""
        section = probe.section if is_alone or probe.section_only else ""
        key = (revision, section, alone, encode(client_capabilities), probe.judged)
        groups.setdefault(
            key, ProbeGroup(revision=revision, client_capabilities=client_capabilities, judged=probe.judged, section=section)
        ).probes.append(probe)
    found: list[ProbeGroup] = []
    for group in groups.values():
        found += _divided(group) if group.is_common else [group]
    for probe, revision in endings:
        host = next((group for group in found if _may_end(probe, revision, group)), None)
        if host is None:
            host = ProbeGroup(
                revision=revision, client_capabilities=probe.client_capabilities, judged=probe.judged, section=probe.section
            )
            found.append(host)
        host.probes.append(probe)
    # What takes longest begins first, so that nobody waits for it alone in the end.
    return sorted(found, key=lambda group: -len(group.probes))


def _may_end(probe: Probe, revision: str, group: ProbeGroup) -> bool:
    if group.section or group.probes[-1].runs_last:
        return False
    return (
        group.revision == revision
        and group.judged == probe.judged
        and (probe.client_capabilities is None or probe.client_capabilities == group.client_capabilities)
    )


def _divided(group: ProbeGroup) -> list[ProbeGroup]:
    count = max(1, min(_SIDE_BY_SIDE, len(group.probes) // _WORTH_A_GROUP))
    parts = [ProbeGroup(revision=group.revision) for _ in range(count)]
    sections: dict[str, list[Probe]] = {}
    for probe in group.probes:
        sections.setdefault(probe.section, []).append(probe)
    for together in sections.values():
        min(parts, key=lambda part: len(part.probes)).probes.extend(together)
    return parts


class SharedConversation:
    """The conversation of a lane: opened when it is wanted, and again when the last one is not fit to be handed on.

    Args:
        target: The server.
        group: Whose it is.
        conversation: One that is open already, and in which nothing was said that leaves anything behind.

    Attributes:
        is_reused: Whether another probe had what was lent last.
    """

    def __init__(self, target: ServerTarget, group: ProbeGroup, conversation: LiveConversation | None = None) -> None:
        self._target = target
        self._group = group
        self._conversation = conversation
        self._is_acquired = self._was_used = False
        self.is_reused = False

    async def acquire(self, probe: Probe) -> LiveConversation:
        """The conversation, for a probe.

        Raises:
            CannotOpen: The server did not open one.
            StartFailed: It cannot be started.
            ChannelBroken: Nobody listens there.
        """
        if self._conversation is not None and not await self._can_be_handed_on(self._conversation):
            await self.renew()
        if self._conversation is None:
            self._conversation = await self._target.open()
            self._conversation.judged = self._group.judged
            await self._conversation.open(self._group.revision, self._group.client_capabilities)
        if self._conversation.is_modern:
            self._conversation.client_capabilities = probe.client_capabilities or {}
        self.is_reused = self._was_used
        self._is_acquired = self._was_used = True
        return self._conversation

    def release(self) -> int:
        """Takes it from a probe, and tells how many of its requests were waited for in vain."""
        if self._conversation is None or not self._is_acquired:
            return 0
        self._is_acquired = False
        self._conversation.reset_answers()
        return self._conversation.unanswered

    async def _can_be_handed_on(self, conversation: LiveConversation) -> bool:
        """Whether the server has answered all that it was asked, and goes on answering."""
        if not conversation.is_usable or conversation.unanswered:
            return False
        if not self._was_used:
            return True
        with suppress(NoResponse):
            is_served = (await conversation.request(conversation.harmless, within=conversation.timeouts.step)).is_result
            # What still runs would be heard by the next probe. On a slow link, what has ended may be known only now.
            return is_served and not (self._group.judged and conversation.open_requests)
        return False

    async def renew(self) -> None:
        """Ends the conversation: what is lent next is a fresh one."""
        conversation, self._conversation = self._conversation, None
        self._is_acquired = self._was_used = self.is_reused = False
        if conversation is not None:
            await conversation.close()
