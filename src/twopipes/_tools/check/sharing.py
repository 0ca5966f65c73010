"""Which probes share a conversation, and when a conversation can be reused.

Some servers take a second or more to start. Probes that leave nothing behind therefore share one process. A probe that leaves
something behind, or needs an unused server, gets its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct, field
from msgspec.json import encode

from twopipes._protocol.revisions import MODERN
from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.messages import NoResponse
from twopipes._tools.check.probe import Probe
from twopipes._tools.check.server_source import ServerTarget

# The probes of one revision that could share one conversation are divided among this many, which run concurrently.
_CONCURRENT = 2
# Fewer probes than this do not justify another process.
_MIN_GROUP = 12


class ProbeGroup(Struct, kw_only=True, eq=False):
    """Probes that run one after the other in the same conversation."""

    revision: str
    client_capabilities: Mapping[str, Any] | None = None  # in a modern revision each request declares its own
    judged: bool = True  # whether the messages of the conversation are judged passively
    section: str = ""  # the section whose probes it is limited to; empty for no limit
    probes: list[Probe] = field(default_factory=list)

    @property
    def is_common(self) -> bool:
        """Whether the group can use any conversation of a client that declares nothing and breaks no rules."""
        return not self.section and self.client_capabilities is None and self.judged


def plan_groups(probes: Iterable[tuple[Probe, str]]) -> list[ProbeGroup]:
    """Divide probes, each with a revision in which it is tried, among conversations. The result is deterministic."""
    groups: dict[tuple[Any, ...], ProbeGroup] = {}
    endings: list[tuple[Probe, str]] = []
    for probe, revision in probes:
        if probe.runs_last:
            endings.append((probe, revision))
            continue
        declared = None if revision in MODERN else probe.client_capabilities
        is_alone = probe.opens_own or probe.fresh_conversation
        section = probe.section if is_alone or probe.section_only else ""
        key = (revision, section, probe.name if is_alone else "", encode(declared), probe.judged)
        group = ProbeGroup(revision=revision, client_capabilities=declared, judged=probe.judged, section=section)
        groups.setdefault(key, group).probes.append(probe)
    found = [part for group in groups.values() for part in (_divided(group) if group.is_common else [group])]
    for probe, revision in endings:
        declared = probe.client_capabilities
        own = ProbeGroup(revision=revision, client_capabilities=declared, judged=probe.judged, section=probe.section)
        group = next((group for group in found if _may_end(probe, revision, group)), own)
        group.probes.append(probe)
        if group is own:
            found.append(own)
    # The longest groups start first, so that the run does not end with a single long one.
    return sorted(found, key=lambda group: -len(group.probes))


def _may_end(probe: Probe, revision: str, group: ProbeGroup) -> bool:
    return (
        not group.section
        and not group.probes[-1].runs_last
        and group.revision == revision
        and group.judged == probe.judged
        and (probe.client_capabilities is None or probe.client_capabilities == group.client_capabilities)
    )


def _divided(group: ProbeGroup) -> list[ProbeGroup]:
    count = max(1, min(_CONCURRENT, len(group.probes) // _MIN_GROUP))
    parts = [ProbeGroup(revision=group.revision) for _ in range(count)]
    sections: dict[str, list[Probe]] = {}
    for probe in group.probes:
        sections.setdefault(probe.section, []).append(probe)
    for together in sections.values():
        min(parts, key=lambda part: len(part.probes)).probes.extend(together)
    return parts


class SharedConversation:
    """The conversation of a group. It is opened on first use, and replaced when it can no longer be reused."""

    def __init__(self, target: ServerTarget, group: ProbeGroup, conversation: LiveConversation | None = None) -> None:
        self._target = target
        self._group = group
        self._conversation = conversation  # to start with: open, and no probe has run in it
        self._is_in_use = self._was_used = False
        self.is_reused = False  # whether a previous probe used the conversation that was acquired last

    async def acquire(self, probe: Probe) -> LiveConversation:
        """Return the conversation for a probe, a new one if necessary."""
        if self._conversation is not None and not await self._can_be_reused(self._conversation):
            await self.renew()
        if self._conversation is None:
            self._conversation = await self._target.open()
            self._conversation.judged = self._group.judged
            await self._conversation.open(self._group.revision, self._group.client_capabilities)
        if self._conversation.is_modern:
            self._conversation.client_capabilities = probe.client_capabilities or {}
        self.is_reused = self._was_used
        self._is_in_use = self._was_used = True
        return self._conversation

    def release(self) -> int:
        """Take the conversation back from a probe. Return how many of its requests got no response."""
        if self._conversation is None or not self._is_in_use:
            return 0
        self._is_in_use = False
        self._conversation.reset_answers()
        return self._conversation.unanswered

    async def _can_be_reused(self, conversation: LiveConversation) -> bool:
        """Whether the server has answered all requests, and still answers."""
        if not conversation.is_usable or conversation.unanswered:
            return False
        if not self._was_used:
            return True
        with suppress(NoResponse):
            is_served = (await conversation.request(conversation.harmless, within=conversation.timeouts.step)).is_result
            # The messages of an open request would reach the next probe. On a slow link, some responses may arrive only now.
            return is_served and not (self._group.judged and conversation.open_requests)
        return False

    async def renew(self) -> None:
        """Close the conversation. The next one that is acquired is new."""
        conversation, self._conversation = self._conversation, None
        self._is_in_use = self._was_used = self.is_reused = False
        if conversation is not None:
            await conversation.close()
