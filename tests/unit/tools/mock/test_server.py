"""The mock without a process: how much of a recording is read, and what is sent."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from twopipes._protocol import revisions
from twopipes._tools.mock.adapt import adapted_error, adapted_result
from twopipes._tools.mock.exchanges import Recording, request_key
from twopipes._tools.mock.nearest import nearest_request
from twopipes._tools.mock.server import Mock
from twopipes._trace.format import Header, Line, encode
from twopipes._trace.reader import read


def entries_of(*said):
    return [message if side == "" else Line(0.0, side, json.dumps(message).encode()) for side, message in said]


def recording_of(*said, redacted=()):
    return Recording(Header(version=1, redacted=redacted), entries_of(*said))


def call(id_, tool, **params):
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": {"name": tool, **params}}


def answer(id_, said):
    return {"jsonrpc": "2.0", "id": id_, "result": {"said": said}}


def asked(mock, *messages):
    for message in messages:
        mock.receive(json.dumps(message).encode())
    said = [json.loads(line) for line in mock.out]
    mock.out.clear()
    return said


def test_a_recording_is_read_as_far_as_it_is_needed():
    entries = iter(entries_of(*(each for n in range(1000) for each in ((">", call(n, f"tool-{n}")), ("<", answer(n, n))))))
    mock = Mock(Recording(Header(version=1), entries))
    assert asked(mock, call(1, "tool-5")) == [answer(1, 5)]
    assert entries.__length_hint__() == 2000 - 13
    assert asked(mock, call(2, "tool-999")) == [answer(2, 999)]
    assert next(entries, None) is None


def test_a_line_in_pieces_is_one_message_also_when_a_character_was_cut(tmp_path):
    data = json.dumps(answer(1, "é"), ensure_ascii=False).encode()
    cut = data.index("é".encode()) + 1
    pieces = [("", Line(0.0, "<", data[:cut], is_whole=False)), ("", Line(0.0, "<", data[cut:]))]
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(map(encode, [Header(version=1), *entries_of((">", call(1, "t")), *pieces)])))
    trace = read(path)
    assert asked(Mock(Recording(trace.header, trace)), call(7, "t")) == [answer(7, "é")]


def test_numbers_come_back_as_they_were_written():
    said = b'{"jsonrpc":"2.0","id":1,"result":{"a": 1.50e2, "b":123456789012345678901234567890, "c":[1.0]}}'
    mock = Mock(recording_of((">", call(1, "t")), ("", Line(0.0, "<", said))))
    mock.receive(json.dumps(call(7, "t")).encode())
    assert mock.out == [b'{"jsonrpc":"2.0","id":7,"result":{"a": 1.50e2, "b":123456789012345678901234567890, "c":[1.0]}}']


def test_a_lone_surrogate_does_not_cost_the_message():
    request = Line(0.0, ">", rb'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\ud800"}}')
    response = Line(0.0, "<", rb'{"jsonrpc":"2.0","id":1,"result":{"b":"x\udc00"}}')
    mock = Mock(recording_of(("", request), ("", response)))
    mock.receive(request.data)
    assert [json.loads(line) for line in mock.out] == [{"jsonrpc": "2.0", "id": 1, "result": {"b": "x\ufffd"}}]


@pytest.mark.parametrize("state", [{}, [], 7, None, "unknown"])
def test_a_state_that_was_not_recorded_is_an_error_whatever_its_type(state):
    mock = Mock(recording_of((">", call(1, "t")), ("<", answer(1, "x"))))
    (said,) = asked(mock, call(1, "t", requestState=state))
    assert said["error"]["code"] == -32602


def test_answers_find_their_requests_by_id_type_and_connection():
    said = [
        ("", Line(0.0, ">", json.dumps(call(1, "a")).encode(), connection=1)),
        (">", call(1, "b")),
        (">", call("1", "c")),
        ("<", answer("1", "c")),
        ("<", answer(1, "b")),
        ("", Line(0.0, "<", json.dumps(answer(1, "a")).encode(), connection=1)),
    ]
    mock = Mock(recording_of(*said))
    assert [each["result"]["said"] for each in asked(mock, call(1, "a"), call(2, "b"), call(3, "c"))] == ["a", "b", "c"]


def test_a_notification_between_responses_belongs_to_the_latest_request():
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    mock = Mock(
        recording_of((">", call(1, "add")), ("<", answer(1, "x")), ("<", changed), (">", call(2, "b")), ("<", answer(2, "y")))
    )
    mock._revision = "2025-11-25"
    assert asked(mock, call(5, "b"), call(6, "add")) == [answer(5, "y"), answer(6, "x"), changed]


def test_ids_come_back_as_they_were_written():
    mock = Mock(recording_of((">", call(1, "a")), ("<", answer(1, "x"))))
    mock.receive(b'{"jsonrpc":"2.0","id":"\\u00e9 \\"","method":"tools/call","params":{"name":"a"}}')
    assert mock.out == [b'{"jsonrpc":"2.0","id":"\\u00e9 \\"","result":{"said": "x"}}']


def test_an_empty_batch_is_refused_with_one_error():
    """JR-13"""
    mock = Mock(recording_of((">", call(1, "a")), ("<", answer(1, "x"))))
    mock._revision = "2025-03-26"
    (said,) = asked(mock, [])
    assert (said["id"], said["error"]["code"]) == (None, -32600)


@pytest.mark.parametrize("id_", [7, "7"])
def test_a_cancelled_call_gets_no_response(id_):
    question = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
    mock = Mock(recording_of((">", call(1, "a")), ("<", question), ("<", answer(1, "x"))))
    mock._revision, mock._capabilities = "2025-11-25", {"roots": {}}
    (live,) = asked(mock, call(id_, "a"))
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}
    assert asked(mock, cancelled, {"jsonrpc": "2.0", "id": live["id"], "result": {}}) == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"name": "a", "arguments": {}}, {"name": "a"}, True),
        ({"name": "a", "arguments": None}, {"name": "a"}, True),
        ({"name": "a", "_meta": {"x": 1}}, {"name": "a", "requestState": "s", "inputResponses": {}}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": []}, {"a": {}}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"secret": "x", "b": {"secret": 1}}, {"secret": "y", "b": {"secret": 2}}, True),
    ],
)
def test_which_requests_have_equal_keys(one, other, same):
    assert (request_key("m", one, ("secret",)) == request_key("m", other, ("secret",))) is same


def test_the_nearest_is_the_one_with_the_same_name_and_most_of_the_arguments():
    recorded = [
        {"name": "b", "arguments": {"x": 1, "y": 2}},
        {"name": "a", "arguments": {"x": 9}},
        {"name": "a", "arguments": {"x": 1}},
    ]
    message, data = nearest_request("it", "tools/call", {"name": "a", "arguments": {"x": 1, "y": 2}, "_meta": {}}, recorded)
    assert data["nearest"] == recorded[2]
    assert message == 'it has no tools/call with these params; the nearest of 3 recorded has {"name": "a", "arguments": {"x": 1}}'


def test_without_common_members_the_nearest_has_a_similar_spelling():
    _, data = nearest_request("it", "tools/call", {"name": "list_file"}, [{"name": "add"}, {"name": "list_files"}, {"name": "zip"}])
    assert data["nearest"] == {"name": "list_files"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "s", "2026-07-28", "2025-11-25"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "_meta",
                    "name",
                    "requestState",
                    "inputResponses",
                    "notifications",
                    "progressToken",
                    "requestId",
                    "protocolVersion",
                    "capabilities",
                    revisions.META_VERSION,
                    revisions.META_CAPABILITIES,
                    "toolsListChanged",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
METHODS = st.sampled_from(
    ["initialize", "server/discover", "tools/call", "subscriptions/listen", "ping", "notifications/cancelled", "own/method"]
)
MESSAGES = st.fixed_dictionaries(
    {}, optional={"jsonrpc": st.just("2.0"), "id": JSON, "method": METHODS | JSON, "params": JSON, "result": JSON, "error": JSON}
)
RECORDED = [
    (">", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}),
    ("<", {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"}}}),
    (">", call(1, "a", _meta={"progressToken": 1})),
    ("<", {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}),
    ("<", {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}),
    ("<", {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
    ("<", answer(1, "x")),
]


@given(st.lists(MESSAGES | st.lists(MESSAGES, max_size=2) | JSON, max_size=6))
def test_any_input_leads_only_to_messages(messages):
    mock = Mock(recording_of(*RECORDED))
    for said in asked(mock, *messages):
        for each in said if isinstance(said, list) else [said]:
            assert each["jsonrpc"] == "2.0"
            assert "method" in each or "result" in each or "error" in each


@given(st.lists(st.tuples(st.sampled_from("<>"), MESSAGES | st.lists(MESSAGES, max_size=2) | JSON), max_size=8))
@example([(">", {"method": "initialize"}), ("<", {"method": []})])
@example([(">", {"method": "initialize"}), ("<", {"method": None})])
def test_any_recording_can_be_read(said):
    recording = recording_of(*said)
    recording.read_everything()
    mock = Mock(recording)
    for side, message in said:
        if side == ">":
            mock.receive(json.dumps(message).encode())


# Other revisions


def loads(text):
    return json.loads(bytes(text))


def test_a_legacy_result_becomes_a_modern_one_and_back():
    legacy = Raw(b'{"content":[{"type":"text","text":"x"}]}')
    modern = loads(adapted_result("tools/call", legacy, "2025-11-25", "2026-07-28", Raw(b'{"name":"s","version":"1"}')))
    assert modern["resultType"] == "complete"
    assert modern["_meta"] == {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}
    back = loads(adapted_result("tools/call", Raw(json.dumps(modern).encode()), "2026-07-28", "2025-11-25", None))
    assert back["content"] == [{"type": "text", "text": "x"}]
    assert "resultType" not in back


def test_a_result_of_a_custom_method_is_translated():
    assert loads(adapted_result("own/method", Raw(b'{"a":1}'), "2025-11-25", "2026-07-28", None)) == {
        "a": 1,
        "resultType": "complete",
    }
    assert loads(adapted_result("own/method", Raw(b'{"a":1,"resultType":"complete"}'), "2026-07-28", "2025-11-25", None)) == {
        "a": 1
    }
    assert adapted_result("tools/call", Raw(b"{}"), "1999-01-01", "2025-11-25", None) == Raw(b"{}")


def test_the_code_of_an_error_is_that_of_the_revision():
    missing = Raw(b'{"code":-32002,"message":"Resource not found","data":{"uri":"a:b"}}')
    assert loads(adapted_error("resources/read", missing, "2025-11-25", "2026-07-28"))["code"] == -32602
    assert adapted_error("resources/read", missing, "1999-01-01", "2026-07-28") == missing
