"""The types: round trips through JSON, and unknown members."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, ValidationError, structs

from twopipes._protocol import types as t
from twopipes._protocol.decode import read
from twopipes.errors import RemoteProtocolError
from unit.protocol.values import all_models, any_of, fulls

each_model = pytest.mark.parametrize("kind", all_models(), ids=lambda kind: kind.__name__)


@each_model
def test_a_value_with_every_member_survives_the_wire(kind):
    for value in fulls(kind):
        assert read(kind, msgspec.json.encode(value)) == value


@given(st.sampled_from(all_models()).flatmap(any_of))
def test_any_value_survives_the_wire(value):
    assert read(type(value), msgspec.json.encode(value)) == value


@each_model
def test_unknown_members_are_ignored(kind):
    """JR-18, CP-09."""
    value = fulls(kind)[0]
    strange = {**msgspec.json.decode(msgspec.json.encode(value)), "x-strange": [{"type": "hologram"}]}
    assert read(kind, msgspec.json.encode(strange)) == value


@each_model
def test_absent_members_are_not_written(kind):
    required = {field.name: getattr(fulls(kind)[0], field.name) for field in structs.fields(kind) if field.required}
    if kind is t.ResourceContents:
        required["text"] = "t"
    if kind is t.SelectItems:
        required["enum"] = ["a"]
    if kind is t.InitializeParams:
        required["capabilities"] = t.ClientCapabilities()  # LC-02: optional on the way in, never on the way out
    written = msgspec.json.decode(msgspec.json.encode(kind(**required)))
    tag = {kind.__struct_config__.tag_field} if kind.__struct_config__.tag else set()
    names = {field.name: field.encode_name for field in structs.fields(kind)}
    assert set(written) == {names[name] for name in required} | tag


@each_model
def test_an_optional_member_may_be_null(kind):
    """CON-16: the looser form is accepted."""
    value = fulls(kind)[0]
    for field in structs.fields(kind):
        if not field.required and field.default is None and field.type is not Raw:
            written = msgspec.json.decode(msgspec.json.encode(value))
            if kind is t.ResourceContents and field.name == "text":
                written["blob"] = "AA=="
            if kind is t.SelectItems and field.name == "enum":
                written["anyOf"] = []
            written[field.encode_name] = None
            assert getattr(read(kind, msgspec.json.encode(written)), field.name) is None


@each_model
def test_values_are_immutable(kind):
    value = fulls(kind)[0]
    for name in value.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(value, name, None)


def test_null_is_not_absent_in_structured_content():
    """TL-12."""
    absent = read(t.CallToolResult, b'{"content":[]}')
    null = read(t.CallToolResult, b'{"content":[],"structuredContent":null}')
    assert absent.structured_content is UNSET
    assert null.structured_content is None
    assert msgspec.json.encode(absent) == b'{"content":[]}'
    assert msgspec.json.encode(null) == b'{"content":[],"structuredContent":null}'


def test_a_false_flag_survives_and_an_absent_one_stays_absent():
    """TL-03."""
    assert msgspec.json.encode(t.CallToolResult([], is_error=False)) == b'{"content":[],"isError":false}'
    assert read(t.CallToolResult, b'{"content":[],"isError":false}').is_error is False
    assert read(t.CallToolResult, b'{"content":[]}').is_error is None


def test_ids_and_tokens_keep_their_json_type():
    """CA-13, PR-08."""
    assert [read(t.CancelledParams, raw).request_id for raw in (b'{"requestId":5}', b'{"requestId":"5"}')] == [5, "5"]
    progress = read(t.ProgressParams, b'{"progressToken":"7","progress":1}')
    assert progress.progress_token == "7"
    assert isinstance(progress.progress, int)
    assert isinstance(read(t.ProgressParams, b'{"progressToken":7,"progress":1.0}').progress, float)


def test_an_empty_cursor_is_a_cursor():
    """PG-04."""
    assert read(t.ListToolsResult, b'{"tools":[],"nextCursor":""}').next_cursor == ""
    assert msgspec.json.encode(t.ListParams("")) == b'{"cursor":""}'
    assert read(t.ListToolsResult, b'{"tools":[],"nextCursor":null}').next_cursor is None


def test_a_negative_time_to_live_is_read():
    """CH-03: it means stale, and the list is still read."""
    assert read(t.ListToolsResult, b'{"tools":[],"ttlMs":-5,"cacheScope":"public"}').ttl_ms == -5


def test_resource_contents_have_text_or_a_blob():
    """RS-02."""
    with pytest.raises(ValueError, match="`text` or `blob`"):
        t.ResourceContents("a:b")
    with pytest.raises(ValidationError, match=r"`text` or `blob` - at `\$.contents\[0\]`"):
        read(t.ReadResourceResult, b'{"contents":[{"uri":"a:b"}]}')


def test_annotations_inside_an_embedded_resource_are_ignored():
    """CON-16: an old example has them in the wrong place."""
    raw = b'{"type":"resource","resource":{"uri":"a:b","text":"x","annotations":{"priority":1}}}'
    assert read(t.EmbeddedResource, raw) == t.EmbeddedResource(t.ResourceContents("a:b", text="x"))


# Blocks of an unknown type (CT-08)

HOLOGRAM = {"type": "hologram", "depth": [1, 2]}
TEXT = {"type": "text", "text": "t"}
TOOL_RESULT = {"type": "tool_result", "toolUseId": "u", "content": [HOLOGRAM, TEXT]}
SAMPLE = {"messages": [{"role": "user", "content": [HOLOGRAM, TOOL_RESULT]}], "maxTokens": 1}
ASKED = {
    "s": {"method": "sampling/createMessage", "params": SAMPLE},
    "e": {"method": "elicitation/create", "params": {"message": "m"}},
    "r": {"method": "roots/list"},
}
WITH_HOLOGRAMS = [
    (t.CallToolResult, {"content": [HOLOGRAM, TEXT], "isError": True}),
    (t.CallToolResult, {"content": [{"type": "tool_use", "id": "1", "name": "n", "input": {}}]}),
    (t.GetPromptResult, {"messages": [{"role": "user", "content": HOLOGRAM}, {"role": "user", "content": TEXT}]}),
    (t.CreateMessageResult, {"role": "assistant", "content": HOLOGRAM, "model": "m"}),
    (t.CreateMessageResult, {"role": "assistant", "content": [TEXT, HOLOGRAM, TOOL_RESULT], "model": "m"}),
    (t.CreateMessageParams, SAMPLE),
    (t.InputRequiredResult, {"inputRequests": ASKED, "requestState": "s"}),
]


@pytest.mark.parametrize(("kind", "value"), WITH_HOLOGRAMS)
def test_an_unknown_block_is_kept_and_written_unchanged(kind, value):
    """CT-08: the rest of the result is read as usual."""
    assert msgspec.json.decode(msgspec.json.encode(read(kind, msgspec.json.encode(value)))) == value


def test_the_blocks_beside_an_unknown_one_are_delivered():
    """CT-08."""
    result = read(t.CallToolResult, msgspec.json.encode({"content": [HOLOGRAM, TEXT], "_meta": {"a": 1}}))
    strange, text = result.content
    assert isinstance(strange, t.UnknownContent)
    assert (strange.type, strange["depth"]) == ("hologram", [1, 2])
    assert text == t.TextContent("t")
    assert result.text == "t"
    assert result.meta == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (t.CallToolResult, {"content": 5}, "Expected `array`, got `int`"),
        (t.CallToolResult, {"content": TEXT}, "Expected `array`, got `object`"),
        (t.CallToolResult, {"content": [HOLOGRAM, 5]}, "known `type`"),
        (t.CallToolResult, {"content": [HOLOGRAM, {"text": "x"}]}, "known `type`"),
        (t.CallToolResult, {"content": [HOLOGRAM, {"type": ["text"]}]}, "known `type`"),
        (t.CallToolResult, {"content": [HOLOGRAM, {"type": "text"}]}, "missing required field `text`"),
        (t.CallToolResult, {"content": [HOLOGRAM], "isError": "no"}, r"`\$.isError`"),
        (t.CallToolResult, {"content": [{"type": "text"}]}, r"`text` - at `\$.content\[0\]`"),
        (t.CallToolResult, [], "Expected `object`, got `array`"),
        (t.GetPromptResult, {"messages": [{"role": "user", "content": [HOLOGRAM]}]}, "Expected `object`, got `array`"),
        (t.GetPromptResult, {"messages": [HOLOGRAM]}, "missing required field `role`"),
        (t.InputRequiredResult, {"inputRequests": {"a": {"method": "ping"}}}, "Invalid value 'ping'"),
        (t.InputRequiredResult, {"inputRequests": {**ASKED, "z": {"method": "ping"}}}, "known `method`"),
        (t.InputRequiredResult, {"inputRequests": []}, "Expected `object | null`, got `array`"),
    ],
)
def test_a_malformed_value_is_still_refused(kind, value, words):
    """CT-08 allows an unknown type, but not an invalid block."""
    with pytest.raises(ValidationError, match=words.replace("|", r"\|")):
        read(kind, msgspec.json.encode(value))


# Helper properties


def test_the_text_of_a_result_is_its_text_blocks_joined():
    image = t.ImageContent("AA==", "image/png")
    assert t.CallToolResult([t.TextContent("a"), image, t.TextContent("b")]).text == "a\nb"
    assert t.CreateMessageResult("assistant", t.TextContent("a"), "m").text == "a"
    assert t.CreateMessageResult("assistant", [t.TextContent("a"), t.TextContent("b")], "m").text == "a\nb"
    assert t.SamplingMessage("user", [image, t.TextContent("b")]).text == "b"


def test_the_contents_of_a_resource_are_its_joined_texts_or_the_bytes_of_its_blob():
    texts = t.ReadResourceResult([t.ResourceContents("a:1", text="a"), t.ResourceContents("a:2", text="b")])
    assert (texts.text, texts.data) == ("a\nb", b"")
    blob = t.ReadResourceResult([t.ResourceContents("a:1", blob="AAE=")])
    assert (blob.text, blob.data) == ("", b"\x00\x01")
    with pytest.raises(RemoteProtocolError, match="the blob of a:1 is not valid base64"):
        _ = t.ReadResourceResult([t.ResourceContents("a:1", blob="?")]).data


def test_the_display_name_is_the_title_then_the_title_of_the_annotations_then_the_name():
    """TL-09."""
    hinted = t.ToolAnnotations(title="hinted")
    assert t.Tool("name", {}, title="title", annotations=hinted).display_name == "title"
    assert t.Tool("name", {}, annotations=hinted).display_name == "hinted"
    assert t.Tool("name", {}, annotations=t.ToolAnnotations()).display_name == "name"
    assert t.Tool("name", {}).display_name == "name"


def test_the_form_of_a_question_has_types():
    """EL-04: all kinds of choices are read."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "oneOf": [{"const": "x", "title": "X"}], "pattern": "x*"},
            "b": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}, "default": ["x"]},
            "c": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
            "d": {"type": "integer", "minimum": 1},
            "e": {"type": "string", "enum": ["x"], "enumNames": ["X"]},
        },
        "required": ["a"],
    }
    option = t.EnumOption("x", "X")
    form = t.ElicitParams("m", requested_schema=schema).form
    assert form == t.ElicitSchema(
        {
            "a": t.StringSchema(one_of=[option]),
            "b": t.MultiSelectSchema(t.SelectItems(any_of=[option]), default=["x"]),
            "c": t.MultiSelectSchema(t.SelectItems("string", enum=["x"])),
            "d": t.IntegerSchema(minimum=1),
            "e": t.StringSchema(enum=["x"], enum_names=["X"]),
        },
        ["a"],
    )
    assert t.ElicitParams("m", "url", url="https://a.test").form is None


def test_a_multiple_choice_has_choices():
    with pytest.raises(ValueError, match="`enum` or `anyOf`"):
        t.SelectItems()


def test_levels_are_in_order_and_the_same_as_the_type_has():
    """LG-02."""
    assert t.LOGGING_LEVELS == ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    assert set(t.LOGGING_LEVELS) == set(t.LoggingLevel.__args__)


@pytest.mark.parametrize(
    ("declared", "form", "url"),
    [
        (None, False, False),
        ({}, True, False),
        ({"form": {}}, True, False),
        ({"url": {}}, False, True),
        ({"form": {}, "url": {}}, True, True),
        ({"x-later": {}}, True, False),
    ],
)
def test_elicitation_without_details_means_forms_only(declared, form, url):
    """CP-04, EL-08."""
    capabilities = t.ClientCapabilities(elicitation=declared)
    assert capabilities.allows("elicitation") is (declared is not None)
    assert capabilities.allows("elicitation", "form") is form
    assert capabilities.allows("elicitation", "url") is url


def test_details_of_sampling_must_be_declared():
    """CP-05."""
    plain, rich = t.ClientCapabilities(sampling={}), t.ClientCapabilities(sampling={"tools": {}, "context": {}})
    assert plain.allows("sampling")
    assert not plain.allows("sampling", "tools")
    assert rich.allows("sampling", "tools")
    assert rich.allows("sampling", "context")
    assert not t.ClientCapabilities().allows("sampling")


def test_a_flag_that_is_false_declares_nothing():
    """CP-03, RS-11."""
    capabilities = t.ServerCapabilities(resources={"subscribe": False, "listChanged": True}, tools={})
    assert not capabilities.allows("resources", "subscribe")
    assert capabilities.allows("resources", "listChanged")
    assert capabilities.allows("tools")
    assert not capabilities.allows("tools", "listChanged")
    assert not capabilities.allows("tools", "listChanged", "deeper")
    assert not capabilities.allows("no such thing")


def test_unknown_capabilities_are_accepted():
    """CP-09."""
    assert read(t.ClientCapabilities, b'{"x-unknown":{},"roots":{}}') == t.ClientCapabilities(roots={})
