"""Find broken rules in a recording.

A finding is reported only if the recording proves it. A recording that starts in the middle of a conversation, has lost entries
or is redacted is judged by what it still proves.
"""

from __future__ import annotations

from collections.abc import Iterable

from twopipes._protocol.revisions import ALL
from twopipes._rules.table import RULES
from twopipes._trace.conversation import Conversation, Item, RecordedConnection
from twopipes._trace.format import Damage, Event
from twopipes._trace.judges import calls, capabilities, lifecycle, lines, payloads
from twopipes._trace.judges.table import JUDGES, ConnectionState, Finding
from twopipes._trace.message import Message

_TABLES = (lines, lifecycle, capabilities, calls, payloads)  # importing these modules fills JUDGES

JUDGED_RULES: frozenset[str] = frozenset(entry.rule for entries in JUDGES.values() for entry in entries)
"""The ids of the rules that a recording can show to be broken."""


class Judge:
    """Judges the items of a conversation in order, each once. An item can be judged at any time after it was fed."""

    def __init__(self, conversation: Conversation) -> None:
        self._is_redacted = bool(conversation.header.redacted)
        self._states: dict[RecordedConnection, ConnectionState] = {}
        self._is_damaged = False

    def look(self, item: Item) -> list[Finding]:
        """Return the findings for the next item."""
        if isinstance(item, Message):
            state = self._state_of(item.connection)
            found: list[Finding] = []
            if item.shape == "batch":
                found += self._judge(item, state)
            for part in item.members or ((item,) if item.shape != "batch" else ()):
                found += self._judge(part, state)
                state.note(part)
            if item.shape == "batch":
                state.may_be_unreadable[item.direction] = True
            return found
        if isinstance(item, Damage):
            self._is_damaged = True
            for state in self._states.values():
                state.has_gaps = True
        elif isinstance(item, Event) and item.name == "lost":
            concerned = [state for connection, state in self._states.items() if connection.number == item.connection]
            for state in concerned:
                state.has_gaps = True
            if not concerned:  # lost before the first message of its connection
                self._is_damaged = True
        return []

    def _state_of(self, connection: RecordedConnection) -> ConnectionState:
        state = self._states.get(connection)
        if state is None:
            state = ConnectionState(connection, is_redacted=self._is_redacted, has_gaps=self._is_damaged)
            self._states[connection] = state
        return state

    def _judge(self, message: Message, state: ConnectionState) -> Iterable[Finding]:
        revision = state.revision_of(message.call) if message.call is not None else state.negotiated
        revision = revision if revision in ALL else None
        for entry in JUDGES.get(message.shape, ()):
            if not entry.looks_at(message) or (entry.needs_values and state.is_redacted):
                continue
            if entry.once and entry.rule in state.reported:
                continue
            for what in entry.function(message, state):
                rule = RULES[entry.rule].for_side(message.sender)
                if revision is not None and not rule.applies_in(revision):
                    continue
                state.reported.add(entry.rule)
                yield Finding(
                    rule=entry.rule,
                    level=rule.level_in(revision),
                    severity=rule.severity_in(revision),
                    what=what,
                    by=message.sender,
                    at=message.at,
                    index=message.index,
                    connection=message.connection.number,
                    message=message,
                )


def judge(conversation: Conversation) -> list[Finding]:
    """Return every finding of a recording, in the order of the messages."""
    judging = Judge(conversation)
    return [finding for item in conversation.items for finding in judging.look(item)]
