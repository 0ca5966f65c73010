"""How clients handle the schemas of tools."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip

# Steps with two alternatives each, so that there are 2 ** 40 ways in all.
_STEPS = 40
# A chain of references that is too long for a recursive validator.
_DEPTH = 2000

_WITH_2020_12 = {
    "type": "object",
    "properties": {"pair": {"$ref": "#/$defs/pair"}, "unit": {"type": "string"}},
    "required": ["pair"],
    "dependentRequired": {"pair": ["unit"]},
    "unevaluatedProperties": False,
    "$defs": {"pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}},
}
_WITH_KEYWORDS = {
    "type": "object",
    "oneOf": [{"maxProperties": 0}, {"required": ["name"]}],
    "properties": {"name": {"$ref": "#/$defs/name"}},
    "if": {"required": ["name"]},
    "then": {"minProperties": 1},
    "$defs": {"name": {"type": "string"}},
}


def _differs(fake: FakeServer) -> str:
    """Return what the client did not do because of a schema. Another exit status is accepted here."""
    if missing := fake.what_is_missing:
        return f"the client did not send {missing}"
    is_stuck = fake.left_at is None and fake.baseline is not None and fake.baseline.left
    return "the client did not exit by itself, as it does with a healthy server" if is_stuck else ""


def _expect_the_rest(fake: FakeServer, rule: str, when: str) -> None:
    fake.expect(rule, not _differs(fake), f"{when}, {_differs(fake)}")


def _expect_call(fake: FakeServer, rule: str, name: str, what: str) -> None:
    """Judge whether the client called a tool like all others."""
    if found := _differs(fake) or fake.what_differs:
        fake.expect(rule, False, f"with a tool {what} in the list, {found}")
        return
    called = {message.params.get("name") for message in fake.requests("tools/call")}
    if not {"greet", "work"} <= called:
        raise Skip("the client does not call every tool, so it is not visible why it leaves one out")
    fake.expect(rule, name in called, f"the client called every tool except the one {what}")


@scenario("JS-01")
async def lists_a_schema_with_2020_12_keywords(fake: FakeServer) -> None:
    """Lists a tool whose outputSchema uses keywords of 2020-12 without naming the dialect, and returns a matching result."""
    result = text("a pair", structuredContent={"pair": ["a", 1], "unit": "m"})
    fake.add_tool("pair", result, outputSchema=_WITH_2020_12)
    await fake.exited_after("tools/list")
    _expect_call(fake, "JS-01", "pair", "whose schema uses 2020-12")


@scenario("JS-02")
async def lists_a_schema_in_an_unknown_dialect(fake: FakeServer) -> None:
    """Lists a tool whose schema is in an unknown dialect among others."""
    schema = {"$schema": "urn:twopipes-check:no-dialect", "type": "object"}
    fake.add_tool("odd", text("odd", structuredContent={}), outputSchema=schema)
    await fake.exited_after("tools/list")
    _expect_the_rest(fake, "JS-02", "with a tool whose schema is in an unknown dialect")


@scenario("JS-04")
async def lists_a_schema_that_refers_to_the_network(fake: FakeServer) -> None:
    """Lists a tool whose schemas refer to an address of this machine, and counts the connections."""
    visits: list[asyncio.StreamWriter] = []

    async def visit(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(writer)
        writer.close()

    # The socket is opened before the first await, because the client starts then.
    listening = socket.create_server(("127.0.0.1", 0))
    schema = {"type": "object", "properties": {"far": {"$ref": f"http://127.0.0.1:{listening.getsockname()[1]}/schema.json"}}}
    fake.add_tool("far", text("far", structuredContent={"far": 1}), inputSchema=schema, outputSchema=schema)
    with listening:
        async with await asyncio.start_server(visit, sock=listening):
            await fake.exited_after("tools/list")
    fake.expect("JS-04", not visits, f"the client connected {len(visits)} times to the address that a schema refers to")


@scenario("JS-06")
async def lists_schemas_that_take_forever(fake: FakeServer) -> None:
    """Lists schemas that take 2 ** 40 steps to validate, that refer 2,000 levels deep, and that refer to themselves."""
    steps: dict[str, Any] = {
        f"step{number}": {"anyOf": [{"$ref": f"#/$defs/step{number + 1}"}, {"$ref": f"#/$defs/step{number + 1}"}]}
        for number in range(_STEPS)
    }
    steps[f"step{_STEPS}"] = {"type": "integer"}
    # Deep by references: some JSON parsers do not accept so many nested braces.
    floors: dict[str, Any] = {f"floor{number}": {"allOf": [{"$ref": f"#/$defs/floor{number + 1}"}]} for number in range(_DEPTH)}
    floors[f"floor{_DEPTH}"] = {"type": "integer"}
    mirrors = {"mirror": {"$ref": "#/$defs/mirror"}}
    for name, first, definitions in (("endless", "step0", steps), ("deep", "floor0", floors), ("mirrored", "mirror", mirrors)):
        schema = {"type": "object", "properties": {"n": {"$ref": f"#/$defs/{first}"}}, "$defs": definitions}
        fake.add_tool(name, text(name, structuredContent={"n": "not an integer"}), outputSchema=schema)
    await fake.exited_after("tools/list")
    _expect_the_rest(fake, "JS-06", "with schemas that take forever to validate")


@scenario("JS-07")
async def lists_a_schema_with_other_keywords(fake: FakeServer) -> None:
    """Lists a tool whose inputSchema has oneOf, if and $ref beside the type, and accepts no arguments."""
    fake.add_tool("choosy", text("fine"), inputSchema=_WITH_KEYWORDS)
    await fake.exited_after("tools/list")
    _expect_call(fake, "JS-07", "choosy", "whose inputSchema has oneOf, if and $ref")
