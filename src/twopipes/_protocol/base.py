"""What every type of the protocol has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Raw, Struct, field

Role = Literal["user", "assistant"]
"""Who speaks in a prompt or in a sampling conversation."""

if TYPE_CHECKING:
    OptionalRaw = Raw | None
else:
    # msgspec refuses Raw inside a union. An absent member is None here all the same; a null arrives as Raw(b"null").
    OptionalRaw = Raw


class Model(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The root of all types: immutable, compared by value, absent members left out, unknown members ignored (JR-18)."""


class MetaModel(Model, frozen=True, kw_only=True):
    """A type that may carry ``_meta``.

    Attributes:
        meta: The ``_meta`` object: keys with a meaning of their own (see ``revisions``) and those of the two sides.
    """

    meta: dict[str, Any] | None = field(default=None, name="_meta")


class Params(MetaModel, frozen=True):
    """The root of all params, of requests and of notifications."""


class Result(MetaModel, frozen=True, kw_only=True):
    """The root of all results.

    Attributes:
        result_type: ``complete`` or ``input_required`` from 2026-07-28 on. Absent means complete (VN-10).
    """

    result_type: str | None = None
