"""Tools as model APIs take them. The official SDKs check the same in tests/interop/test_model_apis.py."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from twopipes._host.model_formats import anthropic_tool, openai_tool

ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
    "required": ["a"],
    "additionalProperties": False,
}


def anthropic(schema):
    return anthropic_tool("s__t", None, schema)


def openai(schema):
    return openai_tool("s__t", None, schema)


def test_the_format_of_anthropic():
    assert anthropic_tool("sums__add", "Add two numbers.", ADD) == {
        "name": "sums__add",
        "description": "Add two numbers.",
        "input_schema": ADD,
    }


def test_the_format_of_openai_responses_keeps_optional_arguments_optional():
    assert openai_tool("sums__add", "Add two numbers.", ADD) == {
        "type": "function",
        "name": "sums__add",
        "description": "Add two numbers.",
        "parameters": ADD,
        "strict": False,
    }


def test_the_format_of_openai_chat_completions():
    assert openai_tool("sums__add", "Add two numbers.", ADD, "chat") == {
        "type": "function",
        "function": {"name": "sums__add", "description": "Add two numbers.", "parameters": ADD},
    }


def test_an_unknown_api_is_refused():
    with pytest.raises(ValueError, match="unknown api 'completions'; use 'responses' or 'chat'"):
        openai_tool("t", None, ADD, "completions")  # type: ignore[arg-type]


def test_a_tool_without_a_description_has_none():
    assert anthropic(ADD).keys() == {"name", "input_schema"}


def test_a_tool_without_parameters_has_an_empty_table_of_properties():
    assert openai({"type": "object"})["parameters"] == {"type": "object", "properties": {}}


def test_the_dialect_is_left_out_and_definitions_stay():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"p": {"$ref": "#/definitions/P"}},
        "definitions": {"P": {"type": "string"}},
    }
    assert anthropic(schema)["input_schema"] == {key: value for key, value in schema.items() if key != "$schema"}


def test_the_schema_of_the_tool_is_not_changed():
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "anyOf": [{"properties": {"a b": {"type": "array"}}}]}
    before = json.dumps(schema)
    anthropic(schema)
    openai(schema)
    assert json.dumps(schema) == before


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize(("made", "parameters"), [(anthropic, "input_schema"), (openai, "parameters")])
def test_a_combination_at_the_root_moves_to_the_description(keyword, made, parameters):
    branches = [
        {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
        {"properties": {"id": {"type": "string"}, "name": {"type": "string"}}, "required": ["name"]},
    ]
    tool = made({"type": "object", "properties": {"x": {}}, keyword: branches})
    assert tool[parameters] == {
        "type": "object",
        "properties": {"x": {}, "id": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "name": {"type": "string"}},
    }
    assert tool["description"] == f"The arguments must also match this JSON Schema: {compact({keyword: branches})}"


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def test_combinations_below_the_root_stay():
    schema = {"type": "object", "properties": {"x": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
    assert openai(schema)["parameters"] == schema


def test_a_note_follows_the_description():
    tool = openai_tool("t", "Find it.", {"type": "object", "not": {"required": ["a", "b"]}})
    assert tool["description"] == 'Find it.\n\nThe arguments must also match this JSON Schema: {"not":{"required":["a","b"]}}'


def test_references_at_the_root_and_in_its_alternatives_are_resolved():
    schema = {
        "$ref": "#/$defs/Root",
        "$defs": {
            "Root": {"$ref": "#/$defs/Real"},
            "Real": {"type": "object", "oneOf": [{"$ref": "#/$defs/A"}]},
            "A": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
    }
    assert anthropic(schema)["input_schema"] == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "$defs": schema["$defs"],
    }


def test_a_reference_that_leads_back_to_itself_ends():
    schema = {"type": "object", "$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    assert anthropic(schema)["input_schema"]["type"] == "object"


def test_names_that_anthropic_refuses_move_to_the_description():
    schema = {
        "type": "object",
        "properties": {"filter[id]": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["limit", "filter[id]"],
        "additionalProperties": False,
    }
    tool = anthropic(schema)
    assert tool["input_schema"] == {"type": "object", "properties": {"limit": {"type": "integer"}}, "required": ["limit"]}
    assert tool["description"] == (
        'There are further arguments, with these JSON Schemas: {"filter[id]":{"type":"string"}}. Required of these: \'filter[id]\'.'
    )
    assert openai(schema)["parameters"] == schema  # OpenAI takes them


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}),
        (
            {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
            {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        ),
        ({"minimum": 3, "exclusiveMinimum": True}, {"exclusiveMinimum": 3}),
        ({"maximum": 3, "exclusiveMaximum": False}, {"maximum": 3}),
        ({"exclusiveMaximum": 3}, {"exclusiveMaximum": 3}),
    ],
)
def test_keywords_of_older_drafts_are_rewritten_at_every_level(old, new):
    def within(inner):
        return {"type": "object", "properties": {"x": {"anyOf": [{"properties": {"y": inner}}, {"not": inner}]}}}

    assert openai(within(old))["parameters"] == within(new)


@pytest.mark.parametrize(
    "invalid",
    [
        {"type": "str"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#/$defs/none"},
        {"pattern": 3},
        {"patternProperties": []},
        {"patternProperties": {"^a": {"type": "str"}}},
    ],
)
def test_an_invalid_property_becomes_text(invalid):
    schema = {"type": "object", "properties": {"a": invalid, "b": {"type": "integer"}}, "required": ["a", "b"]}
    for tool, parameters in ((anthropic(schema), "input_schema"), (openai(schema), "parameters")):
        assert tool[parameters] == {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}
        note = f"There are further arguments, with these JSON Schemas: {compact({'a': invalid})}. Required of these: 'a'."
        assert tool["description"] == note


def test_a_schema_that_is_invalid_as_a_whole_becomes_text():
    schema = {"type": "object", "properties": {"a": {}}, "required": "a"}
    tool = anthropic(schema)
    assert tool["input_schema"] == {"type": "object", "properties": {}}
    assert tool["description"] == f"The arguments must match this JSON Schema: {compact(schema)}"


@pytest.mark.parametrize("pattern", [r"^\p{L}+$", "(?<year>[0-9]+)", "(", "[[a]", "[a--b]"])
def test_a_regular_expression_that_python_does_not_compile_moves_to_its_description(pattern):
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern, "description": "A name."}}}
    text = f"A name.\nIt must match the regular expression {pattern}"
    assert openai(schema)["parameters"]["properties"] == {"a": {"type": "string", "description": text}}


def test_other_regular_expressions_stay():
    schema = {"type": "object", "properties": {"a": {"pattern": r"^(?!x)[\w[.-]+$"}}, "patternProperties": {"^x-": {}}}
    assert openai(schema)["parameters"] == schema


def test_names_of_members_by_such_a_regular_expression_move_to_the_description():
    inner = {"patternProperties": {r"\p{L}": {"type": "string"}, "^x-": {}}, "additionalProperties": False}
    tool = openai({"type": "object", "properties": {"a": inner}})
    assert tool["parameters"]["properties"]["a"] == {
        "patternProperties": {"^x-": {}},
        "description": r'Names of members are regular expressions: {"\\p{L}":{"type":"string"}}',
    }


def test_only_some_of_many_alternatives_are_shown():
    """Each refers to the same large definition."""
    branches = [{"$ref": "#/$defs/A"}, *({"properties": {f"p{number}": {}}} for number in range(200))]
    large = {"properties": {f"a{number}": {"type": "string"} for number in range(500)}}
    properties = openai({"type": "object", "anyOf": branches, "$defs": {"A": large}})["parameters"]["properties"]
    assert len(properties) == 500 + 99


def test_each_call_returns_its_own_objects():
    first = anthropic(ADD)
    first["input_schema"]["properties"].clear()
    assert anthropic(ADD)["input_schema"] == ADD


def test_a_large_or_deep_schema_that_is_refused_is_cut():
    large = {"type": "object", "properties": {f"p{number}": {} for number in range(20_000)}, "required": 3}
    description = anthropic(large)["description"]
    assert len(description) < 10_100
    assert description.endswith(" ... (cut)")
    deep = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    assert anthropic(deep)["input_schema"] == {"type": "object", "properties": {}}


# Any JSON, with the keywords that the code reads, at the places where it reads them.
KEYWORDS = [
    "type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "not", "enum", "$ref", "$defs", "definitions",
    "additionalProperties", "exclusiveMinimum", "minimum", "additionalItems", "$schema", "prefixItems", "a b", "pattern",
    "patternProperties", "description",
]  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from(["object", "array", "#/$defs/type", "#/definitions/a b", "", "("]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), VALUES))
def test_any_schema_of_a_server_becomes_one_that_both_apis_take(schema):
    for tool, parameters in ((anthropic(schema), "input_schema"), (openai(schema), "parameters")):
        root = tool[parameters]
        Draft202012Validator.check_schema(root)  # with Python's regular expressions
        assert root["type"] == "object"
        assert not root.keys() & {"anyOf", "oneOf", "allOf", "not", "enum", "const", "$schema"}
        json.dumps(tool)
    assert "a b" not in anthropic(schema)["input_schema"]["properties"]
