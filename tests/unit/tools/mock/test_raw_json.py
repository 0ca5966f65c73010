"""JSON read one level deep: the same values as json gives, and the bytes they were written in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._tools.mock.raw_json import NotJson, decode, members, raw, read_line

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
SPACES = st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :\r ")])


@given(st.dictionaries(st.text(), VALUES), SPACES)
def test_members_keep_their_text(value, separators):
    found = members(json.dumps(value, separators=separators).encode())
    assert {name: decode(text) for name, text in found.items()} == value
    assert json.loads(bytes(raw(found))) == value


@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=3)), SPACES)
def test_a_batch_is_read_message_by_message(value, separators):
    messages = read_line(json.dumps(value, separators=separators).encode())
    assert [json.loads(bytes(raw(message))) for message in messages] == value


def test_a_number_stays_as_it_was_written():
    found = members(b'{"id": 1.50e2 , "big":123456789012345678901234567890}')
    assert bytes(found["id"]) == b"1.50e2"
    assert bytes(raw(found)) == b'{"id":1.50e2,"big":123456789012345678901234567890}'


def test_a_missing_member_has_no_value():
    assert decode(members(b"{}").get("id")) is None


def test_a_lone_surrogate_becomes_the_replacement_character():
    assert decode(read_line(rb'{"a":"x\ud800y"}')["a"]) == "x\ufffdy"
    assert decode(read_line(rb'{"a":"\ud83d\ude00"}')["a"]) == "\U0001f600"


@pytest.mark.parametrize(
    "line",
    [
        b"", b"[", b"1", b"nul", b"{", b"}", b"{} {}", b'{"a"}', b'{"a":}', b'{"a":1,}', b'{"a":1}}', b"{1:2}", b'{"a":1 "b":2}',
        b'{"a":1]', b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":"\t"}', b'{"a":"\xff"}', b'["a"]', b"[1 2]", b"[{},]", b"[" * 100_000,
        b'{"a":' + b"[" * 100_000, rb'{"a":"\u12"}',
    ],
)  # fmt: skip
def test_what_is_not_a_json_object_is_rejected(line):
    with pytest.raises(NotJson):
        read_line(line)
