"""Recordings of conversations (traces): read, write, and check them against the rules."""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._trace.channel import RecordedChannel as RecordedChannel
    from twopipes._trace.conversation import Conversation as Conversation
    from twopipes._trace.conversation import read_conversation as read_conversation
    from twopipes._trace.findings import Judge as Judge
    from twopipes._trace.findings import judge as judge
    from twopipes._trace.format import Damage as Damage
    from twopipes._trace.format import Entry as Entry
    from twopipes._trace.format import Event as Event
    from twopipes._trace.format import Header as Header
    from twopipes._trace.format import Line as Line
    from twopipes._trace.reader import Trace as Trace
    from twopipes._trace.reader import read as read
    from twopipes._trace.recorder import Losses as Losses
    from twopipes._trace.recorder import Recorder as Recorder
    from twopipes._trace.recorder import default_path as default_path
    from twopipes._trace.recorder import header_for as header_for
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
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
