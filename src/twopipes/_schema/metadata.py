"""What stands after the type in ``Annotated``: msgspec's, annotated-types' and pydantic's ways to say the same things.

Only msgspec is imported. The others are known by the attributes that their objects have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Meta

from twopipes._schema import pydantic_bridge

_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")
_UNKNOWN = object()


class Metadata:
    """What metadata says about a type.

    Attributes:
        constraints: By msgspec's names.
        notes: Keywords for the schema: ``description``, ``title``, ``examples`` and whatever the author adds.
        tests: Functions that give what is wrong with a value, or ``None``.
        wire_name: What JSON calls a parameter, where that is not its name.
        is_native: Whether msgspec sees all the constraints by itself.
    """

    def __init__(self) -> None:
        self.constraints: dict[str, Any] = {}
        self.notes: dict[str, Any] = {}
        self.tests: list[Callable[[Any], str | None]] = []
        self.wire_name: str | None = None
        self.is_native = True


def read_metadata(extras: Iterable[Any]) -> Metadata:
    """Reads what it knows and passes over the rest, as ``Annotated`` asks for."""
    about = Metadata()
    for each in extras:
        if isinstance(each, str):
            about.notes["description"] = each
        elif isinstance(each, Meta):
            _constrain(about, each)
            _note(about, each, each.extra_json_schema)
            name = (each.extra or {}).get("name")
            about.wire_name = name if isinstance(name, str) else about.wire_name
        elif pydantic_bridge.is_field(each):
            for inner in each.metadata:
                _constrain_otherwise(about, inner)
            _note(about, each, each.json_schema_extra if isinstance(each.json_schema_extra, dict) else None)
            about.wire_name = next((name for name in (each.validation_alias, each.alias) if isinstance(name, str)), about.wire_name)
        elif isinstance(getattr(each, "documentation", None), str):  # typing_extensions.Doc
            about.notes["description"] = each.documentation
        else:
            _constrain_otherwise(about, each)
    return about


def _note(about: Metadata, source: Any, extra: dict[str, Any] | None) -> None:
    for name in ("title", "description", "examples"):
        said = getattr(source, name)
        if said is not None:
            about.notes[name] = said
    about.notes.update(extra or {})


def _constrain(about: Metadata, source: Any) -> bool:
    found = {name: value for name in _CONSTRAINTS if (value := getattr(source, name, None)) is not None}
    if "pattern" in found and not isinstance(found["pattern"], str):
        found["pattern"] = found["pattern"].pattern
    if found.get("min_length") == 0:
        del found["min_length"]  # says nothing
    about.constraints.update(found)
    return bool(found)


def _constrain_otherwise(about: Metadata, source: Any) -> None:
    if _constrain(about, source):
        about.is_native = False
    elif callable(getattr(source, "func", None)) and type(source).__name__ == "Predicate":
        about.is_native = False
        about.tests.append(_test(source.func))


def _test(predicate: Callable[[Any], bool]) -> Callable[[Any], str | None]:
    name = getattr(predicate, "__name__", "predicate")
    return lambda value: None if predicate(value) else f"Does not satisfy {name}"
