"""The timeouts of the tests, and a factor that makes them longer.

A mutant that does not respond costs a whole timeout, so the timeouts are short. On a busy machine a short timeout may end before a
response arrives. So a mutant that was not caught is tried again with longer timeouts, and only the longest ones count.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from msgspec import structs

Times = TypeVar("Times")

TIME_SCALES = (1, 5, 25)
"""The factors, which are tried one after the other until a mutant is caught."""

_scale: ContextVar[float] = ContextVar("scale", default=1)


@contextmanager
def scaled_by(factor: float) -> Iterator[None]:
    """Set the factor inside a block."""
    token = _scale.set(factor)
    try:
        yield
    finally:
        _scale.reset(token)


def time_scale() -> float:
    """Return the current factor."""
    return _scale.get()


def scaled(timeouts: Times) -> Times:
    """Return timeouts multiplied by the current factor."""
    longer: dict[str, Any] = {name: value * time_scale() for name, value in structs.asdict(timeouts).items() if value is not None}  # type: ignore[type-var]
    return structs.replace(timeouts, **longer)  # type: ignore[type-var]
