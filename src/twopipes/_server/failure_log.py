"""What stderr says of a handler that failed. Loaded when one has, and not before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from traceback import FrameSummary, TracebackException
from typing import Final

from twopipes._protocol.rejections import ReturnRejected

__all__ = ["summary", "told"]

_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep
_OURS: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep


def told(error: BaseException) -> str:
    """The error with its causes and tracebacks, from the first line on that its author wrote.

    How we came to call the author's function is nothing to look through. Where none of the author's lines is involved, the error
    is ours, and everything is told.
    """
    whole = TracebackException.from_exception(error)
    if isinstance(error, ReturnRejected):
        return "".join(whole.format_exception_only())  # the function has ended: it says all by itself
    for each in _with_causes(whole):
        each.stack[:] = _worth_reading(each.stack)
    return "".join(whole.format())


def summary(error: BaseException) -> str:
    """The type and the text of an error, without a traceback; for a client whose user is the author of the server."""
    text = "".join(TracebackException.from_exception(error).format_exception_only()).strip()
    return text.encode("utf-8", "replace").decode()


def _with_causes(error: TracebackException) -> Iterator[TracebackException]:
    left = [error]
    while left:
        each = left.pop()
        yield each
        left += [cause for cause in (each.__cause__, each.__context__, *(each.exceptions or ())) if cause is not None]


def _worth_reading(frames: list[FrameSummary]) -> list[FrameSummary]:
    authors = [position for position, frame in enumerate(frames) if _is_authors(frame.filename)]
    if not authors:
        return list(frames)
    # Behind the author's last line stands what it called: ours, too.
    first, last = authors[0], authors[-1]
    return [frame for frame in frames[first:last] if not _is_ours(frame.filename)] + frames[last:]


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS)


def _is_authors(file: str) -> bool:
    return not _is_ours(file) and not file.startswith("<frozen ") and (not file.startswith(_LIBRARY) or "-packages" in file)
