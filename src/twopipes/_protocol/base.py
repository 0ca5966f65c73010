"""The base classes of the protocol types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Raw, Struct, field

Role = Literal["user", "assistant"]
"""The speaker in a prompt or in a sampling conversation."""

if TYPE_CHECKING:
    OptionalRaw = Raw | None
else:
    # msgspec rejects Raw in a union. An absent member is still None; a null becomes Raw(b"null").
    OptionalRaw = Raw


class Model(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The base class of all types: immutable, compared by value, without absent members; ignores unknown members (JR-18)."""


class MetaModel(Model, frozen=True, kw_only=True):
    """A type that may have ``_meta``.

    Attributes:
        meta: The ``_meta`` object, with keys of the protocol (see ``revisions``) and keys of the two sides.
    """

    meta: dict[str, Any] | None = field(default=None, name="_meta")


class Params(MetaModel, frozen=True):
    """The base class of the params of requests and notifications."""


class Result(MetaModel, frozen=True, kw_only=True):
    """The base class of all results.

    Attributes:
        result_type: ``complete`` or ``input_required``, from 2026-07-28. Absent means complete (VN-10).
    """

    result_type: str | None = None
