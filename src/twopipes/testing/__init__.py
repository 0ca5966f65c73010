"""Helpers for tests: a server and a client joined in memory or by pipes, faults, conversation files, a manual clock.

Names are loaded when they are first used, because pytest loads the plugin of this package in every run.
"""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes.testing.clock import ManualClock as ManualClock
    from twopipes.testing.expectations import ExpectationFailed as ExpectationFailed
    from twopipes.testing.faults import Fault as Fault
    from twopipes.testing.faults import Strike as Strike
    from twopipes.testing.faults import delay as delay
    from twopipes.testing.faults import drop as drop
    from twopipes.testing.faults import duplicate as duplicate
    from twopipes.testing.faults import garble as garble
    from twopipes.testing.faults import kill as kill
    from twopipes.testing.faults import truncate as truncate
    from twopipes.testing.live_conversation import LiveConversation as LiveConversation
    from twopipes.testing.opening import Opening as Opening
    from twopipes.testing.opening import child as child
    from twopipes.testing.opening import pair as pair
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "twopipes.testing.clock": "ManualClock",
            "twopipes.testing.expectations": "ExpectationFailed",
            "twopipes.testing.faults": "Fault Strike delay drop duplicate garble kill truncate",
            "twopipes.testing.opening": "Opening child pair",
            "twopipes.testing.live_conversation": "LiveConversation",
        },
    )
