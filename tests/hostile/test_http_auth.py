"""Access tokens on the wire: who gets in, what others learn, and whose state it is."""

import asyncio
import json
import time

import pytest

from hostile_target import Target
from http_server import PATIENCE, call_tool, initialize, listen, modern_request, request_bytes
from twopipes import Context
from twopipes.http import Auth, HttpOptions, Identity

TOKENS = {"ada": Identity("ada", frozenset({"use"})), "eve": Identity("eve", frozenset({"use"})), "guest": Identity("guest")}
METADATA = "/.well-known/oauth-protected-resource"


async def verify(token):
    if token == "broken":
        raise RuntimeError(f"cannot verify {token}-secret")
    return TOKENS.get(token)


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def guarded():
    target = Target(
        HttpOptions(origins=("https://app.example.com",)),
        Auth(verify, authorization_servers=("https://auth.example.com",), scopes=("use",)),
    )

    @target.server.tool
    async def transfer(amount: int, ctx: Context) -> str:
        answer = await ctx.elicit("Really?", {"type": "object", "properties": {"sure": {"type": "boolean"}}})
        return f"{ctx.identity.subject} {amount} {answer.action}"

    with target.running():
        yield target


def test_the_handler_sees_its_caller(guarded):
    assert guarded.call("who", bearer("ada")) == "ada"
    assert guarded.call("who", bearer("eve")) == "eve"


@pytest.mark.parametrize(
    "message", [call_tool("wait"), listen(), modern_request("server/discover")], ids=["call", "listen", "discover"]
)
@pytest.mark.parametrize(
    "headers",
    [{}, bearer("mallory"), {"Authorization": "Basic YWRhOmFkYQ=="}, {"Authorization": ["Bearer ada", "Bearer eve"]}],
    ids=str,
)
def test_nothing_runs_without_a_valid_token(guarded, message, headers):
    with guarded.connect() as connection:
        response = connection.request(headers={**message["headers"], **headers}, body=message["body"])
    assert response.status == 401
    challenge = response.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    assert f'resource_metadata="http://127.0.0.1:{guarded.port}{METADATA}/mcp"' in challenge
    assert "mallory" not in challenge + response.body.decode()


def test_a_token_in_the_address_is_not_read(guarded):
    message = call_tool("who")
    with guarded.connect() as connection:
        assert connection.request("POST", "/mcp?access_token=ada", **message).status == 401


def test_a_token_without_the_scope_is_forbidden(guarded):
    with guarded.connect() as connection:
        response = connection.request(**call_tool("who", bearer("guest")))
    assert response.status == 403
    assert 'error="insufficient_scope"' in response.headers["www-authenticate"]
    assert 'scope="use"' in response.headers["www-authenticate"]


def test_the_metadata_leads_to_the_authorization_server(guarded):
    with guarded.connect() as connection:
        for path in ("", "/mcp"):
            response = connection.request("GET", METADATA + path)
            assert response.status == 200
            assert response.json == {
                "resource": f"http://127.0.0.1:{guarded.port}/mcp",
                "authorization_servers": ["https://auth.example.com"],
                "scopes_supported": ["use"],
                "bearer_methods_supported": ["header"],
            }
        assert connection.request("GET", METADATA + "/other").status == 404
        assert connection.request("GET", METADATA, {"Host": "evil.example"}).status == 403


def test_a_verifier_that_fails_tells_the_client_nothing(guarded, caplog):
    with guarded.connect() as connection:
        response = connection.request(**call_tool("who", bearer("broken")))
    assert response.status == 500
    assert b"secret" not in response.body
    assert "broken-secret" not in caplog.text


def test_a_browser_may_read_the_challenge_of_an_allowed_page(guarded):
    page = {"Origin": "https://app.example.com"}
    with guarded.connect() as connection:
        preflight = connection.request("OPTIONS", "/mcp", {**page, "Access-Control-Request-Method": "POST"})
        assert preflight.status == 204  # without a token, as browsers send it
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        # Some clients send the revision with the request for the metadata, so browsers ask first.
        preflight = connection.request("OPTIONS", METADATA, {**page, "Access-Control-Request-Method": "GET"})
        assert preflight.status == 204
        assert "mcp-protocol-version" in preflight.headers["access-control-allow-headers"]
        assert connection.request("GET", METADATA, page).headers["access-control-allow-origin"] == "https://app.example.com"
        response = connection.request(**call_tool("who", page))
    assert response.status == 401
    assert response.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "www-authenticate" in response.headers["access-control-expose-headers"]


def test_the_state_of_a_question_belongs_to_its_caller(guarded):
    with guarded.connect() as connection:
        asked = connection.request(**call_tool("transfer", bearer("ada"), amount=7)).json["result"]
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        answers = {"requestState": asked["requestState"], "inputResponses": {key: {"action": "accept", "content": {"sure": True}}}}
        params = {"name": "transfer", "arguments": {"amount": 7}, **answers}
        stolen = connection.request(**modern_request("tools/call", params, headers=bearer("eve")))
        assert stolen.json["error"]["code"] == -32602
        answered = connection.request(**modern_request("tools/call", params, headers=bearer("ada")))
        assert answered.json["result"]["content"][0]["text"] == "ada 7 accept"


def test_a_slow_verifier_is_bounded():
    async def endless(token):
        await asyncio.Event().wait()

    with Target(auth=Auth(endless, timeout=0.2)).running() as target, target.connect() as connection:
        response = connection.request(**call_tool("who", bearer("ada")))
        assert response.status == 503
        assert json.loads(response.body)["error"]["message"]


def test_a_refused_body_is_not_read(guarded):
    """A client without a token cannot make the server hold a large body."""
    with guarded.connect() as connection:
        connection.send(request_bytes(headers=call_tool("who")["headers"], body=b"{", length=4_000_000, host="localhost"))
        assert connection.read_response().status == 401


@pytest.fixture
def expiring():
    """A server whose tokens expire half a second after they are shown."""

    async def verify_briefly(token):
        return Identity(token, expires=time.time() + 0.5)

    with Target(auth=verify_briefly).running() as target:
        yield target


def test_a_subscription_ends_with_its_token_and_a_call_does_not(expiring):
    with expiring.connect() as stream, expiring.connect() as call:
        call.send(request_bytes(**call_tool("wait", bearer("ada"))))
        assert expiring.started.acquire(timeout=PATIENCE)
        stream.send(request_bytes(**listen(bearer("ada"))))
        assert stream.read_head().status == 200
        assert stream.read_event()["method"] == "notifications/subscriptions/acknowledged"
        stream.wait_until_closed()
        assert not expiring.cancelled.acquire(blocking=False)
    assert expiring.cancelled.acquire(timeout=PATIENCE)


def test_the_stream_of_a_legacy_session_ends_with_the_token_and_can_be_opened_again(expiring):
    with expiring.connect() as connection:
        opened = connection.request(**initialize(bearer("ada")))
    headers = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Accept": "text/event-stream", **bearer("ada")}
    for _ in range(2):
        with expiring.connect() as connection:
            connection.send(request_bytes("GET", "/mcp", headers))
            assert connection.read_head().status == 200
            connection.wait_until_closed()
