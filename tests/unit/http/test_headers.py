"""Headers that repeat a request: values, the annotation of schemas, and the check against the body."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes import _jsonrpc as jsonrpc
from twopipes._http import headers
from twopipes._http.headers import InvalidAnnotation, ParamHeader, check_headers, param_headers, request_headers
from twopipes.errors import HeaderMismatch, LocalProtocolError, McpError
from twopipes.sansio import dialect

MODERN = "2026-07-28"

ENCODED = [
    ("us-west1", "us-west1"),
    ("", ""),
    ("a b\tc", "=?base64?YSBiCWM=?="),
    ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    (" padded ", "=?base64?IHBhZGRlZCA=?="),
    ("\tx", "=?base64?CXg=?="),
    ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
    ("a\x7fb", "=?base64?YX9i?="),
    ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
    ("=?base64?open", "=?base64?open"),
    ("=?BASE64?YQ==?=", "=?BASE64?YQ==?="),
]


@pytest.mark.parametrize(("value", "written"), ENCODED)
def test_a_value_is_plain_where_that_is_safe_and_else_base64(value, written):
    # HT-61
    assert headers.encode_value(value) == written
    assert headers.decode_value(written) == value


@pytest.mark.parametrize(
    ("value", "written"), [(42, "42"), (-7, "-7"), (42.0, "42"), (True, "true"), (False, "false"), (2**53 - 1, "9007199254740991")]
)
def test_numbers_and_booleans_are_written_as_in_json(value, written):
    assert headers.encode_value(value) == written


@pytest.mark.parametrize("value", [2**53, -(2**53), 1.5, float("inf"), float("nan"), pytest.param(10**5000, id="huge")])
def test_a_number_without_an_exact_form_is_refused(value):
    with pytest.raises(LocalProtocolError, match="use an integer from"):
        headers.encode_value(value)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("=?base64?YQ?=", "not valid Base64"),
        ("=?base64?Y Q==?=", "not valid Base64"),
        ("=?base64?YQ==YQ==?=", "not valid Base64"),
        ("=?base64?*?=", "not valid Base64"),
        ("=?base64?/w==?=", "not valid Base64"),  # not UTF-8
        ("=?base64?YR==?=", "not canonical"),
        ("caf\xe9", "not allowed"),
        ("a\rb", "not allowed"),
        ("a\x00", "not allowed"),
    ],
)
def test_a_malformed_value_is_refused(written, reason):
    # HT-75
    with pytest.raises(ValueError, match=reason):
        headers.decode_value(written)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_survives_a_header(value):
    written = headers.encode_value(value)
    assert written.isascii()
    assert "\r" not in written
    assert "\n" not in written
    assert written == written.strip(" \t")
    assert headers.decode_value(written) == value


# The annotation of schemas

REGION = {"type": "string", "x-mcp-header": "Region"}


def schema(**properties):
    return {"type": "object", "properties": properties}


def test_annotations_are_found_through_chains_of_properties():
    found = param_headers(
        schema(region=REGION, limits=schema(rows={"type": "integer", "x-mcp-header": "Max-Rows"}), query={"type": "string"})
    )
    assert found == (
        ParamHeader(("limits", "rows"), "Mcp-Param-Max-Rows", "mcp-param-max-rows"),
        ParamHeader(("region",), "Mcp-Param-Region", "mcp-param-region"),
    )


@pytest.mark.parametrize("value", [schema(), {}, None, [], "x", {"properties": []}, {"properties": {"a": True}}])
def test_a_schema_without_annotations_asks_for_nothing(value):
    assert param_headers(value) == ()


def test_data_that_looks_like_an_annotation_is_ignored():
    data = {"x-mcp-header": "Region"}
    harmless = {"type": "object", "default": data, "examples": [data], "enum": [data], "const": data}
    assert param_headers(schema(a=harmless)) == ()
    # A property whose name is that of the keyword.
    assert param_headers({"properties": {"x-mcp-header": {"type": "string"}}}) == ()


@pytest.mark.parametrize("name", ["", "My Header", "a:b", "a\r\nX: y", "a\n", "é", "a\x00", 5, None, ["a"], {"a": 1}])
def test_an_annotation_must_be_a_header_name(name):
    # HT-66
    with pytest.raises(InvalidAnnotation, match="not the name of a header"):
        param_headers(schema(a={"type": "string", "x-mcp-header": name}))


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", ["string", "null"], None])
def test_an_annotation_is_only_for_primitive_types(kind):
    # HT-66
    with pytest.raises(InvalidAnnotation, match="allowed types: string, integer, boolean"):
        param_headers(schema(a={"type": kind, "x-mcp-header": "A"}))


def test_a_property_without_a_type_is_refused():
    with pytest.raises(InvalidAnnotation, match="no value"):
        param_headers(schema(a={"$ref": "#/$defs/x", "x-mcp-header": "A"}))


def test_header_names_are_unique_whatever_their_case():
    # HT-66
    with pytest.raises(InvalidAnnotation, match="have the same x-mcp-header"):
        param_headers(schema(a={"type": "string", "x-mcp-header": "Region"}, b={"type": "string", "x-mcp-header": "REGION"}))


@pytest.mark.parametrize(
    "nested",
    [
        {"items": REGION},
        {"items": [REGION]},
        {"prefixItems": [REGION]},
        {"contains": REGION},
        {"oneOf": [REGION]},
        {"anyOf": [REGION]},
        {"allOf": [REGION]},
        {"not": REGION},
        {"if": REGION},
        {"then": REGION},
        {"else": REGION},
        {"additionalProperties": REGION},
        {"unevaluatedProperties": REGION},
        {"patternProperties": {"^a": REGION}},
        {"propertyNames": REGION},
        {"dependentSchemas": {"a": REGION}},
        {"$defs": {"a": REGION}},
        {"definitions": {"a": REGION}},
        {"anyOf": [schema(a=REGION)]},
        {"$defs": {"a": schema(b=REGION)}},
    ],
    ids=lambda nested: next(iter(nested)),
)
def test_an_annotation_elsewhere_makes_the_schema_invalid(nested):
    for invalid in (nested, schema(a=nested)):
        with pytest.raises(InvalidAnnotation, match="reached through `properties` alone"):
            param_headers(invalid)


def test_an_annotation_of_the_whole_schema_is_refused():
    with pytest.raises(InvalidAnnotation):
        param_headers({"type": "string", "x-mcp-header": "A"})


def test_a_deep_schema_is_read_without_recursion():
    deep = REGION
    for _ in range(10_000):
        deep = {"properties": {"a": deep}}
    (header,) = param_headers(deep)
    assert len(header.path) == 10_000


# A request and its check

CALL = {"name": "sql", "arguments": {"region": "us-west1", "rows": 10, "dry": True, "deep": {"tag": "Zürich"}}}
HEADERS = param_headers(
    schema(
        region=REGION,
        rows={"type": "integer", "x-mcp-header": "Rows"},
        dry={"type": "boolean", "x-mcp-header": "Dry"},
        deep=schema(tag={"type": "string", "x-mcp-header": "Tag"}),
    )
)
SENT = {
    "mcp-protocol-version": MODERN,
    "mcp-method": "tools/call",
    "mcp-name": "sql",
    "Mcp-Param-Region": "us-west1",
    "Mcp-Param-Rows": "10",
    "Mcp-Param-Dry": "true",
    "Mcp-Param-Tag": "=?base64?WsO8cmljaA==?=",
}


def received(sent):
    return {name.lower(): value for name, value in sent.items()}


def test_a_request_repeats_its_parts():
    assert request_headers("tools/call", CALL, MODERN, HEADERS) == SENT
    check_headers(received(SENT), "tools/call", CALL, MODERN, HEADERS)


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("prompts/get", {"name": "grüß"}, "=?base64?Z3LDvMOf?="),
        ("resources/read", {"uri": "file:///a b"}, "file:///a b"),
        ("tools/list", {"name": "unused"}, None),
        ("tools/call", {}, None),
        ("tools/call", {"name": None}, None),
    ],
)
def test_the_target_of_a_request_is_its_name_or_uri(method, params, name):
    made = request_headers(method, params, MODERN)
    assert made.get("mcp-name") == name
    check_headers(received(made), method, params, MODERN)


@pytest.mark.parametrize(
    "arguments", [{}, {"region": None}, {"region": ["a"]}, {"region": 1.5}, None, {"deep": "text"}, {"deep": {"tag": None}}]
)
def test_an_argument_that_is_missing_or_null_has_no_header(arguments):
    # HT-69, HT-74
    params = {"name": "sql", "arguments": arguments}
    made = request_headers("tools/call", params, MODERN, HEADERS)
    assert not [name for name in made if name.startswith("Mcp-Param-")]
    check_headers(received(made), "tools/call", params, MODERN, HEADERS)


def test_a_request_with_an_unsafe_integer_is_not_sent():
    with pytest.raises(LocalProtocolError):
        request_headers("tools/call", {"name": "sql", "arguments": {"rows": 2**53}}, MODERN, HEADERS)


@pytest.mark.parametrize("name", sorted(SENT))
@pytest.mark.parametrize("value", [None, "other", "", "caf\xe9", "=?base64?*?="])
def test_a_missing_or_different_header_is_a_mismatch(name, value):
    # HT-55, HT-62, HT-63, HT-73
    sent = {**SENT, name: value}
    if value is None:
        del sent[name]
    with pytest.raises(HeaderMismatch) as caught:
        check_headers(received(sent), "tools/call", CALL, MODERN, HEADERS)
    assert name in caught.value.message.lower() or name in caught.value.message
    assert caught.value.code == -32020


@pytest.mark.parametrize("name", ["region", "rows", "dry"])
def test_a_header_without_its_argument_is_a_mismatch(name):
    params = copy.deepcopy(CALL)
    params["arguments"][name] = None
    with pytest.raises(HeaderMismatch, match="the body has no value"):
        check_headers(received(SENT), "tools/call", params, MODERN, HEADERS)


def test_a_header_that_is_sent_twice_is_a_mismatch():
    with pytest.raises(HeaderMismatch):
        check_headers(received({**SENT, "mcp-name": "sql, sql"}), "tools/call", CALL, MODERN, HEADERS)


@pytest.mark.parametrize(
    ("sent", "value", "matches"),
    [
        ("42", 42, True),
        ("42.0", 42, True),
        ("42", 42.0, True),
        ("042", 42, True),
        ("-7", -7, True),
        ("42.5", 42, False),
        ("4.2e1", 42, False),
        ("+42", 42, False),
        ("", 0, False),
        ("1" * 100_000, 1, False),
        (str(2**53), 2**53, False),
        ("1", True, False),
        ("True", True, False),
        ("true", "true", True),
        ("42", "42", True),
        ("42.0", "42", False),
    ],
)
def test_integers_are_compared_as_numbers_and_other_values_as_text(sent, value, matches):
    # HT-76
    params = {"name": "sql", "arguments": {"rows": value}}
    given_headers = received({**request_headers("tools/call", {"name": "sql"}, MODERN), "Mcp-Param-Rows": sent})
    if matches:
        check_headers(given_headers, "tools/call", params, MODERN, HEADERS)
    else:
        with pytest.raises(HeaderMismatch):
            check_headers(given_headers, "tools/call", params, MODERN, HEADERS)


def test_a_body_without_a_revision_is_left_to_the_session():
    check_headers({"mcp-protocol-version": MODERN}, "tools/list", {}, None)
    with pytest.raises(HeaderMismatch, match="Missing header MCP-Protocol-Version"):
        check_headers({"mcp-method": "tools/list"}, "tools/list", {}, MODERN)


def test_a_plain_tab_is_accepted():
    assert headers.decode_value("a\tb") == "a\tb"


def test_an_unknown_parameter_header_is_ignored():
    # HT-77
    check_headers(received({**SENT, "Mcp-Param-Other": "\xe9"}), "tools/call", CALL, MODERN, HEADERS)


def test_a_long_value_is_shortened_in_the_message():
    with pytest.raises(HeaderMismatch) as caught:
        check_headers(received({**SENT, "mcp-name": "x" * 8000}), "tools/call", CALL, MODERN, HEADERS)
    assert len(caught.value.message) < 300


texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.one_of(st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), texts)


@given(texts, values, values, values)
def test_what_the_client_makes_passes_the_check_of_the_server(name, region, rows, tag):
    # HT-64
    params = {"name": name, "arguments": {"region": region, "rows": rows, "deep": {"tag": tag}}}
    made = request_headers("tools/call", params, MODERN, HEADERS)
    check_headers(received(made), "tools/call", params, MODERN, HEADERS)


@given(st.one_of(st.tuples(texts, texts), st.tuples(st.integers(-9, 9), st.integers(-9, 9))))
def test_a_header_of_another_value_is_never_accepted(pair):
    value, other = pair
    params = {"name": "sql", "arguments": {"region": value}}
    made = received(request_headers("tools/call", {"name": "sql", "arguments": {"region": other}}, MODERN, HEADERS))
    if value == other:
        check_headers(made, "tools/call", params, MODERN, HEADERS)
    else:
        with pytest.raises(HeaderMismatch):
            check_headers(made, "tools/call", params, MODERN, HEADERS)


def test_the_error_is_read_as_its_class_and_sent_only_by_http():
    """ER-06."""
    error = dialect(MODERN).read_error(jsonrpc.ErrorObject(-32020, "Header mismatch"), method="tools/call")
    assert type(error) is HeaderMismatch
    assert isinstance(error, McpError)
    assert dialect(MODERN).write_error(error).code == -32603
