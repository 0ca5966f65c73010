"""Conversations that were written down: the format, a reader, a recorder, and what can be told from a recording."""

from twopipes.trace.format import Damage, Entry, Event, Header, Line
from twopipes.trace.reading import Trace, read

__all__ = ["Damage", "Entry", "Event", "Header", "Line", "Trace", "read"]
