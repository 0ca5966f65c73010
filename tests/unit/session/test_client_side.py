"""The client session after its opening: requests, retries, subscriptions, requests of the server."""

import json

import pytest
from msgspec import UNSET, Raw

from sessions import (
    ABLE,
    ANNA,
    CAPABILITIES,
    LOG_LEVEL,
    TAG,
    VERSION,
    answer,
    cancelled,
    client_session,
    code,
    error,
    feed,
    note,
    opened_client,
    request,
    said,
)
from twopipes._protocol import types
from twopipes._protocol.revisions import ALL, LEGACY
from twopipes._session.eras import ClientPhase
from twopipes._session.events import (
    CallCancelled,
    CallReceived,
    ListenAcknowledged,
    ListenEnded,
    ListenNotified,
    NotificationReceived,
    PeerClosed,
    ProgressReceived,
    RequestEnded,
    RequestIgnored,
)
from twopipes.errors import (
    ConnectionLost,
    LocalProtocolError,
    McpError,
    NotFound,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimedOut,
)
from twopipes.settings import Timeouts

SAID_ANNA = types.ElicitResult("accept", {"name": "Anna"})
QUESTION = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}


def only(events):
    (event,) = events
    return event


# Requests


@pytest.mark.parametrize("typed", [True, False])
def test_a_modern_request_carries_everything_itself(typed):
    """VN-01, VN-03, PR-01, LG-05."""
    session = opened_client(capabilities={"roots": {}})
    params = (
        types.CallToolParams("echo", meta={"com.example/own": 1}) if typed else {"name": "echo", "_meta": {"com.example/own": 1}}
    )
    asked = session.request("tools/call", params, now=0.0, log_level="error", extra_meta={"traceparent": "00-1"})
    (line,) = said(session)
    assert line["params"]["name"] == "echo"
    assert line["params"]["_meta"] == {
        "com.example/own": 1,
        "traceparent": "00-1",
        VERSION: "2026-07-28",
        CAPABILITIES: {"roots": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        LOG_LEVEL: "error",
        "progressToken": asked.id,
    }


def test_a_request_cannot_be_made_to_lie_about_its_version():
    session = opened_client()
    session.request("tools/list", {"_meta": {VERSION: "1999-01-01", "progressToken": "mine"}}, now=0.0)
    meta = said(session)[0]["params"]["_meta"]
    assert meta[VERSION] == "2026-07-28"


@pytest.mark.parametrize("revision", LEGACY)
def test_a_legacy_request_says_no_more_than_it_must(revision):
    """LC-11."""
    session = opened_client(revision)
    asked = session.request("tools/call", types.CallToolParams("echo", request_state="x"), now=0.0, log_level="error")
    assert said(session) == [request(asked.id, "tools/call", name="echo", _meta={"progressToken": asked.id})]


def test_tokens_of_open_requests_differ_and_ids_never_come_back():
    """PR-01, JR-04, JR-02."""
    session = opened_client("2025-11-25")
    for _ in range(1000):
        session.request("tools/list", now=0.0)
    lines = said(session)
    assert len({line["id"] for line in lines}) == 1000
    assert all(line["params"]["_meta"]["progressToken"] == line["id"] for line in lines)


@pytest.mark.parametrize(
    ("revision", "method"),
    [
        ("2026-07-28", "ping"),
        ("2026-07-28", "logging/setLevel"),
        ("2026-07-28", "resources/subscribe"),
        ("2026-07-28", "initialize"),
        ("2025-11-25", "server/discover"),
        ("2025-11-25", "subscriptions/listen"),
        ("2025-11-25", "roots/list"),
        ("2025-06-18", "tasks/get"),
    ],
)
def test_what_the_revision_does_not_have_is_not_sent(revision, method):
    """PI-04, LG-09, RS-05, LC-11."""
    session = opened_client(revision)
    with pytest.raises(LocalProtocolError, match=revision):
        session.request(method, now=0.0)
    assert said(session) == []
    assert len(session.outgoing) == 0


def test_an_unknown_method_is_sent_and_its_result_left_raw():
    session = opened_client()
    asked = session.request("com.example/own", {"a": 1}, now=0.0)
    assert said(session)[0]["params"]["a"] == 1
    event = only(feed(session, answer(asked.id, b=2)))
    assert isinstance(event.result, Raw)
    assert json.loads(bytes(event.result)) == {"b": 2}


@pytest.mark.parametrize(
    ("params", "extra"),
    [
        ({"a": object()}, None),
        ({"_meta": 5}, None),
        (None, {"not a key": 1}),
        (types.CallToolParams("x", arguments=object()), None),
    ],
)
def test_what_cannot_be_sent_is_not_waited_for(params, extra):
    """MT-01."""
    session = opened_client()
    with pytest.raises((LocalProtocolError, TypeError)):
        session.request("tools/call", params, now=0.0, extra_meta=extra)
    assert said(session) == []
    assert len(session.outgoing) == 0
    assert session.next_deadline() is None


def test_a_result_comes_with_its_types():
    """VN-10, JR-18."""
    session = opened_client()
    asked = session.request("tools/call", {"name": "x"}, now=0.0, context="mine")
    event = only(feed(session, answer(asked.id, content=[{"type": "text", "text": "hi"}], zz=1)))
    assert event.asked.context == "mine"
    assert event.result.text == "hi"
    assert event.error is None


@pytest.mark.parametrize("result", [{"resultType": "weird", "content": []}, {"content": 5}, {"resultType": "input_required"}])
def test_an_invalid_result_is_a_remote_error(result):
    """VN-11, MR-02."""
    session = opened_client()
    asked = session.request("tools/call", {"name": "x"}, now=0.0)
    event = only(feed(session, answer(asked.id, **result)))
    assert isinstance(event.error, RemoteProtocolError)
    assert event.result is None


def test_an_error_comes_as_what_it_means():
    """ER-14, ER-07."""
    session = opened_client()
    missing, strange = session.request("resources/read", {"uri": "x:"}, now=0.0), session.request("tools/list", now=0.0)
    first, second = feed(session, error(missing.id, -32002), error(strange.id, -32001))
    assert isinstance(first.error, NotFound)
    assert type(second.error) is McpError


def test_limits_are_the_defaults_or_the_callers():
    """TO-01."""
    session = opened_client(timeouts=Timeouts(request=5.0, total=7.0))
    plain = session.request("tools/list", now=0.0)
    own = session.request("tools/list", now=0.0, idle=1.0, total=2.0)
    patient = session.request("tools/list", now=0.0, idle=None, total=None)
    assert (plain.idle, plain.total) == (5.0, 7.0)
    assert (own.idle, own.total) == (1.0, 2.0)
    assert (patient.idle, patient.total) == (None, None)
    assert [event.asked for event in session.tick(now=1e9)] == [own, plain]


def test_a_later_failure_does_not_demote_a_connection():
    """DE-07."""
    session = opened_client()
    asked = session.request("tools/list", now=0.0)
    said(session)
    feed(session, error(asked.id, -32601))
    assert said(session) == []
    assert session.phase is ClientPhase.MODERN


# Cancellation


@pytest.mark.parametrize("revision", ALL)
def test_a_cancelled_request_ends_at_once_and_the_server_is_notified(revision):
    """CA-01, CA-02, CA-06, CA-08, CA-12."""
    session = opened_client(revision)
    asked = session.request("tools/call", {"name": "slow"}, now=0.0)
    said(session)
    assert session.cancel(asked, reason="bored")
    assert said(session) == [cancelled(asked.id, reason="bored")]
    late = feed(session, answer(asked.id, content=[]), note("notifications/progress", progressToken=asked.id, progress=1))
    ended = only(late)
    assert ended.asked is asked
    assert isinstance(ended.error, RequestCancelled)
    assert not session.cancel(asked)
    assert said(session) == []


def test_what_is_over_is_not_cancelled():
    """CA-02."""
    session = opened_client()
    asked = session.request("tools/list", now=0.0)
    feed(session, answer(asked.id, tools=[]))
    said(session)
    assert not session.cancel(asked)
    assert said(session) == []


@pytest.mark.parametrize("params", [{}, {"requestId": None}, {"requestId": 999}, {"requestId": "2"}, {"requestId": []}])
def test_a_modern_server_may_cancel_nothing_but_a_subscription(params):
    """CA-10, CA-05."""
    session = opened_client()
    asked = session.request("tools/call", {"name": "slow"}, now=0.0)
    assert feed(session, note("notifications/cancelled", **params), cancelled(asked.id)) == []
    assert only(feed(session, answer(asked.id, content=[]))).asked is asked


# Progress


def test_progress_comes_with_its_request():
    """PR-08."""
    session = opened_client()
    asked = session.request("tools/call", {"name": "slow"}, now=0.0)
    event = only(feed(session, note("notifications/progress", progressToken=asked.id, progress=0.5, total=2, message="x")))
    assert isinstance(event, ProgressReceived)
    assert (event.asked, event.params.progress, event.params.total, event.params.message) == (asked, 0.5, 2, "x")
    for token in (str(asked.id), 999, asked.id + 0.5, None, True):
        assert feed(session, note("notifications/progress", progressToken=token, progress=1)) == []


# Retries


def input_required(request_id, state=UNSET, **questions):
    return answer(
        request_id,
        resultType="input_required",
        **({} if state is UNSET else {"requestState": state}),
        **({"inputRequests": questions} if questions else {}),
    )


def asked_back(session, asked, message):
    said(session)
    event = only(feed(session, message))
    assert event.asked is asked
    assert isinstance(event.result, types.InputRequiredResult)
    return event.result


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("state", ["plain", "", '\0é =\n\u2028"\\', "x" * 100_000])
def test_a_retry_is_the_request_again_with_answers_and_the_state_as_it_came(typed, state):
    """MR-05, MR-06, MR-07, MR-08."""
    session = opened_client()
    params = types.CallToolParams("ask", arguments=Raw(b'{"a":[1]}')) if typed else {"name": "ask", "arguments": {"a": [1]}}
    asked = session.request("tools/call", params, now=0.0, context="mine")
    (first,) = said(session)
    asking = asked_back(session, asked, input_required(asked.id, state, q=QUESTION))
    again = session.retry(asked, asking, {"q": SAID_ANNA, "zz": SAID_ANNA}, now=1.0)
    (second,) = said(session)
    assert second["id"] == again.id != first["id"]
    assert second["params"].pop("inputResponses") == {"q": ANNA}
    assert second["params"].pop("requestState") == state
    assert second["params"].pop("_meta") == {**first["params"].pop("_meta"), "progressToken": again.id}
    assert second["params"] == first["params"]
    assert again.context == "mine"
    assert again.round == 1


@pytest.mark.parametrize("typed", [True, False])
def test_nothing_of_an_earlier_round_stays(typed):
    """MR-07, MR-09, MR-11."""
    session = opened_client()
    asked = session.request("tools/call", types.CallToolParams("ask") if typed else {"name": "ask"}, now=0.0)
    second = session.retry(
        asked, asked_back(session, asked, input_required(asked.id, "one", q=QUESTION)), {"q": SAID_ANNA}, now=0.0
    )
    asking = asked_back(session, second, input_required(second.id, r={"method": "roots/list"}))
    third = session.retry(second, asking, {"r": types.ListRootsResult([])}, now=0.0)
    (line,) = said(session)
    assert line["params"]["inputResponses"] == {"r": {"roots": []}}
    assert "requestState" not in line["params"]
    fourth = session.retry(third, asked_back(session, third, input_required(third.id, "four")), {}, now=0.0)
    (line,) = said(session)
    assert "inputResponses" not in line["params"]
    assert line["params"]["requestState"] == "four"
    assert only(feed(session, answer(fourth.id, content=[]))).result == types.CallToolResult([])


def test_a_retry_keeps_level_limits_and_own_keys():
    """MR-05, LG-05."""
    session = opened_client()
    asked = session.request(
        "tools/call", {"name": "ask"}, now=0.0, idle=3.0, total=None, log_level="debug", extra_meta={"com.example/a": 1}
    )
    again = session.retry(asked, asked_back(session, asked, input_required(asked.id, "s")), {}, now=0.0)
    meta = said(session)[0]["params"]["_meta"]
    assert (meta[LOG_LEVEL], meta["com.example/a"]) == ("debug", 1)
    assert (again.idle, again.total) == (3.0, None)


def test_two_flows_and_a_plain_call_do_not_mix():
    """MR-09."""
    session = opened_client()
    flows = [session.request("tools/call", {"name": name}, now=0.0) for name in "ab"]
    results = [asked_back(session, flow, input_required(flow.id, f"state {flow.id}", q=QUESTION)) for flow in flows]
    session.request("tools/call", {"name": "plain"}, now=0.0)
    for flow, result in zip(flows, results, strict=True):
        session.retry(flow, result, {"q": SAID_ANNA}, now=0.0)
    plain, one, two = (line["params"] for line in said(session))
    assert "requestState" not in plain
    assert (one["name"], one["requestState"]) == ("a", f"state {flows[0].id}")
    assert (two["name"], two["requestState"]) == ("b", f"state {flows[1].id}")


def test_all_questions_are_answered_at_once():
    """MR-05."""
    session = opened_client()
    asked = session.request("tools/call", {"name": "ask"}, now=0.0)
    asking = asked_back(session, asked, input_required(asked.id, "s", a=QUESTION, b=QUESTION))
    with pytest.raises(LocalProtocolError, match="asked for b"):
        session.retry(asked, asking, {"a": SAID_ANNA}, now=0.0)
    assert said(session) == []


def test_a_server_that_asks_for_input_forever_is_given_up():
    """MR-10."""
    session = opened_client()
    asked = session.request("prompts/get", None, now=0.0)
    for _ in range(16):
        asked = session.retry(asked, asked_back(session, asked, input_required(asked.id, "s")), {}, now=0.0)
    asking = asked_back(session, asked, input_required(asked.id, "s"))
    with pytest.raises(RemoteProtocolError, match="asked for input 16 times"):
        session.retry(asked, asking, {}, now=0.0)
    assert said(session) == []


# Subscriptions


def listening(session, *, acknowledged=True, **wanted):
    asked = session.listen(types.SubscriptionFilter(**wanted), now=0.0)
    said(session)
    if acknowledged:
        feed(session, note("notifications/subscriptions/acknowledged", notifications={}, _meta={TAG: asked.id}))
    return asked


def test_a_subscription_is_a_request_without_a_token():
    """SU-01, PR-07, VN-01."""
    session = opened_client()
    asked = session.listen(
        types.SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["x:"]), now=0.0, context="mine"
    )
    (line,) = said(session)
    assert line["params"]["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": ["x:"]}
    assert "progressToken" not in line["params"]["_meta"]
    assert VERSION in line["params"]["_meta"]
    assert asked.context == "mine"


def test_only_the_acknowledgement_is_waited_for_with_a_limit():
    """TO-04, SU-07."""
    session = opened_client()
    asked = listening(session, acknowledged=False)
    assert session.next_deadline() == 60.0
    acknowledgement = note(
        "notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True}, _meta={TAG: asked.id}
    )
    event = only(feed(session, acknowledgement, acknowledgement))
    assert event == ListenAcknowledged(asked, types.SubscriptionFilter(tools_list_changed=True))
    assert session.next_deadline() is None
    assert session.tick(now=1e9) == []


def test_a_subscription_that_is_not_acknowledged_ends_as_a_timeout():
    """TO-02, TO-04."""
    session = opened_client()
    asked = listening(session, acknowledged=False)
    event = only(session.tick(now=60.0))
    assert isinstance(event, ListenEnded)
    assert isinstance(event.error, RequestTimedOut)
    assert said(session)[0]["params"]["requestId"] == asked.id


def test_each_subscription_sees_its_own():
    """SU-03, SU-04, SU-08."""
    session = opened_client()
    one, two = listening(session), listening(session)
    changed = "notifications/tools/list_changed"
    events = feed(session, note(changed, _meta={TAG: two.id}), note(changed, _meta={TAG: one.id}))
    assert [(type(event), event.asked, event.method) for event in events] == [
        (ListenNotified, two, changed),
        (ListenNotified, one, changed),
    ]
    plain = session.request("tools/list", now=0.0)
    for tag in (str(one.id), 999, True, None, [], plain.id, 1.5):
        events = feed(session, note(changed, _meta={TAG: tag}))
        assert [type(event) for event in events] == ([] if tag is not None else [NotificationReceived])


ENDINGS = {
    "result": lambda asked: [answer(asked.id, resultType="complete", _meta={TAG: asked.id})],
    "cancel": lambda asked: [cancelled(asked.id, _meta={TAG: asked.id})],
    "cancel, result": lambda asked: ENDINGS["cancel"](asked) + ENDINGS["result"](asked),
    "result, cancel": lambda asked: ENDINGS["result"](asked) + ENDINGS["cancel"](asked),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("acknowledged", [True, False])
def test_however_the_server_ends_a_subscription_it_ends_once(ending, acknowledged):
    """SU-13, SU-14, SU-15, CON-01."""
    session = opened_client()
    asked, other = listening(session, acknowledged=acknowledged), listening(session)
    after = note("notifications/tools/list_changed", _meta={TAG: asked.id})
    assert feed(session, *ENDINGS[ending](asked), after) == [ListenEnded(asked)]
    assert said(session) == []
    assert session._acknowledged == {other.id}
    assert not session.cancel(asked)


def test_a_refused_subscription_ends_with_the_error():
    """CON-12, SU-18."""
    session = opened_client()
    asked = listening(session, acknowledged=False)
    event = only(feed(session, error(asked.id, -32601)))
    assert isinstance(event, ListenEnded)
    assert event.error.code == -32601


def test_a_client_ends_its_subscription_by_a_cancel():
    """SU-11, SU-15."""
    session = opened_client()
    asked = listening(session)
    assert session.cancel(asked)
    assert said(session) == [cancelled(asked.id)]
    event = only(feed(session, *ENDINGS["cancel, result"](asked)))
    assert isinstance(event, ListenEnded)
    assert isinstance(event.error, RequestCancelled)


def test_a_lost_connection_ends_subscriptions_too():
    """SU-15, SU-16."""
    session = opened_client()
    asked = listening(session)
    ended, left = session.receive_eof(now=0.0)
    assert isinstance(ended, ListenEnded)
    assert isinstance(ended.error, ConnectionLost)
    assert ended.asked is asked
    assert left == PeerClosed()
    with pytest.raises(ConnectionLost):
        session.listen(types.SubscriptionFilter(), now=0.0)


def test_there_are_no_listens_in_a_session():
    with pytest.raises(LocalProtocolError):
        opened_client("2025-11-25").listen(types.SubscriptionFilter(), now=0.0)


# Notifications


def test_notifications_come_out_as_they_are():
    session = opened_client("2025-06-18")
    events = feed(
        session,
        note("notifications/message", level="error", data=[1]),
        note("notifications/resources/updated", uri="x:", _meta={TAG: 1}),
        note("notifications/com.example/own", a=1),
        note("notifications/com.example/bare"),
        note("notifications/message", level="loud", data=1),
        note("notifications/message"),
    )
    assert [type(event) for event in events] == [NotificationReceived] * 4
    assert events[0].params == types.LogParams("error", [1])
    assert events[1].params.uri == "x:"
    assert json.loads(bytes(events[2].params)) == {"a": 1}
    assert events[3].params is UNSET
    assert said(session) == []


def test_notifications_before_the_opening_are_harmless():
    session = client_session()
    assert len(feed(session, note("notifications/message", level="error", data=1), cancelled(1))) == 1


def test_a_client_notifies_only_what_its_revision_has():
    """RT-05, PR-05."""
    legacy, stateless = opened_client("2025-06-18"), opened_client()
    legacy.notify("notifications/roots/list_changed")
    legacy.notify("notifications/progress", types.ProgressParams("t", 1, message="x"))
    assert said(legacy) == [
        note("notifications/roots/list_changed"),
        note("notifications/progress", progressToken="t", progress=1, message="x"),
    ]
    for method in ("notifications/roots/list_changed", "notifications/progress", "notifications/message"):
        with pytest.raises(LocalProtocolError):
            stateless.notify(method)
    assert said(stateless) == []


# Requests of the server


@pytest.mark.parametrize("method", ["ping", "roots/list", "nope"])
def test_a_modern_client_answers_no_requests(method):
    """FR-10, PI-04."""
    session = opened_client()
    assert feed(session, request(9, method)) == [RequestIgnored(method, 9)]
    session.receive(b'{"jsonrpc":"2.0","id":9,"method":5}\n', now=0.0)
    assert said(session) == []


@pytest.mark.parametrize("revision", LEGACY)
def test_a_legacy_client_answers_pings_and_refuses_what_it_does_not_know(revision):
    """PI-01, JR-16."""
    session = opened_client(revision)
    assert feed(session, request("p", "ping"), request("x", "foo/bar"), request("t", "tools/list")) == []
    ping, unknown, wrong_side = said(session)
    assert ping == answer("p")
    assert (unknown["id"], code(unknown)) == ("x", -32601)
    assert code(wrong_side) == -32601


def test_a_broken_request_with_an_id_is_answered_in_a_session():
    """JR-16, ER-02."""
    session = opened_client("2025-11-25")
    session.receive(b'{"jsonrpc":"2.0","id":"x","method":5}\n', now=0.0)
    (line,) = said(session)
    assert (line["id"], code(line)) == ("x", -32600)


def test_a_question_comes_out_and_its_answer_goes_back():
    session = opened_client("2025-11-25")
    event = only(feed(session, request(5, "elicitation/create", **QUESTION["params"], _meta={"progressToken": 0})))
    assert isinstance(event, CallReceived)
    assert event.call.progress_token == 0
    assert session.respond(event.call, SAID_ANNA)
    assert said(session) == [answer(5, **ANNA)]


def test_what_was_not_declared_is_refused():
    """CP-02, RT-02, ER-15, EL-07, EL-09, SA-05."""
    session = opened_client("2025-11-25", capabilities={})
    sampling = {"messages": [], "maxTokens": 1}
    feed(session, request(1, "roots/list"), request(2, "sampling/createMessage", **sampling))
    feed(session, request(3, "elicitation/create", **QUESTION["params"]))
    assert [code(line) for line in said(session)] == [-32601] * 3
    session = opened_client("2025-11-25", capabilities={"elicitation": {}, "sampling": {}})
    feed(session, request(1, "elicitation/create", mode="url", url="https://example.com/", message="?", elicitationId="e"))
    feed(session, request(2, "sampling/createMessage", **sampling, tools=[]))
    feed(session, request(3, "sampling/createMessage", messages=5))
    assert [code(line) for line in said(session)] == [-32602] * 3
    assert (
        len(feed(session, request(4, "sampling/createMessage", **sampling), request(5, "elicitation/create", **QUESTION["params"])))
        == 2
    )


def test_elicitation_does_not_exist_in_the_first_revisions():
    """LC-11."""
    session = opened_client("2025-03-26")
    feed(session, request(1, "elicitation/create", **QUESTION["params"]))
    assert code(said(session)[0]) == -32601


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_an_id_in_flight_is_refused_without_an_id(revision):
    """JR-05, CON-09."""
    session = opened_client(revision)
    event = only(feed(session, request(1, "roots/list")))
    assert feed(session, request(1, "roots/list"), request(1, "ping")) == []
    lines = said(session)
    assert [code(line) for line in lines] == [-32600, -32600]
    assert all(line.get("id") is None for line in lines)
    assert all(("id" in line) is (revision == "2025-06-18") for line in lines)
    session.respond(event.call, types.ListRootsResult([]))
    assert said(session) == [answer(1, roots=[])]


def test_a_server_may_withdraw_its_question():
    """CA-02, CA-03, CA-13."""
    session = opened_client("2025-11-25", capabilities=ABLE)
    event = only(feed(session, request(1, "roots/list")))
    assert feed(session, cancelled("1"), cancelled(2), note("notifications/cancelled")) == []
    assert feed(session, cancelled(1, reason="never mind")) == [CallCancelled(event.call, "never mind")]
    assert not session.respond(event.call, types.ListRootsResult([]))
    assert said(session) == []


def test_a_question_during_the_handshake_can_be_withdrawn_too():
    session = client_session(skip_probe=True)
    session.open(now=0.0)
    said(session)
    event = only(feed(session, request("a", "roots/list")))
    assert feed(session, cancelled("a")) == [CallCancelled(event.call, None)]
    assert not session.respond(event.call, types.ListRootsResult([]))
    assert said(session) == []


def test_an_answer_is_fitted_to_the_revision():
    """LC-11."""
    session = opened_client("2025-06-18")
    event = only(feed(session, request(1, "elicitation/create", **QUESTION["params"])))
    session.respond(event.call, types.ElicitResult("accept", {"which": ["a", "b"]}, result_type="complete"))
    assert said(session) == [answer(1, action="accept", content={"which": "a, b"})]


def test_an_answered_event_holds_what_came():
    session = opened_client("2025-11-25")
    asked = session.request("ping", now=0.0)
    assert only(feed(session, answer(asked.id))) == RequestEnded(asked, types.EmptyResult())
