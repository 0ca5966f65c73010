"""A session with delegates=True: protocol requests become events and are handled when the driver calls perform()."""

import pytest

from sessions import (
    DONE,
    EVERYTHING,
    FORM,
    KEY,
    TAG,
    asks,
    cancelled,
    code,
    feed,
    initialize,
    modern,
    note,
    request,
    said,
    server_session,
)
from twopipes import Limits, McpError
from twopipes._protocol import types
from twopipes._session.eras import Phase
from twopipes._session.events import CallCancelled, CallReceived, ServerOpened, SessionCallReceived
from twopipes._session.identity import ServerProfile
from twopipes._session.server import ServerSession
from twopipes._session.state_token import StateSealer
from twopipes._session.subscriptions import Change
from twopipes.errors import LocalProtocolError

OPENED = note("notifications/initialized")
OWN = [
    ("initialize", {}),
    ("ping", {}),
    ("logging/setLevel", {"level": "error"}),
    ("resources/subscribe", {"uri": "file:///a"}),
    ("resources/unsubscribe", {"uri": "file:///a"}),
]


def delegating(**options) -> ServerSession:
    limits = options.pop("limits", None)
    profile = ServerProfile(
        info=types.Implementation("s", "1"), capabilities=types.ServerCapabilities(**EVERYTHING), instructions="Be kind", **options
    )
    return ServerSession(profile, limits=limits, sealer=StateSealer(KEY), delegates=True)


def opened() -> ServerSession:
    session = delegating()
    call = asks(session, initialize())
    session.respond(call, session.perform(call))
    feed(session, OPENED)
    said(session)
    return session


def message(method, params):
    return initialize(1) if method == "initialize" else request(1, method, **params)


def listen(request_id, **wanted):
    return modern(request_id, "subscriptions/listen", notifications=wanted)


@pytest.mark.parametrize(("method", "params"), OWN)
def test_a_delegated_call_gets_the_same_response(method, params):
    """LC-08, PI-01, LG-03, RS-03: delegation alone changes nothing."""
    alone, session = server_session(instructions="Be kind"), delegating()
    if method != "initialize":
        for each in (alone, session):
            for event in feed(each, initialize(), OPENED):
                if isinstance(event, SessionCallReceived):
                    each.respond(event.call, each.perform(event.call))
            said(each)
    feed(alone, message(method, params))
    (event,) = feed(session, message(method, params))
    assert isinstance(event, SessionCallReceived)
    assert event.call.method == method
    assert said(session) == []
    assert session.respond(event.call, session.perform(event.call))
    assert said(session) == said(alone)


def test_discovery_comes_out_too():
    alone, session = server_session(instructions="Be kind"), delegating()
    feed(alone, modern("d", "server/discover"))
    call = asks(session, modern("d", "server/discover"))
    session.respond(call, session.perform(call))
    assert said(session) == said(alone)


def test_a_ping_before_the_handshake_comes_out_with_params_whatever_it_carried():
    """PI-02."""
    session = delegating()
    for number, params in enumerate(({}, {"_meta": 7})):
        call = asks(session, request(number, "ping", **params))
        assert call.params.meta is None
        session.respond(call, session.perform(call))
        assert said(session) == [{"jsonrpc": "2.0", "id": number, "result": {}}]


def test_what_comes_in_the_same_read_as_the_handshake_belongs_to_its_session():
    session = delegating()
    events = feed(session, initialize(), OPENED, request(1, "tools/list"), request(2, "ping"))
    assert [type(event) for event in events] == [SessionCallReceived, ServerOpened, CallReceived, SessionCallReceived]
    assert session.phase is Phase.OPEN
    assert events[0].call.client_info.name == "c"


def test_a_refused_handshake_leaves_no_session():
    session = delegating()
    session.fail(asks(session, initialize(1)), McpError("not you", code=-31000))
    assert [code(line) for line in said(session)] == [-31000]
    assert session.phase is Phase.FRESH
    assert session.session_dialect is None
    feed(session, request(2, "tools/list"))
    assert [code(line) for line in said(session)] == [-32602]
    again = asks(session, initialize(3))
    session.respond(again, session.perform(again))
    assert [line["id"] for line in said(session)] == [3]


def test_a_handshake_is_not_cancelled():
    """LC-12."""
    session = delegating()
    call = asks(session, initialize(1))
    assert feed(session, cancelled(1)) == []
    assert session.respond(call, session.perform(call))
    assert len(said(session)) == 1


def test_a_handshake_cannot_ask():
    """LC-06: the client answers only after it has the response to initialize."""
    session = delegating()
    call = asks(session, initialize(1, capabilities={"elicitation": {}}))
    with pytest.raises(LocalProtocolError, match="initialize must not ask"):
        session.ask(call, {"name": FORM}, now=0.0)


def test_what_is_refused_was_not_done():
    session = opened()
    for number, (method, params) in enumerate(OWN[2:4]):
        session.fail(asks(session, request(number, method, **params)), McpError("no", code=-31000))
    assert session.log_level == "info"
    session.announce(Change("resource", "file:///a"))
    assert [code(line) for line in said(session)] == [-31000, -31000]


def test_a_call_that_was_cancelled_gets_no_answer_and_nothing_is_done():
    """CA-04."""
    session = opened()
    call = asks(session, request(1, "logging/setLevel", level="error"))
    assert [type(event) for event in feed(session, cancelled(1))] == [CallCancelled]
    with pytest.raises(LocalProtocolError, match="has ended"):
        session.perform(call)
    assert session.log_level == "info"
    assert not session.respond(call, types.EmptyResult())
    assert said(session) == []


def test_the_session_does_not_handle_methods_of_handlers():
    session = opened()
    call = asks(session, request(1, "tools/list"))
    with pytest.raises(LocalProtocolError, match="the session does not handle tools/list"):
        session.perform(call)


def test_too_many_open_calls_are_refused_here_as_everywhere():
    session = delegating(limits=Limits(max_in_flight=1))
    asks(session, modern(1, "tools/call", name="x"))
    assert feed(session, initialize(2)) == []
    assert [code(line) for line in said(session)] == [-32600]
    assert session.phase is Phase.FRESH


def test_a_batch_waits_for_delegated_responses():
    """JR-13."""
    session = delegating()
    call = asks(session, initialize(0, revision="2025-03-26"))
    session.respond(call, session.perform(call))
    said(session)
    first, second = feed(session, [request(1, "ping"), request(2, "tools/call", name="x")])
    session.respond(second.call, DONE)
    assert said(session) == []
    session.respond(first.call, session.perform(first.call))
    ((one, other),) = said(session)
    assert {one["id"], other["id"]} == {1, 2}


# Subscriptions


def test_a_listen_is_acknowledged_when_it_is_opened_and_not_before():
    """SU-02."""
    session = delegating()
    call = asks(session, listen(1, toolsListChanged=True))
    session.announce(Change("tools"))
    assert said(session) == []
    session.listen(call)
    session.announce(Change("tools"))
    assert [line["method"] for line in said(session)] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    ]


def test_a_listen_that_is_refused_is_never_acknowledged():
    session = delegating()
    session.fail(asks(session, listen(1, toolsListChanged=True)), McpError("no", code=-31000))
    session.announce(Change("tools"))
    assert [code(line) for line in said(session)] == [-31000]


def test_a_listen_too_many_is_an_error_for_its_opener():
    """SU-18."""
    session = delegating(limits=Limits(max_listens=0))
    call = asks(session, listen(1))
    with pytest.raises(McpError, match="subscriptions are open already"):
        session.listen(call)
    assert said(session) == []


def test_a_listen_is_opened_once():
    session = delegating()
    call = asks(session, listen(1))
    session.listen(call)
    with pytest.raises(LocalProtocolError, match="opens one subscription"):
        session.listen(call)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_cancelled_listen_is_reported_and_sends_nothing_more(is_open):
    """SU-11: opened or not."""
    session = delegating()
    call = asks(session, listen(1, toolsListChanged=True))
    if is_open:
        session.listen(call)
    said(session)
    (event,) = feed(session, cancelled(1))
    assert event == CallCancelled(call)
    session.announce(Change("tools"))
    session.end_listen(call)
    with pytest.raises(LocalProtocolError, match="has ended"):
        session.listen(call)
    assert said(session) == []


def test_a_listen_ends_with_pending_changes_a_cancellation_and_the_given_result():
    """SU-13, SU-14."""
    session = delegating()
    call = asks(session, listen("1", toolsListChanged=True))
    session.listen(call)
    said(session)
    session.announce(Change("tools"))
    assert session.end_listen(call).meta == {TAG: "1"}
    session.announce(Change("tools"))
    assert session.respond(call, types.EmptyResult(meta={"a": 1}))
    changed, cancel, result = said(session)
    assert changed["method"] == "notifications/tools/list_changed"
    assert cancel == cancelled("1", _meta={TAG: "1"})
    assert result["result"]["_meta"]["a"] == 1
    assert result["result"]["_meta"][TAG] == "1"
