"""What the user did with a form or a URL: one class for each action, so that type checkers can distinguish them."""

from __future__ import annotations

from typing import ClassVar, Generic, Literal, TypeVar

from msgspec import Struct

__all__ = ["AcceptedForm", "CancelledForm", "DeclinedForm"]

T = TypeVar("T")


class AcceptedForm(Struct, Generic[T], frozen=True):
    """The user accepted. It is true in a boolean context.

    Attributes:
        action: ``"accept"``.
        accepted: ``True``.
        content: The form, as the type that was asked for; ``None`` for a URL.
    """

    content: T
    action: ClassVar[Literal["accept"]] = "accept"
    accepted: ClassVar[Literal[True]] = True

    def __bool__(self) -> Literal[True]:
        return True


class DeclinedForm(Struct, frozen=True):
    """The user declined. It is false in a boolean context.

    Attributes:
        action: ``"decline"``.
        accepted: ``False``.
        content: ``None``.
    """

    action: ClassVar[Literal["decline"]] = "decline"
    accepted: ClassVar[Literal[False]] = False
    content: ClassVar[None] = None

    def __bool__(self) -> Literal[False]:
        return False


class CancelledForm(Struct, frozen=True):
    """The user closed the form without a choice. It is false in a boolean context.

    Attributes:
        action: ``"cancel"``.
        accepted: ``False``.
        content: ``None``.
    """

    action: ClassVar[Literal["cancel"]] = "cancel"
    accepted: ClassVar[Literal[False]] = False
    content: ClassVar[None] = None

    def __bool__(self) -> Literal[False]:
        return False
