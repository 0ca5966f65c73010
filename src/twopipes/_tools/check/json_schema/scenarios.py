"""JSON Schema, from the side of a server: tools with schemas that clients find hard."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from twopipes._tools.check.fake_server import FakeServer, scenario
from twopipes._tools.check.healthy_responses import text
from twopipes._tools.check.verdict import Skip

_CALL = "tools/call"
# Steps in each of which a validator has to try two ways, so that there are 2 ** 40 in all.
_STEPS = 40

# References from one schema to the next, one behind the other: more than a validator that calls itself can follow.
_DEPTH = 2000

_OF_2020 = {
    "type": "object",
    "properties": {"pair": {"$ref": "#/$defs/pair"}, "unit": {"type": "string"}},
    "required": ["pair"],
    "dependentRequired": {"pair": ["unit"]},
    "unevaluatedProperties": False,
    "$defs": {"pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}},
}
_CHOOSY = {
    "type": "object",
    "oneOf": [{"maxProperties": 0}, {"required": ["name"]}],
    "properties": {"name": {"$ref": "#/$defs/name"}},
    "if": {"required": ["name"]},
    "then": {"minProperties": 1},
    "$defs": {"name": {"type": "string"}},
}


def _differs(fake: FakeServer) -> str:
    """What the client did otherwise than with a healthy server; that it complains in its exit status is its own business here.

    Raises:
        Skip: It is not known what it does with a healthy one.
    """
    if missing := fake.what_is_missing:
        return f"did not ask for {missing}"
    is_stuck = fake.left_at is None and fake.baseline is not None and fake.baseline.left
    return "did not end by itself, as it does with a healthy server" if is_stuck else ""


def _expect_a_call(fake: FakeServer, rule: str, name: str, *, what: str, fix: str) -> None:
    """The client uses a tool like the others, and nothing is wrong with it; where it does not use all others, nobody can tell."""
    differs = _differs(fake)
    if found := f"the client {differs}" if differs else fake.what_differs:
        fake.expect(rule, condition=False, why=f"with a tool {what} in the list, {found}", fix=fix)
        return
    called = {message.params.get("name") for message in fake.requests(_CALL)}
    if not {"greet", "work"} <= called:
        raise Skip("the client does not call every tool, so the check cannot tell why it leaves one out")
    fake.expect(rule, name in called, f"the client called every tool but the one {what}", fix=fix)


@scenario("JS-01")
async def has_a_tool_with_a_schema_of_2020(fake: FakeServer) -> None:
    """A tool promises its result by keywords of 2020-12, without naming the dialect, and keeps the promise."""
    result = text("a pair", structuredContent={"pair": ["a", 1], "unit": "m"})
    fake.add_tool("pair", result, outputSchema=_OF_2020)
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fix = "Read schemas without $schema by a validator for 2020-12."
    _expect_a_call(fake, "JS-01", "pair", what="whose schema uses 2020-12", fix=fix)


@scenario("JS-02")
async def has_a_tool_with_an_unknown_dialect(fake: FakeServer) -> None:
    """A tool whose schema is written in an unknown dialect stands among others."""
    schema = {"$schema": "urn:twopipes-check:no-dialect", "type": "object"}
    fake.add_tool("odd", text("odd", structuredContent={}), outputSchema=schema)
    await fake.wait_for("tools/list")
    await fake.client_exited()
    differs = _differs(fake)
    fake.expect(
        "JS-02",
        not differs,
        f"because of one tool whose schema is in an unknown dialect, the client {differs}",
        fix="Say which tool cannot be validated, and use the others.",
    )


@scenario("JS-04")
async def refers_to_the_network(fake: FakeServer) -> None:
    """The schemas of a tool refer to an address at which somebody listens."""
    visits: list[int] = []

    async def visited(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(1)
        writer.close()

    # Listening begins before the first wait, because the client comes after that.
    listening = socket.create_server(("127.0.0.1", 0))
    try:
        schema = {"$ref": f"http://127.0.0.1:{listening.getsockname()[1]}/schema.json"}
        whole = {"type": "object", "properties": {"far": schema}}
        fake.add_tool("far", text("far", structuredContent={"far": 1}), outputSchema=whole)
        fake.healthy.tools[-1]["inputSchema"] = whole
        server = await asyncio.start_server(visited, sock=listening)
        try:
            await fake.wait_for("tools/list")
            await fake.client_exited()
        finally:
            server.close()
            await server.wait_closed()
    finally:
        listening.close()
    fake.expect(
        "JS-04",
        not visits,
        f"the client connected {len(visits)} times to the address that a schema refers to",
        fix="Never fetch what a $ref names, unless the user has allowed that address.",
    )


@scenario("JS-06")
async def has_a_tool_with_an_endless_schema(fake: FakeServer) -> None:
    """To validate the results of three tools would take 2 ** 40 steps, leads 2,000 schemas deep, or never comes to an end."""
    steps: dict[str, Any] = {
        f"step{number}": {"anyOf": [{"$ref": f"#/$defs/step{number + 1}"}, {"$ref": f"#/$defs/step{number + 1}"}]}
        for number in range(_STEPS)
    }
    steps[f"step{_STEPS}"] = {"type": "integer"}
    # The depth is one of references: so many braces, one inside the other, not every parser of JSON would read.
    floors: dict[str, Any] = {f"floor{number}": {"allOf": [{"$ref": f"#/$defs/floor{number + 1}"}]} for number in range(_DEPTH)}
    floors[f"floor{_DEPTH}"] = {"type": "integer"}
    mirrors = {"mirror": {"$ref": "#/$defs/mirror"}}
    for name, first, definitions in (("endless", "step0", steps), ("deep", "floor0", floors), ("mirrored", "mirror", mirrors)):
        schema = {"type": "object", "properties": {"n": {"$ref": f"#/$defs/{first}"}}, "$defs": definitions}
        fake.add_tool(name, text(name, structuredContent={"n": "no integer"}), outputSchema=schema)
    await fake.wait_for("tools/list")
    await fake.client_exited()
    differs = _differs(fake)
    fake.expect(
        "JS-06",
        not differs,
        f"because of schemas that take for ever to validate by, the client {differs}",
        fix="Bound the depth, the number of subschemas or the time of a validation, and give up there.",
    )


@scenario("JS-07")
async def has_a_tool_with_a_choosy_schema(fake: FakeServer) -> None:
    """The arguments of a tool are an object, with oneOf, if and $ref beside; none at all are fine."""
    fake.add_tool("choosy", text("fine"))
    fake.healthy.tools[-1]["inputSchema"] = _CHOOSY
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fix = "Take every keyword of JSON Schema in an inputSchema, and pass on what you do not need."
    _expect_a_call(fake, "JS-07", "choosy", what="whose inputSchema has oneOf, if and $ref", fix=fix)
