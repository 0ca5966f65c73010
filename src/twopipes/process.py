"""Servers as child processes: start, observe and stop them."""

TYPE_CHECKING = False  # see twopipes._lazy
if TYPE_CHECKING:
    from twopipes._process.child import Child as Child
    from twopipes._process.child import ProcessObserver as ProcessObserver
    from twopipes._process.command import ServerCommand as ServerCommand
    from twopipes._process.environment import environment_of as environment_of
    from twopipes._process.exit_status import ExitStatus as ExitStatus
    from twopipes._process.lookup import Lookup as Lookup
    from twopipes._process.lookup import look_up as look_up
    from twopipes._process.parent import watch_parent as watch_parent
    from twopipes._process.shutdown import CloseStdin as CloseStdin
    from twopipes._process.shutdown import ShutdownPlan as ShutdownPlan
    from twopipes._process.shutdown import ShutdownReport as ShutdownReport
    from twopipes._process.shutdown import Signal as Signal
    from twopipes._process.shutdown import StepTaken as StepTaken
    from twopipes._process.shutdown import Wait as Wait
    from twopipes._process.stderr import StderrLine as StderrLine
    from twopipes._process.stderr import StderrTail as StderrTail
else:
    from twopipes._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "twopipes._process.child": "Child ProcessObserver",
            "twopipes._process.command": "ServerCommand",
            "twopipes._process.environment": "environment_of",
            "twopipes._process.exit_status": "ExitStatus",
            "twopipes._process.lookup": "Lookup look_up",
            "twopipes._process.parent": "watch_parent",
            "twopipes._process.shutdown": "CloseStdin ShutdownPlan ShutdownReport Signal StepTaken Wait",
            "twopipes._process.stderr": "StderrLine StderrTail",
        },
    )
