"""Every message carries what it belongs to, so that a binding with many streams can route it."""

import json

import pytest

from sessions import (
    ABLE,
    ANNA,
    DONE,
    FORM,
    TAG,
    answer,
    cancelled,
    initialize,
    modern,
    note,
    opened_client,
    opened_server,
    request,
    said,
    server_session,
)
from twopipes._jsonrpc import encode
from twopipes._session.events import CallCancelled, CallReceived, InputsAnswered, RequestEnded
from twopipes._session.ledger import Route
from twopipes._session.subscriptions import Change
from twopipes.errors import ConnectionLost

TOOL = {"name": "echo", "arguments": {}}
TOOLS_CHANGED = {"toolsListChanged": True}


def post(session, message, route, *, now=0.0):
    """Let a session receive one message of a route, and return the events."""
    line = encode(message)
    return session.receive_message(session.decode(line[:-1]), size=len(line), now=now, route=route)


def sent(session):
    """Return the messages since the last call, each with what it belongs to."""
    return [(json.loads(message.line), message.about) for message in session.messages_to_send()]


def called(events):
    (event,) = events
    assert isinstance(event, CallReceived)
    return event.call


def test_clients_that_use_the_same_id_get_their_own_responses():
    session, one, two = server_session(shared=True), Route(), Route()
    first = called(post(session, modern(1, "tools/call", meta={"progressToken": 5}, **TOOL), one))
    second = called(post(session, modern(1, "tools/call", **TOOL), two))
    assert session.awaits(one)
    session.report_progress(first, 0.5)
    session.respond(second, DONE)
    session.respond(first, DONE)
    routes = [about for _, about in sent(session)]
    assert routes == [one, two, one]
    assert not session.awaits(one)
    assert not session.awaits(two)


def test_a_refused_request_is_answered_on_its_route_with_its_code():
    session, route = server_session(shared=True), Route()
    post(session, modern(1, "no/such"), route)
    (refusal,) = session.messages_to_send()
    assert (refusal.about, refusal.error_code, refusal.is_refusal) == (route, -32601, True)
    post(session, {"jsonrpc": "2.0", "id": 7}, route)
    (refusal,) = session.messages_to_send()
    assert (refusal.about, refusal.error_code, refusal.is_refusal) == (route, -32600, True)


def test_a_failed_handler_is_not_a_refusal():
    session, route = server_session(shared=True), Route()
    call = called(post(session, modern(1, "tools/call", **TOOL), route))
    session.fail(call, ValueError())
    (failure,) = session.messages_to_send()
    assert (failure.about, failure.error_code, failure.is_refusal) == (route, -32603, False)


def test_a_listen_gets_its_changes_on_its_own_route():
    session, one, two = server_session(shared=True), Route(), Route()
    for route in (one, two):
        assert post(session, modern(1, "subscriptions/listen", notifications=TOOLS_CHANGED), route) == []
    assert [about for _, about in sent(session)] == [one, two]
    session.announce(Change("tools"))
    changes = sent(session)
    assert [about for _, about in changes] == [one, two]
    assert [line["params"]["_meta"][TAG] for line, _ in changes] == [1, 1]
    assert session.cancel_route(one) == []
    session.announce(Change("tools"))
    assert [about for _, about in sent(session)] == [two]
    session.end_listens()
    assert [(list(line), about) for line, about in sent(session)] == [(["jsonrpc", "id", "result"], two)]


def test_a_lost_route_cancels_its_call_and_nothing_more_is_sent():
    session, route = server_session(shared=True), Route()
    call = called(post(session, modern(1, "tools/call", **TOOL), route))
    assert session.cancel_route(Route()) == []
    assert session.cancel_route(route, "the client is gone") == [CallCancelled(call, "the client is gone")]
    assert not session.respond(call, DONE)
    assert session.messages_to_send() == []


def test_an_id_of_another_client_cannot_be_cancelled():
    session, route = server_session(shared=True), Route()
    post(session, modern(1, "tools/call", **TOOL), route)
    assert post(session, cancelled(1), Route()) == []
    assert session.awaits(route)


def test_a_handler_continues_on_the_route_of_the_retry():
    session, first, second = server_session(shared=True), Route(), Route()
    call = called(post(session, modern(1, "tools/call", can=ABLE, **TOOL), first))
    assert session.ask(call, {"name": FORM}, now=0.0) is None
    ((asking, about),) = sent(session)
    assert about is first
    state = asking["result"]["requestState"]
    retry = modern(1, "tools/call", can=ABLE, inputResponses={"name": ANNA}, requestState=state, **TOOL)
    (event,) = post(session, retry, second)
    assert isinstance(event, InputsAnswered)
    session.respond(call, DONE)
    assert [about for _, about in sent(session)] == [second]


def test_a_state_of_one_principal_is_refused_for_another():
    """MR-16."""
    session, anna, otto = server_session(shared=True), Route(), Route()
    anna.principal, otto.principal = "anna", "otto"
    call = called(post(session, modern(1, "tools/call", can=ABLE, **TOOL), anna))
    session.ask(call, {"name": FORM}, now=0.0)
    ((asking, _),) = sent(session)
    state = asking["result"]["requestState"]
    post(session, modern(1, "tools/call", can=ABLE, inputResponses={"name": ANNA}, requestState=state, **TOOL), otto)
    ((refusal, about),) = sent(session)
    assert refusal["error"]["code"] == -32602
    assert about is otto


def test_questions_of_a_legacy_call_and_their_cancellation_are_on_its_route():
    session, route = opened_server(), Route()
    call = called(post(session, request(1, "tools/call", **TOOL), route))
    session.ask(call, {"name": FORM}, now=0.0)
    session.log("error", "for the call", call=call)
    session.log("error", "for the session")
    session.respond(call, DONE)
    assert [(line.get("method"), about) for line, about in sent(session)] == [
        ("elicitation/create", route),
        ("notifications/message", route),
        ("notifications/message", None),
        ("notifications/cancelled", route),
        (None, route),
    ]


def test_an_answer_on_another_route_reaches_the_call():
    session, route = opened_server(), Route()
    call = called(post(session, request(1, "tools/call", **TOOL), route))
    session.ask(call, {"name": FORM}, now=0.0)
    ((question, _),) = sent(session)
    (event,) = post(session, answer(question["id"], **ANNA), Route())
    assert isinstance(event, InputsAnswered)
    assert event.call is call


def test_the_responses_to_a_batch_are_one_message_on_its_route():
    session, route = opened_server("2025-03-26"), Route()
    batch = [request(1, "ping"), request(2, "ping"), note("notifications/progress", progressToken=1, progress=1)]
    line = encode(batch)
    session.receive_message(session.decode(line[:-1]), size=len(line), now=0.0, route=route)
    ((responses, about),) = sent(session)
    assert [each["id"] for each in responses] == [1, 2]
    assert about is route


def test_a_handshake_is_answered_on_its_route():
    session, route = server_session(), Route()
    post(session, initialize(), route)
    assert [about for _, about in sent(session)] == [route]


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_a_request_of_a_client_and_its_cancellation_carry_it(revision):
    session = opened_client(revision)
    asked = session.request("tools/list", now=0.0)
    session.cancel(asked)
    other = session.request("tools/list", now=0.0)
    assert [about for _, about in sent(session)] == [asked, asked, other]


def test_a_client_can_lose_one_request_and_keep_the_others():
    session = opened_client()
    lost, kept = session.request("tools/list", now=0.0), session.request("prompts/list", now=0.0)
    error = ConnectionLost("tools/list", lost.id)
    (event,) = session.lose(lost, error, now=1.0)
    assert event == RequestEnded(lost, error=error)
    assert session.lose(lost, error, now=1.0) == []
    assert list(session.outgoing.values()) == [kept]
    said(session)
