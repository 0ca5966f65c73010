"""The server session: its own messages, and those of user code."""

import math

import pytest

from sessions import (
    ABLE,
    DONE,
    EVERYTHING,
    LOG_LEVEL,
    TAG,
    VERSION,
    answer,
    asks,
    cancelled,
    code,
    error,
    feed,
    modern,
    note,
    opened_server,
    request,
    said,
    server_session,
)
from twopipes._protocol import types
from twopipes._protocol.revisions import ALL, LEGACY
from twopipes._session.events import CallCancelled, NotificationReceived, PeerClosed, ProgressReceived, RequestEnded
from twopipes._session.subscriptions import Change
from twopipes.errors import InternalError, LocalProtocolError, McpError, RemoteProtocolError, RequestTimedOut
from twopipes.settings import Limits

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
TOOLS = Change("tools")


def slow(request_id=1, token=None, **options):
    meta = {} if token is None else {"progressToken": token}
    return modern(request_id, "tools/call", name="slow", meta={**meta, **options.pop("meta", {})}, **options)


def listen(request_id, **wanted):
    return modern(request_id, "subscriptions/listen", notifications=wanted)


# Discovery


def test_discovery_names_everything():
    """VN-06, VN-08, VN-09, CON-06."""
    session = server_session(instructions="Be kind.", ttl_ms=5000, cache_scope="public")
    feed(session, modern(1, "server/discover"))
    (line,) = said(session)
    assert line["result"] == {
        "resultType": "complete",
        "supportedVersions": list(reversed(ALL)),
        "capabilities": EVERYTHING,
        "instructions": "Be kind.",
        "ttlMs": 5000,
        "cacheScope": "public",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
    }


def test_every_modern_result_says_what_it_is_and_who_gives_it():
    """VN-08, VN-09."""
    session = server_session()
    session.respond(asks(session, slow()), DONE)
    (line,) = said(session)
    assert line["result"]["resultType"] == "complete"
    assert "io.modelcontextprotocol/serverInfo" in line["result"]["_meta"]


# Ping


@pytest.mark.parametrize("revision", LEGACY)
def test_ping_goes_both_ways_in_a_session(revision):
    """PI-01, PI-02."""
    session = opened_server(revision, initialized=False)
    feed(session, request("p", "ping"))
    asked = session.ping(now=0.0, limit=5.0)
    assert said(session) == [answer("p"), {"jsonrpc": "2.0", "id": asked.id, "method": "ping"}]
    (event,) = feed(session, answer(asked.id))
    assert event == RequestEnded(asked, types.EmptyResult())


def test_a_ping_that_is_not_answered_ends_as_a_timeout():
    """PI-03, TO-02."""
    session = opened_server()
    asked = session.ping(now=0.0, limit=5.0)
    said(session)
    (event,) = session.tick(now=5.0)
    assert isinstance(event.error, RequestTimedOut)
    assert said(session)[0]["params"]["requestId"] == asked.id


def test_a_ping_can_be_refused_or_answered_with_nonsense():
    session = opened_server()
    one, two = (session.ping(now=0.0, limit=None) for _ in range(2))
    (refused,) = feed(session, error(one.id, -32601))
    assert isinstance(refused.error, McpError)
    _, broken = session.receive(b'{"jsonrpc":"2.0","id":%d,"result":[]}\n' % two.id, now=0.0)
    assert isinstance(broken.error, RemoteProtocolError)


def test_a_modern_server_sends_no_ping():
    """FR-09, PI-04."""
    session = server_session()
    asks(session, slow())
    with pytest.raises(LocalProtocolError):
        session.ping(now=0.0, limit=1.0)


# Progress


@pytest.mark.parametrize("token", [0, 7, "7", "", -1])
def test_progress_carries_the_token_as_it_came(token):
    """PR-01, PR-02, PR-08."""
    session = server_session()
    call = asks(session, slow(token=token))
    assert session.report_progress(call, 1, 4, "a quarter")
    (line,) = said(session)
    assert line == note("notifications/progress", progressToken=token, progress=1, total=4, message="a quarter")
    assert type(line["params"]["progressToken"]) is type(token)


def test_progress_that_does_not_increase_is_not_sent():
    """PR-03."""
    session = server_session()
    call = asks(session, slow(token="p"))
    reported = [value for value in (0, 0, -1, 0.5, 0.25, 2, math.nan, math.inf) if session.report_progress(call, value)]
    assert reported == [0, 0.5, 2] == [line["params"]["progress"] for line in said(session)]


def test_a_total_that_json_cannot_say_is_left_out():
    session = server_session()
    assert session.report_progress(asks(session, slow(token="p")), 1, math.inf)
    assert "total" not in said(session)[0]["params"]


def test_progress_is_sent_only_on_request():
    """PR-02."""
    session = server_session()
    assert not session.report_progress(asks(session, slow()), 1)
    assert said(session) == []


def test_no_progress_after_the_answer():
    """PR-04."""
    session = server_session()
    call = asks(session, slow(token="p"))
    session.respond(call, DONE)
    said(session)
    assert not session.report_progress(call, 1)
    assert said(session) == []


def test_old_revisions_have_no_message_in_progress():
    """PR-03, LC-11."""
    session = opened_server("2024-11-05")
    call = asks(session, request(1, "tools/call", name="slow", _meta={"progressToken": 1}))
    session.report_progress(call, 1, None, "hello")
    assert said(session) == [note("notifications/progress", progressToken=1, progress=1)]


# Cancellation


@pytest.mark.parametrize("revision", ALL)
def test_after_a_cancel_nothing_is_written_for_the_call(revision):
    """CA-03, CA-04, CA-07, VN-15."""
    session = opened_server(revision) if revision in LEGACY else server_session()
    message = request(1, "tools/call", name="slow", _meta={"progressToken": "p"}) if revision in LEGACY else slow(token="p")
    call = asks(session, message)
    (event,) = feed(session, cancelled(1, reason="bored"))
    assert event == CallCancelled(call, "bored")
    assert not session.report_progress(call, 1)
    assert not session.respond(call, DONE)
    assert not session.fail(call, InternalError("late"))
    if call.dialect.modern:
        assert not session.log("error", "late", call=call)
    with pytest.raises(LocalProtocolError):
        session.ask(call, {}, now=0.0)
    assert said(session) == []


@pytest.mark.parametrize(
    "params", [{}, {"requestId": "5"}, {"requestId": 999}, {"requestId": {}}, {"requestId": None}, {"reason": "x"}]
)
def test_cancellations_of_unknown_requests_are_ignored(params):
    """CA-05, CA-13, CON-10, JR-10."""
    session = server_session()
    call = asks(session, slow(5))
    assert feed(session, note("notifications/cancelled", **params)) == []
    assert session.respond(call, DONE)
    assert feed(session, cancelled(5)) == []
    assert len(said(session)) == 1


def test_an_id_freed_by_a_cancel_belongs_to_the_next_request():
    """CA-04."""
    session = server_session()
    old = asks(session, slow(1, token="a"))
    feed(session, cancelled(1))
    new = asks(session, slow(1, token="b"))
    assert not session.respond(old, DONE)
    assert not session.report_progress(old, 1)
    assert session.respond(new, DONE)
    assert [line["id"] for line in said(session)] == [1]


# Logging


def test_a_session_has_a_level_and_a_client_may_set_it():
    """LG-03."""
    session = opened_server()
    assert [level for level in LEVELS if session.log(level, "x")] == list(LEVELS[1:])
    feed(session, request(1, "logging/setLevel", level="warning"))
    assert said(session)[-1] == answer(1)
    assert [level for level in LEVELS if session.log(level, {"a": 1}, logger="me")] == list(LEVELS[3:])
    assert said(session)[0] == note("notifications/message", level="warning", data={"a": 1}, logger="me")
    feed(session, request(2, "logging/setLevel", level="debug"))
    call = asks(session, request(3, "tools/call", name="log"))
    assert all(session.log(level, "x", call=call) for level in LEVELS)


def test_an_unknown_level_is_refused():
    """LG-04."""
    session = opened_server()
    feed(session, request(1, "logging/setLevel", level="loud"))
    assert code(said(session)[0]) == -32602
    assert session.log_level == "info"


def test_a_modern_request_gets_logs_if_it_asks_for_them_and_while_it_is_open():
    """LG-05, LG-06, CON-03, ST-01."""
    session = server_session()
    loud, silent = asks(session, slow(1, meta={LOG_LEVEL: "error"})), asks(session, slow(2))
    assert [level for level in LEVELS if session.log(level, 1, call=loud)] == list(LEVELS[4:])
    assert not any(session.log(level, 1, call=silent) for level in LEVELS)
    assert not any(session.log(level, 1) for level in LEVELS)
    assert all(TAG not in line["params"].get("_meta", {}) for line in said(session))
    session.respond(loud, DONE)
    assert not session.log("emergency", 1, call=loud)


def test_a_session_level_does_not_apply_to_modern_requests():
    """ST-01, LG-05."""
    session = opened_server()
    feed(session, request(1, "logging/setLevel", level="debug"))
    said(session)
    assert not session.log("error", 1, call=asks(session, slow(2)))
    assert said(session) == []


def test_a_server_without_the_logging_capability_does_not_log():
    """LG-01."""
    session = opened_server(capabilities={"tools": {}})
    assert not session.log("emergency", 1)
    modern_one = server_session(capabilities={"tools": {}})
    assert not modern_one.log("emergency", 1, call=asks(modern_one, slow(meta={LOG_LEVEL: "debug"})))


# Notifications of the client


def test_notifications_become_events_or_are_ignored():
    """JR-10."""
    session = opened_server()
    (event,) = feed(session, note("notifications/roots/list_changed"))
    assert event == NotificationReceived("notifications/roots/list_changed", types.EmptyParams())
    assert feed(session, note("notifications/nope"), note("notifications/progress")) == []
    assert said(session) == []


def test_a_client_may_report_progress_of_what_it_was_asked():
    """PR-05, TO-03."""
    session = opened_server()
    asked = session.ping(now=0.0, limit=5.0)
    (event,) = feed(session, note("notifications/progress", progressToken=asked.id, progress=1), now=4.0)
    assert isinstance(event, ProgressReceived)
    assert event.asked is asked
    assert session.next_deadline() == 9.0
    assert feed(session, note("notifications/progress", progressToken="1", progress=1)) == []


def test_the_end_of_an_elicitation_is_sent_if_the_revision_has_it():
    """EL-12."""
    for revision in LEGACY:
        session = opened_server(revision)
        assert session.elicitation_complete("e") is (revision == "2025-11-25")
        assert said(session) == (
            [note("notifications/elicitation/complete", elicitationId="e")] if revision == "2025-11-25" else []
        )
    assert not server_session().elicitation_complete("e")


# Subscriptions


def test_the_acknowledgement_comes_first_and_lists_what_is_honoured():
    """SU-02, SU-04, SU-06, SU-12."""
    session = server_session(capabilities={"tools": {"listChanged": True}})
    session.announce(TOOLS)
    assert feed(session, listen("a", toolsListChanged=True, promptsListChanged=True, resourceSubscriptions=["x:"])) == []
    session.announce(TOOLS)
    acknowledged, changed = said(session)
    assert acknowledged == note(
        "notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True}, _meta={TAG: "a"}
    )
    assert changed == note("notifications/tools/list_changed", _meta={TAG: "a"})


def test_earlier_changes_go_only_to_earlier_listens():
    session = server_session()
    feed(session, listen(1, toolsListChanged=True))
    session.announce(TOOLS)
    feed(session, listen(2, toolsListChanged=True))
    assert [(line["method"].rsplit("/", 1)[-1], line["params"]["_meta"][TAG]) for line in said(session)] == [
        ("acknowledged", 1),
        ("list_changed", 1),
        ("acknowledged", 2),
    ]


def test_each_listen_gets_its_own_copy_with_its_own_tag():
    """SU-04, SU-08, SU-09, SU-10."""
    session = server_session()
    feed(session, listen(7, toolsListChanged=True), listen("7", toolsListChanged=True, resourceSubscriptions=["file:///a"]))
    said(session)
    session.announce(TOOLS)
    session.announce(Change("prompts"))
    session.announce(Change("resource", "file:///a/b"))
    session.announce(Change("resource", "file:///z"))
    lines = said(session)
    assert lines == [
        note("notifications/tools/list_changed", _meta={TAG: 7}),
        note("notifications/tools/list_changed", _meta={TAG: "7"}),
        note("notifications/resources/updated", uri="file:///a/b", _meta={TAG: "7"}),
    ]


def test_a_cancelled_listen_is_silent_from_there_on():
    """SU-11."""
    session = server_session()
    feed(session, listen(1, toolsListChanged=True), listen(2, toolsListChanged=True))
    said(session)
    session.announce(TOOLS)
    assert feed(session, cancelled(1)) == []
    assert [line["params"]["_meta"][TAG] for line in said(session)] == [2]
    session.announce(TOOLS)
    assert len(said(session)) == 1


@pytest.mark.parametrize("cancels", [True, False])
def test_the_server_ends_its_listens_with_what_is_pending_a_cancel_and_a_result(cancels):
    """SU-13, SU-14, CON-01, CA-09."""
    session = server_session(cancel_ended_listens=cancels)
    feed(session, listen(1, toolsListChanged=True), listen("1"))
    said(session)
    session.announce(TOOLS)
    session.end_listens()
    first, *rest = said(session)
    assert first["method"] == "notifications/tools/list_changed"
    for listen_id in (1, "1"):
        if cancels:
            assert rest.pop(0) == cancelled(listen_id, _meta={TAG: listen_id})
        line = rest.pop(0)
        assert line["id"] == listen_id
        assert line["result"]["resultType"] == "complete"
        assert line["result"]["_meta"][TAG] == listen_id
    assert rest == []
    session.end_listens()
    session.announce(TOOLS)
    assert said(session) == []
    assert feed(session, listen(1)) == []


def test_a_listen_too_many_is_refused_before_it_is_acknowledged():
    """SU-18."""
    session = server_session(limits=Limits(max_listens=1))
    feed(session, listen(1), listen(2))
    acknowledged, refused = said(session)
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert (refused["id"], code(refused)) == (2, -32603)
    feed(session, cancelled(1), listen(2))
    assert len(said(session)) == 1


def test_a_listen_without_a_filter_is_refused():
    """SU-01."""
    session = server_session()
    feed(session, modern(1, "subscriptions/listen"))
    assert code(said(session)[0]) == -32602


def test_equal_changes_are_sent_once_however_slow_the_reader():
    """SU-18."""
    session = server_session()
    feed(session, listen(1, toolsListChanged=True))
    for _ in range(10_000):
        session.announce(TOOLS)
    assert len(session._changes) == 1
    assert len(said(session)) == 2


def test_changes_are_sent_only_to_subscribers():
    """SU-05, TL-17."""
    session = server_session()
    asks(session, slow())
    session.announce(TOOLS)
    session.announce(Change("resource", "x:"))
    assert said(session) == []


def test_a_session_is_notified_of_lists_and_of_its_subscriptions():
    """RS-03, RS-04."""
    session = opened_server()
    feed(session, request(1, "resources/subscribe", uri="file:///a"))
    session.announce(TOOLS)
    session.announce(Change("resource", "file:///a"))
    session.announce(Change("resource", "file:///b"))
    assert said(session) == [
        answer(1),
        note("notifications/tools/list_changed"),
        note("notifications/resources/updated", uri="file:///a"),
    ]
    feed(session, request(2, "resources/unsubscribe", uri="file:///a"))
    session.announce(Change("resource", "file:///a"))
    assert said(session) == [answer(2)]


def test_a_session_that_is_not_open_yet_gets_no_notifications():
    session = opened_server(initialized=False)
    session.announce(TOOLS)
    assert said(session) == []


def test_the_watches_of_a_session_are_bounded():
    session = opened_server(limits=Limits(max_watched=1))
    feed(session, request(1, "resources/subscribe", uri="a:"), request(2, "resources/subscribe", uri="b:"))
    good, refused = said(session)
    assert good == answer(1)
    assert (refused["id"], code(refused)) == (2, -32603)


def test_both_eras_are_notified_in_their_own_way():
    """DE-12."""
    session = opened_server()
    feed(session, listen(1, toolsListChanged=True))
    said(session)
    session.announce(TOOLS)
    assert said(session) == [
        note("notifications/tools/list_changed"),
        note("notifications/tools/list_changed", _meta={TAG: 1}),
    ]


def test_listens_end_silently_at_eof():
    session = server_session()
    feed(session, listen(1, toolsListChanged=True))
    assert session.receive_eof(now=0.0) == [PeerClosed()]


# The life of a session


def test_a_profile_may_change_at_run_time():
    session = server_session(capabilities={"tools": {}})
    feed(session, modern(1, "prompts/list"))
    assert code(said(session)[0]) == -32601
    profile = session.profile
    session.profile = type(profile)(info=profile.info, capabilities=types.ServerCapabilities(**EVERYTHING))
    asks(session, modern(2, "prompts/list"))


def test_ids_of_the_server_are_never_used_twice():
    """JR-04."""
    session = opened_server(client=ABLE)
    ids = [session.ping(now=0.0, limit=None).id for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert [line["id"] for line in said(session)] == ids


def test_a_modern_request_after_a_refused_one_is_served():
    session = server_session()
    feed(session, modern(1, "tools/list", meta={VERSION: "1999-01-01"}))
    said(session)
    assert session.respond(asks(session, modern(1, "tools/list")), types.ListToolsResult([]))
