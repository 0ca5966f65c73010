"""Clients that share one server, and in the modern era one session: none can touch the requests of another."""

import json

import pytest

from hostile_target import Target
from http_server import (
    LEGACY,
    PATIENCE,
    RawConnection,
    call_tool,
    initialize,
    legacy_request,
    listen,
    modern_request,
    request_bytes,
)
from twopipes.http import HttpOptions, Identity

ALLOWED = "https://app.example.com"


async def verify(token):
    """Each name is a token."""
    return Identity(token) if token in {"ada", "eve"} else None


def bearer(name):
    return {"Authorization": f"Bearer {name}"}


@pytest.fixture(scope="module")
def shared():
    with Target(HttpOptions(origins=(ALLOWED,), max_body=100_000), verify).running() as target:
        yield target


def send(target, message):
    """Send a request on a new connection, whose response is read later."""
    connection = RawConnection(target.port)
    connection.send(request_bytes(headers=message["headers"], body=message["body"], host="localhost"))
    return connection


def notification(method, params, headers):
    message = modern_request(method, params, headers=headers)
    body = json.loads(message["body"])
    del body["id"]
    return {"headers": message["headers"], "body": json.dumps(body).encode()}


def test_requests_with_the_same_id_and_token_of_progress_do_not_mix(shared):
    names = [f"{name} {number}" for number in range(20) for name in ("ada", "eve")]
    connections = [send(shared, call_tool("repeat", bearer(name.split()[0]), text=name)) for name in names]
    for name, connection in zip(names, connections, strict=True):
        with connection:
            response = connection.read_response()
        messages = [json.loads(line[6:]) for line in response.body.split(b"\n") if line.startswith(b"data: {")]
        assert [message.get("method", "result") for message in messages] == [
            "notifications/message",
            "notifications/progress",
            "result",
        ]
        assert messages[0]["params"]["data"] == messages[1]["params"]["message"] == name
        assert messages[2]["result"]["content"][0]["text"] == name


@pytest.mark.parametrize("who", ["ada", "eve"])
def test_a_request_cannot_be_cancelled_by_a_message_of_another_post(shared, who):
    with send(shared, call_tool("wait", bearer("ada"))) as waiting:
        assert shared.started.acquire(timeout=PATIENCE)
        with shared.connect() as other:
            response = other.request(**notification("notifications/cancelled", {"requestId": 1}, bearer(who)))
            assert response.status in {202, 400}
            assert other.request(**call_tool("who", bearer(who))).status == 200
        assert not shared.cancelled.acquire(blocking=False)
        waiting.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            waiting.file.read(1)  # nothing was sent, and the connection is open
    assert shared.cancelled.acquire(timeout=PATIENCE)


def test_a_response_that_nothing_asked_for_is_refused(shared):
    for result in ({"result": {}}, {"error": {"code": 1, "message": "x"}}):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, **result}).encode()
        with shared.connect() as connection:
            headers = {**bearer("eve"), "MCP-Protocol-Version": "2026-07-28"}
            assert connection.request(headers=headers, body=body).status == 400


def test_the_end_of_one_subscription_leaves_another_with_the_same_id(shared):
    message = listen(bearer("ada"), resourceSubscriptions=["test://changing"])
    with send(shared, message) as first:
        assert first.read_head().status == 200
        first.read_event()
        with send(shared, listen(bearer("eve"), resourceSubscriptions=["test://changing"])) as second:
            second.read_head()
            second.read_event()
        assert shared.call("announce", bearer("ada"), times=1) == "done"
        assert first.read_event()["method"] == "notifications/resources/updated"


def test_a_legacy_session_cannot_cancel_in_another(shared):
    def opened(name):
        with shared.connect() as connection:
            session_id = connection.request(**initialize(bearer(name))).headers["mcp-session-id"]
        return {"Mcp-Session-Id": session_id, "MCP-Protocol-Version": LEGACY, **bearer(name)}

    ada, eve = opened("ada"), opened("eve")
    waiting = send(shared, legacy_request("tools/call", {"name": "wait", "arguments": {}}, id=7, headers=ada))
    assert shared.started.acquire(timeout=PATIENCE)
    cancel = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}).encode()
    with shared.connect() as connection:
        assert connection.request(headers=eve, body=cancel).status == 202
        assert connection.request(headers={**ada, **bearer("eve")}, body=cancel).status == 404
        assert not shared.cancelled.acquire(blocking=False)
        assert connection.request(headers=ada, body=cancel).status == 202
    assert shared.cancelled.acquire(timeout=PATIENCE)
    waiting.__exit__()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (200, call_tool("who", bearer("ada"))),
        (400, {"headers": bearer("ada"), "body": b"{"}),
        (400, call_tool("who", {**bearer("ada"), "Mcp-Name": "other"})),
        (401, call_tool("who")),
        (404, modern_request("no/such", headers=bearer("ada"))),
        (404, legacy_request("ping", headers={**bearer("ada"), "Mcp-Session-Id": "x"})),
        (406, call_tool("who", {**bearer("ada"), "Accept": "text/html"})),
        (413, {"headers": bearer("ada"), "body": b" " * 100_001}),
        (415, call_tool("who", {**bearer("ada"), "Content-Type": "text/plain"})),
    ],
    ids=lambda value: value if isinstance(value, int) else "",
)
def test_a_page_can_read_every_response_that_is_meant_for_it(shared, status, message):
    with shared.connect() as connection:
        response = connection.request(headers={**message["headers"], "Origin": ALLOWED}, body=message["body"])
    assert response.status == status
    assert response.headers["access-control-allow-origin"] == ALLOWED
    assert response.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in response.headers


def test_other_paths_and_methods_can_be_read_too(shared):
    with shared.connect() as connection:
        for method, path, status in (("PUT", "/mcp", 405), ("GET", "/nothing", 404)):
            response = connection.request(method, path, {"Origin": ALLOWED, **bearer("ada")})
            assert (response.status, response.headers.get("access-control-allow-origin")) == (status, ALLOWED)
