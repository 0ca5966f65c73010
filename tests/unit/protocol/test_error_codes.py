"""Errors on the wire, by revision, in both directions."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from twopipes._jsonrpc import ErrorObject
from twopipes._protocol.dialect import dialect
from twopipes._protocol.revisions import ALL, LATEST_MODERN, LEGACY
from twopipes.errors import (
    CapabilityMissing,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    NotFound,
    UnsupportedRevision,
    UrlsRequired,
    UserRefused,
)

MODERN_DIALECT = dialect(LATEST_MODERN)
URLS = [{"mode": "url", "elicitationId": "e", "url": "https://a.test", "message": "m"}]
NEEDS = {"elicitation": {"url": {}}}

# error: the code in each revision, oldest first
CODES = [
    (NotFound("resource", "a:b"), (-32002, -32002, -32002, -32002, -32602)),  # ER-12, ER-13
    (NotFound("resource", "a:b", code=-32002), (-32002, -32002, -32002, -32002, -32602)),  # ER-08
    (NotFound("resource", "a:b", code=404), (404,) * 5),
    (NotFound("tool", "x"), (-32602,) * 5),  # ER-04
    (NotFound("prompt", "x"), (-32602,) * 5),  # ER-04
    (UrlsRequired(URLS), (-32600, -32600, -32600, -32042, -32600)),  # ER-08, ER-11
    (CapabilityMissing(NEEDS), (-32600, -32600, -32600, -32600, -32021)),  # ER-10
    (UnsupportedRevision("1900-01-01", ALL), (-32602, -32602, -32602, -32602, -32022)),  # ER-09
    (UserRefused("no"), (-1, -1, -1, -1, -32603)),  # ER-15
    (InvalidRequest("x"), (-32600,) * 5),  # ER-02
    (MethodNotFound("x"), (-32601,) * 5),  # ER-03
    (InvalidParams("x"), (-32602,) * 5),  # ER-04
    (InternalError("x"), (-32603,) * 5),  # ER-05
    (McpError("x", code=-32700), (-32700,) * 5),  # ER-01
    (McpError("own", code=4711), (4711,) * 5),
    (McpError("own", code=-1), (-1,) * 5),
    (McpError("own", code=-31999), (-31999,) * 5),
    (McpError("own", code=-32769), (-32769,) * 5),
    (McpError("own", code=-32001), (-32001,) * 4 + (-32603,)),  # ER-07
    (McpError("own", code=-32500), (-32500,) * 4 + (-32603,)),  # ER-07
    (McpError("own", code=-32050), (-32050,) * 4 + (-32603,)),  # ER-06
    (McpError("header", code=-32020), (-32603,) * 5),  # ER-06
    (McpError("gone", code=-32002), (-32002,) * 4 + (-32602,)),  # ER-08
    (McpError("no data", code=-32042), (-32600,) * 5),  # ER-11
    (McpError("no data", code=-32021), (-32600,) * 5),  # ER-10
    (McpError("no data", code=-32022, data={"supported": []}), (-32602,) * 5),  # ER-09
    (McpError("data", code=-32042, data={"elicitations": URLS}), (-32600, -32600, -32600, -32042, -32600)),
    (McpError("data", code=-32021, data={"requiredCapabilities": NEEDS}), (-32600,) * 4 + (-32021,)),
]


@pytest.mark.parametrize(("error", "codes"), CODES, ids=lambda case: type(case).__name__)
def test_an_error_has_the_code_of_the_revision(error, codes):
    """ER-01 to ER-13, ER-15."""
    for revision, code in zip(ALL, codes, strict=True):
        written = dialect(revision).write_error(error)
        assert (written.code, written.message) == (code, error.message), revision


@pytest.mark.parametrize("revision", ALL)
def test_a_missing_resource_names_its_uri(revision):
    """ER-12, ER-13."""
    assert dialect(revision).write_error(NotFound("resource", "a:b")).data == {"uri": "a:b"}
    assert dialect(revision).write_error(NotFound("resource", "a:b", data={"why": "x"})).data == {"why": "x"}
    assert dialect(revision).write_error(NotFound("tool", "x")).data is UNSET


def test_a_code_is_sent_only_with_its_data():
    """ER-09, ER-10, ER-11."""
    assert MODERN_DIALECT.write_error(CapabilityMissing(NEEDS)).data == {"requiredCapabilities": NEEDS}
    refused = MODERN_DIALECT.write_error(UnsupportedRevision("1900-01-01", ["2026-07-28"]))
    assert refused.data == {"supported": ["2026-07-28"], "requested": "1900-01-01"}
    assert dialect("2025-11-25").write_error(UrlsRequired(URLS)).data == {"elicitations": URLS}


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    "error", [ValueError("/home/me/secret"), KeyError("password"), LocalProtocolError("inside"), KeyboardInterrupt("x")]
)
def test_other_exceptions_leak_nothing(error, revision):
    """ER-05, LG-10."""
    assert dialect(revision).write_error(error) == ErrorObject(-32603, "Internal error")


ENDLESS: list = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize("data", [object(), {"a": object()}, {1.5j}, "\ud800", ENDLESS], ids=type)
def test_data_that_cannot_be_written_is_left_out(data):
    written = MODERN_DIALECT.write_error(McpError("broken", code=5, data=data))
    assert written == ErrorObject(5, "broken")


def test_a_message_that_utf8_cannot_represent_is_repaired():
    assert MODERN_DIALECT.write_error(McpError("a\ud800b")).message == "a?b"


# Received

READ = [
    (ErrorObject(-32600, "m"), "tools/list", InvalidRequest("m")),
    (ErrorObject(-32601, "m"), "tools/list", MethodNotFound("m")),
    (ErrorObject(-32602, "m"), "tools/list", InvalidParams("m")),
    (ErrorObject(-32603, "m", {"a": 1}), "tools/list", InternalError("m", data={"a": 1})),
    (ErrorObject(-32700, "m"), "tools/list", McpError("m", code=-32700)),
    # ER-12, ER-13, ER-14
    (ErrorObject(-32002, "m", {"uri": "a:b"}), "resources/read", NotFound("resource", "a:b", message="m", code=-32002)),
    (ErrorObject(-32002, "m"), "resources/read", NotFound("resource", "", message="m", code=-32002)),
    (ErrorObject(-32602, "m", {"uri": "a:b"}), "resources/read", NotFound("resource", "a:b", message="m", code=-32602)),
    (ErrorObject(-32602, "m", {"uri": "a:b"}), "tools/call", InvalidParams("m", data={"uri": "a:b"})),
    (ErrorObject(-32602, "m", {"uri": 5}), "resources/read", InvalidParams("m", data={"uri": 5})),
    # ER-09, ER-10, CON-17
    (ErrorObject(-32021, "m", {"requiredCapabilities": NEEDS}), "tools/call", CapabilityMissing(NEEDS, message="m")),
    (ErrorObject(-32021, "m", {"requiredCapabilities": ["x"]}), "tools/call", McpError("m", code=-32021)),
    (ErrorObject(-32021, "m"), "tools/call", McpError("m", code=-32021)),
    (
        ErrorObject(-32022, "m", {"supported": ["x"], "requested": "y"}),
        "server/discover",
        UnsupportedRevision("y", ["x"], message="m"),
    ),
    (ErrorObject(-32022, "m", {"supported": ["x"]}), "server/discover", UnsupportedRevision("", ["x"], message="m")),
    (ErrorObject(-32022, "m", {"supported": "x"}), "server/discover", McpError("m", code=-32022)),
    (ErrorObject(-32022, "m", {"supported": [1]}), "server/discover", McpError("m", code=-32022)),
    # ER-07
    (ErrorObject(-32001, "m"), "tools/call", McpError("m", code=-32001)),
    (ErrorObject(42, "m", [1]), "tools/call", McpError("m", code=42, data=[1])),
    # ER-15
    (ErrorObject(-1, "m"), "sampling/createMessage", UserRefused("m")),
    (ErrorObject(-1, "m"), "tools/call", McpError("m", code=-1)),
]


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(("received", "method", "expected"), READ)
def test_a_received_error_becomes_its_exception(received, method, expected, revision):
    """ER-03, ER-04, ER-07, ER-09, ER-10, ER-12 to ER-15."""
    error = dialect(revision).read_error(received, method=method)
    assert type(error) is type(expected)
    assert (error.message, error.code) == ("m", received.code)
    assert error.data == (None if received.data is UNSET else received.data)
    for name in ("kind", "name", "required", "requested", "supported"):
        assert getattr(error, name, None) == getattr(expected, name, None)


@pytest.mark.parametrize("revision", ALL)
def test_required_urls_are_recognised_in_one_revision(revision):
    """ER-08, ER-11."""
    error = dialect(revision).read_error(ErrorObject(-32042, "m", {"elicitations": URLS}), method="tools/call")
    assert isinstance(error, UrlsRequired) is (revision == "2025-11-25")
    assert (error.code, error.data) == (-32042, {"elicitations": URLS})


def test_required_urls_with_invalid_data_are_a_plain_error():
    for data in (None, {"elicitations": 5}, {"elicitations": [5]}):
        error = dialect("2025-11-25").read_error(ErrorObject(-32042, "m", data), method="tools/call")
        assert type(error) is McpError


@pytest.mark.parametrize("revision", LEGACY)
def test_a_legacy_error_survives_a_round_trip(revision):
    for error in (NotFound("resource", "a:b"), MethodNotFound("x"), InvalidParams("x", data=[1]), McpError("x", code=7)):
        back = dialect(revision).read_error(dialect(revision).write_error(error), method="resources/read")
        assert type(back) is type(error)
        assert back.message == error.message
