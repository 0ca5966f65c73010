"""Conversations that were written down: the format, a reader, a recorder, and what can be told from a recording.

The names are loaded when they are first used: a tap that only writes needs none of what reads.
"""

TYPE_CHECKING = False  # as in twopipes/__init__.py
if TYPE_CHECKING:
    from twopipes._trace.channel import RecordedChannel
    from twopipes._trace.format import Damage, Entry, Event, Header, Line
    from twopipes._trace.reader import Trace, read
    from twopipes._trace.recorder import Losses, Recorder, default_path, header_for

__all__ = [
    "Damage",
    "Entry",
    "Event",
    "Header",
    "Line",
    "Losses",
    "RecordedChannel",
    "Recorder",
    "Trace",
    "default_path",
    "header_for",
    "read",
]


# Where each public name lives. The imports above say the same to type checkers; a test compares the two.
_HOMES = {
    "Damage": "twopipes._trace.format",
    "Entry": "twopipes._trace.format",
    "Event": "twopipes._trace.format",
    "Header": "twopipes._trace.format",
    "Line": "twopipes._trace.format",
    "Losses": "twopipes._trace.recorder",
    "RecordedChannel": "twopipes._trace.channel",
    "Recorder": "twopipes._trace.recorder",
    "Trace": "twopipes._trace.reader",
    "default_path": "twopipes._trace.recorder",
    "header_for": "twopipes._trace.recorder",
    "read": "twopipes._trace.reader",
}


# A type checker that saw __getattr__ would take every misspelt name for a good one.
if not TYPE_CHECKING:  # pragma: no branch

    def __getattr__(name):  # noqa: ANN001, ANN202
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415

        value = getattr(import_module(home), name)
        globals()[name] = value  # found without this function from now on
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
