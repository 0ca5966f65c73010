"""Errors as values, as an alternative to ``try`` and ``except``.

``attempt(...)`` awaits a call and returns :class:`Ok` or :class:`Err`. Use ``match`` to distinguish them::

    match await attempt(client.call_tool("search", {"query": "pipes"})):
        case Ok(result):
            print(result.text)
        case Err(RequestTimedOut() as error):
            print(f"too slow: {error}")
        case Err(error):
            print(f"failed: {error}")
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Generic, Literal, NoReturn, TypeVar

from msgspec import Struct

from twopipes.errors import TwopipesError

__all__ = ["Err", "Ok", "Outcome", "attempt"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Ok(Struct, Generic[T_co], frozen=True):
    """A call that succeeded, with its value."""

    value: T_co

    @property
    def is_ok(self) -> Literal[True]:
        """Always true."""
        return True

    def unwrap(self) -> T_co:
        """Return the value."""
        return self.value


class Err(Struct, frozen=True):
    """A call that failed, with its error. Two are equal if they hold the same error object."""

    error: TwopipesError

    @property
    def is_ok(self) -> Literal[False]:
        """Always false."""
        return False

    def unwrap(self) -> NoReturn:
        """Raise the error.

        Raises:
            TwopipesError: The error of this object, with its original type and traceback.
        """
        raise self.error


Outcome = Ok[T] | Err
"""The result of :func:`attempt`: ``Outcome[int]`` is ``Ok[int] | Err``."""


async def attempt(awaitable: Awaitable[T]) -> Ok[T] | Err:
    """Await a call, and return its value or its error.

    Only a :class:`~twopipes.errors.TwopipesError` becomes an :class:`Err`. A cancellation is raised as usual, and so is every other
    exception, because it is a bug and should not be hidden in a value.

    Cancelling is safe if cancelling the awaitable itself is safe.
    """
    try:
        return Ok(await awaitable)
    except TwopipesError as error:
        return Err(error)
