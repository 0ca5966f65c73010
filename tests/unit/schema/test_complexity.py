import math

import pytest

from twopipes._schema.complexity import SchemaLimits, SchemaRefused, Workload


def workload(schema, **limits):
    return Workload(schema, SchemaLimits(**limits))


def deep(levels, keyword="allOf"):
    schema = {"type": "object"}
    for _ in range(levels):
        schema = {keyword: [schema]}
    return schema


@pytest.mark.parametrize("schema", [deep(10_000), {"not": deep(60)}, {"enum": list(range(20_000))}, {"x": {"y": [deep(48)]}}])
def test_a_schema_that_is_too_deep_or_too_large_is_refused(schema):
    """JS-06."""
    with pytest.raises(SchemaRefused, match="nested deeper than 100 or has more than 10,000 parts"):
        workload(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": ""},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"type": "integer"}, {"$ref": "#/anyOf/1"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"},
        {"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]},
        {"$anchor": "n", "if": {"$ref": "#n"}},
        {"$recursiveAnchor": True, "allOf": [{"$recursiveRef": "#"}]},
        {"$id": "urn:own", "dependentSchemas": {"a": {"$ref": "urn:own#"}}},
    ],
)
def test_a_schema_that_refers_to_itself_at_the_same_value_is_refused(schema):
    """JS-06: the library would accept every value."""
    with pytest.raises(SchemaRefused, match="refers to itself"):
        workload(schema)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("https://example.com/a.json", "not fetched"),
        ("other.json#/a", "not fetched"),
        ("#/$defs/missing", "does not exist"),
        ("#/$defs/list/7", "does not exist"),
        ("#/$defs/list/x", "does not exist"),
        ("#missing", "does not exist"),
        ("#/$defs/text", "not a schema"),
        ("#/x-parts/named/$defs/inner", "its own \\$id"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(reference, words):
    """JS-05: it does not count as valid."""
    shelf = {"list": [{}], "text": "text"}
    parts = {"named": {"$id": "urn:named", "$defs": {"inner": {}}}}
    with pytest.raises(SchemaRefused, match=words):
        workload({"items": {"$ref": reference}, "$defs": shelf, "x-parts": parts})


def test_a_schema_within_the_schema_is_refused():
    """JS-06: the meaning of `#` in it differs between dialects."""
    with pytest.raises(SchemaRefused, match="urn:inner"):
        workload({"properties": {"a": {"$id": "urn:inner", "$ref": "#"}}})
    workload({"$id": "urn:outer", "properties": {"$id": {"type": "string"}}, "enum": [{"$id": "urn:inner"}]})


@pytest.mark.parametrize(
    "reference", ["#/$defs/a~1b~0c", "#/$defs/a%7E1b~0c", "#named", "urn:own#named", "#/allOf/0", "#/$defs/always", "#/x-parts/one"]
)
def test_references_within_the_schema_are_followed(reference):
    """JS-01."""
    shelf = {"a/b~c": {}, "b": {"$anchor": "named"}, "always": True}
    found = workload({"$id": "urn:own", "items": {"$ref": reference}, "$defs": shelf, "allOf": [{}], "x-parts": {"one": {}}})
    assert found.visits(0) == 2


def test_many_members_cost_no_more_than_one():
    found = workload({"properties": {f"p{place}": {"type": "string"} for place in range(500)}, "items": {"type": "integer"}})
    assert [found.visits(depth) for depth in (0, 1, 50)] == [1, 1, 1]


def test_additional_properties_do_not_count_for_named_members():
    found = workload({"properties": {"a": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}})
    assert found.visits(200) == found.visits(1) == 2


def test_patterns_and_names_count_for_every_member():
    found = workload({"properties": {"a": {}}, "patternProperties": {"x": {}, "y": {}}, "propertyNames": {}})
    assert found.visits(1) == 4
    assert found.patterns == 2


def test_prefix_items_count_once():
    found = workload({"prefixItems": [{}, {}, {"anyOf": [{}, {}]}], "items": {}, "contains": {}})
    assert found.visits(1) == 4
    assert found.has_choices


def test_a_long_list_of_choices_counts():
    assert workload({"enum": [[1, 2, 3]] * 100}).visits(0) == 101


def test_recursion_through_two_branches_multiplies():
    """JS-06."""
    branch = {"properties": {"c": {"$ref": "#"}}}
    found = workload({"oneOf": [branch, dict(branch)]})
    assert found.visits(10) == 2 * found.visits(9)
    assert found.visits(200) == math.inf


def test_a_second_visit_counts_twice():
    """JS-06: unevaluatedProperties makes the library visit the others again."""
    plain = workload({"allOf": [{}, {}]})
    assert workload({"allOf": [{}, {}], "unevaluatedProperties": False}).visits(0) == plain.visits(0) + 2


def test_nesting_follows_the_value_only_as_far_as_the_schema_goes():
    flat = workload({"properties": {"a": {"allOf": [{"not": {}}]}}})
    assert flat.nesting(0) == 3
    assert flat.nesting(1) == flat.nesting(200) == 6
    endless = workload({"properties": {"a": {"$ref": "#"}}})
    assert endless.nesting(200) == 402


def test_a_chain_of_references_is_bounded():
    """JS-06: it is not nested as JSON, but on the stack."""
    chain = {f"d{place}": {"$ref": f"#/$defs/d{place + 1}"} for place in range(200)}
    with pytest.raises(SchemaRefused, match="more than 100 nested"):
        workload({"$ref": "#/$defs/d0", "$defs": {**chain, "d200": {}}})


def test_too_many_regular_expressions_are_refused():
    """JS-06."""
    workload({"allOf": [{"pattern": str(place)} for place in range(256)]})
    with pytest.raises(SchemaRefused, match="regular expressions"):
        workload({"allOf": [{"pattern": "a"} for _ in range(200)], "patternProperties": {str(place): True for place in range(57)}})


@pytest.mark.slow
def test_the_analysis_itself_is_bounded():
    """JS-06: two thousand properties, each of two thousand parts."""
    properties = {f"p{place}": {"$ref": "#/$defs/a"} for place in range(2000)}
    with pytest.raises(SchemaRefused, match="too many of its parts"):
        workload({"properties": properties, "$defs": {"a": {"allOf": [{"type": "string"} for _ in range(2000)]}}})


@pytest.mark.parametrize(
    "schema", [{"allOf": 1, "properties": [], "items": "x", "$ref": 7, "enum": None}, {"$defs": {"a": True}}, {}]
)
def test_invalid_schemas_are_left_to_the_library(schema):
    assert workload(schema).visits(5) == 1
