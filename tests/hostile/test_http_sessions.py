"""Legacy sessions of others: guessed, replayed, abandoned."""

from contextlib import suppress

import pytest

from hostile_target import Target
from http_server import LEGACY, RawConnection, call_tool, initialize, legacy_request, modern_request, request_bytes
from twopipes.http import HttpOptions, Identity


async def verify(token):
    """Each name is a token."""
    return Identity(token) if token in {"ada", "eve"} else None


def open_session(connection, **headers):
    response = connection.request(**initialize(headers))
    assert response.status == 200, response.body
    assert response.json["result"]["protocolVersion"] == LEGACY
    return response.headers["mcp-session-id"]


def in_session(session_id, **headers):
    return {"Mcp-Session-Id": session_id, "MCP-Protocol-Version": LEGACY, **headers}


def list_tools(connection, session_id, **headers):
    return connection.request(**legacy_request("tools/list", headers=in_session(session_id, **headers)))


def test_session_ids_cannot_be_guessed(target):
    with target.connect() as connection:
        ids = {open_session(connection) for _ in range(200)}
    assert len(ids) == 200
    for each in ids:
        assert len(each) >= 32  # at least 192 bits
        assert each.isascii()
        assert each.isprintable()
    for column in zip(*ids, strict=False):
        assert len(set(column)) > 10  # no part of them is the same in all


@pytest.mark.parametrize(
    "session_id",
    ["", "0", "x" * 43, "../../etc/passwd", "\u00e9" * 43, "x" * 30_000, "a, b", "'; DROP TABLE", "%00"],
    ids=lambda text: text[:12],
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_an_unknown_session_is_not_found(target, session_id, method):
    with target.connect() as connection:
        message = legacy_request("tools/list", headers=in_session(session_id, Accept="application/json, text/event-stream"))
        response = connection.request(method, "/mcp", message["headers"], message["body"] if method == "POST" else b"")
    assert response.status in {400, 404} if session_id == "" else response.status == 404
    assert "mcp-session-id" not in response.headers


def test_two_session_ids_are_no_session(target):
    with target.connect() as connection:
        session_id = open_session(connection)
        assert list_tools(connection, session_id).status == 200
        message = legacy_request("tools/list", headers=in_session([session_id, session_id]))
        assert connection.request(**message).status == 404
        assert list_tools(connection, session_id).status == 200


def test_an_ended_session_cannot_be_used_again(target):
    with target.connect() as connection:
        session_id = open_session(connection)
        assert connection.request("DELETE", "/mcp", in_session(session_id)).status in {200, 202, 204}
        assert list_tools(connection, session_id).status == 404
        assert connection.request("DELETE", "/mcp", in_session(session_id)).status == 404
        response = connection.request("GET", "/mcp", in_session(session_id, Accept="text/event-stream"))
        assert response.status == 404


def test_a_session_id_in_initialize_is_not_adopted(target):
    """Session fixation: a client must not be led into a session that another client knows."""
    with target.connect() as connection:
        response = connection.request(**initialize({"Mcp-Session-Id": "chosen-by-the-attacker"}))
        assert response.headers.get("mcp-session-id") != "chosen-by-the-attacker"
        assert list_tools(connection, "chosen-by-the-attacker").status == 404


@pytest.fixture(scope="module")
def guarded():
    with Target(auth=verify).running() as target:
        yield target


def test_a_session_of_another_user_is_not_found(guarded):
    ada, eve = {"Authorization": "Bearer ada"}, {"Authorization": "Bearer eve"}
    with guarded.connect() as connection:
        session_id = open_session(connection, **ada)
        assert list_tools(connection, session_id, **ada).status == 200
        assert list_tools(connection, session_id, **eve).status == 404
        assert list_tools(connection, session_id).status == 401
        assert connection.request("DELETE", "/mcp", in_session(session_id, **eve)).status == 404
        accept = {"Accept": "text/event-stream"}
        assert connection.request("GET", "/mcp", in_session(session_id, **eve, **accept)).status == 404
        assert list_tools(connection, session_id, **ada).status == 200


def test_the_handler_of_a_legacy_session_sees_its_caller(guarded):
    ada = {"Authorization": "Bearer ada"}
    with guarded.connect() as connection:
        session_id = open_session(connection, **ada)
        message = legacy_request("tools/call", {"name": "who", "arguments": {}}, headers=in_session(session_id, **ada))
        assert connection.request(**message).json["result"]["content"][0]["text"] == "ada"


def pipelined(port, count):
    """Open sessions as fast as one connection can, and abandon them. Return the ids."""
    message = initialize()
    one = request_bytes(headers=message["headers"], body=message["body"], host="localhost")
    ids = []
    with RawConnection(port) as connection:
        for _ in range(0, count, 20):
            connection.send(one * 20)
            ids += [connection.read_response().headers.get("mcp-session-id") for _ in range(20)]
    return ids


@pytest.mark.slow
def test_ten_thousand_abandoned_sessions_are_bounded_and_the_newest_work():
    with Target(HttpOptions(max_sessions=500)).running() as target:
        target.note_idle_tasks()
        ids = pipelined(target.port, 10_000)
        assert None not in ids
        assert len(set(ids)) == 10_000
        assert len(list(target.app._owner.runtime.sessions.connections())) <= 500
        with target.connect() as connection:
            assert list_tools(connection, ids[-1]).status == 200
            assert list_tools(connection, ids[0]).status == 404
        target.assert_serves()
        assert int(target.call("tasks")) < target.idle_tasks + 1100  # at most two for each session that is left


def test_idle_sessions_end():
    with Target(HttpOptions(session_idle=0.2)).running() as target, target.connect() as connection:
        session_id = open_session(connection)
        for _ in range(5000):
            if not list(target.app._owner.runtime.sessions.connections()):
                break
            target.assert_serves()
        assert list_tools(connection, session_id).status == 404


@pytest.mark.parametrize("event_id", ["0", "x", "\u00e9", "9" * 5000, "-1", "1-99999999", "a, b"], ids=lambda text: text[:12])
def test_an_event_id_from_nowhere_replays_nothing(target, event_id):
    with target.connect() as connection:
        session_id = open_session(connection)
        headers = in_session(session_id, **{"Accept": "text/event-stream", "Last-Event-ID": event_id})
        connection.send(request_bytes("GET", "/mcp", headers, host="localhost"))
        response = connection.read_head()
        assert response.status in {200, 400, 404}


def test_an_event_of_another_session_is_not_replayed(target):
    with target.connect() as first, target.connect() as second:
        victim, thief = open_session(first), open_session(second)
        params = {"name": "repeat", "arguments": {"text": "secret"}, "_meta": {"progressToken": 1}}
        message = legacy_request("tools/call", params, headers=in_session(victim))
        response = first.request(**message)
        event_ids = [line[3:].strip().decode() for line in response.body.split(b"\n") if line.startswith(b"id:")]
        assert event_ids
        headers = in_session(thief, **{"Accept": "text/event-stream", "Last-Event-ID": event_ids[0]})
        second.send(request_bytes("GET", "/mcp", headers, host="localhost"))
        head = second.read_head()
        if head.status == 200:  # a stream without the events of the other session
            second.socket.settimeout(0.5)
            with suppress(TimeoutError):
                assert b"secret" not in second.read_chunk()


def test_modern_and_legacy_requests_on_one_connection_do_not_mix(target):
    with target.connect() as connection:
        opened = connection.request(**initialize())
        assert opened.status == 200
        assert connection.request(**call_tool("echo", text="x")).status == 200
        response = connection.request(
            **modern_request("server/discover", headers={"Mcp-Session-Id": opened.headers["mcp-session-id"]})
        )
        assert response.status == 200
