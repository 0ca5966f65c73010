"""Errors about functions and values: a signature, arguments, a return value or the response to a form is invalid."""

from __future__ import annotations

from collections.abc import Sequence

from twopipes.errors import FormRejected, Problem, SignatureRejected, ValueRejected

__all__ = [
    "ArgumentsRejected",
    "FormRejected",
    "Problem",
    "Refused",
    "ReturnRejected",
    "SignatureRejected",
    "Unsupported",
    "ValueRejected",
]


class ArgumentsRejected(ValueRejected):
    """The arguments of a call do not match the function (TL-06)."""

    heading = "Invalid arguments for"
    part = "argument"


class ReturnRejected(ValueRejected):
    """A function returned a value that its annotation does not allow (TL-10)."""

    heading = "Invalid return value of"


class Unsupported(TypeError):
    """An annotation that JSON cannot represent; becomes a :class:`SignatureRejected` where the function is known."""


class Refused(ValueError):
    """Problems raised inside a msgspec hook; msgspec adds the path of the value."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)
