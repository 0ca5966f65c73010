"""HTTP for clients: the headers that repeat a modern request."""

from __future__ import annotations

from typing import Any

from twopipes._codes import HEADER_MISMATCH
from twopipes._http.headers import METHOD, NAME, NAME_MEMBERS, ParamHeader, decode_value, encode_value, param_headers
from twopipes._protocol.revisions import MODERN
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import Fault, text
from twopipes._tools.check.http.listener import HttpRequest
from twopipes._tools.check.messages import ClientMessage, members
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip

# Names that a header can contain only in base64.
_UNSAFE = ("naïve", " padded ", "=?base64?aGVsbG8=?=", "line\nbreak")
_SAFE = {"readOnlyHint": True, "idempotentHint": True}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "default": "west", "x-mcp-header": "Region"},
        "greeting": {"type": "string", "default": "Grüezi", "x-mcp-header": "Greeting"},
        "count": {"type": "integer", "default": 42, "x-mcp-header": "Count"},
        "place": {
            "type": "object",
            "default": {"urgent": True},
            "properties": {"urgent": {"type": "boolean", "x-mcp-header": "Urgent"}},
        },
        "absent": {"type": "string", "x-mcp-header": "Absent"},
    },
    "required": ["region", "greeting", "count", "place"],
}


def _invalid_tools() -> dict[str, dict[str, Any]]:
    """Return schemas whose x-mcp-header is invalid, by the name of the tool."""
    string, nested = {"type": "string"}, {"type": "array", "items": {"type": "string", "x-mcp-header": "Item"}}
    return {
        "invalid-empty": {"one": {**string, "x-mcp-header": ""}},
        "invalid-space": {"one": {**string, "x-mcp-header": "a b"}},
        "invalid-number": {"one": {"type": "number", "x-mcp-header": "One"}},
        "invalid-twice": {"one": {**string, "x-mcp-header": "Same"}, "two": {**string, "x-mcp-header": "SAME"}},
        "invalid-items": {"one": nested},
    }


@scenario("HT-59", "HT-60", transport="http", revisions=MODERN)
async def looks_at_method_and_name(fake: FakeServer) -> None:
    """A healthy server. Judges Mcp-Method and Mcp-Name of each request."""
    await fake.client_exited()
    for request, message in fake.http.posts_of():
        if "id" in message:
            method, found = message.get("method"), request.header(METHOD)
            fake.expect("HT-59", found == method, f"the Mcp-Method of {method} is {found!r}", about=request)
            _judge_name(fake, "HT-60", request, message)


def _judge_name(fake: FakeServer, rule: str, request: HttpRequest, message: dict[str, Any]) -> None:
    member = NAME_MEMBERS.get(str(message.get("method")))
    wanted = members(message.get("params")).get(member) if member else None
    if isinstance(wanted, str):
        found = request.header(NAME)
        why = f"the Mcp-Name of {message.get('method')} {wanted!r} is {found!r}"
        fake.expect(rule, found is not None and _decoded(found) == wanted, why, about=request)


def _decoded(value: str) -> str | None:
    try:
        return decode_value(value)
    except ValueError:
        return None


@scenario("HT-61", transport="http", revisions=MODERN)
async def has_unsafe_names(fake: FakeServer) -> None:
    """Prompts and resources have names that a header can contain only in base64."""
    fake.healthy.prompts += [{"name": name, "description": "Has an unusual name."} for name in _UNSAFE]
    fake.healthy.resources.append({"uri": "fake://naïve", "name": "naive"})
    await fake.client_exited()
    for request, message in fake.http.posts_of("prompts/get", "resources/read"):
        params = members(message.get("params"))
        if params.get("name") in _UNSAFE or params.get("uri") == "fake://naïve":
            _judge_name(fake, "HT-61", request, message)


@scenario("HT-61", "HT-68", "HT-69", transport="http", revisions=MODERN)
async def has_repeated_arguments(fake: FakeServer) -> None:
    """A tool has arguments with x-mcp-header: text, an unsafe text, an integer, a boolean, and one that is not required."""
    fake.add_tool("mirror", text("Done."), inputSchema=_SCHEMA, annotations=_SAFE)
    await fake.client_exited()
    calls = [each for each in fake.http.posts_of("tools/call") if members(each[1].get("params")).get("name") == "mirror"]
    if not calls:
        raise Skip("the client did not call the tool")
    for request, message in calls:
        for header in param_headers(_SCHEMA):
            _judge_argument(fake, header, request, members(message["params"].get("arguments")))


def _judge_argument(fake: FakeServer, header: ParamHeader, request: HttpRequest, arguments: dict[str, Any]) -> None:
    value: Any = arguments
    for key in header.path:
        value = members(value).get(key)
    found = request.header(header.name)
    if value is None:
        why = f"the argument {header.path[-1]} is not given, and {header.name} is {found!r}"
        fake.expect("HT-69", found is None, why, about=request)
        return
    wanted = str(value).lower() if isinstance(value, bool) else str(value)
    rule = "HT-61" if encode_value(wanted) != wanted else "HT-68"
    why = f"the argument {header.path[-1]} is {value!r}, and {header.name} is {found!r}"
    fake.expect(rule, found is not None and _decoded(found) == wanted, why, about=request)


@scenario("HT-70", transport="http", revisions=MODERN)
async def has_invalid_annotations(fake: FakeServer) -> None:
    """Some tools have an invalid x-mcp-header, and the others are correct."""
    for name, properties in _invalid_tools().items():
        fake.add_tool(name, text("Done."), inputSchema={"type": "object", "properties": properties}, annotations=_SAFE)
    await fake.client_exited()
    called = {members(message.get("params")).get("name"): request for request, message in fake.http.posts_of("tools/call")}
    if fake.baseline is None or not any(each.startswith("tools/call") for each in fake.baseline.asked):
        raise Skip("the client calls no tool, so it is not visible which ones it has")
    wrong = [name for name in _invalid_tools() if name in called]
    why = f"the client called {', '.join(wrong)}, whose x-mcp-header is invalid"
    fake.expect("HT-70", not wrong, why, about=called[wrong[0]] if wrong else None)
    fake.expect("HT-70", not fake.what_is_missing, f"because of invalid tools, the client did not send {fake.what_is_missing}")


@scenario("HT-72", transport="http", revisions=MODERN, judged=False)
async def changes_a_schema(fake: FakeServer) -> None:
    """The first call of a tool gets -32020, and the tool has another schema in the next list."""
    rejected: list[ClientMessage] = []

    def call(message: ClientMessage) -> Any:
        if rejected:
            return None
        rejected.append(message)
        return Fault(HEADER_MISMATCH, "Header mismatch: the schema has changed")

    fake.on["tools/call"] = call
    await fake.client_exited()
    if not rejected:
        raise Skip("the client called no tool")
    name = rejected[0].params.get("name")
    listed = fake.first("tools/list", after=rejected[0])
    why = f"a call of {name} got -32020, and the client did not list the tools again"
    if fake.expect("HT-72", listed, why, about=rejected[0]):
        again = [each for each in fake.requests("tools/call") if listed is not None and each.number > listed.number]
        retried = any(each.params.get("name") == name for each in again)
        fake.expect("HT-72", retried, f"a call of {name} got -32020, and was not retried", about=rejected[0])
