"""Forms for the user: what each revision can ask, and how an answer gets back into the terms of the question (EL-03).

In 2025-06-18 a form has no multiple choice. There each choice becomes a yes-or-no question of its own, and
:func:`restored_answer` makes one list of the answers again.
"""

from __future__ import annotations

from typing import Any

from msgspec import convert, structs, to_builtins

from twopipes._protocol import types as t
from twopipes._protocol.revisions import TYPES


def checked_form(schema: dict[str, Any], revision: str) -> dict[str, Any]:
    """Gives the form as a revision can ask it: the same object where nothing needs to change.

    Raises:
        msgspec.ValidationError: It is no flat form of the known kinds of field (EL-01, EL-02).
    """
    form = convert(schema, t.ElicitSchema)
    if schema.get("type") != "object":
        schema = {"type": "object", **schema}
    if TYPES["MultiSelectSchema"].has(revision):
        return schema
    plain: dict[str, Any] = to_builtins(plain_form(form))
    return schema if plain == schema else plain


def plain_form(form: t.ElicitSchema) -> t.ElicitSchema:
    """Gives the form as 2025-06-18 can ask it: the same object where nothing needs to change."""
    names = _choice_names(form)
    properties: dict[str, t.FieldSchema] = {}
    for name, asked in form.properties.items():
        if isinstance(asked, t.MultiSelectSchema):
            properties |= _yes_or_no(asked, names[name])
        else:
            properties[name] = plain_field(asked)
    required = None if form.required is None else [name for name in form.required if name not in names]
    plain = t.ElicitSchema(properties, required)
    return form if plain == form else plain


def restored_answer(schema: dict[str, Any], content: dict[str, t.ElicitValue], revision: str) -> dict[str, t.ElicitValue]:
    """Puts the answer to a form as :func:`checked_form` asked it into the terms of the form as it was meant."""
    if TYPES["MultiSelectSchema"].has(revision):
        return content
    names = _choice_names(convert(schema, t.ElicitSchema))
    ours = {question for questions in names.values() for question in questions.values()}
    answer = {name: value for name, value in content.items() if name not in ours}
    for name, questions in names.items():
        if any(question in content for question in questions.values()):
            answer[name] = [value for value, question in questions.items() if content.get(question) is True]
    return answer


def _choices(asked: t.MultiSelectSchema) -> dict[str, str]:
    """The values of a multiple choice with their titles."""
    if asked.items.any_of is not None:
        return {option.const: option.title for option in asked.items.any_of}
    return {value: value for value in asked.items.enum or []}


def _choice_names(form: t.ElicitSchema) -> dict[str, dict[str, str]]:
    """By multiple choice and value: the name of the question that stands for it, different from all other names."""
    taken = set(form.properties)
    names: dict[str, dict[str, str]] = {}
    for name, asked in form.properties.items():
        if isinstance(asked, t.MultiSelectSchema):
            questions = names[name] = {}
            for value in _choices(asked):
                question = f"{name}.{value}"
                while question in taken:
                    question += "."
                taken.add(question)
                questions[value] = question
    return names


def _yes_or_no(asked: t.MultiSelectSchema, questions: dict[str, str]) -> dict[str, t.FieldSchema]:
    above = f"{asked.title}: " if asked.title else ""
    titles = _choices(asked)
    return {
        question: t.BooleanSchema(
            title=f"{above}{titles[value]}",
            description=asked.description,
            default=None if asked.default is None else value in asked.default,
        )
        for value, question in questions.items()
    }


def plain_field(asked: t.FieldSchema) -> t.FieldSchema:
    """Gives a field, other than a multiple choice, as 2025-06-18 can ask it (EL-03)."""
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
