"""What is said when a function, its arguments, its return value or the answer to a form does not fit."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from twopipes.errors import LocalProtocolError, TwopipesError


class Problem(Struct, frozen=True):
    """One thing that is wrong with a value.

    Attributes:
        path: Where, such as ``items[0].name``; empty for the whole.
        what: What was expected and what was given, in words that a model can act on.
    """

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.path else self.what

    def under(self, path: str) -> Problem:
        """The same problem, seen from outside."""
        return Problem(joined(path, self.path), self.what)


def joined(outer: str, inner: str) -> str:
    """Puts two paths together."""
    return f"{outer}.{inner}" if outer and inner and not inner.startswith("[") else outer + inner


class ValueRejected(TwopipesError, ValueError):
    """A value does not fit its type.

    Attributes:
        subject: What the value belongs to: the name of a function or of a form.
        problems: Everything that was found, in the order of the declaration.
    """

    opening = "The value for"
    part = "member"

    def __init__(self, subject: str, problems: Sequence[Problem]) -> None:
        super().__init__(subject, tuple(problems))
        self.subject = subject
        self.problems = tuple(problems)

    @property
    def details(self) -> str:
        """The problems alone: one as a sentence, several as a list."""
        return str(self.problems[0]) if len(self.problems) == 1 else "".join(f"\n- {each}" for each in self.problems).lstrip("\n")

    def __str__(self) -> str:
        return f"{self.opening} {self.subject}:{' ' if len(self.problems) == 1 else chr(10)}{self.details}"


class ArgumentsRejected(ValueRejected):
    """The arguments of a call do not fit the function (TL-06)."""

    opening = "Invalid arguments for"
    part = "argument"


class FormRejected(ValueRejected):
    """The response to a form does not match the form."""

    opening = "Invalid response to the form"
    part = "field"

    @property
    def summary(self) -> str:
        """What the client is told: the names of the fields. The values are the user's, and not for the model."""
        names = ", ".join(dict.fromkeys(problem.path for problem in self.problems if problem.path))
        return f"The response to the form does not match it{f'; wrong or missing fields: {names}' if names else ''}"


class ReturnRejected(ValueRejected):
    """A function returned what its annotation does not allow, so there is nothing to send (TL-10)."""

    opening = "Invalid return value of"


class SignatureRejected(LocalProtocolError, TypeError):
    """A function, or a type for a form, cannot be offered as it is written. Raised when it is registered.

    Attributes:
        subject: The function or the type, by its qualified name.
        part: The parameter or field, ``return``, or empty for the whole.
        why: What is wrong and what would help.
    """

    def __init__(self, subject: str, part: str, why: str) -> None:
        super().__init__(subject, part, why)
        self.subject = subject
        self.part = part
        self.why = why

    def __str__(self) -> str:
        return f"{self.subject}, {self.part}: {self.why}" if self.part else f"{self.subject}: {self.why}"


class Unsupported(TypeError):
    """An annotation that has no place in JSON; becomes a :class:`SignatureRejected` where the function is known."""


class Refused(ValueError):
    """Problems on their way through msgspec, which adds to them where the value stands."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)
