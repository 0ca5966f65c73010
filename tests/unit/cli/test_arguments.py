"""key=value arguments, converted by a schema."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._cli.arguments import InvalidValue, Pair, describe, did_you_mean, missing, read_pair, resolved, typed, values_of
from twopipes._tools.usage import UsageError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("word", "pair"),
    [
        ("a=1", Pair("a", "1", is_json=False)),
        ("a=", Pair("a", "", is_json=False)),
        ("a=b=c", Pair("a", "b=c", is_json=False)),
        ("a:=[1]", Pair("a", "[1]", is_json=True)),
        ("a=:=b", Pair("a", ":=b", is_json=False)),
        ("ns:key=x", Pair("ns:key", "x", is_json=False)),
    ],
)
def test_a_pair(word, pair):
    assert read_pair(word) == pair


@pytest.mark.parametrize("word", ["a", "=1", ":=1", ""])
def test_an_invalid_pair_is_rejected(word):
    with pytest.raises(UsageError, match="write key=value, key:=JSON or key=@FILE"):
        read_pair(word)


def test_a_value_in_a_file(tmp_path):
    (tmp_path / "text").write_text("ä\n", encoding="utf-8", newline="\n")
    (tmp_path / "binary").write_bytes(b"\xff")
    assert read_pair(f"a=@{tmp_path}/text") == Pair("a", "ä\n", is_json=False)
    assert read_pair(f"a:=@{tmp_path}/text") == Pair("a", "ä\n", is_json=True)
    with pytest.raises(UsageError, match=r"argument a: file .*/nothing cannot be read: (No such file|File not found)"):
        read_pair(f"a=@{tmp_path}/nothing")
    with pytest.raises(UsageError, match="it is not UTF-8"):
        read_pair(f"a=@{tmp_path}/binary")


INTEGER, NUMBER, STRING, BOOLEAN = ({"type": kind} for kind in ("integer", "number", "string", "boolean"))
ROOT = {"$defs": {"Point": {"type": "object", "properties": {"x": NUMBER}}, "a/b": INTEGER, "loop": {"$ref": "#/$defs/loop"}}}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", INTEGER, 5),
        ("-5", INTEGER, -5),
        ("5", NUMBER, 5),
        ("5.5e1", NUMBER, 55.0),
        ("5", STRING, "5"),
        ("", STRING, ""),
        (" x\n", STRING, " x\n"),
        ("true", BOOLEAN, True),
        ("No", BOOLEAN, False),
        ("0", BOOLEAN, False),
        ("null", {"type": "null"}, None),
        ("[1, 2]", {"type": "array"}, [1, 2]),
        ("a", {"type": "array", "items": STRING}, ["a"]),
        ("5", {"type": "array", "items": INTEGER}, [5]),
        ('{"x": 1}', {"type": "object"}, {"x": 1}),
        ('{"x": 1}', {"$ref": "#/$defs/Point"}, {"x": 1}),
        ("5", {"$ref": "#/$defs/a~1b"}, 5),
        ("5", {"allOf": [{"$ref": "#/$defs/a~1b"}], "description": "x"}, 5),
        ("m", {"enum": ["m", "mi"]}, "m"),
        ("2", {"enum": [1, 2]}, 2),
        ("null", {"enum": ["a", None]}, None),
        ("x", {"const": "x"}, "x"),
        # Several types: the narrowest that fits.
        ("5", {"type": ["string", "integer"]}, 5),
        ("05", {"type": ["string", "integer"]}, "05"),
        ("null", {"anyOf": [STRING, {"type": "null"}]}, None),
        ("nil", {"anyOf": [STRING, {"type": "null"}]}, "nil"),
        ("1", {"anyOf": [INTEGER, BOOLEAN]}, True),
        ("7", {"anyOf": [INTEGER, BOOLEAN]}, 7),
        ("a", {"anyOf": [{"type": "array", "items": STRING}, {"type": "null"}]}, ["a"]),
        ('["a"]', {"anyOf": [STRING, {"type": "array", "items": STRING}]}, ["a"]),
        ("a", {"anyOf": [{"type": "array", "items": STRING}, STRING]}, "a"),
        ("a", {"oneOf": [{"const": "a"}, {"const": "b"}]}, "a"),
        # No type: JSON if it is valid.
        ("5", {}, 5),
        ("x", {}, "x"),
        ("x", True, "x"),
        ("[1]", {"items": INTEGER}, [1]),
        ("5", {"$ref": "https://elsewhere/schema"}, 5),
        ("5", {"$ref": "#/$defs/loop"}, 5),
        ("5", {"type": "strange"}, 5),
    ],
)
def test_a_value_has_the_type_that_its_schema_says(text, schema, value):
    found = typed(text, schema, ROOT)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("x", INTEGER),
        ("5.0", INTEGER),
        ("1_000", INTEGER),
        ("٣", INTEGER),
        ("nan", NUMBER),
        ("1e999", NUMBER),
        ("[-1e999]", {"type": "array"}),
        ("", NUMBER),
        ("9" * 5000, INTEGER),
        ("maybe", BOOLEAN),
        ("nil", {"type": "null"}),
        ("[1", {"type": "array"}),
        ("[NaN]", {"type": "array"}),
        ("x", {"type": "array", "items": INTEGER}),
        ("[]", {"type": "object"}),
        ("km", {"enum": ["m", "mi"]}),
        ("x", {"anyOf": [INTEGER, BOOLEAN]}),
    ],
)
def test_a_value_that_does_not_fit(text, schema):
    with pytest.raises(InvalidValue):
        typed(text, schema)


TOOL = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 0, "maximum": 9, "description": "how\n many"},
        "tags": {"type": "array", "items": INTEGER},
        "maybe": {"anyOf": [{"type": "array", "items": STRING}, {"type": "null"}]},
        "unit": {"enum": ["metre", "mile"]},
        "any": {},
    },
    "required": ["count", "unit"],
}


def values(*words, schema=TOOL):
    return values_of([read_pair(word) for word in words], schema, of="measure")


def test_all_arguments_of_a_tool():
    assert values("count=5", "unit=mile", "tags=1", "tags=2", "maybe=a", "maybe=b", "any=x", "any=1") == {
        "count": 5,
        "unit": "mile",
        "tags": [1, 2],
        "maybe": ["a", "b"],
        "any": ["x", 1],
    }


def test_each_item_of_a_tuple_has_a_type_of_its_own():
    pair = {"properties": {"p": {"type": "array", "prefixItems": [STRING, INTEGER], "items": False}}}
    assert values("p=1", "p=2", schema=pair) == {"p": ["1", 2]}
    assert values("p=1", schema=pair) == {"p": ["1"]}


def test_json_is_passed_unchanged():
    assert values('count:="five"') == {"count": "five"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["count=x"], "argument count of measure: 'x' is not an integer; expected: integer from 0 to 9 (how many)"),
        (
            ["unit=meter"],
            'argument unit of measure: \'meter\' is not one of the choices; did you mean metre? Expected: "metre" | "mile"',
        ),
        (["coutn=1"], "measure has no argument 'coutn'; did you mean count?"),
        (["zzz=1"], "measure has no argument 'zzz'; known arguments: count, tags, maybe, unit, any"),
        (["count=1", "count=2"], "argument count of measure: it was given several times, but is not a list"),
        (["count:=[1"], "argument count of measure: '[1' is not JSON"),
    ],
)
def test_an_error_names_the_argument_and_its_schema(words, said):
    with pytest.raises(UsageError) as found:
        values(*words)
    assert said in str(found.value)


def test_arguments_that_the_schema_does_not_name():
    assert values("x=1", schema={"additionalProperties": STRING}) == {"x": "1"}
    assert values("x=1", schema={"additionalProperties": True, "properties": {"y": INTEGER}}) == {"x": 1}
    assert values("x=1", schema={}) == {"x": 1}
    with pytest.raises(UsageError, match="it takes none"):
        values("x=1", schema={"additionalProperties": False})


def test_an_endless_schema():
    endless = {"properties": {"x": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": {"anyOf": [{"$ref": "#/$defs/tree"}]}}}
    with pytest.raises(UsageError, match="its schema is endless"):
        values("x=1", schema=endless)


def test_missing_arguments():
    assert missing({"count": 1}, TOOL) == ["unit"]
    assert missing({}, {"required": 5}) == []


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (INTEGER, "integer"),
        ({"type": "string", "format": "date"}, "string (date)"),
        ({"type": "integer", "minimum": 1}, "integer, at least 1"),
        ({"type": "integer", "maximum": 1}, "integer, at most 1"),
        ({"type": "array", "items": STRING}, "array of string"),
        ({"type": "array"}, "array"),
        ({"type": "array", "prefixItems": [INTEGER, STRING], "items": False}, "[integer, string]"),
        ({"type": "array", "prefixItems": [INTEGER], "items": STRING}, "[integer, ...]"),
        ({"type": "array", "items": [INTEGER, STRING], "additionalItems": False}, "[integer, string]"),
        ({"type": "array", "prefixItems": [], "items": STRING}, "array of string"),
        ({"type": ["string", "null"]}, "null | string"),
        ({"anyOf": [STRING, {"type": "null"}]}, "string | null"),
        ({"const": 5}, "5"),
        ({"$ref": "#/$defs/Point"}, "{x?: number}"),
        ({"type": "object"}, "object"),
        ({"enum": list(range(15))}, "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | ... (3 more)"),
        (True, "anything"),
        (False, "nothing"),
        ({}, "anything"),
    ],
)
def test_the_description_of_a_schema(schema, words):
    assert describe(schema, ROOT) == words


def test_members_beside_a_reference_count():
    assert resolved({"$ref": "#/$defs/a~1b", "description": "x"}, ROOT) == {"type": "integer", "description": "x"}
    assert resolved({"$ref": "#/$defs/nothing"}, ROOT) == {"$ref": "#/$defs/nothing"}


def nested(*, levels):
    return INTEGER if levels == 0 else {"type": "object", "properties": {"x": nested(levels=levels - 1)}, "required": ["x"]}


def test_deeply_nested_values_are_described_by_their_type():
    assert describe(nested(levels=4)) == "{x: {x: {x: {x: integer}}}}"
    assert describe(nested(levels=5)) == "{x: {x: {x: {x: object}}}}"
    inner = {"anyOf": [nested(levels=1), {"type": "null"}]}
    deep = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": inner}}}
    assert describe(deep) == "array of array of array of object | null"


def test_a_schema_that_is_its_own_alternative_is_described():
    assert describe({"$ref": "#/$defs/loop"}, {"$defs": {"loop": {"anyOf": [{"$ref": "#/$defs/loop"}, INTEGER]}}}) == "integer"


def test_a_schema_that_contains_itself_is_described():
    tree = {"type": "array", "items": {"$ref": "#"}}
    assert describe(tree, tree).startswith("array of array of array of")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("ech", "; did you mean echo?"),
        ("ECHO", "; did you mean echo?"),
        ("trip", "; did you mean book_trip?"),
        ("zzz", ""),
        ("o", ""),
    ],
)
def test_did_you_mean(word, said):
    assert did_you_mean(word, ["echo", "book_trip"]) == said


@given(JSON)
def test_every_json_value_can_be_passed(value):
    assert values_of([Pair("key", json.dumps(value), is_json=True)], TOOL | {"additionalProperties": True}, of="x") == {
        "key": value
    }


@given(st.text())
def test_a_string_is_unchanged(text):
    assert typed(text, STRING) == text


@given(st.integers())
def test_an_integer_is_unchanged(number):
    assert typed(str(number), INTEGER) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_unchanged(number):
    assert typed(json.dumps(number), NUMBER) == number


@given(
    st.text(),
    st.lists(st.sampled_from([INTEGER, NUMBER, STRING, BOOLEAN, {"type": "null"}, {"type": "array", "items": NUMBER}]), min_size=1),
)
def test_a_text_matches_one_of_several_types_or_is_rejected(text, options):
    kinds = {"integer": int, "number": (int, float), "string": str, "boolean": bool, "null": type(None), "array": list}
    try:
        found = typed(text, {"anyOf": options})
    except InvalidValue:
        assert STRING not in options
    else:
        assert any(isinstance(found, kinds[option["type"]]) for option in options)
