"""The headers that tools ask for, learned from pages that a gateway passes on as received."""

import json

from msgspec import Raw

from twopipes._client.tool_headers import ToolHeaders
from twopipes._protocol.revisions import LATEST_MODERN


def tool(name, **schema):
    return {"name": name, "inputSchema": {"type": "object", "properties": {"region": {"type": "string", **schema}}}, "own": 1}


def raw_of(page):
    return Raw(json.dumps(page).encode())


def test_a_raw_page_passes_unchanged_and_its_headers_are_learned():
    headers = ToolHeaders()
    page = raw_of({"tools": [tool("ask", **{"x-mcp-header": "Region"})], "own": 2})
    assert headers.learn_raw(page) is page
    sent = headers.headers_of("tools/call", {"name": "ask", "arguments": Raw(b'{"region":"eu"}')}, LATEST_MODERN)
    assert sent["Mcp-Param-Region"] == "eu"


def test_a_tool_with_an_invalid_annotation_is_left_out_and_the_rest_passes_as_received():
    headers = ToolHeaders()
    good = tool("good")
    page = raw_of({"tools": [tool("bad", **{"x-mcp-header": "not a header"}), good], "own": 2})
    assert json.loads(bytes(headers.learn_raw(page))) == {"tools": [good], "own": 2}


def test_a_page_that_is_not_a_list_of_tools_passes_unchanged():
    page = raw_of({"tools": "none"})
    assert ToolHeaders().learn_raw(page) is page
