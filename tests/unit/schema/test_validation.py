import json
import socket
import sys

import jsonschema
import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._schema import validation
from twopipes._schema.complexity import SchemaLimits, SchemaRefused
from twopipes._schema.validation import DIALECTS, available, compile_schema

DRAFT_07 = "http://json-schema.org/draft-07/schema#"


def problems_of(schema, value, **limits):
    """Return the problems of a value as strings."""
    return [str(problem) for problem in compile_schema(schema, limits=SchemaLimits(**limits)).check(value)]


def nested(levels, inner=None):
    value = {} if inner is None else inner
    for _ in range(levels):
        value = {"c": value}
    return value


def doubling(levels, keyword):
    """Return definitions that each refer to the next one twice."""
    twice = {f"d{place}": {keyword: [{"$ref": f"#/$defs/d{place + 1}"}] * 2} for place in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**twice, f"d{levels}": {"type": "integer"}}}


# Dialects


@pytest.mark.parametrize(
    ("schema", "good", "bad", "problem"),
    [
        ({"prefixItems": [{"type": "string"}, {"type": "integer"}]}, ["a", 1], ["a", "b"], '[1]: "b" is not of type "integer"'),
        ({"$defs": {"n": {"minimum": 3}}, "$ref": "#/$defs/n"}, 3, 2, "2 is less than the minimum of 3"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 2}, {"a": 1}, '"b" is a required property'),
        ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}]}, {"a": 1}, {"b": 1}, "('b' was unexpected)"),
        ({"$defs": {"n": {"$anchor": "here", "type": "null"}}, "$ref": "#here"}, None, 1, '1 is not of type "null"'),
    ],
)
def test_a_schema_that_names_no_dialect_is_read_as_2020_12(schema, good, bad, problem):
    """JS-01."""
    assert problems_of(schema, good) == []
    (found,) = problems_of(schema, bad)
    assert problem in found


def test_a_schema_is_read_in_the_dialect_that_it_names():
    """JS-02: a list under `items` is valid in draft-07, and invalid in 2020-12."""
    schema = {"$schema": DRAFT_07, "items": [{"type": "integer"}], "additionalItems": False}
    assert problems_of(schema, [1]) == []
    assert problems_of(schema, ["a"]) == ['[0]: "a" is not of type "integer"']
    assert len(problems_of(schema, [1, 2])) == 1
    with pytest.raises(SchemaRefused, match="not a valid schema"):
        compile_schema({**schema, "$schema": DIALECTS[0]})


@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema",
    ],
)
def test_every_dialect_in_the_list_is_understood(dialect):
    """JS-02."""
    assert problems_of({"$schema": dialect, "type": "object"}, 1) == ['1 is not of type "object"']


@pytest.mark.parametrize("dialect", ["urn:x", "http://json-schema.org/draft-03/schema#", "", 7, None, "x" * 10_000])
def test_an_unknown_dialect_is_rejected(dialect):
    """JS-02: it is not read in another dialect."""
    with pytest.raises(
        SchemaRefused, match=r"its dialect .* is unknown; known dialects: https://json-schema.org/draft/2020-12/schema"
    ) as caught:
        compile_schema({"$schema": dialect, "type": "object"})
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "nonsense"}, "/type"),
        ({"properties": {"a": {"minimum": "x"}}}, "/properties/a/minimum"),
        ({"pattern": "("}, "/pattern"),
        ({"required": "a"}, "/required"),
    ],
)
def test_a_schema_that_breaks_its_meta_schema_is_refused_with_the_place(schema, place):
    """JS-03."""
    with pytest.raises(SchemaRefused, match="not a valid schema") as caught:
        compile_schema(schema)
    assert caught.value.place == place
    assert place in str(caught.value)


def test_a_schema_that_is_not_json_is_rejected():
    with pytest.raises(SchemaRefused, match="Unsupported type"):
        compile_schema({"const": object()})


# References


@pytest.fixture
def listener():
    """A local port that counts its connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def assert_no_connection(listener):
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_reference_into_the_network_is_refused_and_never_fetched(listener):
    """JS-04, JS-05."""
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
    for schema in ({"$ref": address}, {"properties": {"a": {"$ref": f"{address}#/a"}}}, {"$id": address, "$ref": "other.json"}):
        with pytest.raises(SchemaRefused, match="not fetched"):
            compile_schema(schema)
        # And if it had been let through:
        with pytest.raises(SchemaRefused, match="not fetched"):
            validation._compile(jsonschema_rs, schema, jsonschema_rs.RegexOptions())
    assert_no_connection(listener)


def test_a_meta_schema_in_the_network_is_not_fetched_either(listener):
    """JS-02, JS-04."""
    with pytest.raises(SchemaRefused, match=r"its dialect .* is unknown"):
        compile_schema({"$schema": f"http://127.0.0.1:{listener.getsockname()[1]}/meta.json"})
    assert_no_connection(listener)


def test_a_reference_to_a_file_is_refused(tmp_path):
    """JS-04, JS-05."""
    path = tmp_path / "schema.json"
    path.write_text("{}")
    with pytest.raises(SchemaRefused, match="not fetched"):
        compile_schema({"$ref": path.as_uri()})


# Bounds


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_exponential_schemas_are_checked_or_rejected_quickly(keyword):
    """JS-06."""
    assert problems_of(doubling(8, keyword), "x") == ['"x" is not of type "integer"']
    with pytest.raises(SchemaRefused, match="too complex"):
        compile_schema(doubling(16, keyword))
    with pytest.raises(SchemaRefused, match="too complex"):
        compile_schema(doubling(90, keyword))


TWICE = {"properties": {"c": {"$ref": "#"}}, "required": ["c"]}


def test_a_schema_that_doubles_with_every_level_checks_only_small_values():
    """JS-06: the cost depends on the value, so large values are rejected."""
    schema = {"anyOf": [TWICE, {**TWICE, "title": "again"}]}
    assert problems_of(schema, nested(4)) == ['c.c.c.c: "c" is a required property']
    assert problems_of(schema, nested(15)) == ["The value does not match its schema; it is too large to find out where"]
    assert problems_of(schema, nested(60)) == [validation._TOO_LARGE]


def test_a_linear_recursive_schema_checks_large_values():
    """JS-06."""
    anything = {"$ref": "#/$defs/json"}
    branches = [
        {"type": ["number", "string"]},
        {"type": "array", "items": anything},
        {"type": "object", "additionalProperties": anything},
    ]
    schema = {"$defs": {"json": {"anyOf": branches}}, **anything}
    assert problems_of(schema, nested(200, 1)) == []
    assert problems_of(schema, [{"a": list(range(100))}] * 1000) == []
    assert problems_of(schema, [{"a": [None]}]) != []


def test_a_value_that_would_overflow_the_native_stack_never_reaches_it():
    """JS-06."""
    schema = {"type": "object", "properties": {"c": {"$ref": "#"}}}
    assert problems_of(schema, nested(256)) == []
    assert problems_of(schema, nested(257)) == [validation._TOO_LARGE]
    assert problems_of(schema, nested(50_000)) == [validation._TOO_LARGE]
    assert problems_of(schema, b'{"c":' * 600 + b"{}" + b"}" * 600) == [validation._TOO_LARGE]
    assert problems_of(schema, b'{"c":' * 100_000) == [validation._TOO_LARGE]


@pytest.mark.slow
def test_a_value_that_contains_itself_is_rejected():
    value = []
    value += [value, value]
    assert problems_of({}, value) == [validation._TOO_LARGE]


def test_many_parts_against_many_branches_are_refused():
    """JS-06."""
    schema = {"items": {"enum": [{"k": place} for place in range(3000)]}}
    assert problems_of(schema, [{"k": 2999}] * 100) == []
    assert problems_of(schema, [{"k": 2999}] * 10_000) == [validation._TOO_LARGE]


def test_regular_expressions_run_in_linear_time():
    """JS-06."""
    assert len(problems_of({"pattern": "^(a+)+$"}, "a" * 100_000 + "b")) == 1


def test_regular_expressions_with_look_around_are_supported_and_bounded():
    """JS-06: they do not run in linear time, so they stop at a limit, and the value is invalid."""
    assert problems_of({"pattern": "^(?!x)a"}, "ab") == []
    assert problems_of({"pattern": "^(?!x)a"}, "xab") != []
    greedy = {"pattern": r"^(?=.*b$)(a|a?)+\1$"}
    assert problems_of(greedy, "a" * 100 + "b") != []
    assert problems_of({"items": greedy}, ["a" * 100 + "b"] * 10_000) == [validation._TOO_LARGE]


def test_a_regular_expression_that_needs_too_much_memory_is_rejected():
    """JS-06."""
    with pytest.raises(SchemaRefused, match="regex"):
        compile_schema({"pattern": "((a{1000}){1000}){1000}"})


# Messages


def test_all_problems_are_reported_with_their_paths():
    schema = {
        "properties": {"items": {"items": {"properties": {"name": {"type": "integer"}}}}, "n": {"maximum": 1}},
        "required": ["m"],
    }
    assert sorted(problems_of(schema, {"items": [{}, {}, {}, {"name": "x"}], "n": 2})) == [
        '"m" is a required property',
        'items[3].name: "x" is not of type "integer"',
        "n: 2 is greater than the maximum of 1",
    ]


def test_names_that_look_like_indexes_are_reported_as_names():
    schema = {"properties": {"0": {"type": "string"}, "a/b~c": {"type": "string"}}}
    assert sorted(problems_of(schema, {"0": 1, "a/b~c": 2})) == ['0: 1 is not of type "string"', 'a/b~c: 2 is not of type "string"']


def test_the_branches_of_a_choice_are_distinguished():
    schema = {
        "anyOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/c"}],
        "$defs": {"b": {"required": ["x"]}, "c": {"required": ["y"]}},
    }
    assert problems_of(schema, {}) == [
        '"x" is a required property (in alternative 1)',
        '"y" is a required property (in alternative 2)',
    ]


def test_failed_branches_do_not_count_if_another_matches():
    schema = {"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "b": {"type": "integer"}}}
    assert problems_of(schema, {"a": "x", "b": "y"}) == ['b: "y" is not of type "integer"']


def test_a_value_that_matches_several_alternatives_of_one_of_is_reported():
    assert problems_of({"oneOf": [{}, {"type": "integer"}]}, 1) == [
        "It matches more than one alternative of oneOf, but must match exactly one"
    ]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"properties": {"a": False}}, "a: It is not allowed"),
        ({"additionalProperties": False}, "No additional properties are allowed"),
        ({"additionalProperties": False, "properties": {"b": {}}}, "Additional properties are not allowed ('a' was unexpected)"),
        ({"unevaluatedProperties": False}, "Unevaluated properties are not allowed ('a' was unexpected)"),
        ({"not": {}}, '{} is not allowed for {"a":1}'),
    ],
)
def test_a_value_that_is_not_allowed_is_reported(schema, problem):
    assert problems_of(schema, {"a": 1}) == [problem]


def test_the_number_of_problems_is_limited():
    """TL-20."""
    found = problems_of({"items": {"type": "integer"}}, ["x" * 1000] * 50, max_problems=3)
    assert len(found) == 4
    assert found[-1] == "There are 47 more problems"
    assert all(len(each) < 400 for each in found)
    assert found[0].endswith('is not of type "integer"')


def test_for_a_large_value_the_first_problem_is_reported():
    schema = {"items": {"type": "integer"}, "maxItems": 200_000}
    assert problems_of(schema, [1] * 100_000 + ["x"]) == ['[100000]: The value is not of type "integer" ("x")']
    assert problems_of({"items": False}, [1] * 100_000) == ["[0]: It is not allowed"]


def test_long_names_are_cut():
    (found,) = problems_of({"additionalProperties": {"type": "null"}}, {"n" * 100_000: 1})
    assert len(found) < 400


# Values


@pytest.mark.parametrize("form", [bytes, msgspec.Raw, json.loads])
def test_a_value_may_be_json_or_plain_python(form):
    assert problems_of({"type": "object"}, form(b'{"a": 1}')) == []
    assert problems_of({"type": "array"}, form(b'{"a": 1}')) == ['{"a":1} is not of type "array"']


def test_bytes_that_are_not_json_are_invalid():
    (found,) = problems_of({}, b'{"a":')
    assert found.startswith("The value is not JSON")


def test_values_that_json_cannot_represent_are_invalid():
    assert problems_of({"type": "object"}, object()) == ["Unsupported type: 'object'"]
    assert len(problems_of({"type": "object"}, {1: 2})) == 1


def test_large_numbers_are_numbers():
    assert problems_of({"type": "integer"}, str(10**40).encode()) == []
    assert problems_of({"type": "integer"}, b"3.0") == []


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("abc", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
schemas = st.recursive(
    st.sampled_from(
        [{}, {"type": "integer"}, {"type": "string"}, {"const": 1}, {"enum": ["a", None]}, {"minimum": 0}, {"required": ["a"]}],
    ),
    lambda inner: (
        st.dictionaries(st.sampled_from(["allOf", "anyOf", "oneOf"]), st.lists(inner, min_size=1, max_size=3), min_size=1)
        | st.dictionaries(st.sampled_from(["not", "if", "then", "else", "items", "contains", "additionalProperties"]), inner)
        | st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("abc"), inner), "unevaluatedProperties": inner})
        | st.just({"properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}})
    ),
    max_leaves=8,
)


@given(schemas, plain)
def test_the_verdict_is_that_of_another_implementation(schema, value):
    """JS-01: there is a reason exactly if the value is invalid."""
    found = compile_schema(schema).check(json.dumps(value).encode())
    assert (found == []) == jsonschema.Draft202012Validator(schema).is_valid(value)


# The library


def test_without_the_library_nothing_is_validated_and_nothing_breaks(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    assert not available()
    assert compile_schema({"type": "object"}) is None
    with pytest.raises(SchemaRefused):
        compile_schema({"$schema": "urn:x"})  # checked without the library


def test_with_the_library_schemas_can_be_compiled():
    assert available()


class Panicking:
    """A library that panics, which is not an Exception in Python."""

    class PanicException(BaseException):
        pass

    def __init__(self, error):
        self.error = error

    def __call__(self, *arguments):
        raise self.error


def test_a_panic_of_the_library_does_not_end_the_program():
    with pytest.raises(SchemaRefused, match="index out of bounds"):
        validation._guarded(Panicking(Panicking.PanicException("index out of bounds")))
    with pytest.raises(KeyboardInterrupt):
        validation._guarded(Panicking(KeyboardInterrupt()))
