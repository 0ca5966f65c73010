"""Translate elicitation forms for older revisions, and answers back (EL-03).

In 2025-06-18 a form has no multiple choice. There each choice becomes a boolean field, and :func:`restored_answer` combines their
values into one list again.
"""

from __future__ import annotations

from typing import Any

from msgspec import convert, structs, to_builtins

from twopipes._protocol import types as t
from twopipes._protocol.revisions import TYPES


def checked_form(schema: dict[str, Any], revision: str) -> dict[str, Any]:
    """Return a flat form (EL-01, EL-02) for a revision; the same object if nothing needs to change."""
    form = convert(schema, t.ElicitSchema)
    if schema.get("type") != "object":
        schema = {"type": "object", **schema}
    if TYPES["MultiSelectSchema"].has(revision):
        return schema
    plain: dict[str, Any] = to_builtins(plain_form(form))
    return schema if plain == schema else plain


def plain_form(form: t.ElicitSchema) -> t.ElicitSchema:
    """Return the form for 2025-06-18; the same object if nothing needs to change."""
    names = _choice_names(form)
    properties: dict[str, t.FieldSchema] = {}
    for name, asked in form.properties.items():
        if isinstance(asked, t.MultiSelectSchema):
            properties |= _boolean_fields(asked, names[name])
        else:
            properties[name] = plain_field(asked)
    required = None if form.required is None else [name for name in form.required if name not in names]
    plain = t.ElicitSchema(properties, required)
    return form if plain == form else plain


def restored_answer(schema: dict[str, Any], content: dict[str, t.ElicitValue], revision: str) -> dict[str, t.ElicitValue]:
    """Convert an answer to the form of :func:`checked_form` back to an answer to the original form."""
    if TYPES["MultiSelectSchema"].has(revision):
        return content
    names = _choice_names(convert(schema, t.ElicitSchema))
    added = {field for fields in names.values() for field in fields.values()}
    answer = {name: value for name, value in content.items() if name not in added}
    for name, fields in names.items():
        if any(field in content for field in fields.values()):
            answer[name] = [value for value, field in fields.items() if content.get(field) is True]
    return answer


def _choices(asked: t.MultiSelectSchema) -> dict[str, str]:
    """Return the values of a multiple choice with their titles."""
    if asked.items.any_of is not None:
        return {option.const: option.title for option in asked.items.any_of}
    return {value: value for value in asked.items.enum or []}


def _choice_names(form: t.ElicitSchema) -> dict[str, dict[str, str]]:
    """Return for each multiple choice the names of its boolean fields by value. All names are unique."""
    taken = set(form.properties)
    names: dict[str, dict[str, str]] = {}
    for name, asked in form.properties.items():
        if isinstance(asked, t.MultiSelectSchema):
            fields = names[name] = {}
            for value in _choices(asked):
                field = f"{name}.{value}"
                while field in taken:
                    field += "."
                taken.add(field)
                fields[value] = field
    return names


def _boolean_fields(asked: t.MultiSelectSchema, fields: dict[str, str]) -> dict[str, t.FieldSchema]:
    prefix = f"{asked.title}: " if asked.title else ""
    titles = _choices(asked)
    return {
        field: t.BooleanSchema(
            title=f"{prefix}{titles[value]}",
            description=asked.description,
            default=None if asked.default is None else value in asked.default,
        )
        for value, field in fields.items()
    }


def plain_field(asked: t.FieldSchema) -> t.FieldSchema:
    """Return a field, other than a multiple choice, for 2025-06-18 (EL-03)."""
    if isinstance(asked, t.StringSchema) and asked.one_of is not None:
        asked = structs.replace(
            asked,
            enum=[option.const for option in asked.one_of],
            enum_names=[option.title for option in asked.one_of],
            one_of=None,
        )
    if isinstance(asked, t.BooleanSchema) or asked.default is None:
        return asked
    return structs.replace(asked, default=None)
