"""JSON5: what it has beyond JSON with comments."""

import pytest

from twopipes._host.files import json5
from twopipes._host.files.jsonc import InvalidJson


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, $b_1: 2, 'c d': 3, \"e\": 4, ünï: 5,}", {"a": 1, "$b_1": 2, "c d": 3, "e": 4, "ünï": 5}),
        ("{null: true, a /* : */ : // :\n false}", {"null": True, "a": False}),
        ("['a\"b', \"a'b\", 'it\\'s', '\\x41\\u0042\\v\\0\\q', 'a\\\nb']", ['a"b', "a'b", "it's", "AB\v\0q", "ab"]),
        ("[+1, -.5, 5., 0x1F, -0XA, 1e3, 1.5E-1]", [1, -0.5, 5, 31, -10, 1000.0, 0.15]),
        ("/* a */ [true, null, // b\n 'http://x', '/* c */',]", [True, None, "http://x", "/* c */"]),
        ("\ufeff\u00a0[\v\f1]", [1]),
        ('{"a": ["//", "\\\\"]}', {"a": ["//", "\\"]}),
    ],
)
def test_what_is_read(text, value):
    assert json5.read(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{a: 1,\n 1b: 2}", "Expecting a name in quotes, not 1b: line 2"),
        ("{a: b}", "Expecting value: line 1"),
        ("{a: 1\n\n b: 2}", "Expecting ',' delimiter: line 3"),
        ("{a: 'x\\\ny',\n b: }", "Expecting value: line 3"),
        ("['a]", "Expecting value: line 1"),
        ("[+, .]", "Expecting value: line 1"),
        ("[Infinity]", "Expecting value, not Infinity"),
        ("[,]", "Expecting value: line 1"),
        ("", "Expecting value: line 1"),
        ("[" * 100_000, "Nested too deeply"),
    ],
)
def test_what_is_an_error(text, message):
    with pytest.raises(InvalidJson, match=message):
        json5.read(text)
