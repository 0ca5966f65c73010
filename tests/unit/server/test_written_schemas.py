"""Tools whose schemas were written by hand."""

import json
import socket
import sys
from typing import Any

import pytest

from inmemory import ALL, ERAS, LATEST_MODERN, LEGACY, Client, play
from twopipes import Server, ToolResult
from twopipes._server import checks
from twopipes.errors import LocalProtocolError

PROTOCOL_ERRORS = [revision for revision in LEGACY if revision < "2025-11-25"]
DRAFT_07 = "http://json-schema.org/draft-07/schema#"


@pytest.fixture
def without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    monkeypatch.setattr(checks, "_warned", set())


def echoing(schema: dict[str, Any]) -> Server:
    """A server with one tool that takes whatever fits a schema and gives it back."""
    server = Server("s")

    @server.tool(input_schema={"type": "object", **schema}, output_schema={"type": "object"})
    def echo(**arguments: Any) -> Any:
        return arguments

    return server


@pytest.mark.parametrize(
    ("schema", "good", "bad", "told"),
    [
        (
            {"properties": {"p": {"prefixItems": [{"type": "integer"}]}}},
            {"p": [1]},
            {"p": ["x"]},
            'p[0]: "x" is not of type "integer"',
        ),
        ({"$defs": {"n": {"minimum": 3}}, "properties": {"n": {"$ref": "#/$defs/n"}}}, {"n": 3}, {"n": 2}, "n: 2 is less than"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}, '"b" is a required property'),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1}, {}, '"a" is a required property (in alternative 1)'),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": 1}, {"a": 1, "b": 1}, "more than one alternative"),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"c": 1}, {"a": 1}, '"b" is a required property'),
        ({"$schema": DRAFT_07, "dependencies": {"a": ["b"]}}, {"b": 1}, {"a": 1}, '"b" is a required property'),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"a": 1}, {"b": 1}, "'b' was unexpected"),
        ({"properties": {"p": {"pattern": "^(?!no)"}}}, {"p": "yes"}, {"p": "no"}, "p: "),
    ],
)
@pytest.mark.parametrize("revision", ERAS)
def test_arguments_are_judged_by_the_schema(revision, schema, good, bad, told):
    """JS-01, JS-02, JS-07, TL-06: the message lets a model correct its arguments."""

    async def scenario(client: Client):
        assert (await client.call("echo", **good))["structuredContent"] == good
        result = await client.call("echo", **bad)
        assert result["isError"] is True
        assert result["content"][0]["text"].startswith("Invalid arguments for echo:")
        assert told in result["content"][0]["text"]

    play(echoing(schema), scenario, revision)


@pytest.mark.parametrize("revision", ALL)
def test_bad_arguments_are_an_answer_or_a_protocol_error_by_revision(revision):
    """TL-06."""

    async def scenario(client: Client):
        line = await client.request("tools/call", name="echo", arguments={"n": 1})
        if revision in PROTOCOL_ERRORS:
            assert line["error"]["code"] == -32602
            assert 'n: 1 is not of type "string"' in line["error"]["message"]
        else:
            assert line["result"]["isError"] is True

    play(echoing({"properties": {"n": {"type": "string"}}}), scenario, revision)


def test_a_call_without_arguments_is_judged_as_an_empty_object():
    """TL-02, TL-06."""

    async def scenario(client: Client):
        result = await client.result("tools/call", name="echo")
        assert '"a" is a required property' in result["content"][0]["text"]

    play(echoing({"required": ["a"]}), scenario)


def test_what_fits_the_schema_is_still_read_by_the_annotations():
    """TL-06."""
    server = Server("s")

    @server.tool(input_schema={"type": "object", "properties": {"n": {}}})
    def double(n: int) -> str:
        return str(2 * n)

    async def scenario(client: Client):
        assert await client.text("double", n=2) == "4"
        assert (await client.call("double", n="x"))["isError"] is True

    play(server, scenario)


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("as_result", [True, False])
def test_structured_content_that_breaks_the_schema_is_an_error_and_not_bad_data(revision, as_result, capsys):
    """TL-10: its author hears of it."""
    server = Server("s")

    @server.tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    def give(value: Any) -> Any:
        return ToolResult(structured=value) if as_result else value

    async def scenario(client: Client):
        assert json.loads(await client.text("give", value={"n": 1})) == {"n": 1}
        result = await client.call("give", value={"n": "one"})
        assert result["isError"] is True
        assert "structuredContent" not in result
        assert "one" not in result["content"][0]["text"]

    play(server, scenario, revision)
    assert 'Invalid return value of give: n: "one" is not of type "integer"' in capsys.readouterr().err


def test_an_error_result_is_not_judged():
    """TL-10."""
    server = Server("s")

    @server.tool(output_schema={"type": "object", "required": ["n"]})
    def fail() -> ToolResult:
        return ToolResult(content="no", structured={}, is_error=True)

    async def scenario(client: Client):
        assert (await client.call("fail"))["content"][0]["text"] == "no"

    play(server, scenario)


def test_an_invalid_schema_breaks_only_its_own_tool(capsys):
    """JS-02, JS-03."""
    server = echoing({"properties": {"a": {"type": "nonsense"}}})

    @server.tool
    def fine() -> str:
        return "fine"

    async def scenario(client: Client):
        for _ in range(2):
            assert (await client.call("echo", a=1))["isError"] is True
        assert await client.text("fine") == "fine"

    play(server, scenario)
    said = capsys.readouterr().err
    assert said.count("LocalProtocolError: the input schema of the tool echo cannot be used: it is not a valid schema") == 2
    assert "/properties/a/type" in said


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$schema": "urn:x"}, "urn:x"),
        ({"allOf": [{"$ref": "#"}]}, "refers to itself"),
        ({"properties": {"a": {"$ref": "#/$defs/nobody"}}}, "does not exist"),
    ],
)
def test_what_can_be_found_out_at_registration_is_refused_there_also_without_the_extra(schema, words, without_the_extra):
    """JS-02, JS-05, JS-06."""
    with pytest.raises(LocalProtocolError, match=words) as caught:
        echoing(schema)
    assert "the input schema of the tool at" in str(caught.value)


def test_a_reference_to_the_network_is_refused_and_not_fetched():
    """JS-04, JS-05."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        with pytest.raises(LocalProtocolError, match="not fetched"):
            echoing({"properties": {"a": {"$ref": f"http://127.0.0.1:{listener.getsockname()[1]}/a.json"}}})
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_without_the_extra_arguments_pass_as_they_are_and_stderr_says_so_once(without_the_extra, capsys):
    server = echoing({"required": ["a"]})

    @server.tool(input_schema={"type": "object", "properties": {"n": {"minimum": 1}}})
    def other(n: int) -> str:
        return str(n)

    async def scenario(client: Client):
        assert (await client.call("echo"))["structuredContent"] == {}
        assert await client.text("other", n=0) == "0"
        assert (await client.call("other", n="x"))["isError"] is True  # the annotations are enforced all the same

    assert capsys.readouterr().err == ""
    play(server, scenario)
    assert capsys.readouterr().err == (
        "Warning: the input schema of the tool echo, and any other schema written by hand, "
        "is not validated: install twopipes[validate]\n"
    )


def test_the_library_is_not_loaded_before_the_first_call(monkeypatch):
    """A server that only starts does not pay for it."""
    monkeypatch.delitem(sys.modules, "jsonschema_rs", raising=False)
    server = echoing({"required": ["a"]})

    async def scenario(client: Client):
        await client.result("tools/list")
        assert "jsonschema_rs" not in sys.modules

    play(server, scenario, LATEST_MODERN)
