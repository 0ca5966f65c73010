"""The base classes of the protocol types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Raw, Struct, field

__all__ = ["MetaModel", "Model", "Params", "Result", "Role"]  # the names of twopipes.types

Role = Literal["user", "assistant"]
"""The speaker in a prompt or in a sampling conversation."""


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


class RawResult(Result, frozen=True):
    """A result that is sent as it is, without any check: it comes from another server, in the revision of the request."""

    raw: Raw


class Block(MetaModel, frozen=True):
    """The base class of all content blocks."""

    @property
    def type(self) -> str:
        """The ``type`` of the block in JSON."""
        return str(self.__struct_config__.tag)


def text_of(blocks: Iterable[Any]) -> str:
    """Return the text blocks among content blocks, joined by newlines."""
    return "\n".join(block.text for block in blocks if block.type == "text")
