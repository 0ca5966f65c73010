"""Reading and finishing messages in a revision."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from twopipes._protocol import revisions
from twopipes._protocol import types as t
from twopipes._protocol.dialect import dialect
from twopipes._protocol.methods import PARAMS, REQUESTS, RESULTS
from twopipes._protocol.revisions import ALL, LATEST_LEGACY, LATEST_MODERN, LEGACY
from twopipes.errors import InvalidParams, LocalProtocolError, MethodNotFound, RemoteProtocolError
from unit.protocol.values import ANY_JSON, JSON_OBJECTS

OLD, NEW = dialect(LATEST_LEGACY), dialect(LATEST_MODERN)
SERVER = t.Implementation("server", "1")
CLIENT = t.Implementation("client", "1")
every_revision = pytest.mark.parametrize("revision", ALL)


@every_revision
def test_there_is_one_dialect_for_each_revision(revision):
    assert dialect(revision) is dialect(revision)
    assert dialect(revision).revision == revision
    assert dialect(revision).modern is (revision == "2026-07-28")
    assert repr(dialect(revision)) == f"dialect('{revision}')"


def test_an_unknown_revision_has_no_dialect():
    with pytest.raises(LocalProtocolError, match="unknown revision '1999-01-01'; known revisions: 2024-11-05"):
        dialect("1999-01-01")


def test_a_dialect_knows_its_methods():
    """VN-12, LG-09, RS-05, PI."""
    assert "initialize" in OLD.served
    assert "ping" in OLD.served
    assert OLD.asks("ping")
    assert OLD.asks("elicitation/create")
    assert not dialect("2025-03-26").asks("elicitation/create")
    assert "elicitation/create" not in OLD.served
    assert "server/discover" not in OLD.served
    assert "server/discover" in NEW.served
    assert "tools/call" in NEW.served
    for gone in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/get"):
        assert gone not in NEW.served


def test_a_modern_server_sends_no_requests():
    """RT-04, SA-11."""
    assert not any(NEW.asks(row.method) for row in REQUESTS)


def test_a_dialect_knows_the_notifications_of_each_side():
    """PR-05, RT-05, VN-15."""
    assert OLD.knows_notification("notifications/progress", sender="client")
    assert not NEW.knows_notification("notifications/progress", sender="client")
    assert NEW.knows_notification("notifications/progress", sender="server")
    assert NEW.knows_notification("notifications/cancelled", sender="client")
    assert not NEW.knows_notification("notifications/roots/list_changed", sender="client")
    assert not OLD.knows_notification("notifications/message", sender="client")
    assert not OLD.knows_notification("notifications/nope", sender="server")


# Params


def test_params_are_read_into_their_type():
    assert OLD.read_params("resources/read", b'{"uri":"a:b"}') == t.ReadResourceParams("a:b")
    assert OLD.read_params("resources/read", Raw(b'{"uri":"a:b"}')) == t.ReadResourceParams("a:b")
    assert OLD.read_params("elicitation/create", b'{"message":"m"}') == t.ElicitParams("m")
    assert OLD.read_params("ping", None) == t.EmptyParams()
    assert OLD.read_params("tools/list", None) == t.ListParams()
    assert NEW.read_params("tools/list", b'{"_meta":{"a":1}}') == t.ListParams(meta={"a": 1})


def test_the_arguments_of_a_tool_stay_raw():
    """TL-02."""
    params = NEW.read_params("tools/call", b'{"name":"n","arguments": {"a": [1.50]}}')
    assert isinstance(params, t.CallToolParams)
    assert bytes(params.arguments) == b'{"a": [1.50]}'
    assert NEW.read_params("tools/call", b'{"name":"n"}') == t.CallToolParams("n")
    assert NEW.read_params("tools/call", b'{"name":"n","arguments":null}') == t.CallToolParams("n")


@pytest.mark.parametrize("arguments", [b"[]", b"5", b'"{}"', b"true"])
def test_the_arguments_of_a_tool_are_an_object(arguments):
    """TL-02, CON-05."""
    with pytest.raises(InvalidParams, match=r"Expected `object` - at `params\.arguments`"):
        NEW.read_params("tools/call", b'{"name":"n","arguments":' + arguments + b"}")


@pytest.mark.parametrize(
    ("method", "raw", "words"),
    [
        ("tools/call", b'{"name":5}', "tools/call: Expected `str`, got `int` - at `params.name`"),
        ("tools/call", None, "tools/call: Object missing required field `name`"),
        ("resources/read", b"[]", "resources/read: Expected `object`, got `array`"),
        ("prompts/get", b'{"name":"n","arguments":{"a":1}}', r"got `int` - at `params.arguments\[...\]`"),  # PM-02
        ("logging/setLevel", b'{"level":"loud"}', "Invalid enum value 'loud' - at `params.level`"),  # LG-04
        ("completion/complete", b'{"ref":{"type":"x"}}', "Invalid value 'x' - at `params.ref.type`"),  # CM-01
        ("tools/list", b'{"cursor":5}', "at `params.cursor`"),
        ("tools/list", b'{"_meta":5}', "at `params._meta`"),
        ("tools/list", b"{", "truncated"),
        ("tools/list", b'{"_meta":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", "nested too deeply"),
        ("elicitation/create", b'{"message":"m","mode":"telepathy"}', "'telepathy' - at `params.mode`"),
    ],
)
def test_the_error_for_invalid_params_names_the_member(method, raw, words):
    """ER-04, TL-20."""
    with pytest.raises(InvalidParams, match=words):
        OLD.read_params(method, raw)


@pytest.mark.parametrize("raw", [b'{"name":"n","inputResponses":5}', b'{"name":"n","requestState":5}'])
def test_malformed_input_responses_are_invalid_params(raw):
    """MR-14."""
    with pytest.raises(InvalidParams, match=r"at `params\.(inputResponses|requestState)`"):
        NEW.read_params("tools/call", raw)


def test_input_responses_stay_raw_until_their_type_is_known():
    """MR-06, MR-07."""
    params = NEW.read_params("prompts/get", b'{"name":"n","inputResponses":{"a":{"action":"accept"}},"requestState":"\\u0000 ="}')
    assert isinstance(params, t.GetPromptParams)
    assert params.request_state == "\0 ="
    assert NEW.read_result("elicitation/create", params.input_responses["a"]) == t.ElicitResult("accept")


@pytest.mark.parametrize("method", ["nope", "server/discover", "tasks/get", "notifications/cancelled"])
def test_an_unknown_method_is_not_found(method):
    """ER-03: tasks exist in this revision, but twopipes does not run them."""
    with pytest.raises(MethodNotFound, match=f"Method not found: {method}"):
        OLD.read_params(method, None)


def test_unknown_metadata_is_ignored():
    """MT-04, MT-05, MT-06."""
    meta = {"io.modelcontextprotocol/future": [1], "traceparent": "junk", "baggage": 5, "": None}
    assert NEW.read_params("tools/list", msgspec.json.encode({"_meta": meta})).meta == meta


def test_notifications_are_read_into_their_type():
    assert OLD.read_notification("notifications/initialized", None) == t.EmptyParams()
    assert NEW.read_notification("notifications/cancelled", b'{"requestId":7}') == t.CancelledParams(7)
    assert OLD.read_notification("notifications/cancelled", None) == t.CancelledParams()  # CA-05: to be ignored
    progress = NEW.read_notification("notifications/progress", b'{"progressToken":"a","progress":0.5,"message":"m"}')
    assert progress == t.ProgressParams("a", 0.5, message="m")


@pytest.mark.parametrize(
    ("method", "raw", "words"),
    [
        ("notifications/cancelled", b'{"requestId":{}}', "at `params.requestId`"),  # CA-05
        ("notifications/message", b'{"level":"loud","data":1}', "at `params.level`"),  # LG-02
        ("notifications/progress", b'{"progressToken":1}', "missing required field `progress`"),
        ("notifications/resources/updated", None, "missing required field `uri`"),
    ],
)
def test_the_error_for_an_invalid_notification_names_the_member(method, raw, words):
    with pytest.raises(InvalidParams, match=words):
        OLD.read_notification(method, raw)


@pytest.mark.parametrize("method", ["notifications/nope", "notifications/subscriptions/acknowledged", "notifications/tasks/status"])
def test_an_unknown_notification_is_not_found(method):
    with pytest.raises(MethodNotFound, match=method):
        OLD.read_notification(method, None)


# Results


@every_revision
def test_a_result_without_a_type_is_complete(revision):
    """VN-10."""
    result = dialect(revision).read_result("tools/call", b'{"content":[{"type":"text","text":"t"}]}')
    assert result == t.CallToolResult([t.TextContent("t")])


@pytest.mark.parametrize(
    "raw", [b'{"content":[],"resultType":"weird"}', b'{"resultType":"weird"}', b'{"content":[],"resultType":""}']
)
def test_an_unknown_type_of_result_is_invalid(raw):
    """VN-11: even if the rest of it is valid."""
    with pytest.raises(RemoteProtocolError, match=r"the result of tools/call has the unexpected type '(weird)?'") as caught:
        NEW.read_result("tools/call", raw)
    assert caught.value.excerpt == raw


def test_a_result_type_that_is_not_a_string_is_invalid():
    with pytest.raises(RemoteProtocolError, match="has the unexpected type 5"):
        NEW.read_result("tools/call", b'{"content":[],"resultType":5}')


@pytest.mark.parametrize("revision", LEGACY)
def test_a_legacy_result_has_no_type(revision):
    """JR-18: a member that the revision does not have is ignored."""
    assert dialect(revision).read_result("tools/call", b'{"content":[],"resultType":"weird"}') == t.CallToolResult([])


ASKING = {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}, "requestState": "s"}


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_three_methods_may_return_questions(method):
    """MR-01, MR-03."""
    result = NEW.read_result(method, msgspec.json.encode(ASKING))
    assert result == t.InputRequiredResult({"a": t.ListRootsRequest()}, "s", result_type="input_required")


def test_the_result_type_decides_between_a_question_and_a_result():
    """CON-15: the type of a result decides before its members do."""
    raw = msgspec.json.encode({**ASKING, "content": []})
    assert isinstance(NEW.read_result("tools/call", raw), t.InputRequiredResult)
    with pytest.raises(RemoteProtocolError, match="is invalid: Object missing required field `content`"):
        NEW.read_result("tools/call", msgspec.json.encode({**ASKING, "resultType": "complete"}))


@pytest.mark.parametrize(
    "method",
    [
        "completion/complete",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "server/discover",
        "subscriptions/listen",
        "tools/list",
    ],
)
def test_no_other_method_may_return_questions(method):
    """MR-01, CM-05."""
    with pytest.raises(RemoteProtocolError, match=f"the result of {method} has the unexpected type 'input_required'"):
        NEW.read_result(method, msgspec.json.encode(ASKING))


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_an_input_required_result_must_not_be_empty(method):
    """MR-02."""
    with pytest.raises(RemoteProtocolError, match="neither questions nor state"):
        NEW.read_result(method, b'{"resultType":"input_required"}')
    state = NEW.read_result(method, b'{"resultType":"input_required","requestState":""}')
    assert state == t.InputRequiredResult(request_state="", result_type="input_required")
    with pytest.raises(RemoteProtocolError, match=r"Invalid value 'ping' - at `result.inputRequests\[...\].method`"):
        NEW.read_result(method, b'{"resultType":"input_required","inputRequests":{"a":{"method":"ping"}}}')


def test_a_legacy_result_cannot_be_a_question():
    """MR-01."""
    with pytest.raises(RemoteProtocolError, match="`content`"):
        OLD.read_result("tools/call", msgspec.json.encode(ASKING))


@pytest.mark.parametrize("spoken", [OLD, NEW])
@pytest.mark.parametrize(
    ("method", "raw", "words"),
    [
        ("tools/call", b"{}", "the result of tools/call is invalid: Object missing required field `content`"),
        ("tools/list", b'{"tools":[{"name":"a"}]}', r"`inputSchema` - at `result.tools\[0\]`"),
        ("prompts/list", b"[]", "Expected `object`, got `array`"),
        ("elicitation/create", b'{"action":"maybe"}', "'maybe' - at `result.action`"),
        ("resources/read", b'{"contents":[{"uri":"a:b"}]}', "`text` or `blob`"),
        ("tools/list", b'{"tools":[],"_meta":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", "nested too deeply"),
    ],
)
def test_an_invalid_result_is_an_error_of_the_peer(method, raw, words, spoken):
    with pytest.raises(RemoteProtocolError, match=words) as caught:
        spoken.read_result(method, Raw(raw))
    assert caught.value.excerpt == raw[:200]


def test_the_result_of_an_unknown_method_cannot_be_read():
    with pytest.raises(LocalProtocolError, match="nope"):
        OLD.read_result("nope", b"{}")


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "roots/list"])
def test_the_results_of_a_client_have_no_result_type(method):
    """MR-06: a result type that is present is ignored."""
    bare = {
        "elicitation/create": t.ElicitResult("decline"),
        "sampling/createMessage": t.CreateMessageResult("assistant", t.TextContent("t"), "m"),
        "roots/list": t.ListRootsResult([t.Root("file:///a")]),
    }[method]
    raw = msgspec.json.decode(msgspec.json.encode(bare))
    assert NEW.read_result(method, msgspec.json.encode({**raw, "resultType": "weird"})) == bare
    assert NEW.finish(method, bare, server_info=SERVER) is bare


def test_empty_results_are_read():
    assert OLD.read_result("ping", b"{}") == t.EmptyResult()
    assert OLD.read_result("logging/setLevel", b'{"surprise":1}') == t.EmptyResult()
    assert isinstance(NEW.read_result("subscriptions/listen", b'{"resultType":"complete"}'), t.SubscriptionsListenResult)


@given(st.sampled_from(sorted(PARAMS)), ANY_JSON | JSON_OBJECTS, st.sampled_from(ALL))
def test_any_params_are_decoded_or_invalid_params(method, value, revision):
    """TL-20: a peer can send any JSON and never gets more than an error."""
    with suppress(InvalidParams, MethodNotFound):
        assert isinstance(dialect(revision).read_params(method, msgspec.json.encode(value)), PARAMS[method])


@given(st.sampled_from(sorted(RESULTS)), st.data(), st.sampled_from(ALL))
def test_any_result_is_decoded_or_an_error_of_the_peer(method, data, revision):
    """VN-11, CT-08."""
    blocks = st.lists(ANY_JSON | st.fixed_dictionaries({"type": st.text()}), max_size=3)
    names = st.sampled_from(["content", "messages", "inputRequests", "resultType", "tools", "role", "model"])
    value = data.draw(ANY_JSON | st.dictionaries(names, ANY_JSON | blocks, max_size=5))
    with suppress(RemoteProtocolError):
        result = dialect(revision).read_result(method, msgspec.json.encode(value))
        assert isinstance(result, RESULTS[method] | t.InputRequiredResult)


# Finishing

RESULT_OF = {
    "server/discover": t.DiscoverResult(["2026-07-28"], t.ServerCapabilities(tools={})),
    "tools/list": t.ListToolsResult([]),
    "prompts/list": t.ListPromptsResult([]),
    "resources/list": t.ListResourcesResult([]),
    "resources/templates/list": t.ListResourceTemplatesResult([]),
    "resources/read": t.ReadResourceResult([]),
    "tools/call": t.CallToolResult([]),
    "prompts/get": t.GetPromptResult([]),
    "completion/complete": t.CompleteResult(t.Completion([])),
    "subscriptions/listen": t.SubscriptionsListenResult(meta={revisions.META_SUBSCRIPTION_ID: "s"}),
}


@pytest.mark.parametrize("method", RESULT_OF)
def test_finish_completes_a_modern_result(method):
    """VN-06, VN-08, VN-09, CH-01, CH-02, CM-05."""
    written = msgspec.json.decode(msgspec.json.encode(NEW.finish(method, RESULT_OF[method], server_info=SERVER)))
    assert written["resultType"] == "complete"
    assert written["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "server", "version": "1"}
    hints = {"ttlMs": 0, "cacheScope": "private"} if method in revisions.CACHEABLE else {}
    assert {key: written[key] for key in written if key in {"ttlMs", "cacheScope"}} == hints


def test_finish_keeps_the_values_of_the_result():
    """CH-08: the server keeps the scope the same on all pages; the lifetime may differ."""
    own = t.ListToolsResult([], ttl_ms=5, cache_scope="public", meta={revisions.META_SERVER_INFO: "own"}, result_type="task")
    assert NEW.finish("tools/list", own, server_info=SERVER, ttl_ms=9, cache_scope="private") == own
    given = NEW.finish("tools/list", t.ListToolsResult([], meta={"a": 1}), server_info=SERVER, ttl_ms=9, cache_scope="public")
    assert (given.ttl_ms, given.cache_scope) == (9, "public")
    assert given.meta == {"a": 1, revisions.META_SERVER_INFO: SERVER}


def test_a_negative_time_to_live_is_written_as_zero():
    """CH-02."""
    assert NEW.finish("tools/list", t.ListToolsResult([], ttl_ms=-1), server_info=None).ttl_ms == 0


def test_finish_works_without_server_info():
    """VN-08 is a SHOULD."""
    assert NEW.finish("tools/call", t.CallToolResult([]), server_info=None).meta is None


@pytest.mark.parametrize("revision", LEGACY)
def test_finish_adds_nothing_to_a_legacy_result(revision):
    """Recipe 6: old transcripts stay clean."""
    result = t.ListToolsResult([])
    assert dialect(revision).finish("tools/list", result, server_info=SERVER, ttl_ms=5) is result
    own = t.ListToolsResult([], ttl_ms=5, cache_scope="public", result_type="complete")
    assert dialect(revision).finish("tools/list", own, server_info=SERVER) == t.ListToolsResult([])


def test_finish_adds_the_type_to_questions():
    """MR-01, MR-02, CH-05."""
    asked = NEW.finish("resources/read", t.InputRequiredResult({"a": t.ListRootsRequest()}), server_info=None, ttl_ms=5)
    assert msgspec.json.encode(asked) == b'{"inputRequests":{"a":{"method":"roots/list"}},"resultType":"input_required"}'
    with pytest.raises(LocalProtocolError, match="MR-01"):
        NEW.finish("tools/list", t.InputRequiredResult(request_state="s"), server_info=None)
    with pytest.raises(LocalProtocolError, match="MR-02"):
        NEW.finish("tools/call", t.InputRequiredResult(), server_info=None)
    with pytest.raises(LocalProtocolError, match="2025-11-25 has no InputRequiredResult"):
        OLD.finish("tools/call", t.InputRequiredResult(request_state="s"), server_info=None)


# The _meta of requests


def test_the_meta_of_a_modern_request_identifies_the_client():
    """VN-01, VN-03, CP-03."""
    capabilities = t.ClientCapabilities(roots={"listChanged": True})
    shared = NEW.client_meta(CLIENT, capabilities)
    meta = NEW.request_meta(shared, progress_token=7, log_level="info", extra={"com.example/a": 1})
    assert msgspec.to_builtins(meta) == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
        "io.modelcontextprotocol/logLevel": "info",
        "progressToken": 7,
        "com.example/a": 1,
    }


def test_an_anonymous_client_still_sends_its_revision_and_capabilities():
    """VN-01."""
    meta = NEW.client_meta(None, t.ClientCapabilities())
    assert set(meta) == {revisions.META_VERSION, revisions.META_CAPABILITIES}


@pytest.mark.parametrize("revision", LEGACY)
def test_the_meta_of_a_legacy_request_has_only_the_progress_token_and_extra_keys(revision):
    """PR-01: the rest was part of the handshake."""
    spoken, capabilities = dialect(revision), t.ClientCapabilities(roots={})
    shared = spoken.client_meta(CLIENT, capabilities)
    assert spoken.request_meta(shared, log_level="info") == {}
    meta = spoken.request_meta(shared, progress_token="", extra={"x": 1})
    assert meta == {"progressToken": "", "x": 1}


def test_extra_keys_do_not_replace_those_of_the_protocol():
    """MT-02."""
    extra = {revisions.META_VERSION: "1999-01-01", "progressToken": "theirs"}
    meta = NEW.request_meta(NEW.client_meta(None, t.ClientCapabilities()), progress_token=1, extra=extra)
    assert (meta[revisions.META_VERSION], meta["progressToken"]) == ("2026-07-28", 1)


@pytest.mark.parametrize(("key", "fault"), [("a b", "grammar"), ("io.modelcontextprotocol/mine", "reserved")])
def test_extra_keys_must_match_the_grammar(key, fault):
    """MT-01, MT-02."""
    with pytest.raises(LocalProtocolError, match=fault):
        NEW.request_meta({}, extra={key: 1})


def test_unknown_schema_keywords_of_a_tool_are_kept():
    """TL-22."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"a": {"$anchor": "here", "type": "integer"}},
        "properties": {"x": {"oneOf": [{"$ref": "#/$defs/a"}, {"const": None}], "x-vendor": {"deep": [1, 2.5]}}},
        "if": {"required": ["x"]},
        "then": {"unevaluatedProperties": False},
    }
    tool = {"name": "t", "inputSchema": schema, "outputSchema": schema}
    for revision in ("2025-11-25", "2026-07-28"):
        result = dialect(revision).read_result("tools/list", msgspec.json.encode({"tools": [tool]}))
        assert result.tools[0].input_schema == schema
        assert result.tools[0].output_schema == schema
