"""Helpers for tests: a server and a client joined in memory or by pipes, faults, conversation files, a manual clock.

Names are loaded when they are first used, because pytest loads the plugin of this package in every run.
"""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes.testing.clock import ManualClock
    from twopipes.testing.expectations import ExpectationFailed
    from twopipes.testing.faults import Fault, Strike, delay, drop, duplicate, garble, kill, truncate
    from twopipes.testing.live_conversation import LiveConversation
    from twopipes.testing.opening import Opening, child, pair
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "twopipes.testing.clock": "ManualClock",
            "twopipes.testing.expectations": "ExpectationFailed",
            "twopipes.testing.faults": "Fault Strike delay drop duplicate garble kill truncate",
            "twopipes.testing.opening": "Opening child pair",
            "twopipes.testing.live_conversation": "LiveConversation",
        },
    )

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
