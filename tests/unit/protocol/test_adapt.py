"""Adapting values: members that a revision does not have are removed or replaced; all others are unchanged."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET, Raw, structs

from twopipes._protocol import revisions
from twopipes._protocol import types as t
from twopipes._protocol.dialect import dialect
from twopipes._protocol.revisions import ALL, LEGACY
from twopipes.errors import LocalProtocolError
from unit.protocol.values import all_models, fulls

D2411, D2503, D2506, D2511, D2607 = map(dialect, ALL)
TEXT = t.TextContent("t")


def _exists(kind: type[t.Model], revision: str) -> bool:
    return revisions.TYPES.get(kind.__name__, revisions.ALWAYS).has(revision)


every_revision = pytest.mark.parametrize("revision", ALL)


@every_revision
def test_a_value_of_every_revision_is_returned_as_the_same_object(revision):
    spoken = dialect(revision)
    for value in (
        t.CallToolResult([TEXT, t.ImageContent("AA==", "image/png", t.Annotations(["user"], 0.5))], is_error=True),
        t.ListToolsResult([t.Tool("n", {"type": "object", "properties": {"a": {}}}, "d")], "next"),
        t.GetPromptResult([t.PromptMessage("user", t.EmbeddedResource(t.ResourceContents("a:b", text="t")))]),
        t.ReadResourceResult([t.ResourceContents("a:b", blob="AA==")]),
        t.CallToolParams("n", Raw(b"{}"), meta={"a": 1}),
        t.CompleteParams(t.PromptReference("p"), t.CompletionArgument("a", "v")),
        t.CompleteResult(t.Completion(["a"] * 100, 100)),
        t.ProgressParams(1, 0.5, 2),
        t.CreateMessageResult("assistant", TEXT, "m", "endTurn"),
    ):
        assert spoken.fit(value) is value


SAID_OTHERWISE = {t.AudioContent: t.EmbeddedResource, t.ResourceLink: t.TextContent}
MISSING = [(kind, revision) for kind in all_models() for revision in ALL if not _exists(kind, revision)]


@pytest.mark.parametrize(("kind", "revision"), MISSING)
def test_a_type_that_a_revision_lacks_is_rejected_or_replaced(kind, revision):
    """CT-02."""
    value = fulls(kind)[0]
    if kind in SAID_OTHERWISE:
        assert type(dialect(revision).fit(value)) is SAID_OTHERWISE[kind]
    else:
        with pytest.raises(LocalProtocolError, match=f"{revision} has no {kind.__name__}"):
            dialect(revision).fit(value)


def test_only_what_changes_is_copied():
    kept, changed = t.Tool("a", {"type": "object"}), t.Tool("b", {"type": "object"}, title="B")
    fitted = D2503.fit(t.ListToolsResult([kept, changed]))
    assert [tool.name for tool in fitted.tools] == ["a", "b"]  # TL-16: the order stays
    assert fitted.tools[0] is kept
    assert fitted.tools[1] == t.Tool("b", {"type": "object"})
    assert changed.title == "B"


def test_blocks_in_a_tuple_are_adapted():
    fitted = D2503.fit(t.CallToolResult((TEXT, t.ResourceLink("a:b", "n"))))
    assert list(fitted.content) == [TEXT, t.TextContent("n: a:b")]


# Content (CT-02)


def test_audio_becomes_an_embedded_resource_where_there_is_no_audio():
    """CT-01, CT-02."""
    audio = t.AudioContent("AA==", "audio/wav", t.Annotations(["user"], last_modified="2025-01-01"), meta={"a": 1})
    expected = t.EmbeddedResource(t.ResourceContents("embedded:audio", blob="AA==", mime_type="audio/wav"), t.Annotations(["user"]))
    assert D2411.fit(t.CallToolResult([audio])).content == [expected]
    assert D2411.fit(t.PromptMessage("user", audio)).content == expected
    assert D2503.fit(audio) == t.AudioContent("AA==", "audio/wav", t.Annotations(["user"]))
    assert D2506.fit(audio) is audio


def test_a_resource_link_becomes_text_where_there_are_no_links():
    """CT-01, CT-02."""
    link = t.ResourceLink("file:///a", "name", "Title", "About it", annotations=t.Annotations(priority=1))
    for spoken in (D2411, D2503):
        assert spoken.fit(link) == t.TextContent("Title: file:///a\nAbout it", t.Annotations(priority=1))
        assert spoken.fit(t.ResourceLink("file:///a", "name")) == t.TextContent("name: file:///a")
    assert D2506.fit(link) is link
    pictured = structs.replace(link, icons=[t.Icon("https://a.test")])
    assert D2506.fit(pictured) == link
    assert D2511.fit(pictured) is pictured


def test_an_unknown_block_becomes_text_for_a_legacy_peer():
    """CT-02, CT-08: a modern extension may define more blocks."""
    strange = t.UnknownContent(type="hologram", a=1)
    for revision in LEGACY:
        assert dialect(revision).fit(t.CallToolResult([strange])).content == [t.TextContent('{"type":"hologram","a":1}')]
    asked = t.CallToolResult([strange])
    assert D2607.fit(asked) is asked


def test_meta_is_sent_only_in_revisions_that_have_it():
    """MT-07."""
    block = t.TextContent("t", meta={"a": 1})
    assert D2503.fit(block).meta is None
    assert D2506.fit(block) is block
    message = t.SamplingMessage("user", TEXT, meta={"a": 1})
    assert D2506.fit(message).meta is None
    assert D2511.fit(message) is message
    for answer in (t.ElicitResult("decline", meta={"a": 1}), t.ListRootsResult([], meta={"a": 1})):
        assert D2511.fit(answer) is answer
        assert D2607.fit(answer).meta is None
    sample = t.CreateMessageParams([message], 1, meta={"a": 1})
    assert D2607.fit(t.InputRequiredResult({"a": t.CreateMessageRequest(sample)})).input_requests["a"].params.meta is None
    for result in (t.CallToolResult([], meta={"a": 1}), t.EmptyParams(meta={"a": 1})):
        assert all(dialect(revision).fit(result) is result for revision in ALL)


# Tools (TL-11, TL-12, TL-21, JS-08)


@pytest.mark.parametrize("value", [[1], "s", 5, None, True, Raw(b"[1]"), (1, 2)])
def test_structured_content_other_than_an_object_is_sent_only_to_modern_peers(value):
    """TL-11, TL-12."""
    result = t.CallToolResult([TEXT], value)
    for spoken in (D2411, D2503, D2506, D2511):
        assert spoken.fit(result) == t.CallToolResult([TEXT])
    assert D2607.fit(result) is result


class Point(msgspec.Struct):
    x: int


@pytest.mark.parametrize("value", [{"x": 1}, Point(1), Raw(b'{"x":1}')])
def test_an_object_as_structured_content_is_sent_where_the_member_exists(value):
    """TL-11."""
    result = t.CallToolResult([TEXT], value)
    for spoken in (D2506, D2511, D2607):
        assert spoken.fit(result) is result
    assert D2503.fit(result) == t.CallToolResult([TEXT])


def test_structured_content_without_text_becomes_text():
    """TL-13: nothing is lost where the member does not exist."""
    assert D2511.fit(t.CallToolResult([], [1])) == t.CallToolResult([t.TextContent("[1]")])
    assert D2503.fit(t.CallToolResult([], {"a": None})) == t.CallToolResult([t.TextContent('{"a":null}')])


def test_a_tool_result_in_a_sampling_message_follows_the_same_rule():
    """TL-11."""
    message = t.SamplingMessage("user", [t.ToolResultContent("u", [TEXT], [1])])
    assert D2511.fit(message).content == [t.ToolResultContent("u", [TEXT])]
    assert D2511.fit(t.ToolResultContent("u", [], None)) == t.ToolResultContent("u", [t.TextContent("null")])
    for kept in (t.ToolResultContent("u", [TEXT], {"a": 1}), t.ToolResultContent("u", [TEXT])):
        assert D2511.fit(kept) is kept
    assert D2607.fit(message) is message


def test_an_output_schema_other_than_an_object_is_sent_only_to_modern_peers():
    """TL-11, TL-12."""
    free = t.Tool("n", {"type": "object"}, output_schema={"type": "array"})
    assert D2607.fit(free) is free
    for spoken in (D2506, D2511):
        assert spoken.fit(free) == t.Tool("n", {"type": "object"})
    bound = t.Tool("n", {"type": "object"}, output_schema={"type": "object"})
    assert D2506.fit(bound) is bound
    assert D2503.fit(bound).output_schema is None


def test_the_schema_dialect_is_sent_only_in_revisions_that_have_it():
    """JS-08."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "$defs": {}}
    tool = t.Tool("n", schema, output_schema=schema)
    plain = {"type": "object", "$defs": {}}
    assert D2506.fit(tool) == t.Tool("n", plain, output_schema=plain)
    assert D2511.fit(tool) is tool


def test_a_boolean_for_a_property_becomes_an_object_for_legacy_peers():
    """JS-08."""
    tool = t.Tool("n", {"type": "object", "properties": {"a": True, "b": False, "c": {"type": "string"}}})
    assert D2511.fit(tool).input_schema["properties"] == {"a": {}, "b": {"not": {}}, "c": {"type": "string"}}
    assert D2607.fit(tool) is tool


def test_execution_is_a_member_of_one_revision():
    """TL-21."""
    tool = t.Tool("n", {"type": "object"}, execution=t.ToolExecution("optional"))
    assert [dialect(revision).fit(tool).execution is not None for revision in ALL] == [False, False, False, True, False]


def test_rich_tools_lose_member_by_member():
    """CT-06, TL-08."""
    rich = t.Tool("n", {"type": "object"}, "d", "T", {"type": "object"}, t.ToolAnnotations("A"), [t.Icon("https://a.test")])
    assert D2411.fit(rich) == t.Tool("n", {"type": "object"}, "d")
    assert D2503.fit(rich) == t.Tool("n", {"type": "object"}, "d", annotations=t.ToolAnnotations("A"))
    assert D2506.fit(rich) == structs.replace(rich, icons=None)
    assert D2511.fit(rich) is rich


def test_at_most_a_hundred_suggestions_are_sent():
    """CM-02."""
    values = [str(number) for number in range(250)]
    fitted = D2511.fit(t.CompleteResult(t.Completion(values, 250)))
    assert fitted.completion == t.Completion(values[:100], 250, has_more=True)


def test_the_context_of_a_completion_is_removed_for_revisions_without_it():
    """CM-01, CM-04."""
    params = t.CompleteParams(t.PromptReference("p"), t.CompletionArgument("a", "v"), t.CompletionContext({"b": "w"}))
    assert D2503.fit(params).context is None
    assert D2506.fit(params) is params


def test_the_message_of_progress_is_removed_for_revisions_without_it():
    """PR-03."""
    assert D2411.fit(t.ProgressParams(1, 2, message="m")) == t.ProgressParams(1, 2)
    params = t.ProgressParams(1, 2, message="m")
    assert D2503.fit(params) is params


@every_revision
def test_a_cancellation_requires_a_request_id(revision):
    """CA-12, CON-10."""
    with pytest.raises(LocalProtocolError, match="CA-12"):
        dialect(revision).fit(t.CancelledParams())
    params = t.CancelledParams(0, "why")
    assert dialect(revision).fit(params) is params


def test_answers_to_questions_are_sent_only_to_modern_peers():
    """MR-05."""
    retry = t.CallToolParams("n", input_responses={"a": Raw(b'{"action":"cancel"}')}, request_state="s")
    assert D2607.fit(retry) is retry
    assert D2511.fit(retry) == t.CallToolParams("n")


# Sampling (SA-03)

USE = t.ToolUseContent("u", "add", {"a": 1})
GAVE = t.ToolResultContent("u", [t.TextContent("3")])


@pytest.mark.parametrize("spoken", [D2411, D2503, D2506])
def test_a_message_with_several_blocks_becomes_several_messages(spoken):
    """SA-03."""
    image = t.ImageContent("AA==", "image/png")
    params = t.CreateMessageParams([t.SamplingMessage("user", [TEXT, image]), t.SamplingMessage("assistant", TEXT)], 9)
    fitted = spoken.fit(params)
    assert [(each.role, each.content) for each in fitted.messages] == [("user", TEXT), ("user", image), ("assistant", TEXT)]
    assert D2511.fit(params) is params


@pytest.mark.parametrize("spoken", [D2411, D2503, D2506])
@pytest.mark.parametrize(
    ("block", "words"),
    [
        (USE, '[tool call u: add {"a":1}]'),
        (GAVE, "[tool result u: 3]"),
        (t.ToolResultContent("u", [], [1], is_error=True), "[tool result u failed: [1]]"),
        (t.ToolResultContent("u", []), "[tool result u: ]"),
        (t.UnknownContent(type="hologram"), '{"type":"hologram"}'),
    ],
)
def test_tool_use_becomes_text_where_sampling_has_no_tools(block, words, spoken):
    """SA-03, SA-04."""
    params = t.CreateMessageParams([t.SamplingMessage("user", block)], 9, tools=[], tool_choice=t.ToolChoice("auto"))
    assert spoken.fit(params) == t.CreateMessageParams([t.SamplingMessage("user", t.TextContent(words))], 9)
    assert spoken.fit(t.CreateMessageResult("assistant", block, "m")).content == t.TextContent(words)


def test_audio_in_sampling_becomes_text_where_there_is_no_audio():
    """SA-03: sampling has no embedded resources."""
    message = t.SamplingMessage("user", t.AudioContent("AA==", "audio/wav"))
    assert D2411.fit(message).content == t.TextContent("[audio: audio/wav]")
    assert D2503.fit(message) is message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([TEXT], TEXT),
        ([TEXT, t.ImageContent("AA==", "image/png"), USE], t.TextContent('t\n[tool call u: add {"a":1}]')),
        ([t.ImageContent("AA==", "a/b"), t.ImageContent("AQ==", "a/b")], t.ImageContent("AA==", "a/b")),
        ([], t.TextContent("")),
    ],
)
def test_an_answer_with_several_blocks_becomes_one(content, expected):
    """SA-03."""
    assert D2506.fit(t.CreateMessageResult("assistant", content, "m")).content == expected
    assert D2506.fit(t.SamplingMessage("assistant", content)).content == expected
    result = t.CreateMessageResult("assistant", content, "m")
    assert D2511.fit(result) is result


# Elicitation (EL-01, EL-06, EL-10)


def test_a_url_needs_an_id_in_one_revision():
    """EL-10."""
    bare = t.ElicitParams("m", "url", url="https://a.test")
    named = structs.replace(bare, elicitation_id="e")
    with pytest.raises(LocalProtocolError, match="elicitation_id in 2025-11-25"):
        D2511.fit(bare)
    assert D2511.fit(named) is named
    assert D2607.fit(named) == bare
    assert D2607.fit(bare) is bare
    with pytest.raises(LocalProtocolError, match="2025-06-18 does not support url mode"):
        D2506.fit(named)
    with pytest.raises(LocalProtocolError, match="url mode requires a url"):
        D2607.fit(t.ElicitParams("m", "url"))
    with pytest.raises(LocalProtocolError, match="2025-03-26 has no ElicitRequest"):
        D2503.fit(t.ElicitRequest(bare))


@pytest.mark.parametrize("spoken", [D2506, D2511, D2607])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "array"},
        {"type": "object"},
    ],
)
def test_a_form_is_flat(schema, spoken):
    """EL-01, EL-02."""
    with pytest.raises(LocalProtocolError, match="not a valid form"):
        spoken.fit(t.ElicitParams("m", requested_schema=schema))


def test_a_form_needs_a_schema():
    """EL-01."""
    with pytest.raises(LocalProtocolError, match="requires a requested_schema"):
        D2511.fit(t.ElicitParams("m"))


@pytest.mark.parametrize("spoken", [D2506, D2511, D2607])
def test_the_schema_of_a_form_has_the_type_object(spoken):
    """EL-01."""
    params = t.ElicitParams("m", requested_schema={"properties": {"a": {"type": "boolean"}}})
    assert spoken.fit(params).requested_schema == {"type": "object", "properties": {"a": {"type": "boolean"}}}


@pytest.mark.parametrize("spoken", [D2506, D2511, D2607])
def test_content_is_sent_only_with_an_accepted_form(spoken):
    """EL-06, EL-11."""
    assert spoken.fit(t.ElicitResult("decline", {"a": 1})) == t.ElicitResult("decline")
    assert spoken.fit(t.ElicitResult("cancel", {})) == t.ElicitResult("cancel")
    for kept in (t.ElicitResult("accept", {"a": 1}), t.ElicitResult("accept")):
        assert spoken.fit(kept) is kept


def test_null_answers_are_omitted_and_lists_are_joined_for_old_revisions():
    """EL-03, EL-04."""
    answer = t.ElicitResult("accept", {"a": None, "b": ["x", "y"]})
    assert D2511.fit(answer).content == {"b": ["x", "y"]}
    assert D2506.fit(answer).content == {"b": "x, y"}


# Capabilities (CP-03, CP-04, CP-05, CP-07)


def test_client_capabilities_are_those_of_the_revision():
    """CP-03, CP-04, CP-05, CP-07."""
    full = t.ClientCapabilities(
        roots={"listChanged": True},
        sampling={"tools": {}, "context": {}, "x-later": {}},
        elicitation={"form": {}, "url": {}},
        tasks={"list": {}},
        experimental={"x": {}},
        extensions={"com.example/x": {}},
    )
    roots, open_sampling, experimental = {"listChanged": True}, {"x-later": {}}, {"x": {}}
    old = t.ClientCapabilities(roots=roots, sampling=open_sampling, experimental=experimental)
    assert D2411.fit(full) == old
    assert D2503.fit(full) == old
    assert D2506.fit(full) == structs.replace(old, elicitation={})
    assert D2511.fit(full) == structs.replace(full, extensions=None)
    assert D2607.fit(full) == structs.replace(full, roots={}, tasks=None)


def test_a_client_that_can_only_open_urls_does_not_declare_forms():
    """CP-04: before 2025-11-25 the bare capability means forms."""
    only_urls = t.ClientCapabilities(elicitation={"url": {}})
    assert D2506.fit(only_urls) == t.ClientCapabilities()
    assert D2511.fit(only_urls) is only_urls


def test_server_capabilities_are_those_of_the_revision():
    """CP-01, CP-07."""
    full = t.ServerCapabilities(
        tools={"listChanged": True}, completions={}, tasks={}, extensions={"com.example/x": {}}, experimental={"x": {}}
    )
    bare = t.ServerCapabilities(tools={"listChanged": True}, experimental={"x": {}})
    assert D2411.fit(full) == bare
    assert D2503.fit(full) == structs.replace(bare, completions={})
    assert D2511.fit(full) == structs.replace(full, extensions=None)
    assert D2607.fit(full) == structs.replace(full, tasks=None)


@pytest.mark.parametrize("extensions", [{"bare": {}}, {"com.example/x": True}, {"com.example/x": None}])
def test_an_extension_has_a_prefixed_name_and_an_object(extensions):
    """CP-07."""
    for declared in (t.ClientCapabilities(extensions=extensions), t.ServerCapabilities(extensions=extensions)):
        with pytest.raises(LocalProtocolError, match="CP-07"):
            D2607.fit(declared)


def test_members_of_implementations_are_removed_for_revisions_without_them():
    rich = t.Implementation("n", "1", "T", "D", "https://a.test", [t.Icon("https://a.test")])
    assert D2503.fit(rich) == t.Implementation("n", "1")
    assert D2506.fit(rich) == t.Implementation("n", "1", "T")
    assert D2511.fit(rich) is rich
    initialize = t.InitializeParams(protocol_version="2024-11-05", client_info=rich)
    assert D2411.fit(initialize).client_info == t.Implementation("n", "1")


def test_absent_structured_content_stays_absent():
    result = D2411.fit(t.CallToolResult([], result_type="complete"))
    assert result.structured_content is UNSET
    assert msgspec.json.encode(result) == b'{"content":[]}'
