import pytest

from twopipes import Server
from twopipes._protocol.types import SamplingMessage, TextContent, ToolResultContent, ToolUseContent
from twopipes._server.checks import check_conversation, check_schema
from twopipes.errors import LocalProtocolError


def deep(levels):
    schema = {"type": "object"}
    for _ in range(levels):
        schema = {"allOf": [schema]}
    return {"type": "object", **schema}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "object", "$schema": "urn:x"}, "urn:x"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}, r"copy it to \$defs"),
        (deep(10_000), "nested deeper"),
        ({"type": "object", "enum": list(range(20_000))}, "more than 10,000 parts"),
    ],
)
def test_a_hand_written_schema_that_a_client_would_refuse_is_refused_at_registration(schema, words):
    """JS-02, JS-04, JS-05, JS-06: and nothing is fetched to find out."""
    server = Server("s")
    with pytest.raises(LocalProtocolError, match=words):
        server.add_tool(lambda: None, name="t", input_schema=schema)
    with pytest.raises(LocalProtocolError, match=words):
        server.add_tool(lambda: None, name="t", output_schema=schema)
    assert len(server.tools) == 0


@pytest.mark.parametrize("dialect", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"])
def test_schemas_of_the_dialects_that_clients_know_pass(dialect):
    """JS-02: local references and any keyword may stay."""
    check_schema({"$schema": dialect, "type": "object", "$defs": {"a": {}}, "properties": {"a": {"$ref": "#/$defs/a"}}}, "it")


USE = ToolUseContent("1", "add", {})
RESULT = ToolResultContent("1", [TextContent("2")])
TEXT = TextContent("hello")


def conversation(*turns):
    return [SamplingMessage("user" if index % 2 == 0 else "assistant", turn) for index, turn in enumerate(turns)]


@pytest.mark.parametrize("turns", [[TEXT], [TEXT, USE, RESULT], [TEXT, [TEXT, USE], [RESULT], TEXT]])
def test_a_conversation_whose_tool_uses_are_answered_passes(turns):
    """SA-06, SA-07."""
    check_conversation(conversation(*turns))


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        ([TEXT, USE, [RESULT, TEXT]], "must not contain other blocks"),
        ([TEXT, USE, TEXT], "must have exactly their results"),
        ([TEXT, USE], "have no results"),
        ([RESULT], r"after the tool uses \(none\) must"),
    ],
)
def test_a_conversation_whose_tool_uses_are_not_is_refused_before_it_is_sent(turns, words):
    """SA-06."""
    with pytest.raises(LocalProtocolError, match=words):
        check_conversation(conversation(*turns))
