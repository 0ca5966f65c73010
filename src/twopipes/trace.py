"""Recordings of conversations (traces): read, write, and check them against the rules."""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._trace.channel import RecordedChannel
    from twopipes._trace.conversation import Conversation, read_conversation
    from twopipes._trace.findings import Judge, judge
    from twopipes._trace.format import Damage, Entry, Event, Header, Line
    from twopipes._trace.reader import Trace, read
    from twopipes._trace.recorder import Losses, Recorder, default_path, header_for
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "twopipes._trace.channel": "RecordedChannel",
            "twopipes._trace.conversation": "Conversation read_conversation",
            "twopipes._trace.findings": "Judge judge",
            "twopipes._trace.format": "Damage Entry Event Header Line",
            "twopipes._trace.reader": "Trace read",
            "twopipes._trace.recorder": "Losses Recorder default_path header_for",
        },
    )

__all__ = [
    "Conversation",
    "Damage",
    "Entry",
    "Event",
    "Header",
    "Judge",
    "Line",
    "Losses",
    "RecordedChannel",
    "Recorder",
    "Trace",
    "default_path",
    "header_for",
    "judge",
    "read",
    "read_conversation",
]
