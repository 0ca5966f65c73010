"""What both sides share: lines, ids, batches, deadlines, EOF."""

import json

import pytest

from sessions import (
    DONE,
    answer,
    asks,
    call,
    cancelled,
    client_session,
    code,
    error,
    feed,
    initialize,
    modern,
    note,
    opened_client,
    opened_server,
    request,
    said,
    server_session,
)
from twopipes._protocol import types
from twopipes._protocol.revisions import ALL, LEGACY
from twopipes._session.events import (
    CallCancelled,
    CallReceived,
    LineRejected,
    PeerClosed,
    PeerReportedError,
    RequestEnded,
)
from twopipes.errors import (
    ConnectionLost,
    InternalError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimedOut,
)
from twopipes.settings import Limits

BATCHING = "2025-03-26"
LIST = types.ListToolsResult([])


def only(events):
    (event,) = events
    return event


# Lines


def test_bytes_may_be_cut_anywhere():
    """FR-13."""
    session = server_session()
    data = json.dumps(request(1, "ping")).encode() + b"\n"
    for index in range(len(data)):
        session.receive(data[index : index + 1], now=0.0)
    assert said(session) == [answer(1)]


def test_without_output_data_to_send_is_empty():
    assert server_session().data_to_send() == b""


def test_a_bad_line_is_answered_and_the_next_one_served():
    """JR-20, ER-01, ER-02."""
    session = server_session()
    events = session.receive(b'{oops\n{"jsonrpc":"2.0","id":1}\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n', now=0.0)
    assert [event.reason for event in events] == ["not JSON", "not JSON-RPC"]
    broken, shapeless, good = said(session)
    assert (code(broken), code(shapeless)) == (-32700, -32600)
    assert shapeless["id"] == 1
    assert good == answer(2)


def test_a_line_past_the_limit_is_answered_with_its_id():
    """JR-17."""
    session = server_session(limits=Limits(max_line=200))
    only(session.receive(b'{"jsonrpc":"2.0","id":"big","method":"tools/list","params":{"x":"' + b"x" * 300 + b'"}}\n', now=0.0))
    (line,) = said(session)
    assert (line["id"], code(line)) == ("big", -32600)


def test_a_broken_notification_is_not_answered():
    """JR-10."""
    session = server_session()
    assert isinstance(only(session.receive(b'{"jsonrpc":"2.0","method":"notifications/x","params":[1]}\n', now=0.0)), LineRejected)
    assert said(session) == []


@pytest.mark.parametrize("revision", [None, *ALL])
def test_an_error_without_an_id_says_so_in_the_way_of_the_revision(revision):
    """CON-09, JR-17."""
    session = opened_server(revision) if revision in LEGACY else server_session()
    if revision == ALL[-1]:
        feed(session, modern(1, "server/discover"))
        said(session)
    session.receive(b"{oops\n", now=0.0)
    (line,) = said(session)
    if revision in {"2024-11-05", "2025-03-26", "2025-06-18"}:
        assert line["id"] is None
    else:
        assert "id" not in line


def test_a_last_line_without_newline_is_read_at_the_end():
    """FR-15, SD-07."""
    session = server_session()
    session.receive(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', now=0.0)
    assert said(session) == []
    assert session.receive_eof(now=0.0) == [PeerClosed()]
    assert said(session) == [answer(1)]
    assert session.receive_eof(now=0.0) == []


def test_a_handler_may_still_answer_after_the_end():
    """SD-07."""
    session = server_session()
    working = asks(session, modern(1, "tools/call", name="slow"))
    session.receive_eof(now=0.0)
    assert session.respond(working, DONE)
    assert said(session)[0]["id"] == 1


# Responses


def test_an_unexpected_response_is_dropped():
    """JR-19."""
    for session in (server_session(), opened_client(), opened_client("2025-06-18")):
        assert feed(session, answer(999), error(998, -1), answer("1")) == []
        assert said(session) == []


def test_an_answer_that_comes_twice_counts_once():
    """JR-19, CA-07."""
    session = opened_client()
    asked = session.request("tools/list", now=0.0)
    assert len(feed(session, answer(asked.id, tools=[]), answer(asked.id, tools=[]), error(asked.id, -1))) == 1


def test_answers_are_matched_by_id_and_not_by_order():
    """FR-14."""
    session = opened_client()
    first, second = (session.request("tools/list", now=0.0) for _ in range(2))
    events = feed(session, answer(second.id, tools=[]), answer(first.id, tools=[]))
    assert [event.asked for event in events] == [second, first]


def test_a_broken_answer_ends_the_wait_all_the_same():
    session = opened_client()
    asked = session.request("tools/list", now=0.0)
    said(session)
    rejected, ended = session.receive(b'{"jsonrpc":"2.0","id":%d,"result":5}\n' % asked.id, now=0.0)
    assert isinstance(rejected, LineRejected)
    assert ended.asked is asked
    assert isinstance(ended.error, RemoteProtocolError)
    assert said(session) == []


def test_a_broken_unexpected_response_is_only_reported():
    session = server_session()
    assert len(session.receive(b'{"jsonrpc":"2.0","id":5,"result":5}\n{"jsonrpc":"2.0","result":5}\n', now=0.0)) == 2
    assert said(session) == []


@pytest.mark.parametrize("more", [{}, {"id": None}])
def test_an_error_without_an_id_is_reported(more):
    """CON-09: absent and null mean the same."""
    session = opened_client()
    session.request("tools/list", now=0.0)
    complaint = only(feed(session, {"jsonrpc": "2.0", **more, "error": {"code": -32700, "message": "what?", "data": 5}}))
    assert isinstance(complaint, PeerReportedError)
    assert (complaint.error.code, complaint.error.message, complaint.error.data) == (-32700, "what?", 5)
    plain = only(feed(session, {"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}}))
    assert plain.error.data is None
    assert len(session.outgoing) == 1


# Responding


def test_a_call_is_answered_once():
    """CA-07, JR-06."""
    session = server_session()
    asked = asks(session, modern("a-b", "tools/call", name="echo"))
    assert session.respond(asked, DONE)
    assert not session.respond(asked, DONE)
    assert not session.fail(asked, InternalError("late"))
    (line,) = said(session)
    assert line["id"] == "a-b"


def test_an_error_says_only_what_its_author_meant_to_say():
    session = server_session()
    session.fail(asks(session, modern(1, "tools/call", name="boom")), ZeroDivisionError("secret path"))
    assert said(session) == [{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}}]


class Odd:
    """An object that JSON cannot represent."""


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    "result",
    [
        types.CallToolResult([], structured_content={"a": Odd()}),
        types.CallToolResult([], structured_content=Odd()),
        types.CallToolResult([], structured_content={"a": 1}, meta={"a": Odd()}),
        {"content": Odd()},
    ],
)
def test_a_result_that_cannot_be_encoded_still_ends_the_request(revision, result):
    session = opened_server(revision) if revision in LEGACY else server_session()
    message = request(1, "tools/call", name="odd") if revision in LEGACY else modern(1, "tools/call", name="odd")
    asked = asks(session, message)
    try:
        session.respond(asked, result)
    except LocalProtocolError:
        (line,) = said(session)
        assert (line["id"], code(line)) == (1, -32603)
    else:
        assert revision < "2025-06-18"  # which has no structuredContent, and drops it
        assert said(session) == [answer(1, content=[])]
    assert not session.respond(asked, DONE)


# Deadlines


def test_silence_past_the_idle_limit_ends_a_request_and_notifies_the_peer():
    """TO-01, TO-02, CA-01."""
    session = opened_client()
    asked = session.request("tools/call", {"name": "slow"}, now=0.0, idle=10.0, total=None)
    said(session)
    assert session.next_deadline() == 10.0
    assert session.tick(now=9.9) == []
    ended = only(session.tick(now=10.5))
    assert isinstance(ended.error, RequestTimedOut)
    assert (ended.error.limit, ended.error.waited) == ("idle", 10.5)
    (line,) = said(session)
    assert (line["method"], line["params"]["requestId"]) == ("notifications/cancelled", asked.id)
    assert session.next_deadline() is None


def test_progress_moves_the_idle_limit_and_not_the_total_one():
    """TO-03."""
    session = opened_client()
    asked = session.request("tools/call", {"name": "slow"}, now=0.0, idle=10.0, total=25.0)
    for now in (9.0, 18.0):
        feed(session, note("notifications/progress", progressToken=asked.id, progress=now), now=now)
        assert session.tick(now=now + 1) == []
    ended = only(session.tick(now=25.0))
    assert (ended.error.limit, ended.error.waited) == ("total", 25.0)


def test_a_late_answer_is_dropped_after_a_timeout():
    """CA-06, JR-19."""
    session = opened_client()
    asked = session.request("tools/list", now=0.0, idle=1.0)
    session.tick(now=1.0)
    assert feed(session, answer(asked.id, tools=[])) == []


def test_events_of_a_driver_call_are_returned_by_the_next_tick():
    session = opened_client()
    asked = session.request("tools/list", now=0.0)
    session.cancel(asked)
    assert session.next_deadline() == 0.0
    assert only(session.tick(now=0.0)).asked is asked
    assert session.next_deadline() is None


# The end


def test_the_end_ends_every_request_with_a_local_error():
    """ER-16, SD-03."""
    session = opened_client()
    asked = [session.request("tools/list", now=0.0) for _ in range(3)]
    *lost, left = session.receive_eof(now=1.0)
    assert [event.asked for event in lost] == asked
    assert all(isinstance(event.error, ConnectionLost) for event in lost)
    assert left == PeerClosed()
    assert session.next_deadline() is None


@pytest.mark.parametrize("rest", ['"text', '"tail of \u00e9'], ids=["in the middle", "within a character"])
def test_an_answer_that_the_end_cut_off_is_lost_and_not_broken(rest):
    """SD-03: a peer that dies while it writes has broken no rule, and the request may be sent again."""
    session = opened_client()
    asked = session.request("tools/list", now=0.0)
    cut = f'{{"jsonrpc":"2.0","id":{asked.id},"result":{{"x":{rest}'.encode()[:-1]
    assert session.receive(cut, now=0.0) == []
    rejected, lost, left = session.receive_eof(now=1.0)
    assert rejected.reason in {"not JSON", "not UTF-8"}
    assert lost.asked is asked
    assert isinstance(lost.error, ConnectionLost)
    assert left == PeerClosed()


def test_a_whole_answer_that_is_wrong_is_broken_also_at_the_end():
    session = opened_client()
    asked = session.request("tools/list", now=0.0)
    session.receive(f'{{"jsonrpc":"2.0","id":{asked.id},"result":7}}'.encode(), now=0.0)
    _, broken, _ = session.receive_eof(now=1.0)
    assert broken.asked is asked
    assert isinstance(broken.error, RemoteProtocolError)


def test_nothing_can_be_asked_after_the_end():
    client = opened_client()
    client.receive_eof(now=0.0)
    said(client)
    with pytest.raises(ConnectionLost):
        client.request("tools/list", now=0.0)
    server = opened_server()
    server.receive_eof(now=0.0)
    with pytest.raises(ConnectionLost):
        server.ping(now=0.0, limit=None)
    assert said(client) == said(server) == []
    assert client.next_deadline() is server.next_deadline() is None


# Batches


def batch(session, *members, now=0.0):
    return session.receive(json.dumps(members).encode() + b"\n", now=now)


def test_a_batch_is_answered_by_one_array_when_the_last_answer_is_there():
    """JR-12, JR-13."""
    session = opened_server(BATCHING)
    (event,) = batch(session, request(10, "ping"), note("notifications/x"), request("11", "tools/list"))
    assert said(session) == []
    session.respond(event.call, LIST)
    assert said(session) == [[answer(10), answer("11", tools=[])]]


def test_two_batches_do_not_mix():
    session = opened_server(BATCHING)
    calls = [event.call for number in (1, 3) for event in batch(session, *(request(number + i, "tools/list") for i in (0, 1)))]
    for index in (0, 3, 2, 1):
        session.respond(calls[index], LIST)
    assert [[member["id"] for member in line] for line in said(session)] == [[4, 3], [1, 2]]


def test_a_batch_without_requests_is_not_answered():
    """JR-13."""
    session = opened_server(BATCHING)
    assert batch(session, note("notifications/x"), note("notifications/y"), answer(99)) == []
    assert said(session) == []


def test_an_empty_batch_gets_one_error_and_not_an_array():
    """JR-13."""
    session = opened_server(BATCHING)
    batch(session)
    (line,) = said(session)
    assert (line["id"], code(line)) == (None, -32600)


def test_bad_members_of_a_batch_get_their_own_errors():
    """JR-13, JR-14."""
    session = opened_server(BATCHING)
    batch(
        session,
        1,
        [],
        {"jsonrpc": "2.0", "id": 5},
        {"jsonrpc": "2.0", "method": "notifications/x", "params": 5},
        initialize(6),
        request(7, "ping"),
    )
    (line,) = said(session)
    assert [(member["id"], code(member)) for member in line[:4]] == [(None, -32600), (None, -32600), (5, -32600), (6, -32600)]
    assert line[4] == answer(7)


def test_a_batch_of_bad_notifications_is_not_answered():
    """JR-10."""
    session = opened_server(BATCHING)
    batch(session, {"jsonrpc": "2.0", "method": "notifications/x", "params": 5})
    assert said(session) == []


@pytest.mark.parametrize("first", [True, False])
def test_a_cancelled_member_leaves_no_gap(first):
    """CA-03, JR-13."""
    session = opened_server(BATCHING)
    one, two = (event.call for event in batch(session, request(1, "tools/list"), request(2, "tools/list")))
    if first:
        feed(session, cancelled(1))
        session.respond(two, LIST)
    else:
        session.respond(two, LIST)
        assert said(session) == []
        feed(session, cancelled(1))
    assert said(session) == [[answer(2, tools=[])]]
    assert not session.respond(one, LIST)


def test_a_batch_of_which_everything_is_cancelled_is_not_answered():
    session = opened_server(BATCHING)
    events = batch(session, request(1, "tools/list"), cancelled(1))
    assert [type(event) for event in events] == [CallReceived, CallCancelled]
    assert said(session) == []


def test_the_same_id_twice_in_a_batch_is_served_once():
    """JR-05."""
    session = opened_server(BATCHING)
    (event,) = batch(session, request(1, "tools/list"), request(1, "tools/list"))
    session.respond(event.call, LIST)
    (line,) = said(session)
    assert [member["id"] for member in line] == [None, 1]


def test_a_failed_and_an_unwritable_member_take_their_places():
    session = opened_server(BATCHING)
    calls = [event.call for event in batch(session, *(request(i, "tools/call", name="x") for i in (1, 2, 3)))]
    session.fail(calls[0], InternalError("no"))
    with pytest.raises(LocalProtocolError):
        session.respond(calls[1], types.CallToolResult([], meta={"a": Odd()}))
    session.respond(calls[2], DONE)
    assert [member["id"] for member in said(session)[0]] == [1, 2, 3]


def test_too_many_members_are_refused_whole():
    session = opened_server(BATCHING, limits=Limits(max_batch=2))
    batch(session, *(request(i, "tools/list") for i in (1, 2, 3)))
    (line,) = said(session)
    assert code(line) == -32600
    assert len(session.incoming) == 0


def test_a_modern_request_does_not_come_in_a_batch():
    """JR-15, DE-12: batches belong to legacy sessions; modern requests have none."""
    session = opened_server(BATCHING)
    listen = modern(1, "subscriptions/listen", notifications={})
    assert batch(session, listen, modern(2, "tools/call", name="ask"), request(3, "ping")) == []
    (line,) = said(session)
    assert [(member["id"], code(member)) for member in line[:2]] == [(1, -32600), (2, -32600)]
    assert line[2] == answer(3)


@pytest.mark.parametrize("revision", [None, "2024-11-05", "2025-06-18", "2025-11-25"])
def test_in_other_revisions_an_array_is_rejected_as_a_whole(revision):
    """JR-14, JR-15, CON-20."""
    session = server_session() if revision is None else opened_server(revision)
    (event,) = batch(session, request(1, "tools/call", name="echo"), initialize(2), modern(3, "tools/call", name="echo"))
    assert isinstance(event, LineRejected)
    (line,) = said(session)
    assert code(line) == -32600
    assert feed(session, request(4, "ping")) == []
    assert said(session) == [answer(4)]


def test_a_client_answers_a_batch_of_its_server_with_an_array():
    """JR-12."""
    session = opened_client(BATCHING)
    asked = session.request("tools/list", now=0.0)
    said(session)
    answered, received = batch(session, request("p", "ping"), answer(asked.id, tools=[]), {"x": 1}, request("r", "roots/list"))[::2]
    assert isinstance(answered, RequestEnded)
    session.respond(received.call, types.ListRootsResult([]))
    assert said(session) == [[answer("p"), answer("r", roots=[])]]


def test_noise_is_not_answered_by_a_client():
    """FR-10."""
    for session in (opened_client(), opened_client("2025-11-25"), client_session()):
        assert len(session.receive(b'hello\n[]\n{"jsonrpc":"2.0","method":5}\n', now=0.0)) == 3
        assert said(session) == []


def test_a_call_of_another_session_is_not_answered():
    assert not server_session().respond(call(), DONE)
