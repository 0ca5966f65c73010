"""What is said when a function, its arguments, its return value or the answer to a form does not fit."""

from __future__ import annotations

from collections.abc import Sequence

from twopipes.errors import FormRejected, Problem, SignatureRejected, ValueRejected, joined

__all__ = [
    "ArgumentsRejected",
    "FormRejected",
    "Problem",
    "Refused",
    "ReturnRejected",
    "SignatureRejected",
    "Unsupported",
    "ValueRejected",
    "joined",
]


class ArgumentsRejected(ValueRejected):
    """The arguments of a call do not fit the function (TL-06)."""

    opening = "Invalid arguments for"
    part = "argument"


class ReturnRejected(ValueRejected):
    """A function returned what its annotation does not allow, so there is nothing to send (TL-10)."""

    opening = "Invalid return value of"


class Unsupported(TypeError):
    """An annotation that has no place in JSON; becomes a :class:`SignatureRejected` where the function is known."""


class Refused(ValueError):
    """Problems on their way through msgspec, which adds to them where the value stands."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)
