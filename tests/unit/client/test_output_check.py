"""The client checks results against output schemas (TL-14, and section JS of the rules)."""

import asyncio
import json
from contextlib import suppress

import pytest

from fake_server import SILENCE, FakeServer, scene, text
from twopipes import connect
from twopipes._client import output_check as output
from twopipes._protocol.revisions import LATEST_MODERN
from twopipes._schema.validation import available
from twopipes.errors import InvalidOutput, RemoteProtocolError
from twopipes.types import ClientOptions

PROMISE = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

pytestmark = pytest.mark.skipif(not available(), reason="twopipes[validate] is not installed")


def promising(schema, *values, speaks=LATEST_MODERN):
    """Return a server with a tool that has the schema, and one without; its calls return the values in turn."""
    tools = [
        {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema},
        {"name": "free", "inputSchema": {"type": "object"}},
    ]
    answers = [text("said", structuredContent=value) for value in values]
    return FakeServer({"tools/list": {"tools": tools}, "tools/call": answers}, speaks=speaks)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", LATEST_MODERN])
@scene
async def test_a_broken_promise_is_flagged_and_the_result_is_still_there(revision):
    """TL-14, TL-10: by default nothing is raised; the result carries the verdict."""
    async with connect(promising(PROMISE, {"a": 1}, {"a": "x"}, speaks=revision), revision=revision) as client:
        await client.list_tools()
        kept = await client.call_tool("t")
        assert (kept.validation.verdict, kept.structured) == (True, {"a": 1})
        broken = await client.call_tool("t")
        assert (broken.validation.verdict, broken.structured, broken.text) == (False, {"a": "x"}, "said")
        assert "a" in broken.validation.why


@scene
async def test_a_broken_promise_is_raised_where_that_is_wanted():
    """TL-14: also for a tool that was not listed before; "off" does not check."""
    fake = promising(PROMISE, {"a": "x"})
    async with connect(fake, options=ClientOptions(validate="raise")) as client:
        with pytest.raises(InvalidOutput, match="result of t"):
            await client.call_tool("t")
        assert (await client.call_tool("t", validate="off")).validation.verdict is None
        assert (await client.call_tool("free")).validation.verdict is None


@scene
async def test_a_missing_value_breaks_the_promise_and_a_failure_does_not():
    """TL-14, TL-10."""
    fake = promising(PROMISE)
    fake.answers["tools/call"] = [text("said"), text("broke", isError=True)]
    async with connect(fake) as client:
        await client.list_tools()
        assert (await client.call_tool("t")).validation.verdict is False
        failed = await client.call_tool("t")
        assert (failed.is_error, failed.validation.verdict) == (True, None)


@scene
async def test_a_schema_without_a_dialect_is_read_as_2020_12():
    """JS-01, JS-07, TL-12: prefixItems, $defs, dependentRequired; any root."""
    schema = {
        "type": "array",
        "prefixItems": [{"$ref": "#/$defs/word"}, {"type": "object", "dependentRequired": {"card": ["name"]}}],
        "items": False,
        "$defs": {"word": {"type": "string"}},
    }
    values = {True: [["a"], ["a", {"card": 1, "name": "x"}], []], False: [[1], ["a", {"card": 1}], ["a", {}, 3]]}
    for verdict, given in values.items():
        async with connect(promising(schema, *given)) as client:
            await client.list_tools()
            assert [(await client.call_tool("t")).validation.verdict for _ in given] == [verdict] * 3


@scene
async def test_a_dialect_is_followed_where_it_is_named():
    """JS-02, JS-01: in draft-07 a list of items is a tuple, and prefixItems means nothing."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "string"}],
        "prefixItems": [{"type": "null"}],
    }
    async with connect(promising(schema, ["a"], [1])) as client:
        await client.list_tools()
        assert [(await client.call_tool("t")).validation.verdict for _ in range(2)] == [True, False]


@scene
async def test_an_unknown_dialect_is_named_and_the_other_tools_work():
    """JS-02: it is neither ignored nor a crash."""
    async with connect(promising({**PROMISE, "$schema": "urn:x"}, {"a": 1})) as client:
        assert len(await client.list_tools()) == 2
        flagged = await client.call_tool("t")
        assert flagged.validation.verdict is False
        assert "urn:x" in flagged.validation.why
        assert (await client.call_tool("free")).validation.verdict is None


@scene
async def test_a_reference_to_the_network_is_not_followed_and_does_not_pass():
    """JS-04, JS-05: the listener at that address receives nothing."""
    visits = []
    listener = await asyncio.start_server(lambda reader, writer: visits.append(writer), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/schema.json"
    async with connect(promising({"$ref": url}, {"a": 1})) as client:
        await client.list_tools()
        result = await client.call_tool("t")
        assert result.validation.verdict is False
        assert result.structured == {"a": 1}
    listener.close()
    await listener.wait_closed()
    assert visits == []


LEVELS = range(40)
BOMBS = {
    "deep": '{"allOf":[' * 10_000 + "{}" + "]}" * 10_000,
    "exponential": json.dumps(
        {
            "$defs": {
                "0": {"type": "string"},
                **{str(n + 1): {"anyOf": [{"allOf": [{"$ref": f"#/$defs/{n}"}]}, {"$ref": f"#/$defs/{n}"}]} for n in LEVELS},
            },
            "$ref": "#/$defs/40",
        }
    ),
    "round": '{"$ref":"#"}',
    "recursive": '{"$defs":{"n":{"anyOf":[{"$ref":"#/$defs/n"},{"allOf":[{"$ref":"#/$defs/n"}]}]}},"$ref":"#/$defs/n"}',
}


@pytest.mark.parametrize("bomb", BOMBS)
@scene
async def test_a_schema_that_would_keep_us_busy_for_ever_is_refused(bomb):
    """JS-06: only the timeout of the test limits it; the client continues, and the other tools work."""

    def listing(asked):
        tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": "here"}
        line = {"jsonrpc": "2.0", "id": asked.id, "result": {"resultType": "complete", "tools": [tool]}}
        asked.fake.write(json.dumps(line).replace('"here"', BOMBS[bomb]).encode() + b"\n")
        return SILENCE

    fake = FakeServer({"tools/list": listing, "tools/call": text("said", structuredContent={"a": 1})})
    async with connect(fake) as client:
        with suppress(RemoteProtocolError):  # a line that is nested so deeply may be refused as a whole
            await client.list_tools()
        result = await client.call_tool("t")
        assert result.validation.verdict is not True
        assert result.structured == {"a": 1}
        await client.ping()


@scene
async def test_without_the_library_it_is_looked_for_once_and_not_at_each_call(monkeypatch):
    """Python does not cache a failed import, and would search all folders again."""
    looked = []
    monkeypatch.setattr(output, "available", lambda: bool(looked.append(1)))
    async with connect(promising(PROMISE, {"a": 1})) as client:
        await client.list_tools()
        found = [(await client.call_tool("t")).validation for _ in range(3)]
    assert [each.why for each in found] == ["install twopipes[validate]"] * 3
    assert len(looked) == 1
