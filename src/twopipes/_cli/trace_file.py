"""Read a trace file for a command."""

from __future__ import annotations

from collections.abc import Callable

from twopipes._tools.usage import UsageError
from twopipes._trace.conversation import Conversation, read_conversation
from twopipes._trace.reader import Trace, read


def open_trace(path: str, *, follow: Callable[[], bool] | None = None) -> Trace:
    """Open a trace."""
    try:
        return read(path, follow=follow)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not a trace: {error}; record one with twopipes tap -o FILE -- CMD...") from error


def load_conversation(trace: Trace) -> Conversation:
    """Read a whole trace."""
    try:
        return read_conversation(trace, trace.header)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{trace.path} cannot be read: {reason}") from error
