"""Servers as child processes: start, observe and stop them."""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._process.child import Child
    from twopipes._process.command import ServerCommand
    from twopipes._process.environment import environment_of
    from twopipes._process.exit_status import ExitStatus
    from twopipes._process.lookup import Lookup, look_up
    from twopipes._process.observer import ProcessObserver
    from twopipes._process.parent import watch_parent
    from twopipes._process.shutdown import CloseStdin, ShutdownPlan, ShutdownReport, Signal, StepTaken, Wait
    from twopipes._process.stderr import StderrLine, StderrTail
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "twopipes._process.child": "Child",
            "twopipes._process.command": "ServerCommand",
            "twopipes._process.environment": "environment_of",
            "twopipes._process.exit_status": "ExitStatus",
            "twopipes._process.lookup": "Lookup look_up",
            "twopipes._process.observer": "ProcessObserver",
            "twopipes._process.parent": "watch_parent",
            "twopipes._process.shutdown": "CloseStdin ShutdownPlan ShutdownReport Signal StepTaken Wait",
            "twopipes._process.stderr": "StderrLine StderrTail",
        },
    )

__all__ = [
    "Child",
    "CloseStdin",
    "ExitStatus",
    "Lookup",
    "ProcessObserver",
    "ServerCommand",
    "ShutdownPlan",
    "ShutdownReport",
    "Signal",
    "StderrLine",
    "StderrTail",
    "StepTaken",
    "Wait",
    "environment_of",
    "look_up",
    "watch_parent",
]
