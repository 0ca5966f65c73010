"""Elicitation forms from flat classes, and instances of those classes from responses (EL-01, EL-02, EL-04).

:mod:`twopipes._protocol.forms` translates a form for older revisions when it is sent.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from twopipes._schema import pydantic_bridge
from twopipes._schema.annotations import NULL, ShapeBuilder
from twopipes._schema.binding import Binder
from twopipes._schema.functions import enclosing_variables
from twopipes._schema.problems import Refused, Unsupported, located
from twopipes._schema.records import NO_DEFAULT, Field, Record
from twopipes._schema.shapes import Array, Book, Leaf, Noted, Schema, Shape, Wrapped, unwrapped
from twopipes._schema.unions import Choice
from twopipes.errors import FormRejected, Problem

T = TypeVar("T")

# The keywords that each kind of field may have (EL-02, EL-04); all may have `default`, `title` and `description`.
_KEYWORDS = {
    "string": {"minLength", "maxLength", "format"},
    "number": {"minimum", "maximum"},
    "integer": {"minimum", "maximum"},
    "boolean": set(),
}
_COMMON = ("title", "description", "default")
_FORMATS = {"email", "uri", "date", "date-time"}
_ALLOWED_TYPES = "a form can contain strings, numbers, booleans, and choices of strings"


def elicitation_schema(kind: type[Any]) -> Schema:
    """Return the form for a dataclass, a TypedDict, a Struct, an attrs class or a pydantic model.

    Fields are strings (with ``email``, ``uri``, ``date`` and ``date-time``), numbers, booleans, a ``Literal`` of strings or an
    enum, and lists of the last two. The options of an enum have titles if its names differ from its values; if its values are not
    strings, the names are used. :func:`read_form` checks what forms cannot express, such as a pattern.

    Raises:
        SignatureRejected: A field has another type; the error names it.
    """
    properties: Schema = {}
    fields, _ = _form(kind)
    for field in fields:
        with located(kind.__qualname__, f"field {field.wire_name}"):
            properties[field.wire_name] = _field_schema(field)
    required = [field.wire_name for field in fields if field.is_required and not _may_be_null(field.shape)]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def read_form(kind: type[T], content: Mapping[str, Any] | None) -> T:
    """Create an instance from the response of the user, or raise :class:`FormRejected`. A field that is null counts as absent."""
    fields, make = _form(kind)
    answers = {name: value for name, value in (content or {}).items() if value is not None}
    for field in fields:
        if field.wire_name in answers:
            answers[field.wire_name] = _value_of(field, answers[field.wire_name])
        elif field.is_required and _may_be_null(field.shape):
            answers[field.wire_name] = None
    try:
        if make is None:
            found: T = pydantic_bridge.read(kind, answers)
        else:
            book = Book()
            schema = {"properties": {field.wire_name: field.schema(book) for field in fields}}
            found = make(Binder(kind.__qualname__, fields, schema, rejection=FormRejected).read_plain(answers))
    except FormRejected:
        raise
    except (ValueError, TypeError) as error:  # of pydantic, or raised by the class itself
        problems = error.problems if isinstance(error, Refused) else [Problem("", str(error))]
        raise FormRejected(kind.__qualname__, problems) from error
    return found


def _form(kind: Any) -> tuple[tuple[Field, ...], Callable[[dict[str, Any]], Any] | None]:
    """Return the fields of a class and the function that creates an instance; ``None`` if pydantic does that."""
    subject = getattr(kind, "__qualname__", str(kind))
    module = sys.modules.get(getattr(kind, "__module__", ""))
    builder = ShapeBuilder(vars(module) if module else {}, lambda: enclosing_variables(kind))
    with located(subject, ""):
        if pydantic_bridge.is_model(kind):
            return _model_fields(kind, builder), None
        record = builder.build(kind)
        if not isinstance(record, Record) or record.is_array:
            raise Unsupported("a form needs a class with named fields")
    return record.fields, record.make


def _model_fields(kind: Any, builder: ShapeBuilder) -> tuple[Field, ...]:
    found = []
    for name, info in kind.model_fields.items():
        shape = builder.decorated(builder.build(info.annotation), [info])
        default = NO_DEFAULT if info.is_required() or info.default_factory is not None else info.default
        found.append(Field(name, info.validation_alias or name, shape, info.is_required(), default))
    return tuple(found)


def _may_be_null(shape: Shape) -> bool:
    return NULL in unwrapped(shape).parts


def _bare(shape: Shape) -> tuple[Shape, Schema]:
    """Return a shape without its notes, and the notes."""
    notes: Schema = {}
    while isinstance(shape, Wrapped):
        notes = {**(shape.notes if isinstance(shape, Noted) else {}), **notes}
        shape = shape.inner
    return shape, notes


def _field_schema(field: Field) -> Schema:
    """Return the schema of one field; raise :class:`Unsupported` if forms do not support its type."""
    shape, notes = _without_null(field.shape)
    full = {**field.schema(Book()), **notes}
    common = {name: full[name] for name in _COMMON if full.get(name) is not None}
    options = _options(shape)
    if options is not None and "default" in common:
        common["default"] = _option_of(options, common["default"])
    if isinstance(shape, Array):
        return {**_multiple_choice(shape, options), **common}
    if options is not None:
        return {"type": "string", **_choices(options, "oneOf"), **common}
    found = {**shape.schema(Book()), **notes}
    kind = found.get("type")
    if kind not in _KEYWORDS or "contentEncoding" in found or "enum" in found:
        raise Unsupported(_ALLOWED_TYPES)
    if kind == "integer":
        _make_inclusive(found)
    if found.get("format") not in _FORMATS:
        found.pop("format", None)
    return {"type": kind, **{name: found[name] for name in found if name in _KEYWORDS[kind]}, **common}


def _without_null(shape: Shape) -> tuple[Shape, Schema]:
    """Return the shape of a field without null and without its notes, and the notes."""
    shape, notes = _bare(shape)
    if isinstance(shape, Choice):
        others = [member for member in shape.parts if member is not NULL]
        if len(others) != 1:
            raise Unsupported(f"a form field cannot be a union of several types; {_ALLOWED_TYPES}")
        shape, more = _bare(others[0])
        notes = {**more, **notes}
    return shape, notes


def _options(shape: Shape) -> Any:
    """Return the enum class or the literals of a choice or a list of choices; otherwise ``None``."""
    item = unwrapped(shape.parts[0]) if isinstance(shape, Array) else shape
    return item.options if isinstance(item, Leaf) else None


def _multiple_choice(shape: Array, options: Any) -> Schema:
    if options is None:
        raise Unsupported(f"a list in a form must be a list of choices; {_ALLOWED_TYPES}")
    choices = _choices(options, "anyOf")
    limits = {name: value for name, value in shape.schema(Book()).items() if name in {"minItems", "maxItems"}}
    return {"type": "array", "items": choices if "anyOf" in choices else {"type": "string", **choices}, **limits}


def _choices(options: Any, titled: str) -> Schema:
    """Return the choices, with titles if the names of an enum differ from its values."""
    by_string = _values_by_string(options)
    names = [member.name for member in options] if isinstance(options, type) else list(by_string)  # type: ignore[attr-defined]
    if any(name.lower() != str(value).lower() for name, value in zip(names, by_string.values(), strict=True)):
        titles = [name.replace("_", " ").capitalize() for name in names]
        return {titled: [{"const": const, "title": title} for const, title in zip(by_string, titles, strict=True)]}
    return {"enum": list(by_string)}


def _values_by_string(options: Any) -> dict[str, Any]:
    """Return the values of the choices by their strings in the form (EL-02): the value, or the name if it is not a string."""
    members = list(options)
    values = [member.value if isinstance(member, enum.Enum) else member for member in members]
    if all(isinstance(value, str) for value in values):
        return {str(value): str(value) for value in values}
    if not isinstance(options, type):
        raise Unsupported(f"the choices of a form must be strings; {_ALLOWED_TYPES}")
    return {member.name: member.value for member in members}


def _option_of(options: Any, default: Any) -> Any:
    """Return the string in the form for a default."""
    if isinstance(default, list):
        return [_option_of(options, each) for each in default]
    return next((const for const, value in _values_by_string(options).items() if value == default), default)


def _value_of(field: Field, answer: Any) -> Any:
    """Return the value of the class for a string of the form; the class rejects strings that were not offered."""
    try:
        options = _options(_without_null(field.shape)[0])
        by_string = {} if options is None else _values_by_string(options)
    except Unsupported:  # the field was not in the form
        return answer
    if isinstance(answer, list):
        return [by_string.get(each, each) for each in answer]
    return by_string.get(answer, answer) if isinstance(answer, str) else answer


def _make_inclusive(found: Schema) -> None:
    """Replace exclusive bounds on integers by inclusive ones, because forms have only those."""
    for strict, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        if strict in found:
            found[inclusive] = int(found[strict]) + step
