"""Broken rules, told from a recording alone: nobody is asked anything, and nothing is said that is not certain.

A recording that begins in the middle, has lost entries or was blanked in places is judged by what it still proves.
"""

from __future__ import annotations

from collections.abc import Iterable

from twopipes._trace.conversation import Conversation, Item, RecordedConnection
from twopipes._trace.format import Damage, Event
from twopipes._trace.judges import calls, capabilities, lines, payloads
from twopipes._trace.judges import lifecycle as life
from twopipes._trace.judges.table import JUDGES, Finding, Level, Seen
from twopipes._trace.message import Message

__all__ = ["RULES", "Finding", "Judge", "Level", "judge"]

_TABLES = (lines, life, capabilities, calls, payloads)  # importing them fills the table

RULES: dict[str, Level] = {entry.rule: entry.level for entries in JUDGES.values() for entry in entries}
"""The rules that a recording can show to be broken, and how binding they are."""


class Judge:
    """Looks at a conversation as it goes on: each item once, in order, right after it was fed or at any time later."""

    def __init__(self, conversation: Conversation) -> None:
        self._is_redacted = bool(conversation.header.redacted)
        self._seen: dict[RecordedConnection, Seen] = {}
        self._is_damaged = False

    def look(self, item: Item) -> list[Finding]:
        """What is wrong with the next item."""
        if isinstance(item, Message):
            seen = self._on(item.connection)
            found: list[Finding] = []
            if item.shape == "batch":
                found += self._judge(item, seen)
            for part in item.members or ((item,) if item.shape != "batch" else ()):
                found += self._judge(part, seen)
                seen.note(part)
            if item.shape == "batch":
                seen.may_be_unreadable[item.direction] = True
            return found
        if isinstance(item, Damage):
            self._is_damaged = True
            for seen in self._seen.values():
                seen.has_gaps = True
        elif isinstance(item, Event) and item.name == "lost":
            for connection, seen in self._seen.items():
                if connection.number == item.connection:
                    seen.has_gaps = True
            self._lost_before_anything(item)
        return []

    def _lost_before_anything(self, item: Event) -> None:
        if all(connection.number != item.connection for connection in self._seen):
            self._is_damaged = True

    def _on(self, connection: RecordedConnection) -> Seen:
        seen = self._seen.get(connection)
        if seen is None:
            seen = self._seen[connection] = Seen(connection, is_redacted=self._is_redacted)
            seen.has_gaps = self._is_damaged
        return seen

    def _judge(self, message: Message, seen: Seen) -> Iterable[Finding]:
        method = message.call.method if message.is_answer and message.call is not None else message.method
        for entry in JUDGES.get(message.shape, ()):
            if entry.methods and method not in entry.methods:
                continue
            if entry.once and entry.rule in seen.reported:
                continue
            for what in entry.function(message, seen):
                seen.reported.add(entry.rule)
                yield Finding(
                    rule=entry.rule,
                    level=entry.level,
                    what=what,
                    by=entry.by or ("client" if message.direction == ">" else "server"),
                    at=message.at,
                    index=message.index,
                    connection=message.connection.number,
                    message=message,
                )


def judge(conversation: Conversation) -> list[Finding]:
    """All that a recording shows to be broken, in the order of the messages."""
    judging = Judge(conversation)
    return [finding for item in conversation.items for finding in judging.look(item)]
