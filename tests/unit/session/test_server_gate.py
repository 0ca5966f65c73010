"""Validation of requests on the server, and the errors of invalid ones."""

import pytest

from sessions import (
    ABLE,
    CAPABILITIES,
    LOG_LEVEL,
    VERSION,
    answer,
    asks,
    code,
    feed,
    initialize,
    modern,
    note,
    opened_server,
    request,
    said,
    server_session,
)
from twopipes._protocol import types
from twopipes._protocol.revisions import ALL, LATEST_LEGACY, LEGACY, MODERN
from twopipes._session.eras import SERVER_MOVES, Kind, Phase
from twopipes._session.events import CallReceived, ServerOpened
from twopipes.settings import Limits

ERAS = {"both": ALL, "legacy": LEGACY, "modern": MODERN}
BY_KIND = {
    Kind.MODERN: modern(1, "tools/list"),
    Kind.INITIALIZE: initialize(1),
    Kind.PING: request(1, "ping"),
    Kind.PLAIN: request(1, "tools/list"),
}
# What a server with these eras, in this phase, does with a request of this kind: it serves the request in an era, opens a session,
# responds to the ping, or refuses the request with a code.
OUTCOMES = [
    ("both", Phase.FRESH, Kind.MODERN, "modern call"),
    ("both", Phase.FRESH, Kind.INITIALIZE, "session"),
    ("both", Phase.FRESH, Kind.PING, "pong"),
    ("both", Phase.FRESH, Kind.PLAIN, -32602),
    ("both", Phase.OPENING, Kind.MODERN, "modern call"),
    ("both", Phase.OPENING, Kind.INITIALIZE, -32600),
    ("both", Phase.OPENING, Kind.PING, "pong"),
    ("both", Phase.OPENING, Kind.PLAIN, "legacy call"),
    ("both", Phase.OPEN, Kind.MODERN, "modern call"),
    ("both", Phase.OPEN, Kind.INITIALIZE, -32600),
    ("both", Phase.OPEN, Kind.PING, "pong"),
    ("both", Phase.OPEN, Kind.PLAIN, "legacy call"),
    ("legacy", Phase.FRESH, Kind.MODERN, -32600),
    ("legacy", Phase.FRESH, Kind.INITIALIZE, "session"),
    ("legacy", Phase.FRESH, Kind.PING, "pong"),
    ("legacy", Phase.FRESH, Kind.PLAIN, -32600),
    ("legacy", Phase.OPENING, Kind.MODERN, "legacy call"),
    ("legacy", Phase.OPENING, Kind.INITIALIZE, -32600),
    ("legacy", Phase.OPENING, Kind.PING, "pong"),
    ("legacy", Phase.OPENING, Kind.PLAIN, "legacy call"),
    ("legacy", Phase.OPEN, Kind.MODERN, "legacy call"),
    ("legacy", Phase.OPEN, Kind.INITIALIZE, -32600),
    ("legacy", Phase.OPEN, Kind.PING, "pong"),
    ("legacy", Phase.OPEN, Kind.PLAIN, "legacy call"),
    ("modern", Phase.FRESH, Kind.MODERN, "modern call"),
    ("modern", Phase.FRESH, Kind.INITIALIZE, -32022),
    ("modern", Phase.FRESH, Kind.PING, -32602),
    ("modern", Phase.FRESH, Kind.PLAIN, -32602),
]


def refused(session, message):
    """Return the error code of a rejected request; nothing else happens."""
    assert feed(session, message) == []
    (line,) = said(session)
    assert line["id"] == message["id"]
    return code(line)


# The table, row by row


def test_every_row_of_the_table_has_an_outcome():
    assert [(eras, phase, kind) for eras, phase, kind, _ in OUTCOMES] == list(SERVER_MOVES)


@pytest.mark.parametrize(("eras", "phase", "kind", "outcome"), OUTCOMES)
def test_the_era_the_phase_and_the_kind_of_a_request_decide_its_outcome(eras, phase, kind, outcome):
    """VN-07, DE-09, DE-10, DE-11, DE-12, DE-13, LC-05, LC-14, LC-15, PI-02, PI-04."""
    session = server_session(revisions=ERAS[eras])
    if phase is not Phase.FRESH:
        feed(session, initialize(0))
    if phase is Phase.OPEN:
        feed(session, note("notifications/initialized"))
    assert session.phase is phase
    said(session)
    events = feed(session, BY_KIND[kind])
    lines = said(session)
    if outcome in {"legacy call", "modern call"}:
        (event,) = events
        assert isinstance(event, CallReceived)
        assert event.call.dialect.modern is (outcome == "modern call")
        assert lines == []
        return
    assert events == []
    (line,) = lines
    if outcome == "pong":
        assert line == answer(1)
    elif outcome == "session":
        assert line["result"]["protocolVersion"] == LATEST_LEGACY
    else:
        assert code(line) == outcome


# The handshake


@pytest.mark.parametrize("revision", LEGACY)
def test_a_version_that_is_spoken_is_echoed(revision):
    """LC-03, LC-08, DE-11."""
    session = server_session(instructions="Be kind.")
    feed(session, initialize(7, revision=revision))
    (line,) = said(session)
    result = line["result"]
    assert line["id"] == 7
    assert (result["protocolVersion"], result["serverInfo"], result["instructions"]) == (
        revision,
        {"name": "s", "version": "1"},
        "Be kind.",
    )
    assert ("completions" in result["capabilities"]) is (revision > "2024-11-05")
    call = asks(session, request(8, "tools/list"))
    assert call.dialect.revision == revision


@pytest.mark.parametrize("revision", ["1900-01-01", "2099-01-01", "2026-07-28", ""])
def test_any_other_version_is_answered_with_the_newest_legacy_one(revision):
    """LC-09, LC-16, CON-08."""
    session = server_session(revisions=("2026-07-28", "2025-03-26", "2025-06-18"))
    feed(session, initialize(revision=revision))
    assert said(session)[0]["result"]["protocolVersion"] == "2025-06-18"


@pytest.mark.parametrize("missing", ["protocolVersion", "clientInfo"])
def test_a_handshake_without_version_or_name_is_refused_and_can_be_tried_again(missing):
    """LC-02, CON-08."""
    session = server_session()
    message = initialize(1)
    del message["params"][missing]
    assert refused(session, message) == -32602
    assert session.phase is Phase.FRESH
    feed(session, initialize(2))
    assert "result" in said(session)[0]


def test_a_handshake_without_capabilities_counts_as_one_with_none():
    """LC-02."""
    session = server_session()
    message = initialize(1)
    del message["params"]["capabilities"]
    feed(session, message)
    assert "result" in said(session)[0]
    assert asks(session, request(2, "tools/list")).capabilities == types.ClientCapabilities()


def test_a_second_initialize_disturbs_nothing():
    """LC-15."""
    session = opened_server("2025-03-26")
    assert refused(session, initialize(5, revision="2025-11-25")) == -32600
    assert asks(session, request(6, "tools/list")).dialect.revision == "2025-03-26"


def test_the_session_opens_when_the_client_says_so_and_once():
    """LC-04."""
    session = server_session()
    assert feed(session, note("notifications/initialized")) == []
    feed(session, initialize(revision="2025-06-18", capabilities={"roots": {}}))
    (event,) = feed(session, note("notifications/initialized"), note("notifications/initialized"))
    assert event == ServerOpened("2025-06-18", types.Implementation("c", "1"), types.ClientCapabilities(roots={}))


def test_a_legacy_call_has_what_the_handshake_said():
    """DE-11."""
    session = opened_server(client={"sampling": {}})
    call = asks(session, request(1, "tools/call", name="x", _meta={"progressToken": 0}))
    assert call.capabilities == types.ClientCapabilities(sampling={})
    assert call.client_info == types.Implementation("c", "1")
    assert call.progress_token == 0
    assert call.batch is None


# Modern requests


@pytest.mark.parametrize(
    "meta",
    [
        {VERSION: "2026-07-28"},
        {CAPABILITIES: {}},
        {VERSION: 20260728, CAPABILITIES: {}},
        {VERSION: None, CAPABILITIES: {}},
        {VERSION: "2026-07-28", CAPABILITIES: []},
        {VERSION: "2026-07-28", CAPABILITIES: None},
        {VERSION: "2026-07-28", CAPABILITIES: {"roots": 5}},
        {},
    ],
)
def test_a_modern_request_brings_both_keys_itself(meta):
    """VN-02, ST-01: nothing falls back to an earlier request."""
    session = server_session()
    asks(session, modern(1, "tools/list"))
    assert refused(session, request(2, "tools/list", _meta=meta)) == -32602


@pytest.mark.parametrize("params", [{}, {"_meta": None}])
def test_a_request_without_meta_and_without_a_session_is_refused(params):
    """DE-13, VN-02."""
    session = server_session()
    assert refused(session, request(1, "tools/call", name="echo", **params)) == -32602
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
    assert refused(session, message) == -32602


@pytest.mark.parametrize("method", ["server/discover", "tools/list", "subscriptions/listen", "nope", "initialize"])
@pytest.mark.parametrize("version", ["2099-01-01", "2025-11-25", "", "2026-07-28 "])
def test_a_version_that_is_not_served_is_refused_whatever_the_method(method, version):
    """VN-04, DE-14, ER-09."""
    session = server_session()
    assert feed(session, modern(1, method, meta={VERSION: version}, notifications={})) == []
    (line,) = said(session)
    assert code(line) == -32022
    assert line["error"]["data"] == {"supported": sorted(ALL, reverse=True), "requested": version}


def test_versions_and_capabilities_are_judged_request_by_request():
    """VN-13, ST-01."""
    session = server_session()
    for number in range(3):
        assert asks(session, modern(f"a{number}", "tools/list", can={"roots": {}})).capabilities.allows("roots")
        assert refused(session, modern(f"b{number}", "tools/list", meta={VERSION: "2099-01-01"})) == -32022
        assert not asks(session, modern(f"c{number}", "tools/list")).capabilities.allows("roots")


@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/list",
        "tasks/get",
        "roots/list",
    ],
)
def test_removed_methods_do_not_exist_on_the_stateless_wire(method):
    """VN-12, PI-04, LG-09."""
    assert refused(server_session(), modern(1, method)) == -32601


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen", "tasks/get", "nope", "roots/list"])
def test_what_a_legacy_revision_does_not_have_does_not_exist_there(method):
    """LC-11, ER-03."""
    assert refused(opened_server(), request(1, method, notifications={})) == -32601


@pytest.mark.parametrize("method", ["prompts/list", "prompts/get", "resources/list", "resources/read", "completion/complete"])
def test_methods_of_what_was_not_declared_do_not_exist(method):
    """ER-03, ER-17: even before their params are checked."""
    assert refused(server_session(capabilities={"tools": {}}), modern(1, method)) == -32601
    assert refused(opened_server(capabilities={"tools": {}}), request(1, method)) == -32601


def test_a_legacy_subscription_needs_its_own_capability():
    assert refused(opened_server(capabilities={"resources": {}}), request(1, "resources/subscribe", uri="x:")) == -32601


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        # shape before _meta before version before method before params
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}, -32600),
        (request(1, "nope", _meta={VERSION: "2099-01-01"}), -32602),
        (modern(1, "nope", meta={VERSION: "2099-01-01"}), -32022),
        (modern(1, "prompts/get", meta={VERSION: "2099-01-01"}), -32022),
        (modern(1, "nope", meta={LOG_LEVEL: "loud"}), -32601),
        (modern(1, "tools/call", meta={LOG_LEVEL: "loud"}), -32602),
        (modern(1, "tools/call"), -32602),
        (modern(1, "tools/call", name=5, can={"roots": 5}), -32602),
    ],
)
def test_of_two_faults_the_first_check_is_reported(message, expected):
    """ER-17, CON-18."""
    session = server_session(capabilities={"tools": {}})
    feed(session, message)
    (line,) = said(session)
    assert (line["id"], code(line)) == (1, expected)


@pytest.mark.parametrize("level", ["loud", "", 5, None, {}])
def test_a_log_level_is_known_or_refused(level):
    """LG-08."""
    session = server_session()
    message = modern(1, "tools/list", meta={LOG_LEVEL: level})
    if level is None:
        assert asks(session, message).log_level is None
    else:
        assert refused(session, message) == -32602


@pytest.mark.parametrize("info", [None, 5, {}, {"name": "c"}, {"name": "c", "version": "1"}])
def test_client_info_has_no_effect(info):
    """VN-03, VN-14, MT-06."""
    session = server_session()
    call = asks(session, modern(1, "tools/list", meta={"io.modelcontextprotocol/clientInfo": info, "traceparent": "junk"}))
    assert call.client_info == (types.Implementation("c", "1") if info == {"name": "c", "version": "1"} else None)


def test_unknown_members_are_ignored():
    """JR-18, CP-09, MT-04."""
    session = server_session()
    meta = {"io.modelcontextprotocol/future": [1]}
    call = asks(session, modern(1, "tools/call", name="x", zz=1, can={"x-unknown": {}}, meta=meta))
    assert call.params.name == "x"


def test_params_nested_out_of_reach_are_refused():
    session = server_session()
    deep = b"[" * 3000 + b"]" * 3000
    session.receive(b'{"jsonrpc":"2.0","id":1,"method":"nope","params":{"_meta":' + deep + b"}}\n", now=0.0)
    assert "error" in said(session)[0]


@pytest.mark.parametrize("depth", range(930, 1000))
@pytest.mark.parametrize("method", ["tools/call", "nope"])
def test_no_depth_of_nesting_raises(depth, method):
    """JR-20."""
    session = server_session()
    deep = b"[" * depth + b"]" * depth
    keys = b'"%s":"2026-07-28","%s":{"experimental":{"a":%s}}' % (VERSION.encode(), CAPABILITIES.encode(), deep)
    params = b'{"name":"a","arguments":{"a":%s},"requestState":"a.b.c","_meta":{%s}}' % (deep, keys)
    session.receive(b'{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}\n' % (method.encode(), params), now=0.0)
    assert "error" in said(session)[0]


def test_malformed_meta_counts_as_missing():
    session = server_session()
    assert refused(session, request(1, "nope", _meta=5)) == -32602
    assert refused(opened_server(), request(1, "nope", _meta=5)) == -32601


# Ids


def test_an_id_in_flight_is_refused_without_an_id_and_the_first_is_answered_once():
    """JR-05."""
    for session, message in ((server_session(), modern(1, "tools/list")), (opened_server(), request(1, "tools/list"))):
        call = asks(session, message)
        assert feed(session, message) == []
        (line,) = said(session)
        assert "id" not in line
        assert code(line) == -32600
        assert session.respond(call, types.ListToolsResult([]))
        assert [each["id"] for each in said(session)] == [1]


def test_a_duplicate_of_any_kind_does_not_carry_the_open_id():
    session = opened_server("2025-06-18")
    asks(session, request(1, "tools/list"))
    for message in (request(1, "ping"), initialize(1), modern(1, "nope"), {"jsonrpc": "2.0", "id": 1}):
        feed(session, message)
        (line,) = said(session)
        assert line["id"] is None
        assert code(line) == -32600


def test_an_id_is_free_again_once_it_is_answered_and_types_are_distinguished():
    """JR-05, JR-06."""
    session = server_session()
    first, second = asks(session, modern(1, "tools/list")), asks(session, modern("1", "tools/list"))
    session.respond(second, types.ListToolsResult([]))
    session.respond(first, types.ListToolsResult([]))
    assert [line["id"] for line in said(session)] == ["1", 1]
    assert asks(session, modern(1, "tools/list")).id == 1


def test_more_requests_than_this_side_holds_are_refused_with_their_ids():
    session = server_session(limits=Limits(max_in_flight=2))
    calls = [asks(session, modern(number, "tools/list")) for number in (1, 2)]
    assert refused(session, modern(3, "tools/list")) == -32600
    session.respond(calls[0], types.ListToolsResult([]))
    asks(session, modern(3, "tools/list"))


# Both eras at once


def test_both_eras_run_on_one_connection_each_in_its_own_dialect():
    """DE-10, DE-12."""
    session = opened_server("2025-06-18", client=ABLE)
    old, new = asks(session, request(1, "tools/list")), asks(session, modern(2, "tools/list"))
    assert old.capabilities.allows("roots")
    assert not new.capabilities.allows("roots")
    session.respond(new, types.ListToolsResult([]))
    session.respond(old, types.ListToolsResult([]))
    modern_line, legacy_line = said(session)
    assert modern_line["result"]["resultType"] == "complete"
    assert legacy_line == answer(1, tools=[])
    assert refused(session, modern(3, "nope")) == refused(session, request(4, "nope")) == -32601


def test_a_legacy_server_reads_no_modern_meta():
    session = opened_server(revisions=LEGACY)
    call = asks(session, modern(1, "tools/list", can={"roots": {}}, meta={LOG_LEVEL: "loud"}))
    assert not call.dialect.modern
    assert call.capabilities == types.ClientCapabilities(**ABLE)
