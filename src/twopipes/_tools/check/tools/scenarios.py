"""Tools, from the side of a server."""

from __future__ import annotations

from typing import Any

from twopipes._tools.check.fake_server import FakeServer, scenario
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.quotes import sent_with


@scenario("TL-12")
async def gives_an_array_as_structured_content(fake: FakeServer) -> None:
    """A tool whose output is an array, and one whose output is null: the client goes on."""
    for tool, (schema, value) in zip(
        fake.healthy.tools, (({"type": "array", "items": {"type": "integer"}}, [1]), ({"type": "null"}, None)), strict=False
    ):
        tool["outputSchema"] = schema
        message = "null" if value is None else "[1]"
        fake.healthy.results[tool["name"]] = text(message, structuredContent=value)
    await fake.wait_for("tools/call")
    await fake.client_exited()
    fake.expect(
        "TL-12",
        not fake.what_differs,
        f"when tools gave structuredContent that is an array or null, as their outputSchema says, {fake.what_differs}",
        fix="Take any JSON value for structuredContent, and any schema for outputSchema.",
        about=sent_with(fake, b"structuredContent"),
    )


@scenario("TL-18")
async def writes_nonsense_into_x_mcp_header(fake: FakeServer) -> None:
    """The schema of one more tool has an x-mcp-header, which HTTP would refuse: the others are called as ever."""
    described: dict[str, Any] = {"note": {"type": "string", "x-mcp-header": "not a header: at all\n"}}
    fake.add_tool("labelled", text("Done."))
    fake.healthy.tools[-1]["inputSchema"] = {"type": "object", "properties": described}
    await fake.wait_for("tools/list")
    await fake.client_exited()
    if fake.baseline is not None and not any(asked.startswith("tools/call") for asked in fake.baseline.asked):
        fake.give_up("the client calls no tools, so the check cannot tell which it has kept")
    fake.expect(
        "TL-18",
        not fake.what_differs,
        f"when the schema of one tool had an x-mcp-header that is no header, {fake.what_differs}",
        fix="Read x-mcp-header only where there are headers, over HTTP; elsewhere overlook it, or leave out that tool alone.",
        about=sent_with(fake, b"x-mcp-header"),
    )
