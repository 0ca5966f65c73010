"""For tests of your own: a server and a client joined by memory or by pipes; faults, conversations in files, a clock moved by hand.

The names are loaded when they are first used: pytest loads the plugin that lives here in every run, also where nobody wants it.
"""

TYPE_CHECKING = False  # as in twopipes/__init__.py
if TYPE_CHECKING:
    from twopipes.testing.clock import ManualClock
    from twopipes.testing.expecting import ExpectationFailed
    from twopipes.testing.faults import Fault, Strike, delay, drop, duplicate, garble, kill, truncate
    from twopipes.testing.opening import Opening, child, pair
    from twopipes.testing.talk import LiveConversation

__all__ = [
    "ExpectationFailed",
    "Fault",
    "LiveConversation",
    "ManualClock",
    "Opening",
    "Strike",
    "child",
    "delay",
    "drop",
    "duplicate",
    "garble",
    "kill",
    "pair",
    "truncate",
]


# Where each public name lives. The imports above say the same to type checkers; a test compares the two.
_HOMES = {
    "ManualClock": "twopipes.testing.clock",
    "ExpectationFailed": "twopipes.testing.expecting",
    "Fault": "twopipes.testing.faults",
    "Strike": "twopipes.testing.faults",
    "delay": "twopipes.testing.faults",
    "drop": "twopipes.testing.faults",
    "duplicate": "twopipes.testing.faults",
    "garble": "twopipes.testing.faults",
    "kill": "twopipes.testing.faults",
    "truncate": "twopipes.testing.faults",
    "Opening": "twopipes.testing.opening",
    "child": "twopipes.testing.opening",
    "pair": "twopipes.testing.opening",
    "LiveConversation": "twopipes.testing.talk",
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
