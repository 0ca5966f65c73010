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
from twopipes._tools.check.conversation import LiveConversation, Unanswered
from twopipes._tools.check.probe import Probe
from twopipes._tools.check.server_source import Subject

__all__ = ["Lane", "SharedTalk", "lanes_of"]

# Into how many conversations the probes of one revision that could all share one are divided, to go on side by side.
_SIDE_BY_SIDE = 2
# Fewer probes than this are not worth a process of their own.
_WORTH_A_LANE = 12


class Lane(Struct, kw_only=True, eq=False):
    """Probes that are run one after the other, in a conversation that is handed on from each to the next.

    Attributes:
        revision: That is spoken.
        can: The client capabilities that are declared in the handshake; on the stateless wire each request has its own.
        judged: Whether what the conversation shows by itself counts.
        section: Whose probes alone it has; none where it takes what comes.
        probes: In their order.
    """

    revision: str
    can: Mapping[str, Any] | None = None
    judged: bool = True
    section: str = ""
    probes: list[Probe] = field(default_factory=list)

    @property
    def is_common(self) -> bool:
        """Whether any conversation will do that was opened by a client which declares nothing and breaks no rule."""
        return not self.section and self.can is None and self.judged


def lanes_of(probes: Iterable[tuple[Probe, str]]) -> list[Lane]:
    """Divides what is to be tried among conversations, the same way each time.

    Args:
        probes: Each with a revision that it is tried in.
    """
    lanes: dict[tuple[Any, ...], Lane] = {}
    endings: list[tuple[Probe, str]] = []
    for probe, revision in probes:
        if probe.last:
            endings.append((probe, revision))
            continue
        can = None if revision in MODERN else probe.can
        is_alone = probe.own or probe.fresh
        alone = probe.name if is_alone else ""
        section = probe.section if is_alone or probe.apart else ""
        key = (revision, section, alone, encode(can), probe.judged)
        lanes.setdefault(key, Lane(revision=revision, can=can, judged=probe.judged, section=section)).probes.append(probe)
    found: list[Lane] = []
    for lane in lanes.values():
        found += _divided(lane) if lane.is_common else [lane]
    for probe, revision in endings:
        host = next((lane for lane in found if _may_end(probe, revision, lane)), None)
        if host is None:
            host = Lane(revision=revision, can=probe.can, judged=probe.judged, section=probe.section)
            found.append(host)
        host.probes.append(probe)
    # What takes longest begins first, so that nobody waits for it alone in the end.
    return sorted(found, key=lambda lane: -len(lane.probes))


def _may_end(probe: Probe, revision: str, lane: Lane) -> bool:
    if lane.section or lane.probes[-1].last:
        return False
    return lane.revision == revision and lane.judged == probe.judged and (probe.can is None or probe.can == lane.can)


def _divided(lane: Lane) -> list[Lane]:
    count = max(1, min(_SIDE_BY_SIDE, len(lane.probes) // _WORTH_A_LANE))
    parts = [Lane(revision=lane.revision) for _ in range(count)]
    sections: dict[str, list[Probe]] = {}
    for probe in lane.probes:
        sections.setdefault(probe.section, []).append(probe)
    for together in sections.values():
        min(parts, key=lambda part: len(part.probes)).probes.extend(together)
    return parts


class SharedTalk:
    """The conversation of a lane: opened when it is wanted, and again when the last one is not fit to be handed on.

    Args:
        subject: The server.
        lane: Whose it is.
        talk: One that is open already, and in which nothing was said that leaves anything behind.

    Attributes:
        is_second_hand: Whether another probe had what was lent last.
    """

    def __init__(self, subject: Subject, lane: Lane, talk: LiveConversation | None = None) -> None:
        self._subject = subject
        self._lane = lane
        self._talk = talk
        self._is_lent = self._was_used = False
        self.is_second_hand = False

    async def lend(self, probe: Probe) -> LiveConversation:
        """The conversation, for a probe.

        Raises:
            CannotOpen: The server did not open one.
            StartFailed: It cannot be started.
            ChannelBroken: Nobody listens there.
        """
        if self._talk is not None and not await self._can_be_handed_on(self._talk):
            await self.renew()
        if self._talk is None:
            self._talk = await self._subject.open()
            self._talk.judged = self._lane.judged
            await self._talk.open(self._lane.revision, self._lane.can)
        if self._talk.is_modern:
            self._talk.can = probe.can or {}
        self.is_second_hand = self._was_used
        self._is_lent = self._was_used = True
        return self._talk

    def take_back(self) -> int:
        """Takes it from a probe, and tells how many of its requests were waited for in vain."""
        if self._talk is None or not self._is_lent:
            return 0
        self._is_lent = False
        self._talk.be_willing()
        return self._talk.unanswered

    async def _can_be_handed_on(self, talk: LiveConversation) -> bool:
        """Whether the server has answered all that it was asked, and goes on answering."""
        if not talk.is_usable or talk.unanswered:
            return False
        if not self._was_used:
            return True
        with suppress(Unanswered):
            is_served = (await talk.request(talk.harmless, within=talk.waits.step)).is_result
            # What still runs would be heard by the next probe. On a slow link, what has ended may be known only now.
            return is_served and not (self._lane.judged and talk.owed)
        return False

    async def renew(self) -> None:
        """Ends the conversation: what is lent next is a fresh one."""
        talk, self._talk = self._talk, None
        self._is_lent = self._was_used = self.is_second_hand = False
        if talk is not None:
            await talk.close()
