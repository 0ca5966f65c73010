"""Whatever JSON a server and a host exchange passes a gateway of one revision unchanged, and of two where both can express it."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from strategies import json_objects, json_values, texts
from twopipes._gateway import translate
from twopipes._protocol.base import RawResult
from twopipes._protocol.dialect import dialect
from twopipes._protocol.revisions import ALL, LATEST_LEGACY, LATEST_MODERN
from twopipes._protocol.types import ClientCapabilities
from twopipes._session.ledger import Call

pytestmark = pytest.mark.slow  # every pair of revisions

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
ENVELOPE = {"resultType", "ttlMs", "cacheScope"}
PROTOCOL = "io.modelcontextprotocol/"
CLIENT = {f"{PROTOCOL}protocolVersion": LATEST_MODERN, f"{PROTOCOL}clientCapabilities": {}}
# Members that no type of the protocol has.
own_members = st.dictionaries(texts.map(lambda name: f"own.{name}"), json_values, max_size=4)
blocks = st.lists(
    st.builds(lambda text, more: {"type": "text", "text": text, **more}, texts, own_members)
    | st.builds(lambda more: {"type": "own", **more}, own_members),
    max_size=4,
)
tool_results = st.builds(lambda content, more, meta: {"content": content, **more, "_meta": meta}, blocks, own_members, own_members)
tools = st.builds(lambda name, more: {"name": name, "inputSchema": {"type": "object"}, **more}, texts, own_members)
pages = st.builds(
    lambda listed, cursor, more: {"tools": listed, "nextCursor": cursor, **more}, st.lists(tools, max_size=3), texts, own_members
)


# Each pair of revisions is tried with these; all pairs together make many.
few = settings(max_examples=min(10, settings.default.max_examples))


def raw_of(value):
    return Raw(json.dumps(value).encode())


def passed(method, result, source, target):
    """Return a result after it went through the gateway."""
    sent = translate.result(method, raw_of(result), dialect(source), dialect(target), server=None)
    assert isinstance(sent, RawResult)
    return json.loads(bytes(sent.raw))


def without_envelope(result):
    kept = {name: value for name, value in result.items() if name not in ENVELOPE}
    return {**kept, "_meta": kept.get("_meta", {})}


@pytest.mark.parametrize("revision", ALL)
@given(result=json_objects)
def test_a_result_of_the_same_revision_passes_byte_for_byte(revision, result):
    raw = raw_of(result)
    sent = translate.result("tools/call", raw, dialect(revision), dialect(revision), server=None)
    assert isinstance(sent, RawResult)
    assert sent.raw is raw


@pytest.mark.parametrize(("source", "target"), [(LATEST_LEGACY, LATEST_MODERN), (LATEST_MODERN, LATEST_LEGACY)])
@given(result=tool_results)
def test_content_unknown_members_and_meta_of_a_tool_result_survive_a_change_of_era(source, target, result):
    # A block of an unknown type cannot be sent to a host of another revision as it is: it becomes text.
    result["content"] = [block for block in result["content"] if block["type"] == "text"]
    assert without_envelope(passed("tools/call", result, source, target)) == result


@pytest.mark.parametrize(("source", "target"), [(LATEST_LEGACY, LATEST_MODERN), (LATEST_MODERN, LATEST_LEGACY)])
@given(result=pages)
def test_lists_survive_a_change_of_era(source, target, result):
    sent = passed("tools/list", result, source, target)
    sent.pop("_meta", None)
    assert {name: value for name, value in sent.items() if name not in ENVELOPE} == result


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("source", ALL)
@given(result=own_members)
@few
def test_the_result_of_an_unknown_method_survives(source, target, result):
    assert without_envelope(passed("own/method", result, source, target)) == {**result, "_meta": {}}


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("source", ALL)
@given(result=tool_results)
@few
def test_any_tool_result_becomes_a_valid_one_of_the_hosts_revision(source, target, result):
    sent = passed("tools/call", result, source, target)
    assert dialect(target).read_result("tools/call", json.dumps(sent).encode()).content is not None
    assert ("resultType" in sent) == (target == LATEST_MODERN and source != target)


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("front", [LATEST_LEGACY, LATEST_MODERN])
@given(params=json_objects, meta=own_members)
@few
def test_params_and_meta_of_a_request_survive(front, source, params, meta):
    own = {name: value for name, value in params.items() if name not in {"_meta", "inputResponses", "requestState"}}
    sent = {**own, "_meta": {**meta, "progressToken": 1, **(CLIENT if front == LATEST_MODERN else {})}}
    call = Call(1, "own/method", None, dialect(front), ClientCapabilities(), raw_params=raw_of(sent))
    request = translate.request(call, dialect(source))
    received = {name: json.loads(bytes(value)) for name, value in request.params.items() if name != "_meta"}
    assert received == own
    assert {name: json.loads(bytes(value)) for name, value in request.params.get("_meta", {}).items()} == meta
    assert bool(request.client_meta) == (source == LATEST_MODERN)


@given(st.floats(allow_nan=False, allow_infinity=False), own_members)
def test_progress_keeps_everything_but_its_token(progress, more):
    raw = raw_of({"progressToken": 7, "progress": progress, **more})
    sent = translate.progress(raw, "mine", dialect(LATEST_MODERN))
    assert sent.pop("progressToken") == "mine"
    received = {name: json.loads(bytes(value)) for name, value in sent.items()}
    assert math.isclose(received.pop("progress"), progress)
    assert received == more
