"""Tools that clients call."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.scenario import scenario

_OUTPUTS = (({"type": "array", "items": {"type": "integer"}}, [1], "[1]"), ({"type": "null"}, None, "null"))


@scenario("TL-12")
async def returns_an_array_as_structured_content(fake: FakeServer) -> None:
    """One tool returns an array and one returns null as structuredContent: the client continues."""
    for tool, (schema, value, encoded) in zip(fake.healthy.tools, _OUTPUTS, strict=False):
        tool["outputSchema"] = schema
        fake.healthy.results[tool["name"]] = text(encoded, structuredContent=value)
    await fake.exited_after("tools/call")
    when = "after tools returned an array and null as structuredContent, as in their outputSchema"
    fake.expect_as_usual("TL-12", when, about=fake.sent_with("structuredContent"))


@scenario("TL-18")
async def has_an_invalid_x_mcp_header(fake: FakeServer) -> None:
    """The schema of one more tool has an x-mcp-header that HTTP would reject: the others are called as usual."""
    invalid = {"note": {"type": "string", "x-mcp-header": "not a header: at all\n"}}
    fake.add_tool("labelled", text("Done."), inputSchema={"type": "object", "properties": invalid})
    await fake.exited_after("tools/list")
    if fake.baseline is not None and not any(asked.startswith("tools/call") for asked in fake.baseline.asked):
        fake.give_up("the client calls no tools, so the check cannot tell which ones it keeps")
    fake.expect_as_usual("TL-18", "with an invalid x-mcp-header in the schema of one tool", about=fake.sent_with("x-mcp-header"))
