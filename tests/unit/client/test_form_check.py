"""Invalid content of a form is found before it is sent (EL-16)."""

import pytest

from twopipes._client.form_check import form_errors

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 4},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "size": {"type": "number"},
        "old": {"type": "boolean"},
        "plain": {"type": "string", "enum": ["a", "b"]},
        "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
        "several": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["a", "b", "c"]}},
        "shown": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
        "odd": {"type": "hologram"},
        "odder": 5,
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    "content",
    [
        {"name": "Anna"},
        {"name": "Anna", "age": 7, "size": 1.5, "old": False, "plain": "a", "titled": "a", "several": ["a", "c"], "shown": []},
        {"name": "Anna", "size": 2, "age": None, "odd": 5, "odder": 6, "unknown": 7},
    ],
)
def test_what_fits_is_let_through(content):
    """EL-16, EL-04."""
    assert form_errors(FORM, content) == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({}, "name is missing"),
        ({"name": None}, "name is missing"),
        ({"name": 5}, "name is 5, but must be of type string"),
        ({"name": "A"}, "name has 1 characters, but the minimum is 2"),
        ({"name": "Annabel"}, "name has 7 characters, but the maximum is 4"),
        ({"name": "Anna", "age": True}, "age is True, but must be of type integer"),
        ({"name": "Anna", "age": 1.5}, "age is 1.5, but must be of type integer"),
        ({"name": "Anna", "age": -1}, "age is -1, but the minimum is 0"),
        ({"name": "Anna", "size": "1"}, "size is '1', but must be of type number"),
        ({"name": "Anna", "old": 1}, "old is 1, but must be of type boolean"),
        ({"name": "Anna", "plain": "c"}, "plain is 'c', which is not one of ['a', 'b']"),
        ({"name": "Anna", "titled": "A"}, "titled is 'A', which is not one of ['a']"),
        ({"name": "Anna", "several": "a"}, "several is 'a', but must be of type array"),
        ({"name": "Anna", "several": []}, "several has 0 choices, but the minimum is 1"),
        ({"name": "Anna", "several": ["d"]}, "several has 'd', which is not one of ['a', 'b', 'c']"),
        ({"name": "Anna", "shown": ["b"]}, "shown has 'b', which is not one of ['a']"),
    ],
)
def test_what_does_not_fit_is_named(content, complaint):
    """EL-16."""
    assert form_errors(FORM, content) == [complaint]


@pytest.mark.parametrize("form", [{}, {"properties": 5, "required": "name"}, {"properties": {"name": {"type": ["string"]}}}])
def test_a_form_without_fields_accepts_any_content(form):
    assert form_errors(form, {"name": 5}) == []
