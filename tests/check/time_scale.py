"""How long the tests wait for what may never come: little at first, and far longer before they believe that it does not come.

A mutant that is found out by its silence costs a whole wait, so the waits are short; on a busy machine a short wait may also end
before an answer that was on its way. What a short wait did not catch is therefore tried again with longer ones, and only the
longest speaks for itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from msgspec import structs

Times = TypeVar("Times")

TIME_SCALES = (1, 5, 25)
"""How often as long as written: one after the other, until something is caught."""

_pace: ContextVar[float] = ContextVar("pace", default=1)


@contextmanager
def scaled_by(times: float) -> Iterator[None]:
    """Inside, everything that :func:`waiting` returns is so many times as long."""
    token = _pace.set(times)
    try:
        yield
    finally:
        _pace.reset(token)


def time_scale() -> float:
    """How often as long as written the tests wait just now."""
    return _pace.get()


def scaled(timeouts: Times) -> Times:
    """Waits, patience or timeouts, as long as the tests wait just now."""
    longer: dict[str, Any] = {name: value * time_scale() for name, value in structs.asdict(timeouts).items() if value is not None}  # type: ignore[type-var]
    return structs.replace(timeouts, **longer)  # type: ignore[type-var]
