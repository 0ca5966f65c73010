"""Summaries of messages, whatever they contain."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._trace.conversation import RecordedConnection
from twopipes._trace.message import read_message
from twopipes._trace.summary import LONGEST, is_failure, summary_of

METHODS = [
    *("initialize", "tools/call", "prompts/get", "resources/read", "completion/complete", "sampling/createMessage", "tools/list"),
    *("notifications/progress", "notifications/message", "notifications/cancelled", "elicitation/create", "x"),
]


def message(**members):
    return line(json.dumps({"jsonrpc": "2.0", **members}).encode())


def line(data):
    return read_message(data, index=0, at=0.0, direction=">", connection=RecordedConnection(number=0, began=0.0), is_whole=True)


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("tools/call", {"name": "echo", "arguments": {"text": "hi", "n": 1}}, 'echo text="hi" n=1'),
        ("tools/call", {"name": "ask", "inputResponses": {"q": {"action": "accept"}}}, "ask (input: accept)"),
        ("resources/read", {"uri": "note://first"}, "note://first"),
        ("initialize", {"protocolVersion": "2025-11-25", "clientInfo": {"name": "host", "version": "2"}}, "2025-11-25 host 2"),
        ("tools/list", {"cursor": "abc"}, "the next page"),
        ("completion/complete", {"ref": {"name": "review"}, "argument": {"name": "language", "value": "py"}}, "review language py"),
        ("sampling/createMessage", {"messages": [{"content": {"type": "text", "text": "Why?"}}]}, "Why?"),
        ("notifications/progress", {"progress": 1, "total": 4, "message": "a quarter"}, "1 of 4 a quarter"),
        ("notifications/message", {"level": "info", "data": "up"}, "info up"),
        ("notifications/cancelled", {"requestId": 1, "reason": "too slow"}, "too slow"),
        ("notifications/cancelled", {"requestId": 1}, ""),
        ("own/method", {"_meta": {}, "a": [1]}, '{"a":[1]}'),
    ],
)
def test_the_summary_of_a_request_or_a_notification(method, params, said):
    assert summary_of(message(method=method, params=params)) == said


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"tools": [{}], "nextCursor": "x"}, "1 tool and more"),
        ({"prompts": [{}, {}]}, "2 prompts"),
        ({"content": [{"type": "text", "text": "hello"}]}, "hello"),
        ({"content": [{"type": "image"}, {"type": "text", "text": "hello"}]}, "hello (and 1 more)"),
        ({"content": []}, "no content"),
        ({"contents": [{"mimeType": "image/png", "blob": ""}]}, "image/png"),
        ({"messages": [{"role": "user", "content": {"type": "text", "text": "please"}}]}, "please"),
        ({"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"}}, "2025-11-25 s 1"),
        ({"supportedVersions": ["2026-07-28"]}, "supports 2026-07-28"),
        ({"resultType": "input_required", "inputRequests": {"q": {"params": {"message": "Who?"}}}}, "asks: Who?"),
        ({"resultType": "input_required"}, "asks for input"),
        ({"completion": {"values": ["a"]}}, "1 completion"),
        ({"action": "accept", "content": {"name": "Ada"}}, 'accept name="Ada"'),
        ({}, "empty"),
    ],
)
def test_the_summary_of_a_result(result, said):
    assert summary_of(message(id=1, result=result)) == said


def test_the_summary_of_an_error_has_its_code_and_message():
    assert summary_of(message(id=1, error={"code": -32601, "message": "no such method"})) == "-32601 no such method"


def test_a_tool_that_failed_is_a_failure_though_it_is_a_result():
    assert is_failure(message(id=1, result={"content": [], "isError": True}))
    assert not is_failure(message(id=1, result={"content": [], "isError": "yes"}))


def test_a_line_that_is_not_a_message_has_no_summary():
    assert summary_of(line(b"Loading...")) == ""
    assert summary_of(line(b"")) == "a blank line"
    assert summary_of(line(b"[]")) == "an empty batch"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("name", "uri", "arguments", "content", "contents", "messages", "text", "type", "params", "inputRequests"),
                    *("inputResponses", "resultType", "completion", "values", "ref", "argument", "clientInfo", "supportedVersions"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from(METHODS), VALUES, st.sampled_from(["params", "result", "error"]))
def test_any_message_can_be_summarised(method, value, member):
    said = summary_of(message(**{"id": 1, "method": method, "params": value} if member == "params" else {"id": 1, member: value}))
    assert len(said) <= LONGEST
