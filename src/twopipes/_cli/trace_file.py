"""Read a trace file for a command."""

from __future__ import annotations

from collections.abc import Callable

from twopipes._tools.usage import UsageError
from twopipes._trace.conversation import Conversation, read_conversation
from twopipes._trace.reader import Trace, read

__all__ = ["load_conversation", "open_trace"]


def open_trace(path: str, *, follow: Callable[[], bool] | None = None) -> Trace:
    """Open a trace.

    Args:
        path: The file.
        follow: Called at the end of the file; waits for more, or returns false to stop.

    Raises:
        UsageError: The file cannot be read, or is not a trace.
    """
    try:
        return read(path, follow=follow)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not a trace: {error}; record one with twopipes tap -o FILE -- CMD...") from error


def load_conversation(trace: Trace) -> Conversation:
    """Read a whole trace.

    Raises:
        UsageError: The file cannot be read, or is not a trace.
    """
    try:
        return read_conversation(trace, trace.header)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{trace.path} cannot be read: {reason}") from error
