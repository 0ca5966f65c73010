"""Forms for 2025-06-18, and answers converted back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._protocol import types as t
from twopipes._protocol.dialect import dialect
from unit.protocol.values import any_of

D2506, D2511, D2607 = map(dialect, ("2025-06-18", "2025-11-25", "2026-07-28"))


def asked(properties: dict[str, Any], **more: Any) -> t.ElicitParams:
    return t.ElicitParams("m", requested_schema={"type": "object", "properties": properties, **more})


def in_2506(field: dict[str, Any]) -> dict[str, Any]:
    return D2506.fit(asked({"f": field})).requested_schema["properties"]


@pytest.mark.parametrize(
    "field",
    [
        {"type": "string", "title": "T", "minLength": 1, "maxLength": 9, "format": "email"},
        {"type": "string", "enum": ["a"], "enumNames": ["A"]},
        {"type": "number", "minimum": 0.5},
        {"type": "integer", "maximum": 9},
        {"type": "boolean", "default": True},
    ],
)
def test_a_field_of_every_revision_is_unchanged(field):
    """EL-02, EL-03."""
    question = asked({"f": field}, required=["f"])
    assert all(spoken.fit(question) is question for spoken in (D2506, D2511, D2607))


@pytest.mark.parametrize("kind", ["string", "number", "integer"])
def test_only_a_boolean_keeps_its_default(kind):
    """EL-03, EL-04."""
    field = {"type": kind, "default": "d" if kind == "string" else 5}
    assert in_2506(field) == {"f": {"type": kind}}
    question = asked({"f": field})
    assert D2511.fit(question) is question


def test_titled_choices_become_names():
    """EL-03, EL-04."""
    options = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
    field = {"type": "string", "title": "T", "oneOf": options, "default": "r"}
    assert in_2506(field) == {"f": {"type": "string", "title": "T", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}}


def test_a_multiple_choice_becomes_a_boolean_for_each_choice():
    """EL-03."""
    field = {
        "type": "array",
        "title": "Colours",
        "description": "Which?",
        "items": {"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        "default": ["g"],
    }
    assert in_2506(field) == {
        "f.r": {"type": "boolean", "title": "Colours: Red", "description": "Which?", "default": False},
        "f.g": {"type": "boolean", "title": "Colours: Green", "description": "Which?", "default": True},
    }
    assert in_2506({"type": "array", "items": {"enum": ["r"]}}) == {"f.r": {"type": "boolean", "title": "r"}}


def test_a_required_multiple_choice_is_not_required_under_its_old_name():
    """EL-01: `required` names only existing fields."""
    many = {"type": "array", "items": {"enum": ["x"]}}
    fitted = D2506.fit(asked({"a": many, "b": {"type": "string"}}, required=["a", "b"], **{"$schema": "x"}))
    assert fitted.requested_schema["required"] == ["b"]
    assert "$schema" not in fitted.requested_schema


MANY = asked(
    {
        "many": {"type": "array", "items": {"enum": ["a", "b"]}},
        "many.a": {"type": "string"},
        "name": {"type": "string"},
    }
)


def test_a_name_that_is_taken_is_not_used_twice():
    assert set(D2506.fit(MANY).requested_schema["properties"]) == {"many.a", "name", "many.a.", "many.b"}


@pytest.mark.parametrize(
    ("content", "restored"),
    [
        ({"many.a.": True, "many.b": False, "name": "n", "many.a": "own"}, {"many": ["a"], "name": "n", "many.a": "own"}),
        ({"many.a.": True, "many.b": True}, {"many": ["a", "b"]}),
        ({"many.b": False}, {"many": []}),
        ({"name": "n"}, {"name": "n"}),
        ({}, {}),
    ],
)
def test_the_answers_become_one_list_again(content, restored):
    """EL-03, EL-04."""
    assert D2506.restore_answer(MANY, t.ElicitResult("accept", content)) == t.ElicitResult("accept", restored)


def test_other_answers_are_returned_as_the_same_object():
    for spoken in (D2511, D2607):
        answer = t.ElicitResult("accept", {"many": ["a"]})
        assert spoken.restore_answer(MANY, answer) is answer
    declined = t.ElicitResult("decline")
    assert D2506.restore_answer(MANY, declined) is declined
    accepted = t.ElicitResult("accept", {})
    assert D2506.restore_answer(t.ElicitParams("m", "url", url="a:b"), accepted) is accepted


@given(any_of(t.ElicitSchema), st.data())
def test_any_choice_of_the_user_is_restored(form, data):
    """EL-03: for any form with multiple choices and any choice among them."""
    question = t.ElicitParams("m", requested_schema=msgspec.to_builtins(form))
    flat = D2506.fit(question).requested_schema["properties"]
    assert not any(field["type"] == "array" for field in flat.values())
    answers = {name: data.draw(st.booleans()) for name, field in flat.items() if field["type"] == "boolean"}
    restored = D2506.restore_answer(question, t.ElicitResult("accept", answers)).content
    chosen = sum(len(set(value)) for value in restored.values() if isinstance(value, list))
    kept = sum(value is True for value in restored.values())
    assert chosen + kept == sum(answers.values())
    assert set(restored) <= set(form.properties)
