"""Checks the content of a form before it is sent (EL-16), to name the wrong field to the author of the callback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

# The types of JSON Schema and those of Python. bool is a subclass of int, but not a number here; see _is_of.
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
}


def form_errors(form: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the content for a ``requestedSchema``, field by field. Fields of unknown types pass."""
    fields = form.get("properties")
    fields = fields if isinstance(fields, Mapping) else {}
    required = form.get("required")
    wrong = [f"{name} is missing" for name in (required if isinstance(required, list) else ()) if content.get(name) is None]
    for name, value in content.items():
        field = fields.get(name)
        if isinstance(field, Mapping) and value is not None:  # null counts as missing
            wrong += [f"{name} {fault}" for fault in _faults(field, value)]
    return wrong


def _faults(field: Mapping[str, Any], value: Any) -> list[str]:
    kind = field.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        return []
    if not _is_of(kind, value):
        return [f"is {value!r}, but must be of type {kind}"]
    if kind == "array":
        items = field.get("items")
        choices = _choices(items, "anyOf") if isinstance(items, Mapping) else None
        faults = _bounds(field, len(value), "minItems", "maxItems", "choices")
        return faults + [
            f"has {each!r}, which is not one of {choices}" for each in value if choices is not None and each not in choices
        ]
    choices = _choices(field, "oneOf")
    if choices is not None and value not in choices:
        return [f"is {value!r}, which is not one of {choices}"]
    if kind == "string":
        return _bounds(field, len(value), "minLength", "maxLength", "characters")
    return [] if kind == "boolean" else _bounds(field, value, "minimum", "maximum", "")


def _is_of(kind: str, value: Any) -> bool:
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _choices(field: Mapping[str, Any], titled: str) -> list[Any] | None:
    """Return the values to choose from, in either notation (EL-04)."""
    if isinstance(plain := field.get("enum"), list):
        return plain
    options = field.get(titled)
    if isinstance(options, Sequence) and all(isinstance(option, Mapping) and "const" in option for option in options):
        return [option["const"] for option in options]
    return None


def _bounds(field: Mapping[str, Any], size: float, least: str, most: str, unit: str) -> list[str]:
    low, high = field.get(least), field.get(most)
    what = f"has {size} {unit}" if unit else f"is {size}"
    if isinstance(low, int | float) and size < low:
        return [f"{what}, but the minimum is {low}"]
    return [f"{what}, but the maximum is {high}"] if isinstance(high, int | float) and size > high else []
