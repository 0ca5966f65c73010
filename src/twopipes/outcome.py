"""Errors as values, for callers who would rather look than catch.

``attempt(...)`` awaits a call and gives :class:`Ok` or :class:`Err`, to be told apart with ``match``::

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
    """It worked, and this is what came of it."""

    value: T_co

    @property
    def is_ok(self) -> Literal[True]:
        """Whether it worked: yes."""
        return True

    def unwrap(self) -> T_co:
        """The value."""
        return self.value


class Err(Struct, frozen=True):
    """It failed, and this is how. Two of them are equal when they hold the same error object."""

    error: TwopipesError

    @property
    def is_ok(self) -> Literal[False]:
        """Whether it worked: no."""
        return False

    def unwrap(self) -> NoReturn:
        """There is no value.

        Raises:
            TwopipesError: The one that is held here, with its own type and its own traceback.
        """
        raise self.error


Outcome = Ok[T] | Err
"""What :func:`attempt` gives: ``Outcome[int]`` is ``Ok[int] | Err``."""


async def attempt(awaitable: Awaitable[T]) -> Ok[T] | Err:
    """Awaits something, and gives what it gives, or the error of twopipes that it raises.

    Only a :class:`~twopipes.errors.TwopipesError` becomes an :class:`Err`: that is what can go wrong with a peer. A cancellation
    passes, and so does every other exception, because it is a bug, here or in a handler, and nobody looks for one in a value.

    Cancelling is safe whenever it is for the awaitable itself.
    """
    try:
        return Ok(await awaitable)
    except TwopipesError as error:
        return Err(error)
