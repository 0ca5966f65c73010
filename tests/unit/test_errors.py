"""The tree of errors: who is under whom, what each one says, and that each survives a copy."""

import copy
import pickle

import pytest

from twopipes import errors
from twopipes.errors import (
    CapabilityMissing,
    ChannelBroken,
    ChannelClosed,
    ConnectionLost,
    InternalError,
    InvalidParams,
    InvalidRequest,
    ListenFailed,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    NotFound,
    OpeningFailed,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimedOut,
    ToolError,
    TwopipesError,
    UnsupportedRevision,
    UrlsRequired,
    UserRefused,
)

# Each error once, with what it says when it is printed.
SPOKEN = [
    (LocalProtocolError("ids must be unique"), "ids must be unique"),
    (RemoteProtocolError("a second answer"), "a second answer"),
    (RemoteProtocolError("not JSON", excerpt=b"\xffoops"), "not JSON: b'\\xffoops'"),
    (ChannelClosed(), "the channel was closed on this side"),
    (ChannelClosed("closed while reading"), "closed while reading"),
    (ChannelBroken("the pipe is broken"), "the pipe is broken"),
    (ListenFailed("the port is taken"), "the port is taken"),
    (ToolError("no such city"), "no such city"),
    (ConnectionLost("tools/call", 7), "the connection ended before tools/call (id 7) was answered"),
    (
        RequestTimedOut("tools/call", "7", waited=60.0123, limit="idle"),
        "tools/call (id '7') was not answered within its idle limit; given up after 60 s",
    ),
    (RequestCancelled("tools/call", 7), "tools/call (id 7) was cancelled"),
    (RequestCancelled("tools/call", 7, "user"), "tools/call (id 7) was cancelled: user"),
    (OpeningFailed("no revision in common"), "no revision in common"),
    (
        OpeningFailed("no revision in common", offered=["2099-01-01", "2098-01-01"]),
        "no revision in common (the server offers 2099-01-01, 2098-01-01)",
    ),
    (McpError("it broke"), "it broke (code -32603)"),
    (McpError("it broke", code=0, data=[1]), "it broke (code 0)"),
    (InvalidRequest("not now"), "not now (code -32600)"),
    (MethodNotFound("nope"), "nope (code -32601)"),
    (InvalidParams("no name"), "no name (code -32602)"),
    (InternalError("it broke"), "it broke (code -32603)"),
    (NotFound("tool", "echo"), "Unknown tool: echo (code -32602)"),
    (NotFound("resource", "file:///x", message="gone", code=-32002, data={"uri": "file:///x"}), "gone (code -32002)"),
    (
        CapabilityMissing({"sampling": {}, "elicitation": {}}),
        "This request needs a client that declares the capability elicitation, sampling (code -32021)",
    ),
    (CapabilityMissing({"roots": {}}, message="no roots"), "no roots (code -32021)"),
    (
        UnsupportedRevision("1900-01-01", ["2026-07-28"]),
        "Unsupported protocol version '1900-01-01'; supported: 2026-07-28 (code -32022)",
    ),
    (UrlsRequired([{"mode": "url"}]), "This request needs the user to visit a URL first (code -32042)"),
    (UserRefused("no"), "no (code -1)"),
]
each_error = pytest.mark.parametrize(("error", "sentence"), SPOKEN, ids=[type(error).__name__ for error, _ in SPOKEN])


@each_error
def test_an_error_phrases_itself(error, sentence):
    assert str(error) == sentence


@each_error
def test_an_error_survives_a_copy_and_a_trip_to_another_process(error, sentence):
    for twin in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert str(twin) == sentence
        assert twin.args == error.args
        assert vars(twin) == vars(error)


@each_error
def test_one_except_clause_catches_them_all(error, sentence):
    assert isinstance(error, TwopipesError)


def test_every_error_is_spoken_here():
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TwopipesError)}
    assert kinds - {type(error) for error, _ in SPOKEN} == {TwopipesError}
    assert {kind.__name__ for kind in kinds} | {"RequestId"} == set(errors.__all__)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("tools/call", 7),
        RequestTimedOut("tools/call", 7, waited=1.0, limit="total"),
        RequestCancelled("tools/call", 7),
        ChannelClosed(),
        ChannelBroken(),
        OpeningFailed("no"),
        LocalProtocolError("no"),
        RemoteProtocolError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_nobody_answered_does_not_look_like_an_answer(error):
    """ER-16."""
    assert not isinstance(error, McpError)
    assert not hasattr(error, "code")


def test_the_usual_except_clauses_of_python_work_too():
    timed_out = RequestTimedOut("tools/call", 7, waited=1.0, limit="total")
    assert isinstance(timed_out, TimeoutError)
    assert isinstance(ChannelBroken("gone"), ConnectionError)


def test_a_timeout_has_no_errno_for_it_was_no_call_to_the_system():
    timed_out = RequestTimedOut("tools/call", 7, waited=1.5, limit="total")
    assert timed_out.errno is None
    assert timed_out.filename is None
    assert timed_out.args == ("tools/call", 7, 1.5, "total")
    assert (timed_out.method, timed_out.request_id, timed_out.waited, timed_out.limit) == ("tools/call", 7, 1.5, "total")


def test_an_error_answer_keeps_code_message_and_data():
    """JR-08."""
    error = McpError("no", code=-5, data={"a": None})
    assert (error.message, error.code, error.data) == ("no", -5, {"a": None})


def test_zero_is_a_code():
    """JR-08."""
    assert McpError("no", code=0).code == 0


def test_not_found_tells_of_what():
    error = NotFound("resource", "file:///x")
    assert (error.kind, error.name, error.code, error.data) == ("resource", "file:///x", -32602, None)


def test_a_missing_capability_is_named_as_an_object():
    """ER-10."""
    error = CapabilityMissing({"elicitation": {"url": {}}})
    assert error.code == -32021
    assert error.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert error.required == {"elicitation": {"url": {}}}


def test_an_unsupported_revision_comes_with_the_supported_ones():
    """ER-09."""
    error = UnsupportedRevision("1900-01-01", ("2026-07-28", "2025-11-25"))
    assert error.code == -32022
    assert error.data == {"supported": ["2026-07-28", "2025-11-25"], "requested": "1900-01-01"}
    assert (error.requested, error.supported) == ("1900-01-01", ("2026-07-28", "2025-11-25"))


def test_urls_to_visit_travel_in_the_data():
    """ER-11."""
    question = {"mode": "url", "elicitationId": "1", "url": "https://example.com", "message": "please"}
    assert UrlsRequired([question]).data == {"elicitations": [question]}
    assert UrlsRequired([question]).code == -32042
