"""Metadata in ``Annotated``: that of msgspec, annotated-types and pydantic.

Only msgspec is imported. Objects of the others are recognised by their attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Meta, Struct

from twopipes._schema import pydantic_bridge

_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")


class Metadata(Struct):
    """The constraints and notes for a type."""

    constraints: dict[str, Any] = {}  # by their names in msgspec
    notes: dict[str, Any] = {}  # keywords for the schema: description, title, examples and any others
    tests: list[Callable[[Any], str | None]] = []  # return what is wrong with a value, or None
    wire_name: str | None = None  # the name of a parameter in JSON, if it differs
    is_native: bool = True  # whether msgspec applies all the constraints by itself


def read_metadata(extras: Iterable[Any]) -> Metadata:
    """Read known metadata and ignore the rest, as ``Annotated`` requires."""
    metadata = Metadata()
    for each in extras:
        if isinstance(each, str):
            metadata.notes["description"] = each
        elif isinstance(each, Meta):
            _constrain(metadata, each)
            _note(metadata, each, each.extra_json_schema)
            name = (each.extra or {}).get("name")
            metadata.wire_name = name if isinstance(name, str) else metadata.wire_name
        elif pydantic_bridge.is_field(each):
            for inner in each.metadata:
                _constrain_foreign(metadata, inner)
            _note(metadata, each, each.json_schema_extra if isinstance(each.json_schema_extra, dict) else None)
            metadata.wire_name = next(
                (name for name in (each.validation_alias, each.alias) if isinstance(name, str)), metadata.wire_name
            )
        elif isinstance(getattr(each, "documentation", None), str):  # typing_extensions.Doc
            metadata.notes["description"] = each.documentation
        else:
            _constrain_foreign(metadata, each)
    return metadata


def _note(metadata: Metadata, source: Any, extra: dict[str, Any] | None) -> None:
    for name in ("title", "description", "examples"):
        value = getattr(source, name)
        if value is not None:
            metadata.notes[name] = value
    metadata.notes.update(extra or {})


def _constrain(metadata: Metadata, source: Any) -> bool:
    found = {name: value for name in _CONSTRAINTS if (value := getattr(source, name, None)) is not None}
    if "pattern" in found and not isinstance(found["pattern"], str):
        found["pattern"] = found["pattern"].pattern
    if found.get("min_length") == 0:
        del found["min_length"]  # no constraint
    metadata.constraints.update(found)
    return bool(found)


def _constrain_foreign(metadata: Metadata, source: Any) -> None:
    if _constrain(metadata, source):
        metadata.is_native = False
    elif callable(getattr(source, "func", None)) and type(source).__name__ == "Predicate":
        metadata.is_native = False
        name = getattr(source.func, "__name__", "predicate")
        metadata.tests.append(lambda value: None if source.func(value) else f"Does not satisfy {name}")
