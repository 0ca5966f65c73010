"""The tables of the revisions, compared with the official schemas."""

from __future__ import annotations

import pytest
from msgspec import structs

from twopipes._protocol import revisions
from twopipes._protocol import types as t
from twopipes._protocol.methods import NOTIFICATION_PARAMS, NOTIFICATIONS, PARAMS, REQUESTS, RESULTS, MethodRow
from twopipes._protocol.revisions import ALL, LEGACY, MODERN, Span
from unit.protocol import official
from unit.protocol.values import all_models, models_by_revision

every_revision = pytest.mark.parametrize("revision", ALL)


def test_revisions_are_dates_in_order():
    assert list(ALL) == sorted(ALL)
    assert (revisions.LATEST_LEGACY, revisions.LATEST_MODERN) == ("2025-11-25", "2026-07-28")
    assert [revisions.is_modern(each) for each in ALL] == [False, False, False, False, True]
    assert not set(LEGACY) & set(MODERN)


def test_a_span_includes_both_its_ends():
    span = Span("2025-03-26", "2025-06-18")
    assert [span.has(each) for each in ALL] == [False, True, True, False, False]
    assert [Span("2025-11-25").has(each) for each in ALL] == [False, False, False, True, True]


def _methods(definition: str, revision: str) -> set[str]:
    found = official.definitions(revision)
    union = found.get(definition)
    if union is None:
        return set()
    members = [found[each["$ref"].rpartition("/")[2]] for each in union.get("anyOf", [])] or [union]
    return {member["properties"]["method"]["const"] for member in members}


def _ours(rows: tuple[MethodRow, ...], sender: str, revision: str) -> set[str]:
    return {row.method for row in rows if row.sender in {sender, "both"} and row.span.has(revision)}


@every_revision
@pytest.mark.parametrize("sender", ["client", "server"])
def test_requests_are_those_of_the_schema(sender, revision):
    """VN-12, PI, LG-09, RS-05: removed methods are not in the table."""
    assert _ours(REQUESTS, sender, revision) == _methods(f"{sender.capitalize()}Request", revision)


@every_revision
@pytest.mark.parametrize("sender", ["client", "server"])
def test_notifications_are_those_of_the_schema(sender, revision):
    """PR-05, RT-05, EL-12: who may send what, and where."""
    assert _ours(NOTIFICATIONS, sender, revision) == _methods(f"{sender.capitalize()}Notification", revision)


def test_every_method_has_its_types_except_those_of_tasks():
    untyped = {row.method for row in REQUESTS} - set(PARAMS)
    assert untyped == {"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"}
    assert set(RESULTS) == set(PARAMS)
    assert {row.method for row in NOTIFICATIONS} - set(NOTIFICATION_PARAMS) == {"notifications/tasks/status"}


def test_the_capability_of_a_method_is_one_that_can_be_declared():
    for row in REQUESTS:
        declared = {"client": revisions.SERVER_CAPABILITIES, "server": revisions.CLIENT_CAPABILITIES}
        if row.capability is not None:
            sides = ["client", "server"] if row.sender == "both" else [row.sender]
            assert all(row.capability in declared[side] for side in sides), row


# Types and members

# As parts of a result these exist only in a modern revision; in legacy ones they are messages.
INPUT_REQUESTS = {"ElicitRequest", "CreateMessageRequest", "ListRootsRequest"}
UNSUPPORTED = {"task"}  # twopipes does not run tasks


@every_revision
@pytest.mark.parametrize("kind", all_models(), ids=lambda kind: kind.__name__)
def test_a_type_exists_where_the_schema_has_it(kind, revision):
    """CT-01, and TYPES as a whole."""
    if kind.__name__ in INPUT_REQUESTS:
        assert revisions.TYPES[kind.__name__].has(revision) is (revision in MODERN)
        return
    there = revisions.TYPES.get(kind.__name__, revisions.ALWAYS).has(revision)
    assert bool(official.places(kind.__name__, revision)) is there


@pytest.mark.parametrize(("kind", "revision"), models_by_revision())
def test_a_member_exists_where_the_schema_has_it(kind, revision):
    """Every member of every type: MT-07, TL-21, CP-07, VN-09, CH-01, MR-06, EL-10, PR-03, CM-01, CT-04, CT-06."""
    name = kind.__name__
    spans = revisions.MEMBERS.get(name, {})
    ours = {field.encode_name for field in structs.fields(kind) if spans.get(field.encode_name, revisions.ALWAYS).has(revision)}
    if kind.__struct_config__.tag is not None:
        ours.add(kind.__struct_config__.tag_field)
    theirs = {member for node in official.described(name, revision) for member in node.get("properties", {})}
    if issubclass(kind, t.Params) and not revisions.is_modern(revision):
        # Up to 2025-06-18 `_meta` is described once for all requests and notifications; 2025-11-25 forgets it in one place.
        theirs.add("_meta")
    assert ours == theirs - UNSUPPORTED


@every_revision
def test_every_row_about_a_member_matches_the_schema(revision):
    names = {kind.__name__ for kind in all_models()}
    for name, spans in revisions.MEMBERS.items():
        assert name in names
        nodes = official.described(name, revision) if revisions.TYPES.get(name, revisions.ALWAYS).has(revision) else []
        theirs = {member for node in nodes for member in node.get("properties", {})}
        for member, span in spans.items():
            if nodes and not (member == "_meta" and name.endswith("Params")):
                assert span.has(revision) is (member in theirs), f"{name}.{member}"


@every_revision
def test_structured_content_may_be_any_value_where_the_schema_allows_it(revision):
    """TL-11, TL-12."""
    described = official.described("CallToolResult", revision)[0]["properties"].get("structuredContent")
    free = described is not None and "type" not in described
    assert revisions.FREE_STRUCTURED_CONTENT.has(revision) is free


def _tags(node: dict, revision: str) -> set[str]:
    found = official.definitions(revision)
    if "$ref" in node:
        return _tags(found[node["$ref"].rpartition("/")[2]], revision)
    if "anyOf" in node:
        return {tag for each in node["anyOf"] for tag in _tags(each, revision)}
    return {node["properties"]["type"]["const"]} if "properties" in node else set()


@every_revision
def test_content_types_are_those_of_the_schema(revision):
    """CT-01, SA-03."""
    tools = official.definitions(revision)["CallToolResult"]["properties"]["content"]["items"]
    assert {tag for tag, span in revisions.CONTENT_TYPES.items() if span.has(revision)} == _tags(tools, revision)
    sampling = official.definitions(revision)["SamplingMessage"]["properties"]["content"]
    assert {tag for tag, span in revisions.SAMPLING_CONTENT_TYPES.items() if span.has(revision)} == _tags(sampling, revision)
    takes_arrays = any(each.get("type") == "array" for each in sampling["anyOf"])
    assert revisions.SAMPLING_CONTENT_ARRAYS.has(revision) is takes_arrays


@every_revision
@pytest.mark.parametrize("side", ["Client", "Server"])
def test_capabilities_are_those_of_the_schema(side, revision):
    """CP-01, CP-03, CP-04, CP-05, CP-07."""
    table = revisions.CLIENT_CAPABILITIES if side == "Client" else revisions.SERVER_CAPABILITIES
    theirs = set()
    for name, node in official.definitions(revision)[f"{side}Capabilities"]["properties"].items():
        theirs.add(name)
        if name not in {"experimental", "extensions"}:
            theirs |= {f"{name}.{detail}" for detail in node.get("properties", {})}
    assert {path for path, span in table.items() if span.has(revision)} == theirs


def _integer_constants(node: object) -> set[int]:
    if isinstance(node, dict):
        own = {node["const"]} if isinstance(node.get("const"), int) else set()
        return own.union(*map(_integer_constants, node.values()))
    if isinstance(node, list):
        return set().union(*map(_integer_constants, node))
    return set()


def test_codes_of_the_schemas_are_in_the_table():
    """ER-06, ER-08, ER-09, ER-10, ER-11."""
    modern = _integer_constants(official.definitions("2026-07-28"))
    # -32020 is about HTTP headers and not used on a byte stream.
    assert {code for code, span in revisions.ERROR_CODES.items() if span.has("2026-07-28")} == modern - {-32020}
    assert _integer_constants(official.definitions("2025-11-25")) == {-32042}
    assert revisions.ERROR_CODES[-32042] == revisions.ONLY_2511
    assert min(revisions.RESERVED_CODES) == -32768
    assert max(revisions.RESERVED_CODES) == -32000


def test_meta_keys_of_the_schema_are_in_the_table():
    """VN-01, VN-03, VN-08, LG-05, SU-04."""
    found = official.definitions("2026-07-28")
    theirs = {key for name, node in found.items() if name.endswith("MetaObject") for key in node.get("properties", {})}
    ours = {key for key, span in revisions.META_KEYS.items() if span.has("2026-07-28")}
    assert ours == theirs | {"traceparent", "tracestate", "baggage"}
    assert {key for key, span in revisions.META_KEYS.items() if span.has("2024-11-05")} == {"progressToken"}


def test_cacheable_methods_are_the_six_of_the_schema():
    """CH-01, CON-07."""
    found = official.definitions("2026-07-28")
    cacheable = {name for name, node in found.items() if "ttlMs" in node.get("properties", {})} - {"CacheableResult"}
    assert {RESULTS[method].__name__ for method in revisions.CACHEABLE} == cacheable
    assert len(revisions.CACHEABLE) == 6


def test_only_three_methods_may_ask_back():
    """MR-01, CON-14."""
    found = official.definitions("2026-07-28")
    asking = {
        name.removesuffix("Response")
        for name, node in found.items()
        if {"$ref": "#/$defs/InputRequiredResult"} in node.get("properties", {}).get("result", {}).get("anyOf", [])
    }
    assert {RESULTS[method].__name__ for method in revisions.MAY_ASK_BACK} == asking


def test_the_three_questions_are_those_of_the_schema():
    """MR-03."""
    assert _methods("InputRequest", "2026-07-28") == set(revisions.INPUT_METHODS)


@every_revision
def test_batches_exist_where_the_schema_has_them(revision):
    """JR-12, CON-20."""
    assert revisions.BATCHES.has(revision) is ("JSONRPCBatchRequest" in official.definitions(revision))


@every_revision
def test_the_id_of_an_error_is_null_only_where_the_schema_demands_an_id(revision):
    """CON-09."""
    found = official.definitions(revision)
    error = found.get("JSONRPCError") or found["JSONRPCErrorResponse"]
    assert revisions.ERROR_ID_IS_NULL.has(revision) is ("id" in error["required"])
