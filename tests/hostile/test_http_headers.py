"""Headers that lie: who is asked (Host), who asks (Origin), and what is asked (Mcp-*)."""

import json
from typing import Annotated

import pytest

from hostile_target import Target
from http_server import call_tool, initialize, listen, request_bytes
from twopipes.http import HttpOptions

GOOD = call_tool("echo", text="good")
EVIL = "http://evil.example"


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8000", "Origin": "http://evil.example:8000"},
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Origin": ["http://localhost", EVIL]},
    ],
    ids=str,
)
def test_dns_rebinding_is_refused_whatever_the_method(target, method, headers):
    body = GOOD["body"] if method == "POST" else b""
    with target.connect() as connection:
        response = connection.request(method, "/mcp", {**GOOD["headers"], **headers}, body)
    assert response.status == 403
    assert "access-control-allow-origin" not in response.headers
    assert response.json["error"]["message"]
    assert "id" not in response.json


@pytest.mark.parametrize("message", [GOOD, initialize(), listen()], ids=["call", "initialize", "listen"])
def test_a_page_of_another_website_runs_nothing(target, message):
    with target.connect() as connection:
        response = connection.request(headers={**message["headers"], "Origin": EVIL}, body=message["body"])
        assert response.status == 403
        assert "mcp-session-id" not in response.headers
    target.assert_calm()


def test_two_hosts_are_refused(target):
    with target.connect() as connection:
        response = connection.request(headers={**GOOD["headers"], "Host": ["localhost", "evil.example"]}, body=GOOD["body"])
        assert response.status in {400, 403}


def test_a_page_on_loopback_may_connect_and_read(target):
    with target.connect() as connection:
        response = connection.request(headers={**GOOD["headers"], "Origin": "http://localhost:6274"}, body=GOOD["body"])
    assert response.status == 200
    assert response.headers["access-control-allow-origin"] == "http://localhost:6274"
    assert response.headers["vary"] == "Origin"


def test_listed_hosts_and_origins_are_accepted_and_others_are_not():
    options = HttpOptions(hosts=("mcp.example.com",), origins=("https://app.example.com",))
    page = {"Host": "mcp.example.com", "Origin": "https://app.example.com"}
    with Target(options).running() as target, target.connect() as connection:
        response = connection.request(headers={**GOOD["headers"], **page}, body=GOOD["body"])
        assert response.status == 200
        assert response.headers["access-control-allow-origin"] == "https://app.example.com"
        preflight = {**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "mcp-param-region"}
        response = connection.request("OPTIONS", "/mcp", preflight)
        assert response.status == 204
        assert "mcp-param-region" in response.headers["access-control-allow-headers"]
        for wrong in ({"Host": "mcp.example.org"}, {"Origin": "https://app.example.org"}, {"Origin": "http://localhost:6274"}):
            assert connection.request(headers={**GOOD["headers"], **page, **wrong}, body=GOOD["body"]).status == 403


def test_forwarded_headers_change_nothing(target):
    """A client can send them itself."""
    forwarded = {"X-Forwarded-Host": "localhost", "Forwarded": "host=localhost", "X-Forwarded-For": "127.0.0.1"}
    with target.connect() as connection:
        response = connection.request(headers={**GOOD["headers"], "Host": "evil.example", **forwarded}, body=GOOD["body"])
    assert response.status == 403


# Headers that repeat the body


@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp-Name": "wait"},
        {"Mcp-Name": None},
        {"Mcp-Name": ["echo", "wait"]},
        {"Mcp-Name": ["echo", "echo"]},
        {"Mcp-Name": "ECHO"},
        {"Mcp-Name": "\u00e9cho"},
        {"Mcp-Name": "=?base64?d2FpdA==?="},
        {"Mcp-Name": "=?base64?ZWNobw?="},
        {"Mcp-Name": "=?base64?%%%?="},
        {"Mcp-Name": "=?base64?/////w==?="},
        {"Mcp-Name": "=?BASE64?ZWNobw==?="},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": None},
        {"Mcp-Method": ["tools/call", "tools/list"]},
        {"Mcp-Method": "TOOLS/CALL"},
        {"MCP-Protocol-Version": ["2026-07-28", "2025-11-25"]},
        {"MCP-Protocol-Version": "2025-11-25"},
    ],
    ids=str,
)
def test_headers_that_differ_from_the_body_run_nothing(target, headers):
    with target.connect() as connection:
        response = connection.request(headers={**GOOD["headers"], **headers}, body=GOOD["body"])
        assert response.status == 400
        assert response.json["error"]["code"] == -32020
        assert response.json["id"] == 1
        assert connection.request(**GOOD).status == 200


def test_a_name_in_base64_is_the_same_name(target):
    with target.connect() as connection:
        response = connection.request(headers={**GOOD["headers"], "Mcp-Name": "=?base64?ZWNobw==?="}, body=GOOD["body"])
    assert response.json["result"]["content"][0]["text"] == "good"


def test_a_repeated_member_of_the_body_is_checked_as_it_is_run(target):
    """Two readers may take different ones of two members with the same name."""
    body = json.dumps(json.loads(GOOD["body"])).replace('"name": "echo"', '"name": "wait", "name": "echo"').encode()
    with target.connect() as connection:
        response = connection.request(headers=GOOD["headers"], body=body)
    assert (response.status, response.json.get("result", {}).get("content", [{}])[0].get("text")) in {(200, "good"), (400, None)}


@pytest.fixture(scope="module")
def regional():
    target = Target()

    @target.server.tool(
        input_schema={
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
            "required": ["region"],
        }
    )
    async def query(region: Annotated[str, "where"]) -> str:
        return region

    with target.running():
        yield target


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Mcp-Param-Region": "us-east1"},
        {"Mcp-Param-Region": ["eu-west1", "us-east1"]},
        {"Mcp-Param-Region": ["eu-west1", "eu-west1"]},
        {"Mcp-Param-Region": "=?base64?dXMtZWFzdDE=?="},
        {"Mcp-Param-Region": "=?base64?!!!!?="},
        {"Mcp-Param-Region": "eu-west1\u00a0"},
        {"Mcp-Param-Region": "EU-WEST1"},
    ],
    ids=str,
)
def test_a_parameter_that_a_proxy_routed_by_is_the_one_that_is_run(regional, headers):
    with regional.connect() as connection:
        message = call_tool("query", headers, region="eu-west1")
        response = connection.request(**message)
        assert response.status == 400
        assert response.json["error"]["code"] == -32020
        good = call_tool("query", {"Mcp-Param-Region": "eu-west1", "Mcp-Param-Unknown": "\u00ff"}, region="eu-west1")
        assert connection.request(**good).status == 200


# Headers as such


@pytest.mark.parametrize("size", [70_000, 5_000_000])
def test_huge_headers_are_refused(target, size):
    with target.connect() as connection:
        try:
            connection.send(request_bytes(headers={**GOOD["headers"], "X-Huge": "a" * size}, body=GOOD["body"], host="localhost"))
            received = connection.wait_until_closed()
        except (BrokenPipeError, ConnectionResetError):
            received = b""  # refused while it was being sent
    assert received[:12] in {b"HTTP/1.1 400", b"HTTP/1.1 431", b""}
    target.assert_serves()


@pytest.mark.parametrize(
    "line",
    [b"X: a\x00b", b"X : a", b" X: a", b"X\x01: a", b": a", b"X", b"X: a\rb", b"X: a\nHost: evil.example", "\u00e4: a".encode()],
    ids=repr,
)
def test_malformed_headers_never_reach_a_handler_as_another_request(target, line):
    head, _, body = request_bytes(headers=GOOD["headers"], body=GOOD["body"], host="localhost").partition(b"\r\n\r\n")
    with target.connect() as connection:
        connection.send(head + b"\r\n" + line + b"\r\nConnection: close\r\n\r\n" + body)
        received = connection.wait_until_closed()
    assert received.count(b"HTTP/1.1") <= 1
    target.assert_serves()
