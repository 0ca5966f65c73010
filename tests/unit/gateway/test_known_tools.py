"""What a gateway remembers about tools."""

import json

from msgspec import Raw

from twopipes._gateway.known_tools import KnownTools

REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


def page(*names, schema=None, **annotations):
    tools = [{"name": name, "inputSchema": schema or {"type": "object"}, "annotations": annotations} for name in names]
    return Raw(json.dumps({"tools": tools, "nextCursor": "more"}).encode())


def test_a_first_page_does_not_forget_the_others():
    tools = KnownTools()
    for each in (page("a", readOnlyHint=True), page("b", readOnlyHint=True), page("a", readOnlyHint=False)):
        tools.add(each)
    assert tools.annotations_of("a").read_only_hint is False
    assert tools.annotations_of("b").read_only_hint is True
    assert tools.annotations_of("c") is None


def test_only_schemas_that_ask_for_headers_are_kept_and_stay_the_same_object():
    tools = KnownTools()
    tools.add(page("plain"))
    tools.add(page("query", schema=REGION))
    assert tools.header_schema_of("plain") is None
    found = tools.header_schema_of("query")
    assert found == REGION
    tools.add(page("query", schema=REGION, readOnlyHint=True))
    assert tools.header_schema_of("query") is found
    assert tools.annotations_of("query").read_only_hint is True
    tools.add(page("query"))
    assert tools.header_schema_of("query") is None


def test_a_page_that_cannot_be_read_changes_nothing():
    tools = KnownTools()
    for each in (page("a", readOnlyHint=True), Raw(b'{"tools":{}}'), Raw(b"[" * 10_000), Raw(b"null")):
        tools.add(each)
    assert tools.annotations_of("a").read_only_hint is True


def test_what_is_remembered_is_bounded():
    tools = KnownTools()
    for number in range(30):
        tools.add(page(*(f"tool {number} {each}" for each in range(1000)), readOnlyHint=True))
    assert tools.annotations_of("tool 29 999").read_only_hint is True
    assert len(tools._known) <= 10_000
    for _ in range(1000):
        tools.add(page("a"))
    assert len(tools._unread) <= 64
