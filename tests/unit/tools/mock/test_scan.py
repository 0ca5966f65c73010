"""JSON without json: the same values, and the text they were written in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._tools.mock.scan import NotJson, elements, members, object_of, quoted, scan, with_member

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
SPACES = st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :\r ")])


@given(VALUES, SPACES, st.booleans())
def test_a_value_is_what_json_says_it_is(value, separators, ascii_only):
    text = json.dumps(value, separators=separators, ensure_ascii=ascii_only)
    assert scan(f" {text}\r") == json.loads(text)


@given(st.dictionaries(st.text(), VALUES), SPACES)
def test_members_keep_their_text(value, separators):
    text = json.dumps(value, separators=separators)
    found = members(text)
    assert {name: each for name, (each, _) in found.items()} == value
    assert all(json.loads(written) == each for each, written in found.values())
    assert json.loads(object_of({name: written for name, (_, written) in found.items()})) == value


@given(st.lists(VALUES), SPACES)
def test_elements_keep_their_text(value, separators):
    assert [json.loads(text) for text in elements(json.dumps(value, separators=separators))] == value


@given(st.text())
def test_a_string_is_quoted_as_json_does(text):
    assert json.loads(quoted(text)) == text


def test_a_number_stays_as_it_was_written():
    assert members('{"id": 1.50e2 , "big":123456789012345678901234567890}')["id"] == (150.0, "1.50e2")


def test_a_member_is_put_in_its_place_and_taken_out():
    assert with_member('{"a": 1, "b": 2}', "a", "[3]") == '{"a":[3],"b":2}'
    assert with_member('{"a": 1}', "b", "2") == '{"a":1,"b":2}'
    assert with_member('{"a": 1, "b": 2}', "a", None) == '{"b":2}'
    assert with_member("{}", "a", None) == "{}"


@pytest.mark.parametrize(
    "text", ["", "{", "}", "nul", "{} {}", "1 2", "NaN", "[Infinity]", '{"a":-Infinity}', "'a'", '"\t"', "[" * 100_000]
)
def test_what_is_not_json_is_refused(text):
    with pytest.raises(NotJson):
        scan(text)


@pytest.mark.parametrize(
    "text", ["", "[]", "1", "{", '{"a"}', '{"a":}', '{"a":1,}', '{"a":1}}', "{1:2}", '{"a":1 "b":2}', '{"a":1]']
)
def test_what_is_no_object_has_no_members(text):
    with pytest.raises(NotJson):
        members(text)


@pytest.mark.parametrize("text", ["", "{}", "[", "[1", "[1,", "[1,]", "[1 2]", "[}"])
def test_what_is_no_array_has_no_elements(text):
    with pytest.raises(NotJson):
        elements(text)
