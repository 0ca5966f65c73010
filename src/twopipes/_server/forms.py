"""What the user did with a form or a URL: one class for each action, so that type checkers can distinguish them."""

from __future__ import annotations

from typing import ClassVar, Generic, Literal, TypeVar

from msgspec import Struct

T = TypeVar("T")


class AcceptedForm(Struct, Generic[T], frozen=True):
    """The user accepted. ``content`` is the form, as the type that was asked for; ``None`` for a URL. It is true."""

    content: T
    action: ClassVar[Literal["accept"]] = "accept"
    accepted: ClassVar[Literal[True]] = True

    def __bool__(self) -> Literal[True]:
        return True


class _NotAccepted(Struct, frozen=True):
    accepted: ClassVar[Literal[False]] = False
    content: ClassVar[None] = None

    def __bool__(self) -> Literal[False]:
        return False


class DeclinedForm(_NotAccepted, frozen=True):
    """The user declined. It is false, and ``content`` is ``None``."""

    action: ClassVar[Literal["decline"]] = "decline"


class CancelledForm(_NotAccepted, frozen=True):
    """The user closed the form without a choice. It is false, and ``content`` is ``None``."""

    action: ClassVar[Literal["cancel"]] = "cancel"
